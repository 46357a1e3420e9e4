"""Decide whether a run that ended badly gets another attempt."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from xwheel.model import Job, Origin, Run, RunState

RETRYABLE: Final = frozenset({RunState.FAILED, RunState.TIMED_OUT, RunState.REFUSED})


def decide_retry(
    run: Run, state: RunState, job: Job | None, now_ms: int, *, root_origin: Origin
) -> Run | None:
    """Return the next attempt of a run, without an id, or None.

    Args:
        run: The run that ends, as it stood before.
        state: Its final state.
        job: Its job; None if it was deleted.
        now_ms: The shared time.
        root_origin: Why the first run of this fire existed: retries of scheduled fires stop with their job, retries
            of what a person asked for do not.
    """
    if state not in RETRYABLE or run.retries_left <= 0 or job is None:
        return None
    if not job.enabled and root_origin is Origin.SCHEDULE:
        return None
    return replace(
        run,
        id=0,
        origin=Origin.RETRY,
        origin_key=run.id,
        attempt=run.attempt + 1,
        retries_left=run.retries_left - 1,
        state=RunState.PLANNED,
        epoch=0,
        due_ms=now_ms + job.retry_delay_ms,
        created_ms=now_ms,
        reason="",
        address=None,
        instance=None,
        dispatched_ms=None,
        accepted_ms=None,
        finished_ms=None,
        check_ms=None,
        kill_requested=False,
        result_code=None,
        message="",
    )
