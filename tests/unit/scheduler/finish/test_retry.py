"""How long a retry waits, and which ends call for one: decided from rows alone."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.rows import NOW, make_job, make_run
from xwheel.model import DeliveryPolicy, Origin, RetryBackoff, Run, RunState
from xwheel.model.reasons import RunReason
from xwheel.scheduler.finish.retry import LONGEST_MS, decide_retry, retry_delay_ms


def decide(run: Run, state: RunState, *, reason: str = "", recovered: bool = False, **job: Any) -> Run | None:
    return decide_retry(
        run, state, make_job(**job), NOW, root_origin=Origin.SCHEDULE, reason=reason, recovered=recovered
    )


@pytest.mark.parametrize(
    ("job", "delays"),
    [
        ({"retry_delay_ms": 700}, [700, 700, 700, 700]),
        ({"retry_backoff": RetryBackoff.LIST, "retry_delays_ms": (5, 50)}, [5, 50, 50, 50]),
        ({"retry_backoff": RetryBackoff.EXPONENTIAL, "retry_delay_ms": 100}, [100, 200, 400, 800]),
        (
            {"retry_backoff": RetryBackoff.EXPONENTIAL, "retry_delay_ms": 100, "retry_max_delay_ms": 300},
            [100, 200, 300, 300],
        ),
    ],
)
def test_the_delay_grows_as_the_job_says(job: dict[str, Any], delays: list[int]) -> None:
    run: Run | None = make_run(7, retries_left=4, state=RunState.RUNNING)
    for number, delay_ms in enumerate(delays, 2):
        assert run is not None
        run = decide(run, RunState.FAILED, max_retries=4, **job)
        assert run is not None
        assert (run.due_ms, run.attempt) == (NOW + delay_ms, number)
    assert run is not None
    assert decide(run, RunState.FAILED, max_retries=4, **job) is None


@given(
    backoff=st.sampled_from(RetryBackoff),
    delay_ms=st.integers(0, LONGEST_MS),
    longest_ms=st.integers(0, LONGEST_MS),
    percent=st.integers(0, 100),
    left=st.integers(1, 9999),
    run_id=st.integers(1, 2**53 - 1),
)
def test_every_delay_is_bounded_and_the_same_when_asked_again(
    backoff: RetryBackoff, delay_ms: int, longest_ms: int, percent: int, left: int, run_id: int
) -> None:
    job = make_job(
        max_retries=9999,
        retry_backoff=backoff,
        retry_delay_ms=delay_ms,
        retry_delays_ms=(delay_ms,),
        retry_max_delay_ms=longest_ms,
        retry_jitter_pct=percent,
    )
    run = make_run(run_id, retries_left=left)
    found = retry_delay_ms(run, job)
    assert found == retry_delay_ms(run, job)
    grown_ms = delay_ms
    if backoff is RetryBackoff.EXPONENTIAL:
        grown_ms = min(delay_ms * 2 ** (9999 - left), longest_ms or LONGEST_MS)
    assert grown_ms <= found <= grown_ms + grown_ms * percent // 100


def test_jitter_spreads_runs_over_its_share_of_the_delay() -> None:
    job = make_job(max_retries=1, retry_delay_ms=10_000, retry_jitter_pct=30)
    found = [retry_delay_ms(make_run(number, retries_left=1), job) for number in range(1, 1001)]
    assert min(found) >= 10_000
    assert max(found) <= 13_000
    assert max(found) - min(found) > 2500
    assert len(set(found)) > 500


def test_n13_the_whole_share_is_drawn_from_its_upper_end_included() -> None:
    """N13: with a delay of 10 ms and 30 percent, 10 to 13 ms are drawn, each by some run."""
    job = make_job(max_retries=1, retry_delay_ms=10, retry_jitter_pct=30)
    assert {retry_delay_ms(make_run(number, retries_left=1), job) for number in range(1, 201)} == {10, 11, 12, 13}


def test_n14_jitter_is_a_share_of_the_grown_delay() -> None:
    """N14: after three doublings, the share is one of 80 s and not of 10 s."""
    job = make_job(max_retries=4, retry_delay_ms=10_000, retry_backoff=RetryBackoff.EXPONENTIAL, retry_jitter_pct=50)
    found = [retry_delay_ms(make_run(number, retries_left=1), job) for number in range(1, 201)]
    assert 80_000 <= min(found) <= max(found) <= 120_000
    assert max(found) > 110_000


def test_n12_a_recovery_attempt_is_no_step_of_the_backoff() -> None:
    """N12: the second attempt of a run whose first was lost waits as long as a first retry does."""
    job = make_job(max_retries=4, retry_delay_ms=100, retry_backoff=RetryBackoff.EXPONENTIAL)
    assert retry_delay_ms(make_run(7, retries_left=4, attempt=3), job) == 100


@pytest.mark.parametrize(
    ("state", "reason", "policy", "tries"),
    [
        (RunState.FAILED, "", DeliveryPolicy.AT_MOST_ONCE, True),
        (RunState.REFUSED, "no_executor", DeliveryPolicy.AT_MOST_ONCE, True),
        (RunState.TIMED_OUT, "", DeliveryPolicy.AT_MOST_ONCE, True),
        (RunState.TIMED_OUT, RunReason.DEADLINE, DeliveryPolicy.AT_MOST_ONCE, False),
        (RunState.TIMED_OUT, RunReason.DEADLINE, DeliveryPolicy.AT_LEAST_ONCE, True),
        (RunState.LOST, "", DeliveryPolicy.AT_MOST_ONCE, False),
        (RunState.LOST, "", DeliveryPolicy.AT_LEAST_ONCE, False),
        (RunState.KILLED, "", DeliveryPolicy.AT_LEAST_ONCE, False),
        (RunState.CANCELLED, "", DeliveryPolicy.AT_LEAST_ONCE, False),
        (RunState.SKIPPED, "", DeliveryPolicy.AT_LEAST_ONCE, False),
        (RunState.SUCCEEDED, "", DeliveryPolicy.AT_LEAST_ONCE, False),
    ],
)
def test_only_what_may_be_tried_again_is(state: RunState, reason: str, policy: DeliveryPolicy, tries: bool) -> None:
    run = make_run(7, retries_left=1, state=RunState.RUNNING)
    found = decide(run, state, reason=reason, max_retries=1, delivery=policy)
    assert (found is not None) is tries


def test_the_next_attempt_belongs_to_nobody_yet() -> None:
    run = make_run(
        7,
        root_id=5,
        chain_id=3,
        chain_depth=2,
        shard_index=1,
        shard_total=4,
        retries_left=2,
        param="p",
        state=RunState.RUNNING,
        address="http://127.0.0.1:9001",
        instance="i",
        dispatched_ms=NOW,
        accepted_ms=NOW,
        started_ms=NOW,
        check_ms=NOW,
        epoch=9,
    )
    retry = decide(run, RunState.FAILED, max_retries=2)
    assert retry is not None
    kept = ("root_id", "chain_id", "chain_depth", "shard_index", "shard_total", "param", "planned_ms", "job_id")
    assert [getattr(retry, name) for name in kept] == [getattr(run, name) for name in kept]
    gone = ("address", "instance", "dispatched_ms", "accepted_ms", "started_ms", "check_ms")
    assert {getattr(retry, name) for name in gone} == {None}
    assert retry.epoch == 0
    assert (retry.origin, retry.origin_key, retry.retries_left) == (Origin.RETRY, 7, 1)


def test_a_lost_run_is_recovered_once_and_keeps_its_retries() -> None:
    run = make_run(7, retries_left=2, state=RunState.RUNNING)
    found = decide(run, RunState.LOST, recover_lost=True)
    assert found is not None
    assert (found.origin, found.origin_key, found.attempt, found.retries_left) == (Origin.RECOVERY, 7, 2, 2)
    assert (found.due_ms, found.state, found.address) == (NOW, RunState.PLANNED, None)
    assert decide(run, RunState.LOST, recover_lost=True, recovered=True) is None
    assert decide(run, RunState.LOST, recover_lost=True, delivery=DeliveryPolicy.AT_MOST_ONCE) is None


@pytest.mark.parametrize("state", [RunState.FAILED, RunState.TIMED_OUT, RunState.REFUSED, RunState.LOST])
def test_what_somebody_wanted_dead_is_not_tried_again(state: RunState) -> None:
    run = make_run(7, retries_left=2, state=RunState.RUNNING, kill_requested=True)
    assert decide(run, state, max_retries=2, recover_lost=True) is None


@pytest.mark.parametrize("state", [RunState.FAILED, RunState.LOST])
@pytest.mark.parametrize(("origin", "tries"), [(Origin.SCHEDULE, False), (Origin.API, True), (Origin.CHILD, True)])
def test_only_scheduled_fires_stop_with_their_job(state: RunState, origin: Origin, tries: bool) -> None:
    run = make_run(7, retries_left=1, state=RunState.RUNNING)
    job = make_job(max_retries=1, recover_lost=True, enabled=False)
    found = decide_retry(run, state, job, NOW, root_origin=origin)
    assert (found is not None) is tries
    assert decide_retry(run, state, None, NOW, root_origin=origin) is None


def test_a_run_that_fails_over_is_as_late_as_before() -> None:
    """How long it may wait for an executor counts from when it was due first."""
    run = make_run(7, due_ms=NOW - 5000, state=RunState.DISPATCHING)
    found = decide(run, RunState.REFUSED, reason=RunReason.FAILED_OVER)
    assert found is not None
    assert (found.due_ms, found.created_ms) == (NOW - 5000, NOW)
