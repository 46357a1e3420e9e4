"""Heads of the chain, written to where a database's administrator cannot change them, and read again."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec
from xwheel.clock import has_come
from xwheel.errors import ConfigError
from xwheel.private_files import make_folder_above, open_file

from xwheel_accounts.audit.records import AuditHead
from xwheel_accounts.settings import AuditSection

logger = logging.getLogger(__name__)

NOTICE: Final = 85
"""Facility 10, security, and severity 5, a normal condition that matters."""

SEND_S: Final = 2.0
ROW: Final = b'{"id":'
EXPORTED: Final = b'{"head":'
"""How the lines of an export begin."""


class _Exported(msgspec.Struct):
    head: AuditHead


class Anchors:
    """Writes out each head that is another one, at most once in a while.

    Args:
        settings: Where to, and how often.
    """

    def __init__(self, settings: AuditSection) -> None:
        self._file = settings.anchor_file
        self._syslog = settings.syslog
        self._every_ms = settings.anchor_every_s * 1000
        self._next_ms = 0
        self._written: AuditHead | None = None

    def note(self, head: AuditHead, now_ms: int) -> None:
        """Write a head out if it is time; what cannot be written is logged, and tried again next time."""
        if not (self._file or self._syslog) or self._is_written(head):
            return
        if not has_come(self._next_ms, now_ms, self._every_ms):
            return
        self._next_ms = now_ms + self._every_ms
        line = msgspec.json.encode(head)
        try:
            if self._file is not None:
                _append(self._file, line)
            if self._syslog:
                _send(self._syslog, line, now_ms)
        except OSError as error:
            logger.warning("the head of the audit at position %d is not written out: %s", head.position, error)
        else:
            self._written = head

    def _is_written(self, head: AuditHead) -> bool:
        known = self._written
        return known is not None and (known.position, known.link, known.base_position) == (
            head.position,
            head.link,
            head.base_position,
        )


def read_anchors(path: Path) -> Sequence[AuditHead]:
    """Return the heads in a file: lines of JSON, with anything before them, as syslog writes it, or an export.

    Raises:
        ConfigError: It cannot be read, or a line holds no head.
    """
    found = []
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                if line.strip() and not line.startswith(ROW):
                    found.append(_head_in(line, f"{path}, line {number}"))
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from None
    if not found:
        raise ConfigError(f"{path} holds no anchor")
    return found


def _head_in(line: bytes, where: str) -> AuditHead:
    try:
        text = line[max(0, line.find(b"{")) :]
        if text.startswith(EXPORTED):
            return msgspec.json.decode(text, type=_Exported).head
        return msgspec.json.decode(text, type=AuditHead)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise ConfigError(f"{where} is no head of an audit") from None


def _append(path: Path, line: bytes) -> None:
    """Write a line at the end of a file, on its disk; in one call, so that two writers mix no lines."""
    make_folder_above(path)
    handle = open_file(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(handle, line + b"\n")
        os.fsync(handle)
    finally:
        os.close(handle)


def _send(place: str, line: bytes, now_ms: int) -> None:
    """Send a line to a syslog, in the form of RFC 5424 over UDP, and as programs of this machine do to its socket."""
    if place.startswith("/"):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.settimeout(SEND_S)
            sender.sendto(b"<%d>xwheel-audit: %s" % (NOTICE, line), place)
        return
    host, _, port = place.rpartition(":")
    at = datetime.fromtimestamp(now_ms / 1000, UTC).isoformat(timespec="milliseconds")
    head = f"<{NOTICE}>1 {at} {socket.gethostname()} xwheel - audit-head - ".encode()
    family, kind, *_, address = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, kind) as sender:
        sender.settimeout(SEND_S)
        sender.sendto(head + line, address)
