"""Who did what: the rows of the audit, and what of a change stands in them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Final

import msgspec
from xwheel.model.deeds import clean

LONGEST_TEXT: Final = 1000
"""Characters of a text in a detail; a longer one stands there by its beginning, length and digest."""

SHOWN: Final = 200
MOST_BYTES: Final = 60_000
"""Of a detail: what MariaDB's TEXT holds."""

NEVER: Final = frozenset({"digest", "sealed", "token", "password", "password_hash", "credential_digest"})
"""Fields that open something, or help to guess what does."""

SOURCES: Final = frozenset({"source", "glue_source"})
IDLE: Final = frozenset({"updated_ms"})


class AuditRow(msgspec.Struct, frozen=True, kw_only=True):
    """A row of the audit.

    Attributes:
        detail: A JSON object with what changed, ``before`` and ``after``.
        nonce: A random number; two rows alike in all else are not copies of each other.
        key_id: Name of the key that signed the row.
        mac: The signature of all of that but the id, which the database gives.
        position: Place in the chain; None until the row is sealed.
        link: Signature of the row together with all before it; None until the row is sealed.
    """

    id: int = 0
    at_ms: int
    actor_kind: str
    actor: str
    account_id: int | None
    credential: str
    address: str
    action: str
    object_kind: str
    object_id: str
    group_id: int | None
    outcome: str
    reason: str
    detail: str
    nonce: int
    key_id: str
    mac: str = ""
    position: int | None = None
    link: str | None = None

    def signed_bytes(self) -> bytes:
        """Return what the signature is of."""
        return msgspec.json.encode(
            (
                "xwheel audit row 1",
                self.at_ms,
                self.actor_kind,
                self.actor,
                self.account_id,
                self.credential,
                self.address,
                self.action,
                self.object_kind,
                self.object_id,
                self.group_id,
                self.outcome,
                self.reason,
                self.detail,
                self.nonce,
                self.key_id,
            )
        )


class AuditHead(msgspec.Struct, frozen=True, kw_only=True):
    """Up to where the audit is sealed, signed; written out, it is an anchor.

    Attributes:
        position: Position of the last sealed row; 0 before the first one.
        link: That row's link.
        sealed_ms: When it was sealed.
        base_position: Rows up to this one were deleted when they were old enough.
        base_link: The last of these rows' link.
        key_id: Name of the key that signed the head.
        mac: The signature of all of that.
    """

    position: int
    link: str
    sealed_ms: int
    base_position: int
    base_link: str
    key_id: str
    mac: str = ""

    def signed_bytes(self) -> bytes:
        """Return what the signature is of."""
        return msgspec.json.encode(
            (
                "xwheel audit head 1",
                self.position,
                self.link,
                self.sealed_ms,
                self.base_position,
                self.base_link,
                self.key_id,
            )
        )


def detail_of(before: object, after: object) -> str:
    """Return what changed, as the JSON text that a row has: nothing that opens anything, and no source of a script."""
    old, new = _fields(before), _fields(after)
    if before is not None and after is not None:
        changed = {name for name in {*old, *new} if old.get(name, _ABSENT) != new.get(name, _ABSENT)}
        old = {name: value for name, value in old.items() if name in changed}
        new = {name: value for name, value in new.items() if name in changed}
    said = {
        name: {key: _shown(key, value) for key, value in part.items()}
        for name, part in (("before", old), ("after", new))
        if part
    }
    text = _encode(said)
    if len(text.encode()) <= MOST_BYTES:
        return text
    # many fields, each long: their names are what fits for certain
    return _encode({"cut": len(text), "fields": sorted({*old, *new})[:SHOWN]})


_ABSENT: Final = object()


def _encode(value: object) -> str:
    try:
        return msgspec.json.encode(value, enc_hook=str).decode()
    except UnicodeEncodeError:  # half of a pair somewhere
        return msgspec.json.encode(_clean(value), enc_hook=str).decode()


def _clean(value: object) -> object:
    if isinstance(value, str):
        return clean(value, len(value))
    if isinstance(value, Mapping):
        return {clean(str(key), len(str(key))): _clean(item) for key, item in value.items()}
    if isinstance(value, Sequence | set | frozenset):
        return [_clean(item) for item in value]
    return value if value is None or isinstance(value, int | float) else clean(str(value), LONGEST_TEXT)


def _fields(record: object) -> dict[str, object]:
    if record is None:
        return {}
    if isinstance(record, Mapping):
        found = {str(name): value for name, value in record.items()}
    elif isinstance(record, msgspec.Struct):
        found = msgspec.structs.asdict(record)
    elif is_dataclass(record):
        found = {item.name: getattr(record, item.name) for item in fields(record)}
    else:
        raise TypeError(f"a {type(record).__name__} has no fields that an audit row could show")
    return {name: value for name, value in found.items() if name not in NEVER and name not in IDLE}


def _shown(name: str, value: object) -> object:
    if not isinstance(value, str):
        return value
    if name in SOURCES:
        return f"{len(value)} characters, sha256 {_digest(value)}"
    if len(value) <= LONGEST_TEXT:
        return value
    return f"{value[:SHOWN]}… ({len(value)} characters, sha256 {_digest(value)})"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()
