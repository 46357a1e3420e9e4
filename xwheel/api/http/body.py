"""Reads request bodies and queries, and says in words which limit a field broke.

Limits stand once, in the types of :mod:`xwheel.api.schema.messages`: from them come the check, the sentence in the
error, and the reference pages.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeVar

import falcon
import msgspec
from msgspec import UNSET, inspect

from xwheel.errors import FieldError, XwheelError

S = TypeVar("S", bound=msgspec.Struct)

PIECE: Final = 64 * 1024
MAX_ECHO: Final = 64
BODY: Final = "body"
OR_NULL: Final = ", or null"
WHOLE: Final = re.compile(r"0|-?[1-9][0-9]{0,18}")


class BodyTooLargeError(XwheelError):
    """The request's body is over the limit, in bytes."""

    field = BODY

    def __init__(self, limit: int) -> None:
        super().__init__(f"the request body may have at most {limit} bytes")
        self.limit = {"max_bytes": limit}


class MalformedBodyError(XwheelError):
    """The request's body is not JSON."""

    field = BODY


class InputError(FieldError):
    """A field breaks its stated limit, which as data is such as ``{"max_length": 128}``, empty if none is stated."""

    def __init__(self, field: str, reason: str, limit: Mapping[str, object] | None = None) -> None:
        super().__init__(field, reason)
        self.limit = dict(limit or {})


class FieldRule(NamedTuple):
    """What one field may hold; ``words`` follow "must be", ``limit`` says the same as data."""

    type: Any
    words: str
    limit: dict[str, object]
    required: bool


def read_body(req: falcon.Request, limit: int) -> bytes:
    """Return the request's body; raises BodyTooLargeError for more than ``limit`` bytes, announced or not."""
    length = req.content_length
    if length is not None:
        if length > limit:
            raise BodyTooLargeError(limit)
        return bytes(req.bounded_stream.read(length))
    if not req.env.get("wsgi.input_terminated"):
        return b""  # without a length there is no body, unless the server promises that the stream ends
    pieces: list[bytes] = []
    total = 0
    while piece := req.stream.read(PIECE):
        pieces.append(piece)
        total += len(piece)
        if total > limit:
            raise BodyTooLargeError(limit)
    return b"".join(pieces)


def take_body(req: falcon.Request, kind: type[S], limit: int, *, optional: bool = False) -> S:
    """Return the request's body as a message, whatever its content type; an ``optional`` empty one stands for ``{}``.

    Raises BodyTooLargeError; MalformedBodyError for what is not JSON; InputError for what is no object, or has a field
    that is unknown, missing or outside its limit.
    """
    content = read_body(req, limit)
    return read_fields(kind, {} if optional and not content else _read_object(content))


def take_changes(req: falcon.Request, kind: type[S], limit: int) -> dict[str, Any]:
    """Return the fields that the request's body changes, and the revision that it is for if it names one.

    Raises what :func:`take_body` does, and FieldError if there is none.
    """
    changes = fields_in(take_body(req, kind, limit))
    if not changes.keys() - {"revision"}:
        raise FieldError(BODY, "must change at least one field")
    return changes


def fields_in(message: msgspec.Struct) -> dict[str, Any]:
    """Return the fields of a message that were given or that have a default."""
    return {name: value for name, value in msgspec.structs.asdict(message).items() if value is not UNSET}


def take_table(req: falcon.Request, limit: int) -> dict[str, Any]:
    """Return the request's body as a table whose keys are checked elsewhere; raises what :func:`take_body` does."""
    return _read_object(read_body(req, limit))


def _read_object(content: bytes) -> dict[str, Any]:
    try:
        value = msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise MalformedBodyError(f"body: not JSON: {error}") from None
    except RecursionError:
        raise MalformedBodyError("body: nested too deeply") from None
    if not isinstance(value, dict):
        raise InputError(BODY, "must be a JSON object")
    return value


def take_query(req: falcon.Request, kind: type[S]) -> S:
    """Return the request's query as a message; raises InputError."""
    return read_fields(kind, dict(req.params), strict=False)


def read_fields(kind: type[S], values: dict[str, Any], *, strict: bool = True) -> S:
    """Return a message from decoded values; unless ``strict``, text counts as a number: queries have nothing else.

    Raises InputError for a field that is unknown, missing or outside its limit.
    """
    rules = rules_of(kind)
    for name in values:
        if name not in rules:
            raise InputError(name[:MAX_ECHO], f"is not a field here{_hint(name, rules)}")
    found: dict[str, Any] = {}
    for name, rule in rules.items():
        if name in values:
            found[name] = _convert(name, rule, values[name], strict)
        elif rule.required:
            raise InputError(name, f"is required and must be {rule.words}", rule.limit)
    return kind(**found)


def _convert(name: str, rule: FieldRule, value: object, strict: bool) -> object:
    words = rule.words if strict else rule.words.removesuffix(OR_NULL)
    try:
        if _has_nul(value):
            raise InputError(name, "must not contain the character NUL")
        found = msgspec.convert(_whole(value) if strict else _spelled(value, rule), rule.type, strict=strict)
    except (msgspec.ValidationError, ValueError, RecursionError):  # no field is nested so deep
        raise InputError(name, f"must be {words}", rule.limit) from None
    longest = rule.limit.get("max_characters")
    if isinstance(longest, int) and sum(map(len, found)) > longest:
        raise InputError(name, f"must be {rule.words}", rule.limit)
    return found


def _has_nul(value: object) -> bool:
    if isinstance(value, list):
        return any(map(_has_nul, value))
    if isinstance(value, dict):
        return any(map(_has_nul, value.values()))
    return isinstance(value, str) and "\x00" in value


def _whole(value: object) -> object:
    """Return a value with numbers such as ``1.0`` as whole ones: JSON does not tell them from ``1``."""
    if isinstance(value, list):
        return [_whole(item) for item in value]
    if isinstance(value, dict):
        return {name: _whole(item) for name, item in value.items()}
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _spelled(value: object, rule: FieldRule) -> object:
    """Return a query parameter whose text has the one form that its type has; lists stand between commas.

    Raises ValueError for another one, such as ``1e2`` for a number, or if it is repeated.
    """
    if not isinstance(value, str):
        raise ValueError("repeated")
    if "max_items" in rule.limit:
        return value.split(",") if value else []
    if "min" in rule.limit and not WHOLE.fullmatch(value):
        raise ValueError("not a number")
    if "one_of" in rule.limit and value == "null":
        raise ValueError("none of them")
    if not rule.limit and value not in {"true", "false"}:
        raise ValueError("neither true nor false")
    return value


def _hint(name: str, rules: dict[str, FieldRule]) -> str:
    close = difflib.get_close_matches(name[:MAX_ECHO], rules, n=1)
    if close:
        return f"; did you mean {close[0]}?"
    return f"; known: {', '.join(rules)}" if rules else "; none is known"


@lru_cache(maxsize=64)
def rules_of(kind: type[msgspec.Struct]) -> dict[str, FieldRule]:
    """Return what each field of a message may hold, in the order of its definition."""
    return {
        field.name: FieldRule(field.type, *_describe(inspect.type_info(field.type)), field.required)
        for field in msgspec.structs.fields(kind)
    }


def _describe(kind: inspect.Type) -> tuple[str, dict[str, object]]:
    match kind:
        case inspect.Metadata():
            return _describe_marked(kind)
        case inspect.UnionType() | inspect.VarTupleType() | inspect.StructType():
            return _describe_parts(kind)
        case inspect.IntType():
            return f"a whole number from {kind.ge} to {kind.le}", {"min": kind.ge, "max": kind.le}
        case inspect.StrType():
            low = kind.min_length or 0
            words = f"text of {low} to {kind.max_length} characters"
            return words, {"min_length": low, "max_length": kind.max_length}
        case inspect.EnumType():
            names = sorted(str(member.value) for member in kind.cls)
            return f"one of {', '.join(names)}", {"one_of": names}
        case inspect.BoolType():
            return "true or false", {}
    raise TypeError(f"no limit is stated for {kind}")  # a field without a limit must not be written


def _describe_marked(kind: inspect.Metadata) -> tuple[str, dict[str, object]]:
    """Return the limit of a type to which something was noted that no other word of msgspec says."""
    extra = kind.extra or {}
    if "json_bytes" in extra:
        most, depth = extra["json_bytes"], extra["depth"]
        words = f"JSON of at most {most} bytes in its shortest form, nested at most {depth} deep"
        return words, {"max_bytes": most, "max_depth": depth}
    words, limit = _describe(kind.type)
    if "bytes" in extra:
        limit = {**limit, "max_bytes": extra["bytes"]}
        few = f"{limit['min_length']} to" if limit["min_length"] else "at most"
        words = f"text of {few} {extra['bytes']} bytes as UTF-8, and no more than {extra['setting']}"
    if "max_characters" in extra:
        limit = {**limit, "max_characters": extra["max_characters"]}
        words = f"{words}; at most {extra['max_characters']} characters together"
    return (f"{words}: {extra['hint']}" if "hint" in extra else words), limit


def _describe_parts(
    kind: inspect.UnionType | inspect.VarTupleType | inspect.StructType,
) -> tuple[str, dict[str, object]]:
    if isinstance(kind, inspect.StructType):
        fields = (f"{name} ({rule.words})" for name, rule in rules_of(kind.cls).items())
        return f"an object of {', '.join(fields)}", {}
    if isinstance(kind, inspect.VarTupleType):
        words, _ = _describe(kind.item_type)
        most: dict[str, object] = {"max_items": kind.max_length}
        if kind.min_length:
            most = {"min_items": kind.min_length, **most}
            return f"a list of {kind.min_length} to {kind.max_length}, each {words}", most
        return f"a list of at most {kind.max_length}, each {words}", most
    parts = [part for part in kind.types if not isinstance(part, inspect.NoneType)]
    words, limit = _describe(parts[0])
    return (f"{words}{OR_NULL}" if kind.includes_none else words), limit
