"""The plugin's options: ``[plugins.options.cells]``, with a table for each other cluster."""

from __future__ import annotations

import ipaddress
import logging
import re
from collections import Counter
from pathlib import Path
from stat import S_IMODE, S_ISREG
from typing import TYPE_CHECKING, Annotated, Any, Final, Self

from pydantic import BeforeValidator, Field, SecretStr, StringConstraints, field_validator, model_validator
from xwheel import plugin
from xwheel.plugin import ConfigError, PlainUrl, PluginOptions
from xwheel_egress import EgressPolicy, EgressRefusedError

if TYPE_CHECKING:
    from xwheel import Config

logger = logging.getLogger(__name__)

PLUGIN: Final = "cells"
MOST_CELLS: Final = 32
MOST_URLS: Final = 8
NAME: Final = r"^[a-z0-9-]{1,32}$"
OTHERS: Final = 0o077

Name = Annotated[str, StringConstraints(pattern=NAME)]


def _as_list(value: Any) -> Any:
    """Return one text as a list of it."""
    if isinstance(value, str):
        return (value,)
    return tuple(value) if isinstance(value, list) else value


class CellOptions(PluginOptions):
    """Another cluster: where it is, and what opens it."""

    public = ("url",)

    required_secrets = ("token",)

    url: Annotated[tuple[str, ...], BeforeValidator(_as_list)] = Field(
        min_length=1,
        max_length=MOST_URLS,
        description="Where the management API of that cluster is: a node or a proxy, such as "
        "`https://north.example.com`, or a list of several, which are tried in this order.",
    )
    token: SecretStr | None = Field(
        None, description="Management token of that cluster, made for the role `viewer` in all groups."
    )
    token_file: Path | None = Field(None, description="File that holds the token; only its owner may read it.")
    ca_file: Path | None = Field(
        None, description="PEM file of the authorities that are trusted for this cell besides the public ones."
    )

    @field_validator("url")
    @classmethod
    def _are_addresses(cls, urls: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(_base(url) for url in urls)

    @field_validator("token_file")
    @classmethod
    def _is_ours_alone(cls, path: Path | None) -> Path | None:
        if path is None:
            return None
        try:
            mode = path.stat().st_mode
        except OSError as error:
            raise ValueError(f"cannot read {path}: {error.strerror}") from None
        if not S_ISREG(mode):
            raise ValueError(f"{path} is no plain file")
        if S_IMODE(mode) & OTHERS:
            raise ValueError(f"others may read or write {path}: run 'chmod 600 {path}'")
        return path

    @field_validator("ca_file")
    @classmethod
    def _is_there(cls, path: Path | None) -> Path | None:
        if path is not None and not path.is_file():
            raise ValueError(f"there is no file {path}")
        return path

    @model_validator(mode="after")
    def _can_be_sent(self) -> Self:
        if not re.fullmatch("[!-~]+", self.secret):
            raise ValueError(
                "the token must be one line of visible ASCII characters, as 'xwheel token create' makes it"
            )
        return self

    @property
    def secret(self) -> str:
        """The token."""
        return "" if self.token is None else self.token.get_secret_value()


class Options(PluginOptions):
    """The plugin's options."""

    public = ("name",)

    name: Name = Field("here", description="What this node's own cluster is called among the cells.")
    timeout_ms: int = Field(
        3000, ge=100, le=15_000, description="Milliseconds within which all cells must have answered a call."
    )
    cell: dict[Name, CellOptions] = Field(
        default_factory=dict,
        description=f"The other cells by name, {MOST_CELLS - 1} at most; names have small letters, digits and dashes.",
    )

    @model_validator(mode="after")
    def _fit_together(self) -> Self:
        if len(self.cell) >= MOST_CELLS:
            raise ValueError(
                f"cell has {len(self.cell)} tables, and {MOST_CELLS - 1} are possible next to this node's own cluster: "
                "leave some out, or read those through another cluster"
            )
        if self.name in self.cell:
            raise ValueError(
                f"name and the table cell.{self.name} are the same: give this node's own cluster another name"
            )
        counts = Counter(url for one in self.cell.values() for url in one.url)
        if twice := [url for url, count in counts.items() if count > 1]:
            raise ValueError(f"cell has {twice[0]} twice: each cluster is one cell")
        return self


def read_options(config: Config) -> Options:
    """Return the options, checked; a token that would go over a network in the clear is a warning in the log.

    Raises:
        ConfigError: One is not known or not acceptable, or an address is none that may ever be called; the message
            names it.
    """
    options = plugin.read_options(config, PLUGIN, Options)
    for name, cell in options.cell.items():
        for url in cell.url:
            where = f"plugins.options.{PLUGIN}.cell.{name}.url"
            try:
                policy_of(url, cell.ca_file).target(url)
            except EgressRefusedError as error:
                raise ConfigError(f"{where}: {error}") from None
            target = PlainUrl.parse(url)
            if target.scheme == "http" and not (target.literal is not None and target.literal.is_loopback):
                logger.warning("%s: %s has no TLS, and the token goes there as plain text", where, target.origin)
    return options


def policy_of(url: str, ca_file: Path | None) -> EgressPolicy:
    """Return the policy for calls to an address that an operator wrote: it allows that origin and no other.

    The section ``[egress]`` is for what people write into jobs and rules. What it would have to name for a cell, the
    address and port of a management API, jobs and rules could call as well, so it has no part in this.
    """
    target = PlainUrl.parse(url)
    port = range(target.port, target.port + 1)
    common: dict[str, Any] = {"schemes": frozenset({target.scheme}), "ports": (port,), "ca_file": ca_file}
    if target.literal is None:
        return EgressPolicy(hosts=(target.host,), only_hosts=(target.host,), **common)
    network = ipaddress.ip_network(target.literal)
    return EgressPolicy(networks=(network,), only_hosts=(target.host,), **common)


def _base(url: str) -> str:
    """Return a URL below which an API is, without a slash at its end; raises ValueError if it is none."""
    target = PlainUrl.parse(url)
    if "?" in target.path or "#" in url:
        raise ValueError("the URL of an API has no query and no fragment: it ends before ? and #")
    return f"{target.origin}{target.path}".rstrip("/")
