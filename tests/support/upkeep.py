"""What tests of the upkeep need: a lease that says what it is told, and many runs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from xwheel.model import Run
from xwheel.storage import runs
from xwheel.storage.database.engine import Connection, Database

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


class GivenLease:
    """A lease on the partitions that a test names."""

    def __init__(self, *partitions: int) -> None:
        self.epochs: Mapping[int, int] = dict.fromkeys(partitions or (0,), 1)
        self.is_valid = True

    def lock(self, conn: Connection) -> Mapping[int, int]:
        del conn
        return self.epochs

    def held(self) -> Collection[int]:
        return self.epochs if self.is_valid else ()

    def may_act(self, margin_ms: int = 0) -> bool:
        del margin_ms
        return self.is_valid


def all_runs(db: Database) -> list[Run]:
    with db.read() as conn:
        return runs.list_runs(conn, limit=1_000_000)


def insert(db: Database, items: Iterable[Run]) -> None:
    db.transaction(lambda conn: runs.insert_runs(conn, list(items)))
