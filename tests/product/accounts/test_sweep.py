"""What is over is deleted: sessions, wrong passwords of yesterday, links that were not used."""

from __future__ import annotations

from sqlalchemy import select
from xwheel_accounts.storage import accounts, links, sessions
from xwheel_accounts.storage.sessions import Failures
from xwheel_accounts.sweep import Sweep
from xwheel_accounts.tables import account_session, sign_in_failure, sign_in_link
from xwheel_devtools.testing import ManualClock

from tests.product.accounts.audit.conftest import HeldPartitions
from tests.support.rows import NOW
from xwheel.model.access import ALL
from xwheel.storage.database.engine import Database
from xwheel.storage.retention import DAY_MS

HOUR_MS = 3_600_000
BATCH = 10


def sweep_of(db: Database, clock: ManualClock, *partitions: int) -> Sweep:
    return Sweep(db, HeldPartitions(*partitions), clock, interval_ms=HOUR_MS, batch=BATCH)


def run(sweep: Sweep, clock: ManualClock, steps: int = 20) -> None:
    for _ in range(steps):
        clock.advance(min(sweep.step(clock.now_ms()), 1000))


def test_links_that_sign_in_go_once_they_ended(db: Database) -> None:
    clock = ManualClock(NOW)
    for number in range(25):  # more than a batch
        end_ms = NOW - 1 if number else NOW + HOUR_MS
        db.transaction(lambda conn, n=number, at=end_ms: links.insert_link(conn, f"link {n}", n, at))
    run(sweep_of(db, clock, 0), clock)
    with db.read() as conn:
        assert list(conn.execute(select(sign_in_link.c.account_id)).scalars()) == [0]


def test_sessions_and_wrong_passwords_go_too(db: Database) -> None:
    clock = ManualClock(NOW)
    made = db.transaction(lambda conn: accounts.insert_account(conn, "ann", ALL, NOW))
    for number, end_ms in enumerate((NOW - 1, NOW + HOUR_MS)):
        db.transaction(
            lambda conn, n=number, at=end_ms: sessions.insert_session(
                conn, f"secret {n}", made.id, NOW - 5, expires_ms=at, provider="local", address="", network="", agent=""
            )
        )
    for key, last_ms in (("name:old", NOW - DAY_MS - 1), ("name:new", NOW - DAY_MS + HOUR_MS)):
        db.transaction(lambda conn, k=key, at=last_ms: sessions.save_failures(conn, k, Failures(1, 0, at), is_new=True))
    run(sweep_of(db, clock, 0), clock)
    with db.read() as conn:
        assert list(conn.execute(select(account_session.c.expires_ms)).scalars()) == [NOW + HOUR_MS]
        assert list(conn.execute(select(sign_in_failure.c.id)).scalars()) == ["name:new"]


def test_only_the_holder_of_partition_0_deletes_and_only_when_it_is_time(db: Database) -> None:
    clock = ManualClock(NOW)
    db.transaction(lambda conn: links.insert_link(conn, "old", 1, NOW - 1))
    others = sweep_of(db, clock, 1, 2)
    run(others, clock)
    assert others.deleted == 0
    mine = sweep_of(db, clock, 0)
    run(mine, clock)
    assert mine.deleted == 1
    db.transaction(lambda conn: links.insert_link(conn, "older", 1, NOW - 2))
    run(mine, clock)
    assert mine.deleted == 1
    clock.advance(HOUR_MS)
    run(mine, clock)
    assert mine.deleted == 2
