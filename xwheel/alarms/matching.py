"""Decide what rules ask for of what just happened; no query, and for a success a look into a dictionary."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final

from xwheel.alarms.health import AlarmBook, Spot
from xwheel.model import Job, Run, RunState
from xwheel.model.alarms import AlarmKind, AlarmRule, AlarmWhen
from xwheel.scheduler.records import Outcome
from xwheel.storage.alarms.alarms import NewAlarm

KINDS: Final = {
    RunState.FAILED: AlarmKind.FAILED,
    RunState.TIMED_OUT: AlarmKind.FAILED,
    RunState.KILLED: AlarmKind.FAILED,
    RunState.LOST: AlarmKind.LOST,
    RunState.REFUSED: AlarmKind.REFUSED,
    RunState.SKIPPED: AlarmKind.SKIPPED,
}
RETRIED: Final = frozenset({AlarmKind.FAILED, AlarmKind.LOST, AlarmKind.REFUSED})


class Raising:
    """What the stages ask; see :class:`~xwheel.alarms.records.Alarms`.

    Args:
        book: The rules.
        wake: Told when something was written.
    """

    def __init__(self, book: AlarmBook, wake: Callable[[], None]) -> None:
        self._book = book
        self._wake = wake

    def of_ends(
        self, ends: Sequence[tuple[Run, Outcome]], retried: Collection[int], now_ms: int
    ) -> list[NewAlarm]:
        """Return what rules ask for of runs that end now, and of jobs that are well again."""
        if self._book.is_empty:
            return []
        found: list[NewAlarm] = []
        for run, end in ends:
            if end.state is RunState.SUCCEEDED:
                if spots := self._book.unwell(run.job_id):
                    rules = [rule_id for rule_id, spot in spots.items() if not _is_another_shard(run, spot)]
                    found += [_recovery(run, rule_id, now_ms) for rule_id in rules]
                continue
            kind = KINDS.get(end.state)
            # what a person wanted to end did not fail
            if kind is None or (end.state is RunState.KILLED and run.kill_requested):
                continue
            reason = end.reason or ("" if end.state is RunState.FAILED else str(end.state))
            for rule in self._book.rules_for(kind, run.job_id, run.group_id):
                if rule.when is AlarmWhen.EACH or kind not in RETRIED or run.id not in retried:
                    found.append(_of_run(run, rule, kind, now_ms, reason, end.message))
        return found

    def of_skips(self, rows: Iterable[Run], now_ms: int) -> list[NewAlarm]:
        """Return what rules ask for of rows that are inserted as skipped."""
        if AlarmKind.SKIPPED not in self._book.kinds:
            return []
        return [
            _of_run(run, rule, AlarmKind.SKIPPED, now_ms, run.reason, run.message)
            for run in rows
            if run.state is RunState.SKIPPED
            for rule in self._book.rules_for(AlarmKind.SKIPPED, run.job_id, run.group_id)
        ]

    def of_stops(self, stops: Iterable[tuple[Job, str]], now_ms: int) -> list[NewAlarm]:
        """Return what rules ask for of jobs that are stopped because their schedule fails."""
        if AlarmKind.SCHEDULE_ERROR not in self._book.kinds:
            return []
        return [
            NewAlarm(
                rule_id=rule.id,
                job_id=job.id,
                group_id=job.group_id,
                partition=job.partition,
                kind=AlarmKind.SCHEDULE_ERROR,
                at_ms=now_ms,
                reason=error,
            )
            for job, error in stops
            for rule in self._book.rules_for(AlarmKind.SCHEDULE_ERROR, job.id, job.group_id)
        ]

    def committed(self, alarms: Sequence[NewAlarm]) -> None:
        """Remember who is not well, and let somebody look at what was written."""
        if not alarms:
            return
        for item in alarms:
            if item.kind is AlarmKind.RECOVERED:
                self._book.note_well(item.job_id, item.rule_id)
            else:
                spot = Spot(item.root_id, item.shard_index, item.at_ms)
                self._book.note_unwell(item.job_id, item.rule_id, spot)
        self._wake()


def _is_another_shard(run: Run, spot: Spot) -> bool:
    """Tell whether a success is another shard's of the very fire that went wrong; that makes nothing well."""
    return run.root_id == spot.root_id and run.shard_index != spot.shard_index


def _recovery(run: Run, rule_id: int, now_ms: int) -> NewAlarm:
    return NewAlarm(
        rule_id=rule_id,
        job_id=run.job_id,
        group_id=run.group_id,
        partition=run.partition,
        kind=AlarmKind.RECOVERED,
        at_ms=now_ms,
        run_id=run.id,
        root_id=run.root_id,
        shard_index=run.shard_index,
    )


def _of_run(run: Run, rule: AlarmRule, kind: AlarmKind, now_ms: int, reason: str, message: str) -> NewAlarm:
    return NewAlarm(
        rule_id=rule.id,
        job_id=run.job_id,
        group_id=run.group_id,
        partition=run.partition,
        kind=kind,
        at_ms=now_ms,
        run_id=run.id,
        root_id=run.root_id,
        shard_index=run.shard_index,
        reason=reason,
        message=message,
        count=max(1, run.skip_count),
    )
