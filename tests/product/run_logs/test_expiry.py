"""Logs are deleted from their store when their time is over, and with their run."""

from __future__ import annotations

import pytest
from xwheel_devtools.testing import sample_log_chunk
from xwheel_run_logs import LogKey, storage
from xwheel_run_logs.storage import RunLogRow

from tests.product.run_logs.node import LogNode
from tests.product.run_logs.stores import MemoryStore, fails
from tests.support.rows import NOW, make_run
from xwheel.clock import ManualClock
from xwheel.model import RunState
from xwheel.storage import runs
from xwheel.storage.database.engine import Database
from xwheel.storage.retention import DAY_MS

OLD = NOW - 10 * DAY_MS
SETTINGS = {
    "run_logs": {"store": "memory", "retention_days": 5},
    "upkeep": {"sweep_interval_s": 1, "run_retention_days": 20},
}


class Site:
    """A node with logs in a store."""

    def __init__(self, db: Database) -> None:
        self.clock = ManualClock(NOW)
        self.store = MemoryStore()
        self.node = LogNode(db, self.clock, stores=[self.store], **SETTINGS)
        self.node.group()
        self.job = self.node.job(enabled=False)
        self._ids = 0

    def add(
        self, created_ms: int, job_id: int | None = None, store: str = "memory", state: RunState = RunState.SUCCEEDED
    ) -> int:
        """Make a log as it is when it begins, with its run, which succeeded."""
        self._ids += 1
        job = self.job if job_id is None else self.node.load(job_id)
        stores = self.node.kept.stores
        run = make_run(
            self._ids,
            job_id=job.id,
            state=state,
            created_ms=created_ms,
            due_ms=created_ms,
            finished_ms=created_ms,
            origin_key=self._ids,
        )
        row = RunLogRow(
            run.id,
            job.id,
            job.partition,
            created_ms,
            store,
            True,
            None,
            stores.delete_ms(created_ms, job.log_retention_days),
        )
        self.node.db.transaction(lambda conn: runs.insert_runs(conn, [run]))
        self.node.db.transaction(lambda conn: storage.add_logs(conn, [row]))
        self.store.append([sample_log_chunk(LogKey(run.id, created_ms), 1, ["line"])])
        return run.id

    def sweep(self) -> None:
        for _ in range(20):
            self.clock.advance(max(1, self.node.expiring.step(self.clock.now_ms())))
            self.node.keep_lease()

    def kept(self) -> set[int]:
        """Return the runs with a row, which are those with lines."""
        with self.node.db.read() as conn:
            rows = {number for number in range(1, self._ids + 1) if storage.find_log(conn, number)}
        assert rows == {key.run_id for key in self.store.logs}
        return rows


@pytest.fixture
def site(db: Database) -> Site:
    return Site(db)


def test_old_logs_go_and_young_ones_stay(site: Site) -> None:
    site.add(OLD)
    young = site.add(NOW - DAY_MS)
    site.sweep()
    assert site.kept() == {young}


def test_a_job_has_a_retention_of_its_own_also_when_it_is_changed(site: Site) -> None:
    longer = site.node.job(enabled=False, name="longer", log_retention_days=30)
    changed = site.node.job(enabled=False, name="changed", log_retention_days=30)
    site.add(OLD)
    kept, shorter, young = site.add(OLD, longer.id), site.add(OLD, changed.id), site.add(NOW, changed.id)
    site.sweep()
    assert site.kept() == {kept, shorter, young}
    site.node.scheduler.management.jobs.edit(changed.id, {"log_retention_days": 1})
    site.sweep()
    assert site.kept() == {kept, young}


def test_a_job_that_keeps_its_logs_longer_than_it_did_keeps_those_that_are_there(site: Site) -> None:
    log = site.add(OLD)
    site.node.scheduler.management.jobs.edit(site.job.id, {"log_retention_days": 12})
    site.sweep()
    assert site.kept() == {log}
    with site.node.db.read() as conn:
        row = storage.find_log(conn, log)
    assert row is not None
    assert row.delete_ms == OLD + 12 * DAY_MS  # and not read again until then
    site.clock.advance(3 * DAY_MS)
    site.node.keep_lease()
    site.sweep()
    assert site.kept() == set()


def test_a_log_goes_with_its_run(site: Site) -> None:
    job = site.node.job(enabled=False, log_retention_days=3000)
    site.add(NOW - 30 * DAY_MS, job.id)
    kept = site.add(OLD, job.id)
    site.sweep()
    assert len(site.kept()) == 2
    retention = site.node.scheduler.management.retention
    for _ in range(20):
        site.clock.advance(max(1, retention.step(site.clock.now_ms())))
        site.node.keep_lease()
    site.sweep()
    assert site.kept() == {kept}


def test_what_a_store_cannot_delete_is_tried_again(site: Site) -> None:
    log = site.add(OLD)
    site.store.trouble = fails
    site.sweep()
    site.store.trouble = lambda: None
    assert site.kept() == {log}
    site.sweep()
    assert site.kept() == {log}  # not at once: it may be away for long
    site.clock.advance(600_000)
    site.node.keep_lease()
    site.sweep()
    assert site.kept() == set()


def test_logs_of_a_store_that_is_not_there_stay(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    log = site.add(OLD, store="gone")
    gone = site.add(OLD)
    site.sweep()
    assert "1 old logs stay: their log store 'gone' is not there any more" in caplog.text
    assert site.kept() == {log}
    assert gone not in site.kept()


def test_the_log_of_an_open_run_stays(site: Site) -> None:
    log = site.add(OLD, state=RunState.RUNNING)
    site.add(OLD)
    site.sweep()
    assert site.kept() == {log}


def test_many_logs_go_in_batches(site: Site) -> None:
    for _ in range(20):
        site.add(OLD)
    site.sweep()
    assert site.kept() == set()
    assert len(site.store.deleted) == 20


def test_a_node_without_the_first_partition_deletes_nothing(site: Site) -> None:
    log = site.add(OLD)
    site.node.crash()
    site.clock.advance(60_000)
    for _ in range(20):
        site.clock.advance(max(1, site.node.expiring.step(site.clock.now_ms())))
    assert site.kept() == {log}
