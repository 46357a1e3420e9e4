"""An audit with rows, its keys, and a loop that seals them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from pathlib import Path

import pytest
from sqlalchemy import func, select, text
from xwheel_accounts.audit.anchors import Anchors
from xwheel_accounts.audit.sealing import SealLoop
from xwheel_accounts.audit.signing import SigningKeys
from xwheel_accounts.audit.trail import signing_keys
from xwheel_accounts.settings import AuditSection
from xwheel_accounts.tables import audit

from tests.product.accounts.trails import trail_of
from xwheel.clock import ManualClock
from xwheel.model.deeds import Deed
from xwheel.runtime.sealing import KeyRing, make_key
from xwheel.storage.database.engine import Database

NOW = 1_800_000_000_000


class HeldPartitions:
    """The partitions that a test says."""

    def __init__(self, *partitions: int) -> None:
        self.mine: Collection[int] = partitions
        self.acts = True

    def held(self) -> Collection[int]:
        return self.mine if self.acts else ()

    def lock(self, conn: object) -> Collection[int]:
        del conn
        return self.held()


class World:
    """A database with an audit.

    Attributes:
        sealer: Seals it.
    """

    def __init__(self, db: Database, keys: SigningKeys, folder: Path) -> None:
        self.db, self.keys = db, keys
        self.clock = ManualClock(NOW)
        self.trail = trail_of(db, self.clock, keys)
        self.anchor_file = folder / "anchors" / "audit.jsonl"
        self.partitions = HeldPartitions(0)
        self.sealer = self.new_sealer()

    def new_sealer(self, keys: SigningKeys | None = None, *, retention_days: int = 0, batch: int = 4) -> SealLoop:
        settings = AuditSection(anchor_file=self.anchor_file, anchor_every_s=1)
        return SealLoop(
            self.db, self.partitions, keys or self.keys, Anchors(settings), retention_days=retention_days, batch=batch
        )

    def write(self, count: int) -> None:
        """Record this many changes, one a millisecond."""
        for number in range(count):
            self.clock.advance(1)
            entry = Deed(action="job.edit", kind="job", object_id=number, before={"name": "a"}, after={"name": "b"})
            self.db.transaction(lambda conn, entry=entry: self.trail.record_many(conn, [entry]))

    def seal(self) -> None:
        """Seal whatever there is."""
        while self.sealer.seal(self.clock.now_ms()):
            pass

    def run(self, *statements: str) -> None:
        """Do with SQL what somebody with the database's password can do."""
        with self.db.write() as conn:
            for statement in statements:
                conn.execute(text(statement))

    def ids(self) -> Sequence[int]:
        """Return the ids of sealed rows in the order of the chain."""
        with self.db.read() as conn:
            query = select(audit.c.id).where(audit.c.position.is_not(None)).order_by(audit.c.position)
            return list(conn.execute(query).scalars())

    def waiting(self) -> int:
        """Return how many rows are not sealed."""
        with self.db.read() as conn:
            query = select(func.count()).select_from(audit).where(audit.c.position.is_(None))
            return int(conn.execute(query).scalar_one())


@pytest.fixture
def world(db: Database, tmp_path: Path) -> World:
    return World(db, signing_keys(db, KeyRing([make_key()])), tmp_path)


@pytest.fixture
def world_with(db: Database, tmp_path: Path) -> Callable[[KeyRing], World]:
    """Give a world with keys of the test's choice."""
    return lambda ring: World(db, signing_keys(db, ring), tmp_path)
