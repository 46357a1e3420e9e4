"""Typed settings: default < TOML file < environment < command line < keyword.

The environment is read by :func:`load_config` when a process starts, never at import. An unknown key is a
:class:`~xwheel.errors.ConfigError` that names the nearest known one.
"""

from __future__ import annotations

import logging
import os
import re
import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Final, Self, TypeVar, cast

from pydantic import BaseModel, ConfigDict, ValidationError, create_model

from xwheel.config import sections
from xwheel.config.nearest import nearest
from xwheel.config.sections import Section, UnreadSection
from xwheel.errors import ConfigError
from xwheel.guessing import easy_pattern, is_walk, without_phrases
from xwheel.private_files import warn_if_open

logger = logging.getLogger(__name__)

S = TypeVar("S", bound=Section)

SETTINGS: Final = "xwheel.settings"
HANDED_OVER: Final = ("accounts", "alarm", "audit", "run_logs")
"""Sections of distributions of ours: a file that is shared may have them where those are not installed."""

ENV_PREFIX: Final = "XWHEEL_"
SPECIAL_ENV: Final = frozenset(
    f"XWHEEL_{name}" for name in ("CONFIG", "NO_EXTENSIONS", "REQUIRE_EXTENSIONS", "TOKEN", "TOKEN_FILE", "URL")
)
BAD_SECRETS: Final = frozenset({"default_token", "changeme", "secret", "token", "password", "123456", "admin"})
# what weak secrets are put together from; a good one may hold some, but must be more than that
_KNOWN_WORDS: Final = (
    "qwertyuiop", "asdfghjkl", "changeme", "password", "executor", "letmein", "zxcvbnm", "xxl-job", "xxl_job",
    "default", "secret", "access", "xxljob", "qwerty", "123456", "xwheel", "token", "admin",
)  # fmt: skip
MIN_SECRET: Final = 16
MIN_DIFFERENT: Final = 6
MIN_OWN: Final = 8
"""Letters and digits that a secret must have besides well-known words."""


class Config(BaseModel):
    """All settings of a process, checked and frozen."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    database: sections.DatabaseSection = sections.DatabaseSection()
    api: sections.ApiSection = sections.ApiSection()
    connections: sections.ConnectionsSection = sections.ConnectionsSection()
    schedule: sections.ScheduleSection = sections.ScheduleSection()
    trigger: sections.TriggerSection = sections.TriggerSection()
    executor: sections.ExecutorSection = sections.ExecutorSection()
    upkeep: sections.UpkeepSection = sections.UpkeepSection()
    security: sections.SecuritySection = sections.SecuritySection()
    egress: sections.EgressSection = sections.EgressSection()
    tls: sections.TlsSection = sections.TlsSection()
    log: sections.LogSection = sections.LogSection()
    plugins: sections.PluginsSection = sections.PluginsSection()

    def __new__(cls, **values: Any) -> Self:
        """Make settings that have the sections of distributions, too."""
        del values
        return super().__new__(cast(type[Self], all_settings()) if cls is Config else cls)

    def section(self, name: str, kind: type[S]) -> S:
        """Return a section that a distribution brings, or its defaults if nothing stands there.

        Raises ConfigError if what stands there was not read, as where its entry point is missing, and is not allowed.
        """
        found = getattr(self, name, None)
        if isinstance(found, kind):
            return found
        try:
            return kind.model_validate(getattr(found, "model_extra", None) or {})
        except ValidationError as error:
            said = "; ".join(f"{'.'.join(map(str, item['loc']))}: {item['msg']}" for item in error.errors())
            raise ConfigError(f"{name}: {said}") from None

    def plugin(self, name: str) -> Mapping[str, Any]:
        """Return the option table of a plugin; empty if there is none."""
        return self.plugins.options.get(name, {})


@cache
def all_settings() -> type[Config]:
    """Return the settings with the sections that installed distributions bring.

    An entry point of the group ``xwheel.settings`` names a :class:`Section` whose settings all have defaults, and is
    called like its table. One that cannot be used is left out with a warning: its plugins say more, or may be
    tolerated.
    """
    brought: dict[str, Section] = {name: UnreadSection() for name in HANDED_OVER}
    for entry in entry_points(group=SETTINGS):
        owner = entry.dist.name if entry.dist else "unknown distribution"
        source = f"{owner} (entry point {entry.name} = {entry.value})"
        try:
            made = _make_section(entry.name, entry.load())
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            logger.warning("no section [%s] of the settings: %s: %s", entry.name, source, error)
            continue
        # an editable install may list the same distribution twice
        if type(brought.get(entry.name, made)) not in (type(made), UnreadSection):
            raise ConfigError(f"{source}: another distribution has the section [{entry.name}]: uninstall one of them")
        brought[entry.name] = made
    fields: dict[str, Any] = {name: (type(made), made) for name, made in brought.items()}
    return create_model("Config", __base__=Config, **fields)


def _make_section(name: str, kind: object) -> Section:
    """Return a section of a distribution with its defaults; raises TypeError for what cannot be one."""
    if not re.fullmatch("[a-z][a-z0-9_]{0,62}", name) or hasattr(Config, name) or name in Config.model_fields:
        raise TypeError(f"a section cannot be called {name[:64]}")
    if not isinstance(kind, type) or not issubclass(kind, Section):
        raise TypeError("is no subclass of xwheel.config.sections.Section")
    return kind()


def load_config(path: Path | None = None, overrides: Mapping[str, Mapping[str, Any]] | None = None) -> Config:
    """Merge all sources into a checked configuration: without a TOML file the one that ``XWHEEL_CONFIG`` names, if any.

    ``overrides`` are values of the command line as ``{section: {key: value}}``; they win. Raises ConfigError if the
    file cannot be read, a key is unknown or a value is not allowed.
    """
    if path is None and os.environ.get("XWHEEL_CONFIG"):
        path = Path(os.environ["XWHEEL_CONFIG"])
    if path:
        warn_if_open("the settings", path)
    merged: dict[str, Any] = _read_toml(path) if path else {}
    for layer in (_read_environment(), overrides or {}):
        for section, values in layer.items():
            if isinstance(values, Mapping) and isinstance(merged.get(section, {}), dict):
                merged[section] = {**merged.get(section, {}), **values}
            else:
                merged[section] = values
    return build_config(merged)


def build_config(values: Mapping[str, Any]) -> Config:
    """Check nested values and return the configuration; ConfigError names a key or value that is not allowed."""
    try:
        return Config(**values)
    except ValidationError as error:
        raise ConfigError("; ".join(_explain(item) for item in error.errors())) from None


def check_secret(name: str, secret: str) -> str:
    """Return the secret if it may be used; ConfigError says why it may not, and holds nothing of it."""
    if secret.strip().lower() in BAD_SECRETS or len(secret) < MIN_SECRET:
        raise ConfigError(f"{name} must have at least {MIN_SECRET} characters and not be a well-known value")
    if weakness := _weakness(secret):
        raise ConfigError(
            f"{name} must not {weakness}: take random characters, such as those of 'openssl rand -hex 32'"
        )
    if not secret.isascii() or not secret.isprintable() or " " in secret:
        raise ConfigError(f"{name} must be printable ASCII without blanks, since it travels in a header")
    return secret


def _weakness(secret: str) -> str:
    if len(set(secret)) < MIN_DIFFERENT:
        return f"have fewer than {MIN_DIFFERENT} different characters"
    if easy := easy_pattern(secret):
        return easy
    if is_walk(secret):
        return "walk over the keyboard"
    rest = without_phrases(secret)
    if rest != re.sub(r"[\W_]", "", secret.casefold()) and len(rest) < MIN_OWN:
        return "consist of a phrase that everybody knows"
    rest = secret.lower()
    for word in _KNOWN_WORDS:
        rest = rest.replace(word, "")
    if sum(char.isalnum() for char in rest) < MIN_OWN:
        return "be made of well-known words"
    return ""


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not valid TOML: {error}") from error


def _read_environment() -> dict[str, Any]:
    known = all_settings()
    names = [name for name in os.environ if name.startswith(ENV_PREFIX) and name not in SPECIAL_ENV]
    for name in names:
        section = name.removeprefix(ENV_PREFIX).split("__")[0].lower()
        if "__" not in name or section not in known.model_fields:
            raise ConfigError(f"environment variable {name} names no setting{_nearest(section, known)}")
    if not names:
        return {}
    from pydantic_settings import EnvSettingsSource  # no start without such variables waits for it

    try:
        source: Any = EnvSettingsSource  # that of any model, though it says that it wants its own kind
        return dict(source(known, env_prefix=ENV_PREFIX, env_nested_delimiter="__")())
    except ValueError as error:
        raise ConfigError(f"environment: {error}") from error


def _explain(item: Any) -> str:
    where = ".".join(str(part) for part in item["loc"])
    if item["type"] == "extra_forbidden":
        *above, key = map(str, item["loc"])
        owner: type[BaseModel] = all_settings()
        for part in above:
            kind = owner.model_fields[part].annotation if part in owner.model_fields else None
            if isinstance(kind, type) and issubclass(kind, BaseModel):
                owner = kind
        return f"{where} is not a setting{_nearest(key, owner, above[0] if above else '')}"
    return f"{where}: {item['msg'][:1].lower()}{item['msg'][1:]}"


def _nearest(word: str, owner: type[BaseModel], section: str = "") -> str:
    close = nearest(word, list(owner.model_fields), section)
    return f"; did you mean {close}?" if close else f"; known: {', '.join(sorted(owner.model_fields))}"
