"""Chain committed rows of the audit each second, write heads out, and delete rows that are old.

The holder of partition 0 does it. The lease is no safety: the head's row is locked by each transaction, so that two
that seal at once make one chain. Writers of rows lock nothing and wait for no one.
"""

from __future__ import annotations

import logging
from itertools import takewhile
from typing import Final

from xwheel.clock import has_come
from xwheel.errors import DuplicateError, StorageError
from xwheel.plugin import PluginPartitions
from xwheel.storage.database.engine import Connection, Database
from xwheel.storage.retention import DAY_MS

from xwheel_accounts.audit.anchors import Anchors
from xwheel_accounts.audit.chain import are_linked, cut, first_head, is_signed, seal
from xwheel_accounts.audit.records import AuditHead
from xwheel_accounts.audit.signing import SigningKey, SigningKeys
from xwheel_accounts.audit.switching import is_all_linked, is_of, switch
from xwheel_accounts.storage import audit_chain

logger = logging.getLogger(__name__)

SEAL_MS: Final = 1000
BATCH: Final = 500
PAUSE_MS: Final = 10
"""Between two batches: others write, too."""

SWEEP_MS: Final = 60_000
"""Between two looks for rows that are old."""


REMIND_MS: Final = 600_000
BROKEN: Final = (
    "the head of the audit is gone, or not what was signed under the keys of this node, so nothing is sealed: run "
    "'xwheel audit verify'; if security.key_file was changed, put the old key below the new one"
)


FORGED: Final = (
    "the head of the audit is signed with the key in the database, although security.key_file is set and rows were "
    "sealed with its key, so nothing is sealed: somebody forged it, or put an old one back; run 'xwheel audit verify'"
)
REFUSED: Final = (
    "rows of the audit are signed with the key in the database although security.key_file is set, and are not sealed: "
    "nodes or commands run without that file, or somebody inserted them; 'xwheel audit verify' names them"
)
ALTERED: Final = (
    "rows at the front of the audit, behind position %d, are not what was sealed under the keys of this node, so no "
    "old rows are deleted: run 'xwheel audit verify'; if security.key_file was changed, put the old key below the new "
    "one"
)


class BrokenHeadError(StorageError):
    """The head of the audit, or what follows its base, is not what was signed: nothing is sealed, or deleted."""


class SealLoop:
    """Seals the audit.

    Args:
        db: The database.
        partitions: Those that this process holds.
        keys: The first one signs; a head must be signed by one of them.
        anchors: Writes heads out.
        retention_days: After how many days rows are deleted; 0 for never.
        batch: Rows in one transaction.
    """

    def __init__(
        self,
        db: Database,
        partitions: PluginPartitions,
        keys: SigningKeys,
        anchors: Anchors,
        *,
        retention_days: int = 0,
        batch: int = BATCH,
    ) -> None:
        self.sealed = 0
        self.deleted = 0
        self._db = db
        self._partitions = partitions
        self._keys = keys
        self._anchors = anchors
        self._retention_ms = retention_days * DAY_MS
        self._batch = batch
        self._sweep_at_ms = 0
        self._told: dict[str, int] = {}
        # what is kept next to the rows although there is a key file, and whether it was seen to sign no more
        self._beside = keys.beside
        self._is_switched = False

    def step(self, now_ms: int) -> int:
        """Seal a batch, or delete one; return how long to wait in milliseconds."""
        if 0 not in self._partitions.held():
            return SEAL_MS
        try:
            count = self.seal(now_ms)
            if count < self._batch and self._delete_old(now_ms) < self._batch:
                return SEAL_MS
        except BrokenHeadError as error:
            # no failure of the node, which goes on firing: somebody must look into it
            self._tell(str(error), now_ms)
            return SEAL_MS
        return PAUSE_MS

    def _tell(self, what: str, now_ms: int) -> None:
        told_ms = self._told.get(what)
        if told_ms is None or has_come(told_ms + REMIND_MS, now_ms, REMIND_MS):
            self._told[what] = now_ms
            logger.error("%s", what)

    def seal(self, now_ms: int) -> int:
        """Chain the committed rows, at most a batch of them; return how many.

        Raises:
            BrokenHeadError: The head was changed, or is gone.
        """
        beside = self._beside
        refused = None if beside is None else beside.name
        with self._db.read() as conn:
            waits, head = audit_chain.has_unsealed(conn, but=refused), audit_chain.find_head(conn)
            is_old = refused is not None and audit_chain.has_unsealed(conn, key_id=refused)
            if head is None and audit_chain.list_sealed(conn, audit_chain.BEFORE_ALL, 1):
                head = audit_chain.find_head(conn)  # another node may have begun the chain between both questions
                if head is None:
                    raise BrokenHeadError(BROKEN)
        count = 0
        if head is None and (waits or is_old):
            # by the key of the first rows: those of before a key file are sealed with their own
            head = self._begin(now_ms, beside if is_old and beside is not None else self._keys.first)
        if head is not None and is_of(head, beside):
            found = self._switch(head, now_ms)
            if found is None:
                return 0
            head, count = found
        elif head is not None and beside is not None:
            self._is_switched = self._is_switched or is_signed(head, self._keys)
            if is_old:
                self._tell(REFUSED, now_ms)
        if waits:
            head, sealed = self._db.transaction(lambda conn: self._seal(conn, now_ms, refused))
            count += sealed
        self.sealed += count
        if head is not None:
            self._anchors.note(head, now_ms)
        return count

    def _begin(self, now_ms: int, key: SigningKey) -> AuditHead | None:
        try:
            self._db.transaction(lambda conn: audit_chain.insert_head(conn, first_head(key, now_ms)))
        except DuplicateError:
            logger.info("another node began the chain of the audit")
        with self._db.read() as conn:
            return audit_chain.find_head(conn)

    def _switch(self, head: AuditHead, now_ms: int) -> tuple[AuditHead, int] | None:
        """Sign a chain again that the key in the database began.

        Returns:
            Its head, and how many rows were sealed; None if another node went on meanwhile.
        """
        key = self._beside
        assert key is not None  # noqa: S101 - the head names it
        if not is_signed(head, self._keys):
            raise BrokenHeadError(BROKEN)
        if self._is_switched or not is_all_linked(self._db, head, key):
            with self._db.read() as conn:
                if audit_chain.find_head(conn) == head:
                    raise BrokenHeadError(FORGED)
            return None
        found = self._db.transaction(lambda conn: self._switch_from(conn, head, now_ms))
        if found is not None:
            self._is_switched = True
            logger.info("the audit is signed with the key of the key file, behind position %d", found[0].position)
        return found

    def _switch_from(self, conn: Connection, seen: AuditHead, now_ms: int) -> tuple[AuditHead, int] | None:
        head = audit_chain.find_head(conn, lock=True)
        return switch(conn, seen, self._keys, now_ms, self._batch) if head == seen else None

    def _seal(self, conn: Connection, now_ms: int, refused: str | None) -> tuple[AuditHead, int]:
        head = self._locked(conn)
        rows = audit_chain.list_unsealed(conn, 0, self._batch, but=refused)
        if not rows:
            return head, 0
        for row in rows:
            if not is_signed(row, self._keys):
                logger.warning("row %d of the audit is not what was signed; 'xwheel audit verify' says more", row.id)
        head, places = seal(head, rows, self._keys.first, now_ms)
        audit_chain.seal_rows(conn, places)
        audit_chain.update_head(conn, head)
        return head, len(rows)

    def _locked(self, conn: Connection) -> AuditHead:
        head = audit_chain.find_head(conn, lock=True)
        if head is None or not is_signed(head, self._keys):
            raise BrokenHeadError(BROKEN)
        if is_of(head, self._beside):
            raise BrokenHeadError(FORGED)
        return head

    def _delete_old(self, now_ms: int) -> int:
        """Delete a batch of old rows, if it is time to look for such; return how many."""
        if not self._retention_ms or not has_come(self._sweep_at_ms, now_ms, SWEEP_MS):
            return 0
        try:
            count = self._db.transaction(lambda conn: self._delete(conn, now_ms - self._retention_ms))
        except BrokenHeadError:
            self._sweep_at_ms = now_ms + SWEEP_MS
            raise
        self.deleted += count
        if count < self._batch:
            self._sweep_at_ms = now_ms + SWEEP_MS
        return count

    def _delete(self, conn: Connection, before_ms: int) -> int:
        head = audit_chain.find_head(conn)
        if head is None or is_of(head, self._beside):
            return 0
        head = self._locked(conn)
        rows = audit_chain.list_sealed(conn, head.base_position + 1, self._batch)
        # only from the front, so that a clock that was ahead deletes nothing early
        old = list(takewhile(lambda row: row.at_ms < before_ms, rows))
        if not old:
            return 0
        if not are_linked(head, old, self._keys):
            # times that somebody changed, or rows that are not those which were sealed
            raise BrokenHeadError(ALTERED % head.base_position)
        head = cut(head, old[-1], self._keys.first)
        audit_chain.delete_sealed(conn, head.base_position)
        audit_chain.update_head(conn, head)
        logger.info("deleted %d old rows of the audit, up to position %d", len(old), head.base_position)
        return len(old)
