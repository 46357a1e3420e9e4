"""Find what was changed in the audit, removed from it, inserted or cut off. Pure: rows in, findings out.

What can be proven: a row that is sealed cannot be changed, removed or inserted without the key; rows at the end can be
cut off only together with an old head that somebody kept, which an anchor shows. A row that is not sealed yet, for a
second or so, can be removed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Final

import msgspec

from xwheel_accounts.audit.chain import FIRST_LINK, LinkKeys, is_signed
from xwheel_accounts.audit.records import AuditHead, AuditRow
from xwheel_accounts.audit.signing import SigningKeys

MOST_FINDINGS: Final = 100
"""Findings that are kept; more are counted."""

DAY_MS: Final = 86_400_000
SLACK_MS: Final = 3_600_000
"""Rows are sealed after they were written, and clocks differ."""

WEAK: Final = (
    "is signed with the key in the database, although rows before it were sealed with that of the key file: it was "
    "inserted, or written by a node or command without that file"
)


class AuditFindingKind(StrEnum):
    """What is wrong."""

    CHANGED = "changed"
    REMOVED = "removed"
    INSERTED = "inserted"
    CUT = "cut"
    HEAD = "head"
    ANCHOR = "anchor"
    KEY = "key"


class AuditFinding(msgspec.Struct, frozen=True, kw_only=True):
    """Something that is wrong.

    Attributes:
        row_id: The row, if it is there.
        position: Its place in the chain, or the first one that is missing.
        what: What is wrong, in words.
    """

    kind: AuditFindingKind
    row_id: int | None = None
    position: int | None = None
    what: str


class Retention(msgspec.Struct, frozen=True, kw_only=True):
    """How long rows are kept.

    Attributes:
        days: After how many days they are deleted; 0 for never.
        now_ms: Now.
    """

    days: int
    now_ms: int

    def keeps(self, anchor: AuditHead, head: AuditHead) -> bool:
        """Return whether rows that an anchor was written after were deleted before their time."""
        kept_ms = self.now_ms - self.days * DAY_MS + SLACK_MS
        return anchor.position <= head.base_position and anchor.sealed_ms > kept_ms


class VerifyReport(msgspec.Struct, frozen=True, kw_only=True):
    """What a verification found.

    Attributes:
        findings: The first of them, in the order of the chain.
        total: How many there are.
        sealed: Sealed rows that were read.
        unsealed: Rows that are not sealed yet: no one can prove that none was removed.
        oldest_unsealed_ms: When the oldest of these was written; None for none.
        kept_beside: Rows signed with the key in the database, which anyone who can change rows can read.
        base_position: Rows up to this one were deleted as old.
        position: The last sealed row.
        link: Its link.
        anchors: Anchors that were compared.
        anchors_below: Anchors of rows that were deleted as old, which are compared with nothing.
    """

    findings: Sequence[AuditFinding]
    total: int
    sealed: int
    unsealed: int
    oldest_unsealed_ms: int | None
    kept_beside: int
    base_position: int
    position: int
    link: str
    anchors: int
    anchors_below: int

    @property
    def is_sound(self) -> bool:
        """Return whether nothing is wrong."""
        return not self.total


class Verifier:
    """Goes through the chain, batch by batch; keeps no rows.

    Args:
        keys: What may have signed.
        head: The head when the verification began, None if there is none.
        anchors: Heads that were written out, by whom the database's administrator cannot change.
        retention: How long rows are kept, and now; None if that is not known.
    """

    def __init__(
        self,
        keys: SigningKeys,
        head: AuditHead | None,
        anchors: Sequence[AuditHead] = (),
        retention: Retention | None = None,
    ) -> None:
        self._keys = keys
        self._retention = retention
        self._links = LinkKeys(keys)
        self._findings: list[AuditFinding] = []
        self._total = self._sealed = self._unsealed = self._kept_beside = self._compared = self._below = 0
        self._oldest_ms: int | None = None
        self._unknown: Counter[str] = Counter()
        # kept in the database although there is a key file, and whether rows or anchors were signed with the file's
        self._beside = keys.beside
        self._has_better = False
        self._head = head
        self._check_head(head)
        self._base = 0 if head is None else head.base_position
        self.position = self._base
        """The last position that was read."""

        # what the next row may be linked to; None for anything, after rows that retention deleted meanwhile
        self._previous: set[str] | None = {self._first_link(head)}
        self._last_link = self._first_link(head)
        self._anchors = self._read_anchors(anchors)

    def add(self, rows: Sequence[AuditRow], copies: Mapping[int, int], head: AuditHead | None) -> None:
        """Take the next sealed rows, in the order of the chain.

        Args:
            rows: The rows.
            copies: Which of them are copies of other rows: id to the other's id.
            head: The head as it was read after them: retention may have gone on meanwhile.
        """
        self._head = head
        for row in rows:
            self._add(row, copies.get(row.id), head)

    def add_unsealed(self, rows: Sequence[AuditRow], copies: Mapping[int, int]) -> None:
        """Take rows that are not sealed yet."""
        for row in rows:
            self._unsealed += 1
            self._oldest_ms = row.at_ms if self._oldest_ms is None else min(self._oldest_ms, row.at_ms)
            if row.id in copies:
                self._find(AuditFindingKind.INSERTED, row, f"is a copy of row {copies[row.id]}")
            elif not self._knows_key_of(row):
                continue
            elif not is_signed(row, self._keys):
                self._find(
                    AuditFindingKind.INSERTED,
                    row,
                    "is not sealed yet, and not what was signed: it was inserted or changed",
                )
            elif self._is_beside(row) and self._is_switched():
                self._find(AuditFindingKind.KEY, row, f"is not sealed yet, and {WEAK}")

    def is_behind(self, head: AuditHead | None) -> bool:
        """Return whether there must be sealed rows that were not read yet."""
        return head is not None and self.position < head.position

    def end(self, head: AuditHead | None) -> VerifyReport:
        """Compare with the head as it is now, and return what was found."""
        self._check_end(head)
        self._check_anchors_behind()
        self._check_base(head)
        for name, count in self._unknown.items():
            self._note(
                AuditFindingKind.KEY,
                None,
                None,
                f"{count} rows are signed under key {name}, which is not among the keys given: they prove nothing",
            )
        return VerifyReport(
            findings=self._findings,
            total=self._total,
            sealed=self._sealed,
            unsealed=self._unsealed,
            oldest_unsealed_ms=self._oldest_ms,
            kept_beside=self._kept_beside,
            base_position=self._base,
            position=self.position,
            link=self._last_link,
            anchors=self._compared,
            anchors_below=self._below,
        )

    def _add(self, row: AuditRow, copied: int | None, head: AuditHead | None) -> None:
        self._sealed += 1
        position, link = row.position or 0, row.link or ""
        if position <= self.position:
            self._find(
                AuditFindingKind.INSERTED, row, "has a place that is another row's, or one that was deleted as old"
            )
            return
        self._check_gap(row, position, head)
        self._check_content(row, position, link, copied)
        self.position, self._last_link = position, link
        self._compare_anchor(row, position, link)

    def _check_gap(self, row: AuditRow, position: int, head: AuditHead | None) -> None:
        first = self.position + 1
        if position == first:
            return
        base = 0 if head is None or not self._is_trusted(head) else head.base_position
        if position > base + 1:
            gone = f"{first}" if position == first + 1 else f"{first} to {position - 1}"
            self._note(
                AuditFindingKind.REMOVED,
                None,
                max(first, base + 1),
                f"the rows of positions {gone} were removed, before row {row.id}",
            )
        self._previous = {head.base_link} if head is not None and position == base + 1 else None

    def _check_content(self, row: AuditRow, position: int, link: str, copied: int | None) -> None:
        if not self._knows_key_of(row):
            self._previous = {link}
            return
        is_right = is_signed(row, self._keys)
        is_linked = self._is_linked(row, position, link)
        if copied is not None:
            self._find(AuditFindingKind.INSERTED, row, f"is a copy of row {copied}")
        elif not is_right:
            self._find(
                AuditFindingKind.CHANGED, row, "was changed, or inserted without the key: it is not what was signed"
            )
        elif not is_linked:
            self._find(
                AuditFindingKind.CHANGED,
                row,
                "does not follow the row before: its id, place, signature or link was changed",
            )
        elif self._is_beside(row) and self._links.is_switched:
            self._find(AuditFindingKind.KEY, row, WEAK)
        known = self._previous or set()
        # where only the link was changed, the next row follows what it was
        self._previous = {link} if is_linked else {link, *self._links.would_be(sorted(known)[:2], position, row)}

    def _is_linked(self, row: AuditRow, position: int, link: str) -> bool:
        if self._previous is None:
            return True
        return self._links.has_linked(self._previous, position, row, link)

    def _knows_key_of(self, row: AuditRow) -> bool:
        key = self._keys.find(row.key_id)
        if key is None:
            self._unknown[row.key_id[:64]] += 1
            return False
        self._kept_beside += key.is_kept_beside
        self._has_better = self._has_better or (row.position is not None and not key.is_kept_beside)
        return True

    def _is_beside(self, item: AuditRow | AuditHead) -> bool:
        return self._beside is not None and item.key_id == self._beside.name

    def _is_switched(self) -> bool:
        """Return whether the chain went on with a key file: what the key in the database signs since counts no more."""
        return (
            self._has_better
            or self._links.is_switched
            or (self._head is not None and not self._is_beside(self._head) and is_signed(self._head, self._keys))
        )

    def _is_trusted(self, head: AuditHead) -> bool:
        return is_signed(head, self._keys) and not (self._is_beside(head) and self._links.is_switched)

    def _check_head(self, head: AuditHead | None) -> None:
        if head is not None and not is_signed(head, self._keys):
            self._note(AuditFindingKind.HEAD, None, head.position, "the head was changed: it is not what was signed")

    def _check_end(self, head: AuditHead | None) -> None:
        if head is None:
            if self._sealed:
                self._note(AuditFindingKind.HEAD, None, None, "the head was removed: there are sealed rows")
            return
        if not is_signed(head, self._keys):
            return
        if self._is_beside(head) and (self._has_better or self._links.is_switched):
            self._note(
                AuditFindingKind.HEAD,
                None,
                head.position,
                "the head is signed with the key in the database, although rows or anchors are signed with that of the "
                "key file: it was forged, or not all nodes were restarted with the key file",
            )
        if head.position > self.position:
            gone = max(self.position, head.base_position) + 1
            if gone <= head.position:
                self._note(
                    AuditFindingKind.CUT,
                    None,
                    gone,
                    f"the rows of positions {gone} to {head.position} were removed from the end",
                )
        elif head.position < self.position:
            self._note(
                AuditFindingKind.HEAD,
                None,
                head.position + 1,
                f"the head says that {head.position} is the last position, and there are rows up to {self.position}: "
                "they were inserted, or the head is an old one",
            )
        elif head.link != self._last_link:
            self._note(
                AuditFindingKind.HEAD,
                None,
                head.position,
                "the last row's link is not the head's: one of them was changed",
            )

    def _first_link(self, head: AuditHead | None) -> str:
        return FIRST_LINK if head is None else head.base_link

    def _read_anchors(self, anchors: Sequence[AuditHead]) -> dict[int, AuditHead]:
        found: dict[int, AuditHead] = {}
        for number, anchor in enumerate(anchors, 1):
            if not is_signed(anchor, self._keys):
                self._note(
                    AuditFindingKind.ANCHOR,
                    None,
                    anchor.position,
                    f"anchor {number} is not signed by one of the keys given",
                )
                continue
            self._has_better = self._has_better or not self._is_beside(anchor)
            other = found.setdefault(anchor.position, anchor)
            if other.link != anchor.link:
                self._note(
                    AuditFindingKind.ANCHOR,
                    None,
                    anchor.position,
                    f"two anchors of position {anchor.position} differ: the chain was written twice",
                )
        return found

    def _compare_anchor(self, row: AuditRow, position: int, link: str) -> None:
        anchor = self._anchors.pop(position, None)
        if anchor is None:
            return
        self._compared += 1
        if anchor.link != link:
            self._find(
                AuditFindingKind.ANCHOR,
                row,
                "is not what its anchor says: the chain was written again up to here or before",
            )

    def _check_anchors_behind(self) -> None:
        """Compare the anchors whose row was not met: those of removed rows, and of an end that was cut off."""
        behind = [anchor for position, anchor in self._anchors.items() if position > self.position]
        if behind:
            last = max(behind, key=lambda anchor: anchor.position)
            self._compared += len(behind)
            self._note(
                AuditFindingKind.CUT,
                None,
                self.position + 1,
                f"the rows of positions {self.position + 1} to {last.position} were removed from the end: an anchor "
                "knows them",
            )

    def _check_base(self, head: AuditHead | None) -> None:
        """Compare what was deleted as old with the anchors of these rows, and with how long rows are kept."""
        if head is None or not self._is_trusted(head):
            return
        for position, anchor in sorted(self._anchors.items()):
            if position < head.base_position:
                self._below += 1
            elif position == head.base_position:
                self._compared += 1
                if anchor.link != head.base_link:
                    self._note(
                        AuditFindingKind.ANCHOR,
                        None,
                        position,
                        f"the head's base, position {position}, is not what its anchor says: the chain is another one",
                    )
        if self._retention is None or not head.base_position:
            return
        if not self._retention.days:
            self._note(
                AuditFindingKind.REMOVED,
                None,
                1,
                f"the rows up to position {head.base_position} were deleted as old, although audit.retention_days is 0",
            )
            return
        young = [anchor for anchor in self._anchors.values() if self._retention.keeps(anchor, head)]
        if young:
            first = min(young, key=lambda anchor: anchor.position)
            self._note(
                AuditFindingKind.REMOVED,
                None,
                first.position,
                f"the rows up to position {head.base_position} were deleted as old, although the anchor of position "
                f"{first.position} is younger than audit.retention_days",
            )

    def _find(self, kind: AuditFindingKind, row: AuditRow, what: str) -> None:
        self._note(kind, row.id, row.position, f"row {row.id} {what}")

    def _note(self, kind: AuditFindingKind, row_id: int | None, position: int | None, what: str) -> None:
        self._total += 1
        if len(self._findings) < MOST_FINDINGS:
            self._findings.append(AuditFinding(kind=kind, row_id=row_id, position=position, what=what))
