"""Every due time ends as one run or inside one skip row."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.support.rows import NOW, make_job, make_run
from xwheel.model import Job, MisfirePolicy, Origin, Run, RunState
from xwheel.plugin import ScheduleSpec
from xwheel.scheduler.plan.rules import FIRE_ALL_PER_CLAIM, RUNS_PER_JOB, SKIPS_COUNTED, Planned, plan, recheck
from xwheel.scheduler.timetable import Timetable


class Every:
    """Fires at the anchor and each ``conf`` milliseconds after it."""

    name = "EVERY"

    def check(self, spec: ScheduleSpec) -> None:
        int(spec.conf)

    def next_ms(self, spec: ScheduleSpec, after_ms: int) -> int | None:
        step = int(spec.conf)
        return max(spec.anchor_ms, after_ms + step - (after_ms - spec.anchor_ms) % step)


class At:
    """Fires at the times that ``conf`` lists."""

    name = "AT"

    def check(self, spec: ScheduleSpec) -> None:
        del spec

    def next_ms(self, spec: ScheduleSpec, after_ms: int) -> int | None:
        return next((at for at in map(int, spec.conf.split()) if at > after_ms), None)


class Broken(Every):
    name = "BROKEN"

    def next_ms(self, spec: ScheduleSpec, after_ms: int) -> int | None:
        raise RuntimeError("the moon is not up")


DEFAULT_MS = 30_000
TIMETABLE = Timetable({"EVERY": Every(), "AT": At(), "BROKEN": Broken()})


def every(step_ms: int, **changes: object) -> Job:
    return make_job(**{"schedule_type": "EVERY", "schedule_conf": str(step_ms), **changes})


def xxl(step_ms: int, **changes: object) -> Job:
    """With XXL-JOB's threshold, whose rules these are."""
    return every(step_ms, misfire_threshold_ms=5000, **changes)


def plan_at(jobs: Iterable[Job], now_ms: int, **options: object) -> Planned:
    ids = count(100)
    options = {"epochs": dict.fromkeys(range(64), 7), "pre_read_ms": 5000, "threshold_ms": DEFAULT_MS, **options}
    return plan(list(jobs), now_ms, timetable=TIMETABLE, take_ids=lambda n: [next(ids) for _ in range(n)], **options)  # type: ignore[arg-type]


def planned(runs: Iterable[Run]) -> list[int]:
    return [run.planned_ms for run in runs if run.state is RunState.PLANNED]


def skips(runs: Iterable[Run]) -> list[Run]:
    return [run for run in runs if run.state is RunState.SKIPPED]


def test_on_time_fires_until_the_horizon_are_planned_at_once() -> None:
    result = plan_at([every(1000)], NOW)

    assert planned(result.runs) == [NOW + 1000 * n for n in range(6)]
    assert result.job_updates == [(1, NOW + 6000, NOW + 5000, None, True, "")]
    assert {run.epoch for run in result.runs} == {7}
    assert [run.root_id for run in result.runs] == [run.id for run in result.runs]
    assert {run.origin_key for run in result.runs} == set(planned(result.runs))


ITSELF, NOW_INSTEAD, SKIPPED = "fires as itself", "fires now instead", "skipped"
LATENESS = [
    # policy, what becomes of four due times: two beyond the threshold, one at it, one below it
    (MisfirePolicy.SKIP, [SKIPPED, SKIPPED, ITSELF, ITSELF]),
    (MisfirePolicy.FIRE_ONCE, [SKIPPED, NOW_INSTEAD, ITSELF, ITSELF]),
    (MisfirePolicy.FIRE_ALL, [NOW_INSTEAD, NOW_INSTEAD, ITSELF, ITSELF]),
]


@pytest.mark.parametrize(("policy", "ends"), LATENESS)
@pytest.mark.parametrize(
    ("own_ms", "default_ms", "limit_ms"),
    [
        (None, DEFAULT_MS, DEFAULT_MS),
        (None, 5000, 5000),
        (None, 0, 0),
        (5000, DEFAULT_MS, 5000),
        (0, DEFAULT_MS, 0),
        (60_000, 5000, 60_000),
    ],
)
def test_lateness_against_the_threshold_decides_and_nothing_else(
    own_ms: int | None, default_ms: int, limit_ms: int, policy: MisfirePolicy, ends: list[str]
) -> None:
    """Both where a due time is planned and where its row was planned before and waited for a taker."""
    now = NOW + limit_ms
    due = [NOW - 1001, NOW - 1, NOW, NOW + 1]
    job = make_job(
        schedule_type="AT",
        schedule_conf=" ".join(map(str, due)),
        misfire_policy=policy,
        misfire_threshold_ms=own_ms,
        next_fire_ms=due[0],
    )
    found = plan_at([job], now, threshold_ms=default_ms).runs
    assert [end_of(at, found, now) for at in due] == ends

    rows = [make_run(at, due_ms=at, planned_ms=at) for at in due]
    skipped = recheck(rows, {1: replace(job, next_fire_ms=None)}, now, threshold_ms=default_ms, last_missed=nothing)
    # a row that waited keeps the due time that it has
    assert [SKIPPED if at in skipped else ITSELF for at in due] == [
        SKIPPED if end == SKIPPED else ITSELF for end in ends
    ]


def end_of(at: int, runs: Iterable[Run], now_ms: int) -> str:
    (run,) = [run for run in runs if run.planned_ms <= at <= (run.skip_last_ms or run.planned_ms)]
    if run.state is RunState.SKIPPED:
        assert run.reason == "misfire"
        return SKIPPED
    assert (run.due_ms, run.reason) in ((at, ""), (now_ms, "misfire"))
    return NOW_INSTEAD if run.reason else ITSELF


def nothing(job_ids: Collection[int], after_ms: int) -> dict[int, int]:
    """No missed fire has a row in another batch."""
    del job_ids, after_ms
    return {}


def test_skip_covers_consecutive_misfires_with_one_row() -> None:
    result = plan_at([xxl(1000, misfire_policy=MisfirePolicy.SKIP)], NOW + 60_000)

    (skip,) = skips(result.runs)
    assert (skip.origin_key, skip.planned_ms, skip.skip_last_ms, skip.skip_count) == (NOW, NOW, NOW + 54_000, 55)
    assert skip.reason == "misfire"
    assert planned(result.runs) == [NOW + 1000 * n for n in range(55, 66)]


def test_fire_once_spares_the_last_misfire() -> None:
    now = NOW + 60_000
    result = plan_at([xxl(1000, misfire_policy=MisfirePolicy.FIRE_ONCE)], now, pre_read_ms=0)

    misfired = [run for run in result.runs if run.reason == "misfire" and run.state is RunState.PLANNED]
    (skip,) = skips(result.runs)
    assert [(run.planned_ms, run.due_ms) for run in misfired] == [(NOW + 54_000, now)]
    assert (skip.planned_ms, skip.skip_last_ms, skip.skip_count) == (NOW, NOW + 53_000, 54)


def test_fire_all_plans_ten_a_claim_and_keeps_the_cursor() -> None:
    job = every(1000, misfire_policy=MisfirePolicy.FIRE_ALL)
    result = plan_at([job], NOW + 60_000)

    assert planned(result.runs) == [NOW + 1000 * n for n in range(FIRE_ALL_PER_CLAIM)]
    assert {run.due_ms for run in result.runs} == {NOW + 60_000}
    assert result.job_updates[0][1] == NOW + 1000 * FIRE_ALL_PER_CLAIM
    assert result.unfinished


def test_more_than_a_thousand_skips_are_counted_as_at_least() -> None:
    now = NOW + 10_000_000
    result = plan_at([xxl(1000, misfire_policy=MisfirePolicy.SKIP)], now, pre_read_ms=0)

    (skip,) = skips(result.runs)
    assert (skip.skip_count, skip.skip_last_ms) == (1001, now - 5001)
    assert planned(result.runs)[0] == now - 5000


def test_a_broken_schedule_stops_its_job_only() -> None:
    result = plan_at(
        [make_job(id=1, schedule_type="BROKEN"), every(10_000, id=2), make_job(id=3, schedule_type="GONE")], NOW
    )

    updates = {row[0]: row for row in result.job_updates}
    assert updates[1] == (1, None, NOW, None, False, "schedule type BROKEN failed: RuntimeError: the moon is not up")
    assert updates[2] == (2, NOW + 10_000, NOW, None, True, "")
    assert not updates[3].enabled
    assert "GONE" in updates[3].schedule_error
    # the fire whose turn it was is not lost with the schedule
    assert sorted((run.job_id, run.planned_ms) for run in result.runs) == [(1, NOW), (2, NOW), (3, NOW)]


def test_an_exhausted_job_stays_enabled_without_a_next_fire() -> None:
    result = plan_at([every(1000, end_ms=NOW + 2500)], NOW)

    assert planned(result.runs) == [NOW, NOW + 1000, NOW + 2000]
    assert result.job_updates == [(1, None, NOW + 2000, None, True, "")]


def test_jobs_beyond_the_batch_wait_for_the_next_claim() -> None:
    result = plan_at([every(1000, id=number) for number in (1, 2, 3)], NOW, max_runs=12)

    assert {run.job_id for run in result.runs} == {1, 2}
    assert [row[0] for row in result.job_updates] == [1, 2]
    assert result.unfinished


def test_counting_missed_fires_of_many_jobs_is_spread_over_claims() -> None:
    """Each of them costs a thousand questions to its schedule; a transaction must stay short all the same."""
    jobs = [xxl(1000, id=number, misfire_policy=MisfirePolicy.SKIP) for number in range(1, 100)]
    result = plan_at(jobs, NOW + 900_000, max_questions=5000)

    assert [row[0] for row in result.job_updates] == [1, 2, 3, 4, 5, 6]
    assert {run.skip_count for run in skips(result.runs)} == {895}
    assert result.unfinished
    assert not plan_at(jobs[:5], NOW + 900_000, max_questions=5000).unfinished


def test_a_dense_job_is_cut_and_continues() -> None:
    result = plan_at([every(1)], NOW)

    assert len(result.runs) == RUNS_PER_JOB
    assert result.unfinished
    assert result.job_updates[0][1] == NOW + RUNS_PER_JOB


@given(
    step_ms=st.integers(1, 20_000),
    late_ms=st.integers(0, 100_000),
    pre_read_ms=st.integers(0, 20_000),
    policy=st.sampled_from(MisfirePolicy),
    threshold_ms=st.none() | st.integers(0, 60_000),
)
def test_every_due_time_is_covered_exactly_once(
    step_ms: int, late_ms: int, pre_read_ms: int, policy: MisfirePolicy, threshold_ms: int | None
) -> None:
    now = NOW + late_ms
    job: Job | None = every(step_ms, misfire_policy=policy, misfire_threshold_ms=threshold_ms)
    rows: list[Run] = []
    for _ in range(200):
        assert job is not None
        result = plan_at([job], now, pre_read_ms=pre_read_ms)
        rows += result.runs
        cursor_ms = result.job_updates[0][1]
        job = every(step_ms, misfire_policy=policy, misfire_threshold_ms=threshold_ms, next_fire_ms=cursor_ms)
        if not result.unfinished:
            break
    assert job.next_fire_ms is not None
    due = range(NOW, job.next_fire_ms, step_ms)
    fired = planned(rows)
    covered = sum(1 for run in rows if run.skip_count <= 1000 for _ in range(run.skip_count or 1))
    assert len(fired) == len(set(fired))
    assert set(fired) <= set(due)
    assert job.next_fire_ms > now + pre_read_ms or result.unfinished
    if all(run.skip_count <= 1000 for run in rows):
        assert covered == len(due)
    for run in skips(rows):
        assert run.skip_last_ms is not None
        assert not set(fired) & set(range(run.planned_ms, run.skip_last_ms + 1, step_ms))


def test_n36_of_more_missed_fires_than_are_counted_the_one_that_fires_is_outside_of_what_was_skipped() -> None:
    missed = SKIPS_COUNTED + 50
    job = every(1000, misfire_policy=MisfirePolicy.FIRE_ONCE, misfire_threshold_ms=5000, next_fire_ms=NOW)
    result = plan_at([job], NOW + 1000 * missed)
    (skip,) = skips(result.runs)
    late, *on_time = planned(result.runs)
    assert late == NOW
    assert skip.skip_last_ms is not None
    for at in (late, *on_time):
        assert not skip.planned_ms <= at <= skip.skip_last_ms


def test_start_and_end_bound_the_fires() -> None:
    job = every(1000, start_ms=NOW + 5500, end_ms=NOW + 7000)

    assert TIMETABLE.next_fire(job, NOW) == NOW + 6000
    assert TIMETABLE.next_fire(job, NOW + 6000) == NOW + 7000
    assert TIMETABLE.next_fire(job, NOW + 7000) is None


def test_recheck_applies_the_policy_to_rows_that_waited_too_long() -> None:
    now = NOW + 60_000
    policies = {1: MisfirePolicy.SKIP, 2: MisfirePolicy.FIRE_ONCE, 3: MisfirePolicy.FIRE_ALL}
    jobs = {number: make_job(id=number, misfire_policy=policy, next_fire_ms=now) for number, policy in policies.items()}
    runs = [
        make_run(10 * number + place, job_id=number, due_ms=NOW + 1000 * place, planned_ms=NOW + 1000 * place)
        for number in policies
        for place in range(3)
    ]
    fresh = make_run(50, job_id=1, due_ms=now - DEFAULT_MS)
    by_hand = make_run(60, job_id=1, origin=Origin.API)
    orphan = make_run(70, job_id=99)

    found = recheck([*runs, fresh, by_hand, orphan], jobs, now, threshold_ms=DEFAULT_MS, last_missed=nothing)
    assert found == dict.fromkeys((10, 11, 12, 20, 21), "misfire")


@pytest.mark.parametrize(
    ("next_late_ms", "last_ms", "spared"),
    [(None, None, [12]), (None, 1200, [12]), (None, 1201, []), (30_000, None, [12]), (30_001, None, [])],
)
def test_r17_a_job_that_fires_once_is_spared_one_row_over_all_batches(
    next_late_ms: int | None, last_ms: int | None, spared: list[int]
) -> None:
    """R17: none of a batch, if a later fire that was missed has a row elsewhere or is about to get one."""
    now = NOW + 60_000
    cursor_ms = None if next_late_ms is None else now - next_late_ms
    jobs = {1: make_job(misfire_policy=MisfirePolicy.FIRE_ONCE, next_fire_ms=cursor_ms)}
    runs = [make_run(number, due_ms=NOW + 100 * number, planned_ms=NOW + 100 * number) for number in (11, 12)]
    asked: list[tuple[list[int], int]] = []

    def last_missed(job_ids: Collection[int], after_ms: int) -> dict[int, int]:
        asked.append((list(job_ids), after_ms))
        return {} if last_ms is None else {1: NOW + last_ms}

    found = recheck(runs, jobs, now, threshold_ms=DEFAULT_MS, last_missed=last_missed)
    assert [run.id for run in runs if run.id not in found] == spared
    assert asked == ([] if next_late_ms == 30_001 else [([1], NOW + 1200)])


def test_n1_a_job_that_is_cut_is_not_forgotten_because_of_the_jobs_behind_it() -> None:
    dense = every(1, id=1, misfire_threshold_ms=5000)
    result = plan_at([dense, every(60_000, id=2)], NOW)

    assert len([run for run in result.runs if run.job_id == 1]) == RUNS_PER_JOB
    assert result.unfinished


def test_n2_recheck_leaves_a_run_that_may_wait_for_an_executor() -> None:
    waits = every(1000, id=1, wait_for_executor_s=600)
    gives_up = every(1000, id=2, wait_for_executor_s=0)
    runs = [make_run(job.id, job_id=job.id, due_ms=NOW, planned_ms=NOW) for job in (waits, gives_up)]
    jobs = {job.id: job for job in (waits, gives_up)}

    def skipped(now_ms: int) -> dict[int, str]:
        return recheck(runs, jobs, now_ms, threshold_ms=DEFAULT_MS, last_missed=lambda *_: {})

    assert skipped(NOW + 600_000) == {2: "misfire"}
    assert skipped(NOW + 600_001) == {1: "misfire", 2: "misfire"}


def test_n42_recheck_leaves_a_run_that_may_wait_for_room_in_its_group() -> None:
    jobs = {number: every(1000, id=number, group_id=number) for number in (1, 2)}
    runs = [make_run(number, job_id=number, due_ms=NOW, planned_ms=NOW) for number in jobs]
    now_ms = NOW + 600_000
    found = recheck(runs, jobs, now_ms, threshold_ms=DEFAULT_MS, last_missed=lambda *_: {}, limited={2})
    assert found == {1: "misfire"}
