"""What a check of an open run comes to: pure decisions about rows, answers and times.

While a run is open its ``reason`` may hold a mark with the time it was made: ``idle:<ms>`` once a foreign executor
said that it has nothing of the job, ``told:<ms>`` once it said so and is sent the kill that was asked for all the
same, ``killed:<ms>`` once it said that it ended everything of the job. ``waits:<ms>`` is when an xwheel executor said
last that it has not begun it. What a person reads of each stands in :data:`xwheel.model.reasons.MARKS`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from xwheel.model import RunReason, RunState
from xwheel.model.reasons import IDLE, KILLED, MARKS, TOLD, WAITS
from xwheel.scheduler.records import Outcome, reported
from xwheel.storage.open_runs import Ahead, OpenRun
from xwheel.wire.messages import CallbackItem, ExecutionState, StateAnswer

NEVER_MS: Final = 2**62  # the limit of a run without one
# how soon an xwheel executor is asked whether a run has begun, and how seldom at most while it has not
LOOK_MS: Final = 5000
LONGEST_LOOK_MS: Final = 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckRules:
    """Times that decide."""

    check_after_ms: int  # how long an executor is believed before it is asked again
    gone_ms: int  # how long an executor may be missing before its runs are lost
    answer_ms: int  # how long after a send or a question it must be over
    idle_grace_ms: int  # how long an outcome may be on its way once a foreign executor has nothing of the job
    deadline_grace_ms: int  # how long after a time limit the executor has to report its end


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What happens to an open run."""

    row: OpenRun
    outcome: Outcome | None = None  # how it ends; None if it stays open
    check_ms: int = 0  # when to check again
    reason: str = ""  # its mark from now on
    kill: bool = False  # whether its executor is told to end it
    accepted: bool = False  # whether its executor turned out to have it
    started_ms: int | None = None  # when its handler began, as far as that is known now


def decide_gone(row: OpenRun, missing_ms: int, now_ms: int, rules: CheckRules) -> Decision:
    """Decide about a run whose executor is not registered, since ``missing_ms``.

    An executor that leaves may still finish what it has; one that died shows up again under the same instance.
    """
    lost_ms = max(missing_ms, row.accepted_ms or row.dispatched_ms) + rules.gone_ms
    if now_ms <= lost_ms:
        return decide_silent(row, now_ms, lost_ms + 1 - now_ms, rules)
    reason = RunReason.INSTANCE_GONE if row.instance else RunReason.EXECUTOR_GONE
    who = f"instance {row.instance} at {row.address}" if row.instance else row.address
    return _end(row, RunState.LOST, reason, f"executor {who} is gone and reported no end")


def decide_known_dead(row: OpenRun) -> Decision:
    """Decide about a run whose executor was seen to die, and does not answer either."""
    text = f"executor {row.address} was lost by its cluster, does not answer, and reported no end"
    return _end(row, RunState.LOST, RunReason.INSTANCE_GONE, text)


def decide_silent(row: OpenRun, now_ms: int, wait_ms: int, rules: CheckRules) -> Decision:
    """Decide about a run whose executor is registered and gave no usable answer: it is asked again, never lost."""
    kind, since_ms = read_mark(row.reason)
    waited_ms = since_ms if kind == WAITS else 0  # it had not begun by then
    begun_ms = row.started_ms or waited_ms or row.accepted_ms or row.dispatched_ms
    # one that says nothing has another grace after the limit
    limit_ms = _limit_ms(row, begun_ms, rules) + rules.deadline_grace_ms
    if limit_ms <= now_ms:
        return _deadline(row)
    return Decision(row=row, check_ms=min(now_ms + wait_ms, limit_ms), reason=row.reason)


def decide_state(row: OpenRun, answer: StateAnswer, now_ms: int, wait_ms: int, rules: CheckRules) -> Decision:
    """Decide by an xwheel executor's journal; if that settles nothing, it is asked again after ``wait_ms``."""
    if answer.state is ExecutionState.FINISHED:
        end = answer.outcome
        if end is None or (end.run_id, end.job_id, end.created_ms) != (row.id, row.job_id, row.created_ms):
            return decide_silent(row, now_ms, wait_ms, rules)
        return Decision(row=row, outcome=outcome_of(end))
    if answer.state is ExecutionState.UNKNOWN:
        return _unknown_there(row, now_ms, wait_ms, rules)
    accepted = row.state is RunState.DISPATCHING
    accepted_ms = row.accepted_ms or row.dispatched_ms
    if answer.state is ExecutionState.ACCEPTED:
        # it begins now at the earliest; asked the more seldom the longer it waits
        look_ms = now_ms + min(max((now_ms - accepted_ms) // 2, LOOK_MS), LONGEST_LOOK_MS)
        look_ms = min(look_ms, _next_check(now_ms, _limit_ms(row, now_ms, rules), rules))
        return Decision(
            row=row,
            check_ms=now_ms + wait_ms if row.kill_requested else look_ms,
            reason=f"{WAITS}:{now_ms}",
            kill=row.kill_requested,
            accepted=accepted,
        )
    started_ms = max(now_ms - answer.running_ms, accepted_ms)
    limit_ms = _limit_ms(row, now_ms - answer.running_ms, rules)
    if limit_ms <= now_ms:
        return _deadline(row, kill=True, started_ms=started_ms, took_ms=answer.running_ms)
    check_ms = now_ms + wait_ms if row.kill_requested else _next_check(now_ms, limit_ms, rules)
    return Decision(
        row=row, check_ms=check_ms, kill=row.kill_requested, accepted=accepted, started_ms=row.started_ms or started_ms
    )


def decide_marked(row: OpenRun, now_ms: int, rules: CheckRules) -> Decision | None:
    """Decide about a run that its executor said to have killed; None if it must be asked."""
    kind, since_ms = read_mark(row.reason)
    if kind != KILLED:
        return None
    if now_ms < since_ms + rules.idle_grace_ms:
        return Decision(row=row, check_ms=since_ms + rules.idle_grace_ms, reason=row.reason)
    return _no_report(row, "ended everything of the job when told to")


def decide_idle(
    row: OpenRun, idle: bool | None, begun_ms: int | None, now_ms: int, wait_ms: int, rules: CheckRules
) -> Decision:
    """Decide by what a foreign executor says about the job.

    A kill that a person asked for is sent whatever it says: some always say that they have nothing. ``idle`` is None if
    it gave no usable answer, ``begun_ms`` if other runs of the job are before this one. If the answer settles nothing,
    it is asked again after ``wait_ms``.
    """
    accepted = row.state is RunState.DISPATCHING  # never sent again under this id: it counts as running
    limit_ms = _limit_ms(row, now_ms if begun_ms is None else begun_ms, rules)
    silence_ms = rules.deadline_grace_ms if idle is None else 0
    if limit_ms + silence_ms <= now_ms:
        return _deadline(row, kill=row.kill_requested and read_mark(row.reason)[0] != TOLD)
    if idle:
        return _idle(row, now_ms, wait_ms, rules)
    if row.kill_requested:
        mark = row.reason if idle is None else ""
        return Decision(row=row, check_ms=now_ms + wait_ms, reason=mark, kill=True, accepted=accepted)
    if idle is None:
        check_ms = min(now_ms + wait_ms, limit_ms + silence_ms)
        return Decision(row=row, check_ms=check_ms, reason=row.reason, accepted=accepted)
    return Decision(row=row, check_ms=_next_check(now_ms, limit_ms, rules), accepted=accepted)


def _idle(row: OpenRun, now_ms: int, wait_ms: int, rules: CheckRules) -> Decision:
    """Decide about a run whose foreign executor says that it has nothing of the job.

    Its outcome may be on its way, and a kill is sent all the same; the time for it begins with the first kill.
    """
    kind, since_ms = read_mark(row.reason)
    begins = kind != TOLD if row.kill_requested else kind not in (IDLE, TOLD)
    since_ms = now_ms if begins else since_ms
    over_ms = since_ms + rules.idle_grace_ms
    if over_ms <= now_ms:
        return _no_report(row, "has nothing of the job any more")
    accepted = row.state is RunState.DISPATCHING
    if row.kill_requested:
        again_ms = min(now_ms + wait_ms, over_ms)
        return Decision(row=row, check_ms=again_ms, reason=f"{TOLD}:{since_ms}", kill=True, accepted=accepted)
    return Decision(row=row, check_ms=over_ms, reason=f"{IDLE}:{since_ms}", accepted=accepted)


def begun_at(row: OpenRun, others: Iterable[Ahead]) -> int | None:
    """Return when a run on a foreign executor began at the earliest, None if it waits behind others.

    A foreign executor has one queue for a job. Whatever of the job it got before this run and ended after this run's
    arrival kept it waiting.
    """
    begun_ms = row.accepted_ms or row.dispatched_ms
    for other in others:
        is_same_queue = (other.job_id, other.address) == (row.job_id, row.address)
        if not is_same_queue or other.dispatched_ms >= row.dispatched_ms:
            continue
        if other.finished_ms is None:
            return None
        begun_ms = max(begun_ms, other.finished_ms)
    return begun_ms


def may_be_overdue(row: OpenRun, now_ms: int, rules: CheckRules) -> bool:
    """Return whether a run that was never kept waiting would be past its limit."""
    return _limit_ms(row, row.accepted_ms or row.dispatched_ms, rules) <= now_ms


def first_check_ms(at_ms: int, timeout_s: int, check_after_ms: int, deadline_grace_ms: int, *, is_foreign: bool) -> int:
    """Return when a run accepted at ``at_ms`` is checked: after a while, or once past its time limit.

    An xwheel executor is asked soon whether it has begun.
    """
    wait_ms = check_after_ms if is_foreign else min(check_after_ms, LOOK_MS)
    return at_ms + (min(wait_ms, timeout_s * 1000 + deadline_grace_ms) if timeout_s > 0 else wait_ms)


def outcome_of(item: CallbackItem) -> Outcome:
    """Return an outcome out of a journal as its callback would have brought it."""
    reason, message = reported(item.reason, item.message)
    return Outcome(
        run_id=item.run_id,
        state=item.state,
        reason=reason,
        code=item.code,
        message=message,
        created_ms=item.created_ms,
        started_ms=item.started_ms,
        took_ms=item.finished_ms - item.started_ms,
    )


def read_mark(reason: str) -> tuple[str, int]:
    """Return what a mark says and since when; an empty word and 0 if there is none."""
    kind, _, since = reason.partition(":")
    return (kind, int(since)) if kind in MARKS and since.isdecimal() else ("", 0)


def _unknown_there(row: OpenRun, now_ms: int, wait_ms: int, rules: CheckRules) -> Decision:
    if row.kill_requested:
        # what was sent may still lie in the executor's socket
        if now_ms - (row.accepted_ms or row.dispatched_ms) < rules.deadline_grace_ms:
            return Decision(row=row, check_ms=now_ms + wait_ms)
        return _no_report(row, "does not know the run")
    if row.state is RunState.DISPATCHING:
        return Decision(row=row, check_ms=now_ms)  # it never got there: it is due to be sent again
    return _end(row, RunState.LOST, RunReason.UNKNOWN_THERE, f"executor {row.address} does not know the run")


def _limit_ms(row: OpenRun, begun_ms: int, rules: CheckRules) -> int:
    return begun_ms + row.timeout_s * 1000 + rules.deadline_grace_ms if row.timeout_s > 0 else NEVER_MS


def _next_check(now_ms: int, limit_ms: int, rules: CheckRules) -> int:
    return max(now_ms + 1, min(now_ms + rules.check_after_ms, limit_ms))


def _deadline(row: OpenRun, *, kill: bool = False, started_ms: int | None = None, took_ms: int = 0) -> Decision:
    # a run that a person wanted to end gets no retry
    state = RunState.KILLED if row.kill_requested else RunState.TIMED_OUT
    text = f"executor {row.address} reported no end within the time limit of {row.timeout_s} s"
    return _end(row, state, RunReason.DEADLINE, text, kill=kill, started_ms=started_ms, took_ms=took_ms)


def _no_report(row: OpenRun, why: str) -> Decision:
    state = RunState.KILLED if row.kill_requested else RunState.LOST
    return _end(row, state, RunReason.NO_REPORT, f"executor {row.address} {why} and reported no end")


def _end(
    row: OpenRun,
    state: RunState,
    reason: RunReason,
    message: str,
    *,
    kill: bool = False,
    started_ms: int | None = None,
    took_ms: int = 0,
) -> Decision:
    end = Outcome(
        run_id=row.id,
        state=state,
        reason=reason,
        message=message,
        created_ms=row.created_ms,
        started_ms=started_ms,
        took_ms=took_ms,
    )
    return Decision(row=row, outcome=end, kill=kill)
