"""Decide whether a run that ended badly gets another attempt, and when. Pure."""

from __future__ import annotations

import zlib
from typing import Final

from msgspec.structs import replace

from xwheel.model import DeliveryPolicy, Job, Origin, RetryBackoff, Run, RunReason, RunState

RETRYABLE: Final = frozenset({RunState.FAILED, RunState.TIMED_OUT, RunState.REFUSED})

LONGEST_MS: Final = 86_400_000
# attempts after which going on with the next executor, or with the same one later, has to end
MOST_OVER: Final = 16


def decide_retry(
    run: Run,
    state: RunState,
    job: Job | None,
    now_ms: int,
    *,
    root_origin: Origin,
    reason: RunReason = RunReason.PLAIN,
    recovered: bool = False,
) -> Run | None:
    """Return the next attempt of a run, without an id, or None.

    What was asked to be killed is not tried again, however it ended. ``run`` is as it stood before, ``job`` None if it
    was deleted. Retries of scheduled fires stop with their job; those of what a person asked for, as ``root_origin``
    says, do not. ``recovered`` says that this shard has had its recovery run.
    """
    if job is None or run.kill_requested or (not job.enabled and root_origin is Origin.SCHEDULE):
        return None
    if state is RunState.LOST:
        allowed = job.recover_lost and job.delivery is DeliveryPolicy.AT_LEAST_ONCE and not recovered
        return _next_attempt(run, Origin.RECOVERY, run.retries_left, now_ms, now_ms) if allowed else None
    if reason == RunReason.FAILED_OVER and run.attempt < MOST_OVER:
        # due as before: how long it may wait for an executor counts from there
        return _next_attempt(run, Origin.RETRY, run.retries_left, run.due_ms, now_ms)
    if state not in RETRYABLE or run.retries_left <= 0 or (run.state is RunState.LOST and recovered):
        return None  # the recovery run of a run that was not lost after all is its next attempt
    # made up here, because none was reported
    if reason == RunReason.DEADLINE and job.delivery is DeliveryPolicy.AT_MOST_ONCE:
        return None  # it was not reported, so it may still be running
    # it may have been refused before it was due
    from_ms = max(now_ms, run.due_ms) if state is RunState.REFUSED else now_ms
    due_ms = from_ms + retry_delay_ms(run, job)
    return _next_attempt(run, Origin.RETRY, run.retries_left - 1, due_ms, now_ms)


def retry_delay_ms(run: Run, job: Job) -> int:
    """Return how long the retry of a run waits; the same run always gets the same delay."""
    # retries left and not the attempt: a recovery run is an attempt that no failure caused
    number = max(0, job.max_retries - run.retries_left)
    match job.retry_backoff:
        case RetryBackoff.LIST:
            delays = job.retry_delays_ms or (job.retry_delay_ms,)
            delay_ms = delays[min(number, len(delays) - 1)]
        case RetryBackoff.EXPONENTIAL:
            longest_ms = job.retry_max_delay_ms or LONGEST_MS
            # beyond 32 doublings even one millisecond is more than a month
            delay_ms = min(job.retry_delay_ms << min(number, 32), longest_ms)
        case _:
            delay_ms = job.retry_delay_ms
    spread_ms = delay_ms * job.retry_jitter_pct // 100
    return delay_ms + zlib.crc32(b"%d" % run.id) % (spread_ms + 1)


def _next_attempt(run: Run, origin: Origin, retries_left: int, due_ms: int, now_ms: int) -> Run:
    return replace(
        run,
        id=0,
        origin=origin,
        origin_key=run.id,
        attempt=run.attempt + 1,
        retries_left=retries_left,
        state=RunState.PLANNED,
        epoch=0,
        due_ms=due_ms,
        created_ms=now_ms,
        reason=RunReason.PLAIN,
        address=None,
        instance=None,
        dispatched_ms=None,
        accepted_ms=None,
        started_ms=None,
        finished_ms=None,
        check_ms=None,
        kill_requested=False,
        result_code=None,
        message="",
    )
