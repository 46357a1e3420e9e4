"""Strict options of plugins: a model says what the table ``[plugins.options.NAME]`` may hold, and errors say where."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from enum import Enum
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, Self, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, SecretStr, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from xwheel.errors import ConfigError

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

    from xwheel.config import Config

FILE_SUFFIX: Final = "_file"
MAX_SECRET_BYTES: Final = 65_536
MASK: Final = "**********"
_SECRET: Final = re.compile(
    "pass(word|wd|phrase)|secret|token|authorization|cookie|credential|(api|private).?key", re.IGNORECASE
)
# pydantic's words for what TOML calls otherwise
_WORDS: Final = {
    "a valid string": "a text",
    "a valid integer": "a whole number",
    "a valid boolean": "true or false",
    "a valid array": "a list",
    "a valid tuple": "a list",
    "an object": "a table",
}


class PluginOptions(BaseModel):
    """Base of a plugin's options; frozen, unknown keys and other types than the stated ones refused.

    Fields are pydantic's, each with a description. A secret is a ``SecretStr``; next to ``password: SecretStr | None``
    a field ``password_file: Path | None = None`` lets operators name a file that holds it, which is read into
    ``password``. A nested table is another subclass of this.

    Admins see numbers, yes and no, paths and what is chosen among few words. Texts are hidden from them as well, since
    a URL may hold a password, but for the fields that ``public`` names.
    """

    #: names of fields whose texts admins see
    public: ClassVar[tuple[str, ...]] = ()
    #: names of secrets of which one of both fields must be given
    required_secrets: ClassVar[tuple[str, ...]] = ()

    model_config = ConfigDict(
        extra="forbid", frozen=True, allow_inf_nan=False, hide_input_in_errors=True, use_attribute_docstrings=True
    )

    @model_validator(mode="after")
    def _take_secrets_from_files(self) -> Self:
        fields = type(self).model_fields
        for name, field in fields.items():
            path = self.__dict__.get(name + FILE_SUFFIX)
            if not isinstance(path, Path) or not _is_secret(field.annotation):
                continue
            if self.__dict__[name] is not None:
                raise _refusal(f"give {name} or {name}{FILE_SUFFIX}, not both")
            # frozen, but nothing has seen it yet
            self.__dict__[name] = SecretStr(_read_secret(name + FILE_SUFFIX, path))
        for name in self.required_secrets:
            if self.__dict__[name] is None:
                raise ValueError(f"{name} or {name}{FILE_SUFFIX} is missing")
        return self


T = TypeVar("T", bound=PluginOptions)

_noted: ContextVar[dict[str, PluginOptions] | None] = ContextVar("xwheel_plugin_options", default=None)


def read_options(config: Config, plugin: str, model: type[T]) -> T:
    """Return a plugin's options, checked; call it in the hook, so that a mistake stops the start.

    ``plugin`` is the name of the plugin's entry point, ``model`` says what its table may hold. Raises ConfigError for a
    key that is unknown, missing or not acceptable: the message names it and what is allowed, and never holds the value.
    """
    where = f"plugins.options.{plugin}"
    try:
        text = json.dumps(dict(config.plugin(plugin)))
    except (TypeError, ValueError):
        words = "may hold texts, numbers, true and false, lists and tables, but no dates"
        raise ConfigError(f"{where} {words}") from None
    try:
        # as JSON, a text may stand for a path and a list for a tuple, but no text for a number
        options = model.model_validate_json(text, strict=True)
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False)
        raise ConfigError("; ".join(_explain(where, item, model) for item in found)) from None
    if (noted := _noted.get()) is not None:
        noted[plugin] = options
    return options


@contextmanager
def noting_options() -> Iterator[dict[str, PluginOptions]]:
    """Collect the options that plugins read meanwhile, by plugin."""
    noted: dict[str, PluginOptions] = {}
    token = _noted.set(noted)
    try:
        yield noted
    finally:
        _noted.reset(token)


def shown_options(options: PluginOptions | None, given: Mapping[str, Any]) -> dict[str, object]:
    """Return a plugin's options as they are shown, never a secret: as it read them, or else the names in its table."""
    if options is None:
        return dict.fromkeys(given, MASK)
    return _shown(options)


def _shown(options: PluginOptions) -> dict[str, object]:
    found: dict[str, object] = {}
    for name, field in type(options).model_fields.items():
        words = set(_words_of(field.annotation))
        found[name] = _masked(name, getattr(options, name), words, is_public=name in options.public)
    return found


def _masked(name: str, value: Any, words: Collection[object], *, is_public: bool) -> Any:
    """Hide also what is a secret by its name alone, such as a header in a table of headers."""
    if isinstance(value, PluginOptions):
        return _shown(value)
    if isinstance(value, Mapping):
        return {str(key): _masked(str(key), inner, words, is_public=is_public) for key, inner in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_masked(name, inner, words, is_public=is_public) for inner in value]
    plain = value.value if isinstance(value, Enum) else value
    if isinstance(value, Path | Enum):
        return str(plain)
    if isinstance(plain, str) and not (plain in words or (is_public and not _SECRET.search(name))):
        return MASK if plain else plain
    return plain if plain is None or isinstance(plain, str | bool | int | float) else MASK


def _words_of(annotation: Any) -> Iterator[object]:
    """Yield the words that a field may be chosen among."""
    if get_origin(annotation) is Literal:
        yield from get_args(annotation)
    else:
        for inner in get_args(annotation):
            yield from _words_of(inner)


def _explain(where: str, item: ErrorDetails, model: type[PluginOptions]) -> str:
    name = ".".join([where, *(str(part) for part in item["loc"] if part != "[key]")])
    if item["type"] == "extra_forbidden":
        return f"{name} is not an option{_known(model, item['loc'])}"
    if item["type"] == "missing":
        return f"{name} is missing"
    message = item["msg"].removeprefix("Value error, ").replace("Input should be", "must be")
    for word, ours in _WORDS.items():
        message = message.replace(word, ours)
    return f"{name}: {message[:1].lower()}{message[1:]}"


def _known(model: type[PluginOptions], loc: tuple[int | str, ...]) -> str:
    owner: type[BaseModel] = model
    for part in loc[:-1]:
        field = owner.model_fields.get(str(part))
        inner = _model_in(field.annotation) if field is not None else None
        # the parts of lists and tables of models are indices and keys
        owner = inner or owner
    near = difflib.get_close_matches(str(loc[-1]), owner.model_fields, n=1)
    hint = f"did you mean {near[0]}? " if near else ""
    return f"; {hint}known: {', '.join(sorted(owner.model_fields)) or 'none'}"


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for inner in get_args(annotation) if (found := _model_in(inner))), None)


def _is_secret(annotation: Any) -> bool:
    return annotation is SecretStr or (
        get_origin(annotation) in {Union, UnionType} and SecretStr in get_args(annotation)
    )


def _read_secret(name: str, path: Path) -> str:
    try:
        with path.open("rb") as stream:
            content = stream.read(MAX_SECRET_BYTES + 1)
        secret = content.decode("utf-8").strip()
    except OSError as error:
        raise _refusal(f"{name}: cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise _refusal(f"{name}: {path} holds no UTF-8 text") from None
    if not secret or len(content) > MAX_SECRET_BYTES:
        raise _refusal(f"{name}: {path} must hold a secret of 1 to {MAX_SECRET_BYTES} bytes")
    return secret


def _refusal(words: str) -> PydanticCustomError:
    # as a template's value, since braces in a path would be taken for names of values
    return PydanticCustomError("secret_file", "{words}", {"words": words})
