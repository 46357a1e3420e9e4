"""The sections ``[accounts]`` and ``[audit]`` of the settings."""

from __future__ import annotations

import re
from pathlib import Path

from pydantic import Field, field_validator
from xwheel.config.sections import Section


class AccountsSection(Section):
    """Accounts of people: by what they sign in, and their sessions."""

    providers: list[str] = Field(["local"], min_length=1)
    """Identity providers by which people sign in, asked in this order."""
    provider_timeout_s: float = Field(10, gt=0, le=60)
    """An identity provider that does not answer within this time has failed."""
    session_s: int = Field(604_800, ge=300, le=31_536_000)
    """A session ends this long after its sign-in, however much it is used."""
    session_idle_s: int = Field(43_200, ge=60, le=31_536_000)
    """A session ends this long after its last use."""
    bind_sessions: bool = True
    """A session is good only from the network where it began: the /24 of an IPv4 address, the /48 of an IPv6 one. A
    cookie that was stolen opens nothing elsewhere."""
    secure_cookies: bool = False
    """Let browsers send the session's cookie over HTTPS only, whatever a proxy says. They do anyway where a trusted
    proxy says that the call came over HTTPS."""


class AuditSection(Section):
    """The audit: where its heads are written out, and how long its rows stay."""

    anchor_file: Path | None = None
    """File that the node appends heads of the chain to, as JSON lines. Put it where the database's administrator cannot
    change it: `xwheel audit verify --anchor FILE` compares."""
    syslog: str = ""
    """Where heads are sent besides: the socket of this machine's syslog, such as `/dev/log`, or `host:port` of one that
    takes UDP; empty for nowhere."""
    anchor_every_s: int = Field(60, ge=1, le=86_400)
    """How often a head is written out, if it is another one."""
    retention_days: int = Field(0, ge=0, le=36_500)
    """Sealed rows older than this are deleted, and the head says up to where; 0 keeps all."""

    @field_validator("syslog")
    @classmethod
    def _is_place(cls, place: str) -> str:
        if place and not place.startswith("/") and not re.fullmatch(r"[^\s/]+:[0-9]{1,5}", place, re.ASCII):
            raise ValueError("must be the path of a socket, such as /dev/log, or host:port, or empty")
        return place
