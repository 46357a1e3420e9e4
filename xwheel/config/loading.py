"""Typed settings: default < TOML file < environment < command line < keyword.

The environment is read by :func:`load_config` when a process starts, never at import. An unknown key is a
:class:`~xwheel.errors.ConfigError` that names the nearest known one.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, ValidationError
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from xwheel.config.nearest import nearest
from xwheel.config.sections import (
    AccountsSection,
    AlarmSection,
    ApiSection,
    AuditSection,
    ConnectionsSection,
    DatabaseSection,
    EgressSection,
    ExecutorSection,
    LogSection,
    PluginsSection,
    RunLogsSection,
    ScheduleSection,
    SecuritySection,
    TlsSection,
    TriggerSection,
    UpkeepSection,
)
from xwheel.errors import ConfigError
from xwheel.guessing import easy_pattern, is_walk, without_phrases
from xwheel.private_files import warn_if_open

ENV_PREFIX: Final = "XWHEEL_"
SPECIAL_ENV: Final = frozenset(
    f"XWHEEL_{name}"
    for name in ("CONFIG", "NO_EXTENSIONS", "REQUIRE_EXTENSIONS", "TOKEN", "TOKEN_FILE", "URL")
)
BAD_SECRETS: Final = frozenset(
    {"default_token", "changeme", "secret", "token", "password", "123456", "admin"}
)
# what weak secrets are put together from; a good one may hold some, but must be more than that
_KNOWN_WORDS: Final = (
    "qwertyuiop", "asdfghjkl", "changeme", "password", "executor", "letmein", "zxcvbnm", "xxl-job", "xxl_job",
    "default", "secret", "access", "xxljob", "qwerty", "123456", "xwheel", "token", "admin",
)  # fmt: skip
MIN_SECRET: Final = 16
MIN_DIFFERENT: Final = 6
MIN_OWN: Final = 8
"""Letters and digits that a secret must have besides well-known words."""


class Config(BaseSettings):
    """All settings of a process, checked and frozen."""

    model_config = SettingsConfigDict(
        extra="forbid", frozen=True, env_prefix=ENV_PREFIX, env_nested_delimiter="__"
    )

    database: DatabaseSection = DatabaseSection()
    api: ApiSection = ApiSection()
    connections: ConnectionsSection = ConnectionsSection()
    schedule: ScheduleSection = ScheduleSection()
    trigger: TriggerSection = TriggerSection()
    executor: ExecutorSection = ExecutorSection()
    upkeep: UpkeepSection = UpkeepSection()
    run_logs: RunLogsSection = RunLogsSection()
    alarm: AlarmSection = AlarmSection()
    security: SecuritySection = SecuritySection()
    accounts: AccountsSection = AccountsSection()
    audit: AuditSection = AuditSection()
    egress: EgressSection = EgressSection()
    tls: TlsSection = TlsSection()
    log: LogSection = LogSection()
    plugins: PluginsSection = PluginsSection()

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Take only what the constructor is given; :func:`load_config` merges the other sources itself."""
        del settings_cls, env_settings, dotenv_settings, file_secret_settings
        return (init_settings,)

    def plugin(self, name: str) -> Mapping[str, Any]:
        """Return the option table of a plugin; empty if there is none."""
        return self.plugins.options.get(name, {})


def load_config(path: Path | None = None, overrides: Mapping[str, Mapping[str, Any]] | None = None) -> Config:
    """Merge all sources into a checked configuration.

    Args:
        path: TOML file; None takes ``XWHEEL_CONFIG`` if that is set.
        overrides: Command-line values as ``{section: {key: value}}``; they win.

    Raises:
        ConfigError: The file cannot be read, a key is unknown or a value is not allowed.
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
    """Check nested values and return the configuration.

    Raises:
        ConfigError: A key is unknown or a value is not allowed; the message names it.
    """
    try:
        return Config(**values)
    except ValidationError as error:
        raise ConfigError("; ".join(_explain(item) for item in error.errors())) from None


def check_secret(name: str, secret: str) -> str:
    """Return the secret if it may be used.

    Raises:
        ConfigError: It is too short, well known, or easily guessed; the message holds nothing of it.
    """
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
    """Return what makes a secret easy to guess, or an empty text."""
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
    for name in os.environ:
        if name.startswith(ENV_PREFIX) and name not in SPECIAL_ENV:
            section = name.removeprefix(ENV_PREFIX).split("__")[0].lower()
            if "__" not in name or section not in Config.model_fields:
                raise ConfigError(f"environment variable {name} names no setting{_nearest(section, Config)}")
    try:
        return EnvSettingsSource(Config)()
    except ValueError as error:
        raise ConfigError(f"environment: {error}") from error


def _explain(item: Any) -> str:
    where = ".".join(str(part) for part in item["loc"])
    if item["type"] == "extra_forbidden":
        owner: type[BaseModel] = Config
        for part in item["loc"][:-1]:
            annotation = owner.model_fields[str(part)].annotation if str(part) in owner.model_fields else None
            owner = (
                annotation if isinstance(annotation, type) and issubclass(annotation, BaseModel) else owner
            )
        section = str(item["loc"][0]) if len(item["loc"]) > 1 else ""
        return f"{where} is not a setting{_nearest(str(item['loc'][-1]), owner, section)}"
    return f"{where}: {item['msg'][:1].lower()}{item['msg'][1:]}"


def _nearest(word: str, owner: type[BaseModel], section: str = "") -> str:
    close = nearest(word, list(owner.model_fields), section)
    return f"; did you mean {close}?" if close else f"; known: {', '.join(sorted(owner.model_fields))}"
