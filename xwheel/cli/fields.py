"""Fields that commands take as ``--set FIELD=VALUE``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from xwheel.errors import FieldError

if TYPE_CHECKING:
    from msgspec import Struct

NULL: Final = "null"
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="FIELD=VALUE",
        help="A field; may be repeated. Lists stand between commas, null is written null.",
    ),
]


def set_values(
    kind: type[Struct],
    pairs: Sequence[str],
    taken: Mapping[str, str],
    required: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Return the fields that ``--set`` gives, checked by the API's own rules.

    Args:
        kind: The message that they become part of.
        pairs: What stands after each ``--set``.
        taken: Fields that another option gives, and which.
        required: Required fields among those, with any text that passes.

    Raises:
        FieldError: One is unknown, stands twice or is outside its limit.
    """
    import msgspec

    from xwheel.api.http.body import OR_NULL, read_fields, rules_of

    rules = rules_of(kind)
    texts: dict[str, str] = {}
    for pair in pairs:
        field, sign, text = pair.partition("=")
        if not sign:
            raise FieldError("--set", f"takes FIELD=VALUE, not {pair[:40]!r}")
        if field in taken:
            raise FieldError(field, f"is given by {taken[field]}")
        if field in texts:
            raise FieldError(field, "is set twice")
        texts[field] = text
    nulls = {
        field for field, text in texts.items()
        if text == NULL and field in rules and rules[field].words.endswith(OR_NULL)
    }  # fmt: skip
    filled = {field: text for field, text in texts.items() if field not in nulls}
    plain = msgspec.to_builtins(read_fields(kind, {**(required or {}), **filled}, strict=False))
    return {field: None if field in nulls else plain[field] for field in texts}
