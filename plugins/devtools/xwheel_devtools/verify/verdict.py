"""Due fires against run rows against executions: what is missing, what is double, and which invariant broke. Pure.

Nothing here asks xwheel: the states and what may follow on what are written down once more.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Final

from xwheel_devtools.verify.actions import NEVER, SETTLED_MS, changed_spans, editions, stopped_spans
from xwheel_devtools.verify.follow_ups import by_hand, children, delays, retries, shards
from xwheel_devtools.verify.records import (
    CALM,
    Did,
    Disturbances,
    Executed,
    ExpectedJob,
    Finding,
    FindingKind,
    Observed,
    RunRow,
    Span,
    UserAction,
    Verdict,
    is_delay,
    name_of,
)

OUTCOMES: Final = frozenset({"succeeded", "failed", "timed_out", "killed"})
OPEN: Final = frozenset({"planned", "dispatching", "running"})
NEXT: Final[Mapping[str, frozenset[str]]] = {
    "planned": frozenset({"dispatching", "skipped", "cancelled", "refused"}),
    # cancelled or refused if it was recalled before it was due; that it did not run is judged by its executions
    "dispatching": OUTCOMES | {"running", "refused", "lost", "cancelled"},
    "running": OUTCOMES | {"lost", "cancelled", "refused"},
    "lost": OUTCOMES,
}
"""Which state may follow directly on which; one without an entry is final for good."""

NEVER_RAN: Final = frozenset({"skipped", "cancelled", "refused", "planned"})
NOT_STARTED: Final = "not_started"
OF_EXECUTOR: Final = frozenset({NOT_STARTED, "interrupted"})
"""Reasons of failures that an executor reports of runs that were there when it ended."""

GIVEN_BACK: Final = "failed_over"
"""Reason of a failure that an executor reports of a run that it gave back before it was due, for a change that came
later than it waits for, or not at all: no handler ran, and the fire gets another attempt unless the change is there."""

FORGOTTEN: Final = "unknown_there"
"""Reason of a run that was lost because the executor that had accepted it knew nothing of it, though it is the same."""

APART_MS: Final = 80
"""How far the clocks of scheduler and executor may be apart; runs travel at least 100 ms before they are due."""

MAY_RUN_AGAIN: Final = frozenset({"failed", "timed_out", "lost"})
KINDS: Final = {"skipped": FindingKind.SKIPPED, "lost": FindingKind.LOST, "refused": FindingKind.REFUSED}


def judge(
    jobs: Mapping[int, ExpectedJob],
    rows: Sequence[RunRow],
    executions: Sequence[Executed],
    watched: Observed | None = None,
    *,
    actions: Sequence[UserAction] = (),
    disturbances: Disturbances = CALM,
    until_ms: int = 2**62,
) -> Verdict:
    """Compare what was due, what the rows say and what was executed.

    Args:
        jobs: What the jobs call for, by id.
        rows: All rows of these jobs, read once nothing was open any more, or once waiting for that made no sense.
        executions: All executions.
        watched: What was seen meanwhile.
        actions: What was asked for meanwhile.
        disturbances: What had been done to the cluster.
        until_ms: Only fires planned for this instant or earlier are judged, with their retries and child runs: what
            comes later may be there or not once jobs are stopped.
    """
    watched = watched or Observed()
    all_rows, (rows, executions) = rows, _until(until_ms, rows, executions)
    ran = Counter(item.run_id for item in executions)
    fires = _Fires(jobs, rows, actions, disturbances)
    findings = [
        *fires.findings,
        *_ends(jobs, rows, actions, disturbances),
        *_executions(jobs, rows, executions),
        *_early(jobs, rows, executions, disturbances),
        *_editions(jobs, rows, executions, actions, disturbances),
        *_together(jobs, executions, disturbances),
        *retries(jobs, rows, actions),
        *children(jobs, rows),
        *delays(jobs, rows, disturbances),
        *shards(jobs, rows, disturbances),
        *by_hand(jobs, rows, actions),
        *_seen(watched, {row.id: row.state for row in all_rows}, disturbances),
    ]
    roots = {row.root_id or row.id for row in rows if ran[row.id]}
    asked = [row for row in rows if row.origin == "api" and row.shard_index == 0]
    executed = sum(any((row.root_id or row.id) in roots for row in found) for found in fires.found.values())
    executed += sum((row.root_id or row.id) in roots for row in asked)
    due = len(fires.due) + len(asked)
    return Verdict(due, len(rows), len(executions), executed, _lateness(fires.found, executions), findings)


def _until(
    at_ms: int, rows: Sequence[RunRow], executions: Sequence[Executed]
) -> tuple[Sequence[RunRow], Sequence[Executed]]:
    """Return what came of fires planned for an instant or earlier, and executions of which there is no row at all."""
    later = {row.root_id for row in rows if row.origin == "schedule" and row.planned_ms > at_ms}
    kept = [row for row in rows if row.root_id not in later and row.chain_id not in later]
    left_out = {row.id for row in rows} - {row.id for row in kept}
    return kept, [item for item in executions if item.run_id not in left_out]


class _Fires:
    """The due fires, and the schedule's row of each."""

    def __init__(
        self,
        jobs: Mapping[int, ExpectedJob],
        rows: Sequence[RunRow],
        actions: Sequence[UserAction],
        disturbances: Disturbances,
    ) -> None:
        scheduled = [row for row in rows if row.origin == "schedule"]
        self.due = {(number, due) for number, job in jobs.items() for due in job.due}
        # when a fixed delay fires follows from its runs; whether it does is judged apart
        self.due |= {(row.job_id, row.planned_ms) for row in scheduled if is_delay(jobs, row)}
        self.found: dict[tuple[int, int], list[RunRow]] = defaultdict(list)
        self.findings: list[Finding] = []
        self._weather = disturbances
        self._changed = _changed(jobs, actions, disturbances)
        skips: dict[int, list[RunRow]] = defaultdict(list)
        killed = _killed(actions)
        for row in scheduled:
            if row.state == "skipped" and row.skip_last_ms is not None:
                skips[row.job_id].append(row)
            elif row.shard_index == 0 and (row.state != "cancelled" or row.id in killed):
                # what an edit or a stop cancels frees its time
                self.found[row.job_id, row.planned_ms].append(row)
        for key in sorted(self.due | set(self.found)):
            self._judge(jobs, key, skips[key[0]])

    def _judge(self, jobs: Mapping[int, ExpectedJob], key: tuple[int, int], skips: Sequence[RunRow]) -> None:
        job_id, due_ms = key
        what = f"{name_of(jobs, job_id)}, due {due_ms}"
        mine = self.found.get(key, [])
        covering = [row for row in skips if row.planned_ms <= due_ms <= (row.skip_last_ms or 0)]
        was_changed = any(begin <= due_ms <= end for begin, end in self._changed.get(job_id, ()))
        if key not in self.due:
            self._add(
                FindingKind.NOT_DUE, 1, due_ms, f"{what}: has run {mine[0].id}, but the schedule calls for none then"
            )
        elif not mine and not covering and not was_changed:
            self._add(FindingKind.MISSING, 1, due_ms, f"{what}: has no row and no skip that covers it")
        elif covering and not mine and not self._weather.clock_moved:
            self._add(FindingKind.SKIPPED, 0, due_ms, f"{what}: skipped by row {covering[0].id}, {covering[0].reason}")
        if len(mine) + len(covering) > 1:
            ids = [row.id for row in (*mine, *covering)]
            self._add(FindingKind.TWICE_PLANNED, 1, due_ms, f"{what}: has {len(ids)} rows: {ids}")

    def _add(self, kind: FindingKind, invariant: int, due_ms: int, text: str) -> None:
        self.findings.append(Finding(kind, invariant, text, due_ms))


def _ends(
    jobs: Mapping[int, ExpectedJob], rows: Iterable[RunRow], actions: Sequence[UserAction], disturbances: Disturbances
) -> Iterable[Finding]:
    """Find shards whose last attempt did not succeed, and attempts that failed for a reason that nothing gives."""
    killed = _killed(actions)
    chains: dict[tuple[int, int], list[RunRow]] = defaultdict(list)
    for row in rows:
        chains[row.root_id or row.id, row.shard_index].append(row)
    changed = _changed(jobs, actions, disturbances, pauses=True)
    for _, mine in sorted(chains.items()):
        mine.sort(key=lambda row: (row.attempt, row.id))
        may_end = any(row.kill_requested or row.id in killed for row in mine)
        for row in mine:
            yield from _end(jobs, row, row is mine[-1], may_end, changed.get(row.job_id, ()), disturbances)


def _end(
    jobs: Mapping[int, ExpectedJob],
    row: RunRow,
    is_last: bool,
    was_killed: bool,
    changed: Sequence[tuple[int, int]],
    disturbances: Disturbances,
) -> Iterable[Finding]:
    job = jobs.get(row.job_id)
    failures, once = (job.failures, job.at_most_once) if job else (0, False)
    what = f"run {row.id} of {name_of(jobs, row.job_id)}, due {row.planned_ms}, attempt {row.attempt}"
    if row.state in OPEN:
        yield Finding(FindingKind.OPEN, 4, f"{what}: is still {row.state}", row.planned_ms)
        return
    last_ms = row.finished_ms or 0
    was_changed = any(begin <= last_ms <= end for begin, end in changed)
    given_back = row.state == "failed" and row.reason == GIVEN_BACK
    on_purpose = row.state == "failed" and row.attempt <= failures and row.reason not in OF_EXECUTOR
    by_executor = (row.state in ("refused", "lost") and row.reason != FORGOTTEN) or (
        row.state == "failed" and row.reason in OF_EXECUTOR
    )
    is_fine = (
        row.state == "succeeded"
        or (row.state == "skipped" and (row.skip_last_ms is not None or disturbances.clock_moved))
        or (row.state == "cancelled" and (was_changed or was_killed or row.reason == "late_outcome"))
        or (row.kill_requested and row.state in ("killed", "lost", "failed"))
        or ((on_purpose or given_back) and (not is_last or was_changed))
        or (by_executor and disturbances.executors_ended and (not is_last or once or was_killed or was_changed))
    )
    if not is_fine:
        why = f"{row.reason} {row.message[:80]}".strip()
        kind = KINDS.get(row.state, FindingKind.OTHER_END)
        yield Finding(kind, 0, f"{what}: is {row.state}, {why}", row.planned_ms)


def _changed(
    jobs: Iterable[int], actions: Sequence[UserAction], disturbances: Disturbances, *, pauses: bool = False
) -> dict[int, list[Span]]:
    """Return the times in which due times of each job may have no run; all of time if no one knows when that was."""
    found = {number: changed_spans(actions, number, disturbances.slack_ms, pauses=pauses) for number in jobs}
    if disturbances.clock_moved:
        return {number: [(-NEVER, NEVER)] if spans else [] for number, spans in found.items()}
    return found


def _killed(actions: Iterable[UserAction]) -> set[int]:
    return {item.run_id for item in actions if item.did is Did.KILL}


def _executions(
    jobs: Mapping[int, ExpectedJob], rows: Sequence[RunRow], executions: Iterable[Executed]
) -> Iterable[Finding]:
    """Find runs that were executed twice, against their state, or not at all."""
    by_run: dict[int, list[Executed]] = defaultdict(list)
    for item in executions:
        by_run[item.run_id].append(item)
    known = {row.id: row for row in rows}
    for run_id in sorted(set(known) | set(by_run)):
        row, mine = known.get(run_id), by_run.get(run_id, [])
        if row is None:
            yield Finding(FindingKind.EXECUTED_ANYWAY, 1, f"run {run_id}: was executed but has no row")
            continue
        what = f"run {run_id} of {name_of(jobs, row.job_id)}, due {row.planned_ms}"
        if len(mine) > 1:
            where = ", ".join(f"{item.executor} at {item.at_ms}" for item in mine)
            yield Finding(FindingKind.DOUBLE, 2, f"{what}: was executed {len(mine)} times: {where}", row.planned_ms)
        # one that was interrupted had started for its executor, though its handler may not have come to its first act
        has_ended = row.state == "succeeded" or (row.state == "failed" and row.reason not in {*OF_EXECUTOR, GIVEN_BACK})
        if not mine and has_ended and not row.kill_requested:
            yield Finding(FindingKind.NOT_EXECUTED, 0, f"{what}: is {row.state}, and no handler ran", row.planned_ms)
        if mine and (row.state in NEVER_RAN or row.reason in (NOT_STARTED, GIVEN_BACK)):
            text = f"{what}: was executed and is {row.state}, {row.reason}"
            yield Finding(FindingKind.EXECUTED_ANYWAY, 3, text, row.planned_ms)
    yield from _twice(jobs, rows, by_run)


def _early(
    jobs: Mapping[int, ExpectedJob], rows: Sequence[RunRow], executions: Iterable[Executed], weather: Disturbances
) -> Iterable[Finding]:
    """Find fires that began before their time."""
    planned = {row.id: row for row in rows if row.origin == "schedule" and not weather.clock_moved}
    for item in executions:
        row = planned.get(item.run_id)
        if row is not None and item.at_ms < row.planned_ms - APART_MS:
            text = f"run {row.id} of {name_of(jobs, row.job_id)}, due {row.planned_ms}: began at {item.at_ms}"
            yield Finding(FindingKind.EARLY, 1, text, row.planned_ms)


def _twice(
    jobs: Mapping[int, ExpectedJob], rows: Sequence[RunRow], by_run: Mapping[int, Collection[Executed]]
) -> Iterable[Finding]:
    """Find fires of which several executed runs did not fail; of an at-most-once job, several executed runs."""
    planned = {row.root_id or row.id: row.planned_ms for row in rows if row.origin == "schedule"}
    fires: dict[tuple[int, int, int], list[RunRow]] = defaultdict(list)
    for row in rows:
        root = row.root_id or row.id
        if by_run.get(row.id):
            # two rows of one due time are two roots, and yet one fire
            fires[row.job_id, planned.get(root, -root), row.shard_index].append(row)
    for (job_id, due_ms, shard), mine in sorted(fires.items()):
        job = jobs.get(job_id)
        once = job is not None and job.at_most_once
        ids = [row.id for row in mine if once or row.state not in MAY_RUN_AGAIN]
        if len(ids) > 1:
            text = f"{name_of(jobs, job_id)}, due {due_ms}, shard {shard}: was executed by runs {ids}"
            yield Finding(FindingKind.DOUBLE, 2, text, due_ms)


def _editions(
    jobs: Mapping[int, ExpectedJob],
    rows: Sequence[RunRow],
    executions: Iterable[Executed],
    actions: Sequence[UserAction],
    disturbances: Disturbances,
) -> Iterable[Finding]:
    """Find what was sent as it was before an edit that had been answered, or while its job was stopped."""
    if disturbances.clock_moved:
        return
    said = {item.run_id: item for item in executions}
    spans = {number: stopped_spans(actions, number) for number in jobs}
    for row in rows:
        if row.origin == "api" or row.dispatched_ms is None:
            continue
        what = f"run {row.id} of {name_of(jobs, row.job_id)}, due {row.planned_ms}"
        is_off = any(begin < row.dispatched_ms < end for begin, end in spans.get(row.job_id, ()))
        if row.origin == "schedule" and is_off:
            text = f"{what}: was sent at {row.dispatched_ms}, when its job was stopped or paused"
            yield Finding(FindingKind.EXECUTED_ANYWAY, 1, text, row.planned_ms)
        if (begun := said.get(row.id)) is None:
            continue
        wanted = editions(actions, row.job_id, row.dispatched_ms - SETTLED_MS, begun.at_ms + SETTLED_MS)
        if wanted and begun.param not in wanted:
            text = f"{what}: was sent at {row.dispatched_ms} with {begun.param!r}, not with {' or '.join(wanted)!r}"
            yield Finding(FindingKind.OLD_EDITION, 1, text, row.planned_ms)


def _together(
    jobs: Mapping[int, ExpectedJob], executions: Iterable[Executed], disturbances: Disturbances
) -> Iterable[Finding]:
    """Find runs of jobs that share a limit which were executed at once with too many others."""
    limits = {number: job.limit for number, job in jobs.items() if job.limit and not disturbances.clock_moved}
    moments: dict[str, list[tuple[int, int, int]]] = defaultdict(list)
    most = dict(limits.values())
    for item in executions:
        if item.job_id in limits and item.end_ms is not None:
            name = limits[item.job_id][0]
            # what ends in the same millisecond as another begins is not together with it
            moments[name] += [(item.at_ms, 1, item.run_id), (item.end_ms, 0, -item.run_id)]
    for name, found in sorted(moments.items()):
        inside: set[int] = set()
        for at_ms, is_begin, run_id in sorted(found):
            if not is_begin:
                inside.discard(-run_id)
                continue
            inside.add(run_id)
            if len(inside) > most[name]:
                text = f"{name}: runs {sorted(inside)} were executed together at {at_ms}, {most[name]} allowed"
                yield Finding(FindingKind.TOGETHER, 0, text, at_ms)


def _seen(watched: Observed, last: Mapping[int, str], disturbances: Disturbances) -> Iterable[Finding]:
    for run_id, states in sorted(watched.states.items()):
        path = [*states, last.get(run_id, "gone")]
        for before, after in pairwise(path):
            if before != after and after not in _reachable(before):
                yield Finding(FindingKind.TRANSITION, 3, f"run {run_id}: went from {before} to {after}")
    for text in watched.epochs:
        yield Finding(FindingKind.EPOCH, 5, text)
    for text in watched.unwritten:
        yield Finding(FindingKind.UNWRITTEN, 9, text)
    limit_ms = disturbances.overdue_limit_ms
    for run_id, late_ms in sorted(watched.overdue.items()):
        if limit_ms is not None and late_ms > limit_ms:
            text = f"run {run_id}: was overdue and planned for {late_ms} ms, {limit_ms} ms allowed"
            yield Finding(FindingKind.OVERDUE, 4, text)
    # by a clock that jumped forward a job's last fire is over earlier
    for text in [*watched.delays, *([] if disturbances.clock_moved else watched.idle)]:
        yield Finding(FindingKind.DELAY, 8, text)


def _reachable(state: str) -> set[str]:
    """Return all states that may follow, whatever lies in between: it need not have been seen."""
    found: set[str] = set()
    fresh = set(NEXT.get(state, ()))
    while fresh:
        found |= fresh
        fresh = {after for item in fresh for after in NEXT.get(item, ())} - found
    return found


def _lateness(
    found: Mapping[tuple[int, int], Sequence[RunRow]], executions: Iterable[Executed]
) -> list[tuple[int, int]]:
    first: dict[int, int] = {}
    for item in executions:
        first[item.run_id] = min(item.at_ms, first.get(item.run_id, item.at_ms))
    return sorted(
        (due_ms, min(first[row.id] for row in mine if row.id in first) - due_ms)
        for (_, due_ms), mine in found.items()
        if any(row.id in first for row in mine)
    )
