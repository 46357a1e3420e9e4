"""R48: a clock that was ahead is set back, and every schedule goes on from what it shows then."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import pairwise
from typing import Final

import pytest

from tests.support.node import HandNode
from tests.support.rows import NOW
from tests.support.versions import kept_versions
from xwheel.model import Job, MisfirePolicy, Origin, RunState
from xwheel.scheduler.jobs.set_back import SETTLED_MS
from xwheel.storage import jobs

HOUR_MS, DAY_MS = 3_600_000, 86_400_000
AHEAD: Final = {"an hour": HOUR_MS, "a day": DAY_MS, "a year": 366 * DAY_MS}
KINDS: Final = {
    "CRON": "0/20 * * * * ?",
    "UNIX_CRON": "* * * * *",
    "FIX_RATE": "20",
    "FIX_DELAY": "20",
    "DAILY_INTERVAL": "from=00:00 to=23:59 every=20s",
}
"""Each fires within a minute, whenever that is."""

# each kind, and with one of them each policy and each jump
JUMPS: Final = [
    *((kind, MisfirePolicy.SKIP, "a day") for kind in KINDS if kind != "UNIX_CRON"),
    *(("UNIX_CRON", policy, ahead) for policy in (MisfirePolicy.SKIP, MisfirePolicy.FIRE_ONCE) for ahead in AHEAD),
    # for longer it makes up for with more runs than a test has time for, as it is told to
    ("UNIX_CRON", MisfirePolicy.FIRE_ALL, "an hour"),
]


def go(node: HandNode, duration_ms: int, *, ends: bool = True) -> None:
    """Let time pass; what is sent is accepted, and ends with success."""

    def work() -> None:
        answered = node.answer()
        if ends:
            node.finish(answered)

    node.run_for(duration_ms, step_ms=1000, each=work)


def set_clock(node: HandNode, by_ms: int) -> None:
    """Let the database's clock jump, and stay there."""
    jump(node, by_ms)
    settle(node)


def jump(node: HandNode, by_ms: int) -> None:
    """Let the database's clock jump, and the node take notice of it."""
    node.clock.step_wall(by_ms)
    node.scheduler.core.clock_sync.on_step(by_ms)
    node.scheduler.core.clock_sync.steps += 1
    node.keep_lease()


def settle(node: HandNode) -> None:
    """Let the time pass after which a clock counts as set."""
    set_back = node.scheduler.management.set_back
    set_back.step(node.clock.now_ms())
    node.clock.advance(SETTLED_MS)
    node.keep_lease()
    set_back.step(node.clock.now_ms())


def fires(node: HandNode, job: Job, since_ms: int) -> list[int]:
    """Planned times of what ran, from an instant on, in its order."""
    ran = [run for run in node.runs(job.id) if run.state is RunState.SUCCEEDED and run.origin is Origin.SCHEDULE]
    return sorted(run.planned_ms for run in ran if since_ms < run.planned_ms <= node.clock.now_ms())


def expected(node: HandNode, job: Job, since_ms: int) -> list[int]:
    """Due times since an instant."""
    known = node.load(job.id)
    found: list[int] = []
    at: int | None = since_ms
    while (at := node.scheduler.core.timetable.next_fire(known, at or 0)) is not None and at <= node.clock.now_ms():
        found.append(at)
    return found


def assert_goes_on(node: HandNode, job: Job) -> None:
    """Fail unless a job fires from now on as its schedule says."""
    since_ms = node.clock.now_ms()
    go(node, 130_000)
    found = fires(node, job, since_ms)
    assert len(found) > 1
    if job.schedule_type == "FIX_DELAY":
        assert all(20_000 <= later - before < 22_000 for before, later in pairwise(found))
        assert found[0] - since_ms <= 20_000
    else:
        assert found == expected(node, job, since_ms)


@pytest.mark.parametrize(
    ("kind", "ahead"), [*((kind, "a day") for kind in KINDS), ("CRON", "an hour"), ("FIX_RATE", "a year")]
)
def test_a_job_that_began_under_a_clock_that_was_ahead_goes_on(node: HandNode, kind: str, ahead: str) -> None:
    ahead_ms = AHEAD[ahead]
    node.clock.step_wall(ahead_ms)
    job = node.job(schedule_type=kind, schedule_conf=KINDS[kind])
    go(node, 130_000)
    assert len(fires(node, job, NOW)) > 1

    set_clock(node, -ahead_ms)
    assert_goes_on(node, job)


@pytest.mark.parametrize(("kind", "policy", "ahead"), JUMPS)
def test_a_clock_that_goes_ahead_meanwhile_and_back_stops_nothing(
    node: HandNode, kind: str, policy: MisfirePolicy, ahead: str
) -> None:
    ahead_ms = AHEAD[ahead]
    job = node.job(schedule_type=kind, schedule_conf=KINDS[kind], misfire_policy=policy)
    go(node, 70_000)
    set_clock(node, ahead_ms)
    go(node, 70_000)
    set_clock(node, -ahead_ms)
    assert_goes_on(node, job)


@pytest.mark.parametrize("kind", KINDS)
def test_a_node_that_starts_after_the_clock_was_set_back_finds_it(node: HandNode, kind: str) -> None:
    node.clock.step_wall(DAY_MS)
    job = node.job(schedule_type=kind, schedule_conf=KINDS[kind])
    go(node, 70_000)
    node.clock.step_wall(-DAY_MS)
    late = node.successor()
    late.register("http://10.0.0.1:9001")
    late.keep_lease()
    settle(late)
    assert_goes_on(late, job)


@pytest.mark.parametrize("kind", KINDS)
def test_a_clock_that_was_behind_and_is_set_right_stops_nothing(node: HandNode, kind: str) -> None:
    node.clock.step_wall(-366 * DAY_MS)
    job = node.job(schedule_type=kind, schedule_conf=KINDS[kind])
    go(node, 70_000)
    set_clock(node, 366 * DAY_MS)
    go(node, 10_000)
    assert_goes_on(node, job)


@pytest.mark.parametrize("policy", MisfirePolicy)
def test_an_instant_that_was_passed_over_comes_again(node: HandNode, policy: MisfirePolicy) -> None:
    """Where its policy skips it: the others ran it when the clock said that it was late."""
    at = datetime.fromtimestamp((NOW + 300_000) / 1000, UTC)
    job = node.job(schedule_type="ONCE", schedule_conf=at.isoformat(), misfire_policy=policy)
    go(node, 60_000)
    set_clock(node, DAY_MS)
    go(node, 60_000)
    set_clock(node, -DAY_MS)
    go(node, 180_000)
    assert fires(node, job, NOW) == [NOW + 300_000]
    assert len([run for run in node.runs(job.id) if run.state is RunState.SUCCEEDED]) == 1


def test_a_run_on_its_way_is_left_alone_and_the_delay_counts_from_its_end(node: HandNode) -> None:
    node.clock.step_wall(DAY_MS)
    job = node.job(schedule_type="FIX_DELAY", schedule_conf="20")
    go(node, 30_000, ends=False)
    (run,) = [run for run in node.runs(job.id) if run.state is RunState.RUNNING]
    set_clock(node, -DAY_MS)
    go(node, 60_000)
    assert [one.id for one in node.runs(job.id)] == [run.id]
    node.finish([run])
    assert node.load(job.id).next_fire_ms == node.clock.now_ms() + 20_000


def test_a_job_that_has_not_fired_yet_is_planned_from_now_on(node: HandNode) -> None:
    node.clock.step_wall(DAY_MS)
    job = node.job(schedule_type="CRON", schedule_conf="0 0 * * * ?")
    set_clock(node, -DAY_MS)
    now_ms = node.clock.now_ms()
    assert node.load(job.id).next_fire_ms == now_ms - now_ms % HOUR_MS + HOUR_MS


def test_a_retry_stays(node: HandNode) -> None:
    node.clock.step_wall(DAY_MS)
    job = node.job(schedule_conf="20", max_retries=1, retry_delay_ms=600_000)
    node.run_for(21_000, step_ms=1000)
    (run,) = node.answer()
    node.finish([run], RunState.FAILED)
    set_clock(node, -DAY_MS)
    assert [one.state for one in node.runs(job.id) if one.origin is Origin.RETRY] == [RunState.PLANNED]


def test_what_was_planned_is_cancelled_with_the_reason_and_the_change_is_written_down(node: HandNode) -> None:
    node.clock.step_wall(DAY_MS)
    job = node.job(schedule_conf="1")
    node.plan()
    set_clock(node, -DAY_MS)
    assert {(run.state, run.reason, run.origin_key == -run.id) for run in node.runs(job.id)} == {
        (RunState.CANCELLED, "clock", True)
    }
    with node.db.read() as conn:
        newest = kept_versions(conn, job.id)[-1]
    assert (newest.action, newest.actor_kind, newest.revision) == ("clock", "node", job.revision + 1)


def test_nothing_is_touched_while_the_clock_is_right(node: HandNode) -> None:
    """Neither what was planned ahead, nor a job that fires once a year, nor an anchor that somebody set."""
    often = node.job(schedule_conf="1")
    seldom = node.job(schedule_type="CRON", schedule_conf="0 0 0 1 1 ?")
    later = node.job(schedule_conf="60", anchor_ms=NOW + DAY_MS)
    node.plan()
    settle(node)
    for job in (often, seldom, later):
        assert node.load(job.id).revision == job.revision


def test_an_anchor_that_somebody_set_stays(node: HandNode) -> None:
    node.clock.step_wall(DAY_MS)
    later = node.job(schedule_conf="60", anchor_ms=NOW + 3 * DAY_MS)
    set_clock(node, -DAY_MS)
    assert node.load(later.id).next_fire_ms == NOW + 3 * DAY_MS


def test_one_that_cannot_be_planned_keeps_no_other_from_it(node: HandNode) -> None:
    node.clock.step_wall(DAY_MS)
    bad, good = (node.job(schedule_conf="1") for _ in range(2))
    node.plan()
    node.db.transaction(lambda conn: jobs.update_job(conn, bad.id, {"schedule_conf": "what"}))
    set_clock(node, -DAY_MS)
    assert node.load(bad.id).revision == bad.revision
    assert {run.state for run in node.runs(bad.id)} == {RunState.PLANNED}, "what it had is left as it was"
    assert_goes_on(node, good)


@pytest.mark.parametrize("kind", KINDS)
def test_a_clock_that_goes_back_and_comes_back_changes_no_plan(node: HandNode, kind: str) -> None:
    job = node.job(schedule_type=kind, schedule_conf=KINDS[kind])
    go(node, 70_000)
    before = node.load(job.id)
    set_back = node.scheduler.management.set_back
    for by_ms in (-DAY_MS, DAY_MS):
        jump(node, by_ms)
        for _ in range(SETTLED_MS // 1000 - 1):
            node.clock.advance(1000)
            node.keep_lease()
            set_back.step(node.clock.now_ms())
    settle(node)
    assert (node.load(job.id).revision, node.load(job.id).anchor_ms) == (before.revision, before.anchor_ms)
    go(node, 10_000)
    assert_goes_on(node, job)
