"""The plugin's options: ``[plugins.options.glue_http]``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Self

from pydantic import Field, SecretStr, StringConstraints, model_validator
from xwheel import plugin
from xwheel.plugin import ConfigError, PluginOptions
from xwheel_egress import EgressClient, EgressRefusedError

if TYPE_CHECKING:
    from xwheel import Config

PLUGIN: Final = "glue_http"
MIN_SECRET: Final = 8
"""It is taken out of all that is logged, and a shorter one could be guessed by what is missing there."""

Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]{1,64}$")]


class SecretOptions(PluginOptions):
    """A secret that sources name as `${secret.NAME}`, and where it may go."""

    public = ("origins",)

    required_secrets = ("value",)
    value: SecretStr | None = Field(None, description="The secret.")
    value_file: Path | None = Field(None, description="File that holds the secret.")
    origins: tuple[str, ...] = Field(
        min_length=1,
        max_length=100,
        description="Where it may be sent: scheme and host, and the port unless it is the usual one, such as "
        "`https://api.example.com`.",
    )

    @model_validator(mode="after")
    def _is_long_enough(self) -> Self:
        if len(self.text) < MIN_SECRET:
            raise ValueError(f"a secret has at least {MIN_SECRET} characters")
        return self

    @property
    def text(self) -> str:
        """The secret."""
        return "" if self.value is None else self.value.get_secret_value()


class Options(PluginOptions):
    """The plugin's options."""

    log_kb: int = Field(16, ge=0, le=1024, description="Kilobytes of an answer's body that go into the run's log.")
    read_kb: int = Field(256, ge=1, le=10_240, description="Kilobytes of an answer's body that are read and searched.")
    secrets: dict[Name, SecretOptions] = Field(
        default_factory=dict, description="Secrets by name; a source names them, and never holds them."
    )


def read_options(config: Config, client: EgressClient) -> Options:
    """Return the options, checked.

    Raises:
        ConfigError: One is not known or not acceptable, or a secret is for an origin that the egress policy forbids;
            the message names it.
    """
    options = plugin.read_options(config, PLUGIN, Options)
    for name, secret in options.secrets.items():
        for origin in secret.origins:
            where = f"plugins.options.{PLUGIN}.secrets.{name}.origins"
            try:
                found = client.policy.target(origin).origin
            except EgressRefusedError as error:
                raise ConfigError(f"{where}: {error}") from None
            if found != origin:
                raise ConfigError(f"{where}: an origin is written as {found}, with nothing after it")
    return options
