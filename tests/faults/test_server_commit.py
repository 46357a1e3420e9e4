"""A connection breaks at COMMIT, where no one can know: the rows tell, and nothing is lost or doubled."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.faults.injectors.proxy import Cut, Proxy, before
from tests.support.node import HandNode
from tests.support.rows import NOW
from xwheel.clock import ManualClock
from xwheel.errors import DatabaseUnreachableError
from xwheel.model import MisfirePolicy, Origin, RunState
from xwheel.scheduler.finish.finish import OutcomeStatus
from xwheel.scheduler.records import Outcome
from xwheel.storage.database.engine import CommitUnknownError, Database

FOREIGN = {"kind": "foreign", "instance": ""}


@pytest.fixture
def cut_off(server_url: str) -> Iterator[tuple[Database, Proxy]]:
    """A database behind the proxy."""
    with before(server_url) as (url, proxy):
        db = Database(url)
        yield db, proxy
        db.close()


def make_node(db: Database, **facts: Any) -> HandNode:
    node = HandNode(db, ManualClock(NOW))
    node.group()
    node.register("http://127.0.0.1:9001/", **facts)
    return node


@pytest.mark.parametrize("where", Cut)
def test_a_claim_is_planned_once(cut_off: tuple[Database, Proxy], where: Cut) -> None:
    db, proxy = cut_off
    node = make_node(db)
    node.scheduler.core.run_ids.ensure(10_000)
    job = node.job(schedule_conf="1")
    proxy.cut_next_commit(where)
    with pytest.raises(CommitUnknownError, match="not known"):
        node.scheduler.planning.claim.step(NOW)
    assert len(node.runs()) == (5 if where is Cut.AFTER else 0)
    node.scheduler.planning.adopt.wakeups.note_failure()  # as its thread does after a failure
    node.plan()
    planned = [run.planned_ms for run in node.runs(job.id)]
    assert planned == sorted(set(planned))
    assert len(planned) == 5
    # those that memory never saw are there in time, not only once they are overdue
    node.tick()
    assert all(node.scheduler.planning.tick.is_held(run.id) for run in node.runs())
    node.run_for(4000, each=node.answer)
    fired = Counter(run.state for run in node.runs() if run.due_ms <= node.clock.now_ms())
    assert set(fired) == {RunState.RUNNING}


@pytest.mark.parametrize("where", Cut)
@pytest.mark.parametrize("facts", [{}, FOREIGN], ids=["xwheel", "foreign"])
def test_a_fence_sends_once_what_it_wrote(
    cut_off: tuple[Database, Proxy], where: Cut, facts: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    db, proxy = cut_off
    node = make_node(db, **facts)
    runs = [node.scheduler.management.run_now.run(node.job(enabled=False, name=f"job {n}").id) for n in range(3)]
    node.plan()
    proxy.cut_next_commit(where)
    node.tick(1)
    assert proxy.cuts == 1
    sent = [shard.run.id for parcel in node.sent for shard in parcel.shards]
    assert sorted(sent) == sorted(run.id for run in runs)
    assert {run.state for run in node.runs()} == {RunState.DISPATCHING}
    assert (" was committed:" in caplog.text) is (where is Cut.AFTER)
    node.answer()
    assert {run.state for run in node.runs()} == {RunState.RUNNING}
    node.tick(1000)
    assert node.sent == []


def test_a_fence_that_stays_unknown_is_asked_about_and_never_sent_twice(
    cut_off: tuple[Database, Proxy], monkeypatch: pytest.MonkeyPatch
) -> None:
    db, proxy = cut_off
    node = make_node(db)
    node.scheduler.management.run_now.run(node.job(enabled=False).id)
    node.plan()

    def fail(*_: object) -> None:
        raise DatabaseUnreachableError("still away")

    with monkeypatch.context() as patch:
        patch.setattr("xwheel.scheduler.fire.fence.Fence._recall", fail)
        proxy.cut_next_commit(Cut.AFTER)
        with pytest.raises(DatabaseUnreachableError):
            node.tick(1)
    assert node.sent == []
    assert not any(node.scheduler.sending.pool.in_flight().values())
    (run,) = node.runs()
    assert run.state is RunState.DISPATCHING
    node.run_for(12_000)
    (parcel,) = node.sent
    assert parcel.again  # the same id, which the executor's journal knows if it ever came
    node.answer()
    assert [run.state for run in node.runs()] == [RunState.RUNNING]


@pytest.mark.parametrize("where", Cut)
def test_an_outcome_is_acknowledged_only_once_it_is_there(cut_off: tuple[Database, Proxy], where: Cut) -> None:
    db, proxy = cut_off
    node = make_node(db)
    node.scheduler.management.run_now.run(node.job(enabled=False, max_retries=1).id)
    node.plan()
    node.tick(1)
    (run,) = node.answer()
    proxy.cut_next_commit(where)
    verdicts = node.scheduler.finishing.finisher.finish([Outcome(run_id=run.id, state=RunState.FAILED, code=500)])
    assert proxy.cuts == 1
    assert verdicts == {run.id: OutcomeStatus.REPEATED if where is Cut.AFTER else OutcomeStatus.FINISHED}
    assert sorted(str(run.origin) for run in node.runs()) == sorted([Origin.API, Origin.RETRY])


@pytest.mark.parametrize("where", Cut)
def test_answers_are_kept_until_they_are_written(cut_off: tuple[Database, Proxy], where: Cut) -> None:
    db, proxy = cut_off
    node = make_node(db)
    (run,) = [node.scheduler.management.run_now.run(node.job(enabled=False).id)]
    node.plan()
    node.tick(1)
    proxy.cut_next_commit(where)
    with pytest.raises(CommitUnknownError):
        node.answer()
    assert node.scheduler.sending.results.is_held(run.id)
    assert node.scheduler.sending.results.pending() == 1
    node.scheduler.sending.results.step(node.clock.now_ms())
    assert [run.state for run in node.runs()] == [RunState.RUNNING]
    assert not node.scheduler.sending.results.is_held(run.id)
    assert not any(node.scheduler.sending.pool.in_flight().values())


@pytest.mark.parametrize("where", Cut)
def test_a_renewal_counts_only_once_it_is_known(cut_off: tuple[Database, Proxy], where: Cut) -> None:
    db, proxy = cut_off
    node = make_node(db)
    lease = node.scheduler.core.lease
    node.clock.advance(9000)
    proxy.cut_next_commit(where)
    with pytest.raises(CommitUnknownError):
        lease.step(node.clock.now_ms())
    assert lease.may_act(900)
    assert not lease.may_act(1000)
    lease.step(node.clock.now_ms())
    assert lease.may_act(9900)


def persist(node: HandNode, work: Callable[[], object]) -> None:
    """Repeat a stage as its thread would."""
    for _ in range(1000):
        try:
            work()
        except DatabaseUnreachableError:
            node.scheduler.planning.adopt.wakeups.note_failure()
        else:
            return
    raise AssertionError("it never worked")


def turn(node: HandNode, now_ms: int) -> list[tuple[int, bool]]:
    """Step every loop once and let the executor answer and finish.

    Returns:
        The run that each send was for, and whether it said that it asks again.
    """
    scheduler = node.scheduler
    for step in (
        lambda: node.register("http://127.0.0.1:9001/"),
        lambda: scheduler.core.lease.step(now_ms),
        lambda: scheduler.core.registry.flush(now_ms),
        lambda: scheduler.core.registry.step(now_ms),
        node.plan,
        lambda: scheduler.planning.tick.step(now_ms),
        lambda: scheduler.management.retention.step(now_ms),
        lambda: scheduler.finishing.check.step(now_ms),
    ):
        persist(node, step)
    parcels = list(node.sent)
    persist(node, node.answer)
    persist(node, lambda: scheduler.sending.results.step(now_ms))
    persist(node, lambda: node.finish([shard.run for parcel in parcels for shard in parcel.shards]))
    return [(shard.run.id, parcel.again) for parcel in parcels for shard in parcel.shards]


@pytest.mark.parametrize("seed", range(2))
def test_fires_survive_connections_that_break_anywhere(cut_off: tuple[Database, Proxy], seed: int) -> None:
    db, proxy = cut_off
    node = make_node(db)
    clock = node.clock
    fires, seconds = 7, 10
    ids = [
        node.job(
            name=f"job {number}",
            schedule_conf="1",
            misfire_policy=MisfirePolicy.FIRE_ALL,
            max_retries=1,
            end_ms=NOW + fires * 1000,
        ).id
        for number in range(3)
    ]
    sent: Counter[tuple[int, bool]] = Counter()
    proxy.cut_at_random(0.04, seed)
    for _ in range(seconds * 5):
        sent.update(turn(node, clock.advance(200)))
    proxy.cut_at_random(0)
    for _ in range(15):  # a fence that no one could ask about is asked about after its check time
        sent.update(turn(node, clock.advance(1000)))
    assert proxy.cuts > 10
    assert db.broken > 5
    for job_id in ids:
        rows = node.runs(job_id)
        assert [run.planned_ms for run in rows] == [NOW + n * 1000 for n in range(1, fires + 1)]
        assert {run.state for run in rows} == {RunState.SUCCEEDED}
        for run in rows:
            first, again = sent[run.id, False], sent[run.id, True]
            # where the fence's COMMIT and the question after it were both cut off, all that is sent asks again
            assert first == 1 or (first == 0 and again >= 1), (run, first, again)
