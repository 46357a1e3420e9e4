"""Takes what xwheel's executors ship of their runs' logs, and answers with the line that each log lacks then."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Final

from xwheel.errors import DuplicateError
from xwheel.plugin import LogPart, LogReceipt, PluginDatabase, Reporter
from xwheel.storage.database.rows import chunks

from xwheel_run_logs import storage
from xwheel_run_logs.contract import LogChunk, LogKey
from xwheel_run_logs.storage import LogOwner, RunLogRow
from xwheel_run_logs.stores import CheckedStore, LogStores

TRIES: Final = 3
MAX_PARTS: Final = 500
"""Chunks in one call of a store, at most."""


class ShippedLogs:
    """Hands shipped lines to the log store.

    A log is taken from the executor instance that has the run, and only from a sender that may report the run. Its row
    is there before its first line is: what is in a store can always be found, and deleted.

    Thread-safety: any thread.

    Args:
        db: The database.
        stores: Where logs go.
    """

    def __init__(self, db: PluginDatabase, stores: LogStores) -> None:
        self._db = db
        self._stores = stores

    @property
    def is_wanted(self) -> bool:
        """Whether there is a store, so that executors shall ship."""
        return self._stores.chosen is not None

    def take(self, instance: str, parts: Sequence[LogPart], reporter: Reporter) -> list[LogReceipt]:
        """Keep parts of logs; return for each run how far its log is there.

        Args:
            instance: The executor instance that sends them.
            parts: Those of one run in their order; one without lines asks how far its log is.
            reporter: Who sends them.

        Raises:
            LogStoreError: The store failed; all is to be sent again later.
        """
        receipts: dict[int, LogReceipt] = {}
        for some in chunks(parts, MAX_PARTS):
            receipts |= self._take(instance, some, reporter)
        return list(receipts.values())

    def _take(self, instance: str, parts: Sequence[LogPart], reporter: Reporter) -> dict[int, LogReceipt]:
        with self._db.read() as conn:
            owners = storage.find_owners(conn, {part.run_id for part in parts})
        receipts: dict[int, LogReceipt] = {}
        wanted: list[tuple[LogPart, LogOwner]] = []
        for part in parts:
            owner = owners.get(part.run_id)
            why = _refusal(part, owner, instance, reporter)
            if why or owner is None or owner.ended:
                receipts[part.run_id] = LogReceipt(run_id=part.run_id, settled=True, message=why)
            else:
                wanted.append((part, owner))
        for store, found in self._by_store(wanted):
            if store is None:
                for part, owner in found:
                    text = f"the log store {owner.store!r} that has its beginning is not there any more"
                    receipts[part.run_id] = LogReceipt(run_id=part.run_id, settled=True, message=text)
            else:
                receipts |= self._keep(store, found)
        return receipts

    def _by_store(
        self, wanted: Sequence[tuple[LogPart, LogOwner]]
    ) -> list[tuple[CheckedStore | None, list[tuple[LogPart, LogOwner]]]]:
        """Return parts by where they go: a log that began in another store goes on there."""
        chosen = self._stores.chosen
        by_name: dict[str, list[tuple[LogPart, LogOwner]]] = defaultdict(list)
        for part, owner in wanted:
            by_name[owner.store or (chosen.name if chosen else "")].append((part, owner))
        return [(self._stores.find(name), found) for name, found in by_name.items()]

    def _keep(self, store: CheckedStore, found: Sequence[tuple[LogPart, LogOwner]]) -> dict[int, LogReceipt]:
        asked = {part.run_id: owner for part, owner in found if part.asks and owner.store}
        ends = {run_id: store.find(_key(owner)) for run_id, owner in asked.items()}
        receipts = {
            run_id: LogReceipt(
                run_id=run_id, next_line=end.next_line if end else 1, settled=end is not None and end.is_complete
            )
            for run_id, end in ends.items()
        }
        new = {owner.id: owner for part, owner in found if owner.store is None and not part.asks}
        for part, owner in found:
            if part.asks and not owner.store:
                receipts[part.run_id] = LogReceipt(run_id=part.run_id)
        pieces = [_chunk(part, owner) for part, owner in found if not part.asks]
        self._begin(store, list(new.values()))
        answers = store.append(pieces) if pieces else []
        ended = [run_id for run_id, receipt in receipts.items() if receipt.settled]
        for chunk, line in zip(pieces, answers, strict=True):
            is_over = chunk.is_last and line >= chunk.next_line
            receipts[chunk.key.run_id] = LogReceipt(run_id=chunk.key.run_id, next_line=line, settled=is_over)
            if is_over:
                ended.append(chunk.key.run_id)
        if ended:
            self._db.transaction(lambda conn: storage.end_logs(conn, ended))
        return receipts

    def _begin(self, store: CheckedStore, owners: Sequence[LogOwner]) -> None:
        """Write that these runs have a log in the store."""
        begun = [
            RunLogRow(
                id=owner.id,
                job_id=owner.job_id,
                partition=owner.partition,
                created_ms=owner.created_ms,
                store=store.name,
                ended=False,
                fetch_ms=None,
                delete_ms=self._stores.delete_ms(owner.created_ms, owner.log_days),
            )
            for owner in owners
        ]
        for left in range(TRIES if begun else 0, 0, -1):
            try:
                self._db.transaction(lambda conn: storage.add_logs(conn, begun))
            except DuplicateError:  # another node got the same lines at the same time
                if left == 1:
                    raise
            else:
                return


def _refusal(part: LogPart, owner: LogOwner | None, instance: str, reporter: Reporter) -> str:
    """Return why lines of a run are not taken from who sends them, or an empty text."""
    if owner is None or owner.created_ms != part.created_ms:
        return "no run has this id and time"
    if not instance or owner.instance != instance:
        return "the run is another executor's"
    if not reporter.may_report(owner.group_id, owner.secret_id):
        return "the run was sent under another secret"
    return ""


def _key(owner: LogOwner) -> LogKey:
    return LogKey(owner.id, owner.created_ms)


def _chunk(part: LogPart, owner: LogOwner) -> LogChunk:
    return LogChunk(
        key=_key(owner),
        job_id=owner.job_id,
        first_line=part.from_line,
        lines=part.content.count("\n"),
        text=part.content,
        is_last=part.is_end,
    )
