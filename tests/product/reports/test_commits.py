"""A connection breaks at COMMIT, where no one can know, or before: the next count makes the report right."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from xwheel_reports.counting import ReportLoop
from xwheel_reports.storage import HOUR_MS

from tests.faults.conftest import breakable, server_url
from tests.faults.injectors.proxy import Cut, Proxy, before
from tests.product.reports.recount import recount, stored
from tests.support.rows import NOW, make_run
from tests.support.upkeep import GivenLease, all_runs, insert
from xwheel.clock import ManualClock
from xwheel.errors import DatabaseUnreachableError
from xwheel.model import RunState
from xwheel.storage.database.engine import Database

__all__ = ["breakable", "server_url"]


@pytest.fixture
def cut_off(server_url: str) -> Iterator[tuple[Database, Proxy]]:
    """A database behind the proxy."""
    with before(server_url) as (url, proxy):
        db = Database(url)
        yield db, proxy
        db.close()


@pytest.mark.parametrize("where", Cut)
def test_a_count_whose_commit_broke_is_made_good(cut_off: tuple[Database, Proxy], where: Cut) -> None:
    db, proxy = cut_off
    states = [RunState.SUCCEEDED, RunState.FAILED, RunState.LOST]
    insert(
        db, [make_run(number, job_id=1 + number % 5, due_ms=NOW, state=states[number % 3]) for number in range(1, 40)]
    )
    loop = ReportLoop(db, GivenLease(), ManualClock(NOW), interval_ms=60_000)
    hour_ms = NOW - NOW % HOUR_MS
    proxy.cut_next_commit(where)
    with pytest.raises(DatabaseUnreachableError):
        loop.refresh(hour_ms, NOW)
    assert bool(stored(db, [hour_ms])) is (where is Cut.AFTER)
    loop.refresh(hour_ms, NOW)
    assert stored(db, [hour_ms]) == recount(all_runs(db))
