"""The chain: each sealed row is signed together with its position and the link of the row before. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from xwheel_accounts.audit.records import AuditHead, AuditRow
from xwheel_accounts.audit.signing import SigningKey, SigningKeys

FIRST_LINK: Final = "0" * 64
"""What the first row of all is linked to."""


def linked_bytes(previous: str, position: int, row: AuditRow) -> bytes:
    """Return what a row's link is the signature of; the id and the row's own signature stand for its content."""
    return msgspec.json.encode(("xwheel audit link 1", previous, position, row.id, row.mac))


def first_head(key: SigningKey, now_ms: int) -> AuditHead:
    """Return the head before anything is sealed."""
    head = AuditHead(
        position=0, link=FIRST_LINK, sealed_ms=now_ms, base_position=0, base_link=FIRST_LINK, key_id=key.name
    )
    return sign_head(head, key)


def sign_head(head: AuditHead, key: SigningKey) -> AuditHead:
    """Return a head with the signature of a key."""
    named = replace(head, key_id=key.name)
    return replace(named, mac=key.sign(named.signed_bytes()))


def is_signed(item: AuditHead | AuditRow, keys: SigningKeys) -> bool:
    """Return whether one of the keys signed a head or a row."""
    key = keys.find(item.key_id)
    return key is not None and key.has_signed(item.signed_bytes(), item.mac)


class LinkKeys:
    """Which keys may have made the next link; those kept in the database none after the first one of a key file.

    Args:
        keys: What may have signed.
    """

    def __init__(self, keys: SigningKeys) -> None:
        self._keys: list[SigningKey] = list(keys.all())
        self.is_switched = False
        """Whether a key of a key file made a link."""

    def has_linked(self, before: Iterable[str], position: int, row: AuditRow, link: str) -> bool:
        """Return whether a link is that of a row at a place, behind one of some links."""
        known = list(before)
        for key in self._keys:
            if any(key.has_signed(linked_bytes(previous, position, row), link) for previous in known):
                if not key.is_kept_beside and not self.is_switched:
                    # from here on, who can read the key in the database can link nothing
                    self.is_switched = True
                    self._keys = [left for left in self._keys if not left.is_kept_beside]
                return True
        return False

    def would_be(self, before: Iterable[str], position: int, row: AuditRow) -> set[str]:
        """Return all links that a row at a place may have, behind one of some links."""
        return {key.sign(linked_bytes(previous, position, row)) for key in self._keys for previous in before}


def are_linked(head: AuditHead, rows: Sequence[AuditRow], keys: SigningKeys) -> bool:
    """Return whether rows are what was signed, and the first ones that a head's base is followed by."""
    links, previous = LinkKeys(keys), head.base_link
    for position, row in enumerate(rows, head.base_position + 1):
        link = row.link or ""
        if row.position != position or not is_signed(row, keys):
            return False
        if not links.has_linked([previous], position, row, link):
            return False
        previous = link
    return True


def seal(
    head: AuditHead, rows: Sequence[AuditRow], key: SigningKey, now_ms: int
) -> tuple[AuditHead, list[tuple[int, int, str]]]:
    """Chain rows to a head.

    Returns:
        The next head, and ``(id, position, link)`` of each row.
    """
    position, link = head.position, head.link
    places = []
    for row in rows:
        position += 1
        link = key.sign(linked_bytes(link, position, row))
        places.append((row.id, position, link))
    return sign_head(replace(head, position=position, link=link, sealed_ms=now_ms), key), places


def cut(head: AuditHead, last: AuditRow, key: SigningKey) -> AuditHead:
    """Return a head that says that rows up to this one, which is sealed, were deleted as old."""
    assert last.position is not None  # noqa: S101 - sealed rows have one
    assert last.link is not None  # noqa: S101
    return sign_head(replace(head, base_position=last.position, base_link=last.link), key)
