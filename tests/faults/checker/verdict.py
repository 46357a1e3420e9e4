"""Due fires against run rows against executions: what is missing, what is double, and which invariant broke. Pure.

Nothing here asks xwheel: the states and what may follow on what are written down once more.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import pairwise
from typing import Final

OUTCOMES: Final = frozenset({"succeeded", "failed", "timed_out", "killed"})
OPEN: Final = frozenset({"planned", "dispatching", "running"})
NEXT: Final[Mapping[str, frozenset[str]]] = {
    "planned": frozenset({"dispatching", "skipped", "cancelled", "refused"}),
    "dispatching": OUTCOMES | {"running", "refused", "lost"},
    "running": OUTCOMES | {"lost"},
    "lost": OUTCOMES,
}
"""Which state may follow directly on which; one without an entry is final for good."""

NEVER_RAN: Final = frozenset({"skipped", "cancelled", "refused", "planned"})
CHAIN_MS: Final = 1000
"""So much later than the end plus the delay a fixed delay may plan its next fire: the end is written in between."""

FIRST_MS: Final = 50
"""So far from its start plus its delay a fixed delay's first fire may be planned."""


class Kind(StrEnum):
    """What went wrong."""

    MISSING = "missing"
    SKIPPED = "skipped"
    LOST = "lost"
    REFUSED = "refused"
    DOUBLE = "double"
    TWICE_PLANNED = "planned twice"
    NOT_DUE = "not due"
    OPEN = "still open"
    OTHER_END = "other end"
    NOT_EXECUTED = "not executed"
    EXECUTED_ANYWAY = "executed anyway"
    TRANSITION = "transition"
    EPOCH = "epoch fell"
    OVERDUE = "overdue"
    RETRY = "retry"
    CHILD = "child"
    DELAY = "fixed delay"
    SHARDS = "shards"


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What a job calls for.

    Attributes:
        due: Its due times; empty for a child, and for a fixed delay.
        delay_ms: Of a fixed delay.
        first_ms: When a fixed delay must fire first.
        end_ms: No fixed delay fires later than this.
        shards: Runs of one fire.
        failures: So many attempts fail on purpose, and each has a retry.
        child: Job that runs after each success, or 0.
    """

    name: str
    due: Sequence[int] = ()
    delay_ms: int = 0
    first_ms: int = 0
    end_ms: int = 0
    shards: int = 1
    failures: int = 0
    child: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A row of the table ``run``, as far as it is judged."""

    id: int
    job_id: int
    origin: str = "schedule"
    origin_key: int = 0
    root_id: int = 0
    shard_index: int = 0
    shard_total: int = 1
    attempt: int = 1
    retries_left: int = 0
    state: str = "succeeded"
    planned_ms: int = 0
    finished_ms: int | None = None
    skip_last_ms: int | None = None
    reason: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class Execution:
    """A line that a handler wrote as its first act."""

    run_id: int
    job_id: int
    planned_ms: int
    at_ms: int
    executor: str


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that must not be.

    Attributes:
        invariant: Number of the invariant that broke, as in docs/explanation/faults.md; 0 if it is none of them.
        due_ms: Due time of the fire, or 0 where there is none to name.
    """

    kind: Kind
    invariant: int
    text: str
    due_ms: int = 0


@dataclass
class Watched:
    """What was seen while it happened.

    Attributes:
        states: The states of each run, in order, each noted once it changed.
        fell: Sentences about epochs that fell.
        overdue: Run id to the longest time in ms that it was overdue and yet planned.
        delays: Sentences about fixed delays that had both a next fire and an awaited run, or neither.
    """

    states: dict[int, list[str]] = field(default_factory=dict)
    fell: list[str] = field(default_factory=list)
    overdue: dict[int, int] = field(default_factory=dict)
    delays: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Verdict:
    """The numbers, and what must not be.

    Attributes:
        due: Due fires of all jobs; those of a fixed delay are those it had.
        rows: Run rows, one for each shard, attempt and child run.
        executions: What handlers wrote down.
        executed: Due fires that were executed at least once.
        lateness: Of each first execution of a due fire: its due time and how late it began, in due order.
    """

    due: int
    rows: int
    executions: int
    executed: int
    lateness: Sequence[tuple[int, int]]
    findings: Sequence[Finding]

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong, and there was something to judge."""
        return not self.findings and self.due > 0

    @property
    def counts(self) -> Counter[str]:
        """How often each kind of finding was made."""
        return Counter(str(item.kind) for item in self.findings)

    @property
    def invariants(self) -> list[int]:
        """The numbers of the invariants that broke."""
        return sorted({item.invariant for item in self.findings} - {0})

    def late(self, part: float, since_ms: int = 0, until_ms: int = 2**62) -> int | None:
        """Return a percentile of the lateness of fires due within a window, or None without any."""
        found = sorted(late for due, late in self.lateness if since_ms <= due <= until_ms)
        return found[min(len(found) - 1, int(part * len(found)))] if found else None


def judge(
    jobs: Mapping[int, Job],
    rows: Sequence[Row],
    executions: Sequence[Execution],
    watched: Watched | None = None,
    *,
    until_ms: int = 2**62,
    overdue_limit_ms: int = 12_000,
) -> Verdict:
    """Compare what was due, what the rows say and what was executed.

    Args:
        jobs: What the jobs call for, by id.
        rows: All rows of these jobs, read once nothing was open any more, or once waiting for that made no sense.
        executions: All executions.
        watched: What was seen meanwhile.
        until_ms: Only fires planned for this instant or earlier are judged, with their retries and child runs: what
            comes later may be there or not once jobs are stopped.
        overdue_limit_ms: No run may have been overdue and planned for longer (lease + 2 s, and how long nothing could
            be sent).
    """
    watched = watched or Watched()
    all_rows, (rows, executions) = rows, _until(until_ms, rows, executions)
    ran = Counter(item.run_id for item in executions)
    fires = _Fires(jobs, rows)
    findings = [
        *fires.findings,
        *_ends(jobs, rows),
        *_executions(jobs, rows, executions),
        *_retries(rows),
        *_children(jobs, rows),
        *_delays(jobs, rows),
        *_shards(jobs, rows),
        *_seen(watched, {row.id: row.state for row in all_rows}, overdue_limit_ms),
    ]
    executed = sum(any(ran[row.id] for row in found) for found in fires.found.values())
    return Verdict(
        len(fires.due), len(rows), len(executions), executed, _lateness(fires.found, executions), findings
    )


def _until(
    at_ms: int, rows: Sequence[Row], executions: Sequence[Execution]
) -> tuple[Sequence[Row], Sequence[Execution]]:
    """Return what came of fires planned for an instant or earlier, and executions of which there is no row at all."""
    later = {row.root_id for row in rows if row.origin == "schedule" and row.planned_ms > at_ms}
    kept = [row for row in rows if (row.origin_key if row.origin == "child" else row.root_id) not in later]
    left_out = {row.id for row in rows} - {row.id for row in kept}
    return kept, [item for item in executions if item.run_id not in left_out]


class _Fires:
    """The due fires, and the schedule's row of each."""

    def __init__(self, jobs: Mapping[int, Job], rows: Sequence[Row]) -> None:
        scheduled = [row for row in rows if row.origin == "schedule"]
        self.due = {(number, due) for number, job in jobs.items() for due in job.due}
        # when a fixed delay fires follows from its runs; whether it does is judged apart
        self.due |= {(row.job_id, row.planned_ms) for row in scheduled if _delay(jobs, row)}
        self.found: dict[tuple[int, int], list[Row]] = defaultdict(list)
        self.findings: list[Finding] = []
        skips: dict[int, list[Row]] = defaultdict(list)
        for row in scheduled:
            if row.state == "skipped" and row.skip_last_ms is not None:
                skips[row.job_id].append(row)
            elif row.shard_index == 0:
                self.found[row.job_id, row.planned_ms].append(row)
        for key in sorted(self.due | set(self.found)):
            self._judge(jobs, key, skips[key[0]])

    def _judge(self, jobs: Mapping[int, Job], key: tuple[int, int], skips: Sequence[Row]) -> None:
        job_id, due_ms = key
        what = f"{_name(jobs, job_id)}, due {due_ms}"
        mine = self.found.get(key, [])
        covering = [row for row in skips if row.planned_ms <= due_ms <= (row.skip_last_ms or 0)]
        if key not in self.due:
            self._add(
                Kind.NOT_DUE, 1, due_ms, f"{what}: has run {mine[0].id}, but the schedule calls for none then"
            )
        elif not mine and not covering:
            self._add(Kind.MISSING, 1, due_ms, f"{what}: has no row and no skip that covers it")
        elif not mine:
            self._add(
                Kind.SKIPPED, 0, due_ms, f"{what}: skipped by row {covering[0].id}, {covering[0].reason}"
            )
        if len(mine) + len(covering) > 1:
            ids = [row.id for row in (*mine, *covering)]
            self._add(Kind.TWICE_PLANNED, 1, due_ms, f"{what}: has {len(ids)} rows: {ids}")

    def _add(self, kind: Kind, invariant: int, due_ms: int, text: str) -> None:
        self.findings.append(Finding(kind, invariant, text, due_ms))


def _ends(jobs: Mapping[int, Job], rows: Iterable[Row]) -> Iterable[Finding]:
    """Every row ended as its job calls for; a skip that covers due times was judged with these."""
    kinds = {"skipped": Kind.SKIPPED, "lost": Kind.LOST, "refused": Kind.REFUSED}
    for row in rows:
        job = jobs.get(row.job_id)
        wanted = "failed" if job and row.attempt <= job.failures else "succeeded"
        if row.state == wanted or (row.state == "skipped" and row.skip_last_ms is not None):
            continue
        what = f"run {row.id} of {_name(jobs, row.job_id)}, due {row.planned_ms}, attempt {row.attempt}"
        if row.state in OPEN:
            yield Finding(Kind.OPEN, 4, f"{what}: is still {row.state}", row.planned_ms)
        else:
            why = f"{row.reason} {row.message[:80]}".strip()
            kind = kinds.get(row.state, Kind.OTHER_END)
            yield Finding(kind, 0, f"{what}: is {row.state}, {why}", row.planned_ms)


def _executions(
    jobs: Mapping[int, Job], rows: Sequence[Row], executions: Iterable[Execution]
) -> Iterable[Finding]:
    """One run is executed once, and no due time is executed more often than it has attempts."""
    by_run: dict[int, list[Execution]] = defaultdict(list)
    for item in executions:
        by_run[item.run_id].append(item)
    known = {row.id: row for row in rows}
    for run_id in sorted(set(known) | set(by_run)):
        row, mine = known.get(run_id), by_run.get(run_id, [])
        if row is None:
            yield Finding(Kind.EXECUTED_ANYWAY, 1, f"run {run_id}: was executed but has no row")
            continue
        what = f"run {run_id} of {_name(jobs, row.job_id)}, due {row.planned_ms}"
        if len(mine) > 1:
            where = ", ".join(f"{item.executor} at {item.at_ms}" for item in mine)
            yield Finding(Kind.DOUBLE, 2, f"{what}: was executed {len(mine)} times: {where}", row.planned_ms)
        if not mine and row.state in ("succeeded", "failed"):
            yield Finding(Kind.NOT_EXECUTED, 0, f"{what}: is {row.state}, and no handler ran", row.planned_ms)
        if mine and row.state in NEVER_RAN:
            text = f"{what}: was executed and is {row.state}, {row.reason}"
            yield Finding(Kind.EXECUTED_ANYWAY, 3, text, row.planned_ms)
    yield from _twice(jobs, rows, by_run)


def _twice(
    jobs: Mapping[int, Job], rows: Iterable[Row], by_run: Mapping[int, Collection[Execution]]
) -> Iterable[Finding]:
    """The runs of one fire and shard that were executed are no more than its job has attempts."""
    fires: dict[tuple[int, int, int], list[int]] = defaultdict(list)
    for row in rows:
        if row.origin != "child" and by_run.get(row.id):
            fires[row.job_id, row.planned_ms, row.shard_index].append(row.id)
    for (job_id, due_ms, shard), ids in sorted(fires.items()):
        job = jobs.get(job_id)
        if len(ids) > 1 + (job.failures if job else 0):
            text = f"{_name(jobs, job_id)}, due {due_ms}, shard {shard}: was executed by runs {ids}"
            yield Finding(Kind.DOUBLE, 2, text, due_ms)


def _retries(rows: Iterable[Row]) -> Iterable[Finding]:
    retries = Counter((row.job_id, row.origin_key) for row in rows if row.origin == "retry")
    for row in rows:
        count = retries.pop((row.job_id, row.id), 0)
        wanted = int(row.state in ("failed", "refused", "timed_out") and row.retries_left > 0)
        if count != wanted:
            text = f"run {row.id}: is {row.state} and has {count} retries, {wanted} expected"
            yield Finding(Kind.RETRY, 7, text, row.planned_ms)
    for (_, origin_key), count in retries.items():
        yield Finding(Kind.RETRY, 7, f"{count} retries are there of run {origin_key}, which is not")


def _children(jobs: Mapping[int, Job], rows: Sequence[Row]) -> Iterable[Finding]:
    born = Counter((row.job_id, row.origin_key) for row in rows if row.origin == "child")
    for row in rows:
        job = jobs.get(row.job_id)
        if job is None or not job.child or row.shard_index or row.state != "succeeded":
            continue
        count = born.pop((job.child, row.root_id), 0)
        if count != 1:
            text = f"run {row.root_id} of {job.name!r} succeeded and has {count} child runs, 1 expected"
            yield Finding(Kind.CHILD, 7, text, row.planned_ms)
    for (_, origin_key), count in born.items():
        yield Finding(
            Kind.CHILD, 7, f"{count} child runs are there of run {origin_key}, which did not succeed"
        )


def _delays(jobs: Mapping[int, Job], rows: Iterable[Row]) -> Iterable[Finding]:
    """Each fire of a fixed delay follows on the end of the one before, until the end of the job."""
    chains: dict[int, list[Row]] = defaultdict(list)
    for row in rows:
        if _delay(jobs, row) and row.origin == "schedule":
            chains[row.job_id].append(row)
    for job_id, job in jobs.items():
        if not job.delay_ms:
            continue
        wanted, slack_ms = job.first_ms, FIRST_MS
        for row in sorted(chains[job_id], key=lambda row: (row.planned_ms, row.id)):
            off_ms = row.planned_ms - wanted
            if not -FIRST_MS <= off_ms <= slack_ms:
                text = f"run {row.id} of {job.name!r}: is due {off_ms} ms off its predecessor's end and delay"
                yield Finding(Kind.DELAY, 8, text, row.planned_ms)
            wanted, slack_ms = (row.finished_ms or row.planned_ms) + job.delay_ms, CHAIN_MS
        if wanted + slack_ms <= job.end_ms:
            text = f"{job.name!r}, due {wanted}: the fixed delay stopped firing"
            yield Finding(Kind.MISSING, 8, text, wanted)


def _shards(jobs: Mapping[int, Job], rows: Iterable[Row]) -> Iterable[Finding]:
    roots: dict[tuple[int, int], list[Row]] = defaultdict(list)
    for row in rows:
        if row.origin == "schedule" and row.state not in ("skipped", "planned", "refused", "cancelled"):
            roots[row.job_id, row.root_id].append(row)
    for (job_id, root_id), mine in sorted(roots.items()):
        shards = jobs[job_id].shards if job_id in jobs else 1
        indexes, totals = sorted(row.shard_index for row in mine), {row.shard_total for row in mine}
        if indexes != list(range(shards)) or totals != {shards}:
            what = f"root {root_id} of {_name(jobs, job_id)}"
            text = f"{what}: has shards {indexes} of {sorted(totals)}, {shards} expected"
            yield Finding(Kind.SHARDS, 10, text, mine[0].planned_ms)


def _seen(watched: Watched, last: Mapping[int, str], overdue_limit_ms: int) -> Iterable[Finding]:
    for run_id, states in sorted(watched.states.items()):
        path = [*states, last.get(run_id, "gone")]
        for before, after in pairwise(path):
            if before != after and after not in _reachable(before):
                yield Finding(Kind.TRANSITION, 3, f"run {run_id}: went from {before} to {after}")
    for text in watched.fell:
        yield Finding(Kind.EPOCH, 5, text)
    for run_id, by_ms in sorted(watched.overdue.items()):
        if by_ms > overdue_limit_ms:
            yield Finding(Kind.OVERDUE, 4, f"run {run_id}: was overdue by {by_ms} ms and planned")
    for text in watched.delays:
        yield Finding(Kind.DELAY, 8, text)


def _reachable(state: str) -> set[str]:
    """Return all states that may follow, whatever lies in between: it need not have been seen."""
    found: set[str] = set()
    fresh = set(NEXT.get(state, ()))
    while fresh:
        found |= fresh
        fresh = {after for item in fresh for after in NEXT.get(item, ())} - found
    return found


def _lateness(
    found: Mapping[tuple[int, int], Sequence[Row]], executions: Iterable[Execution]
) -> list[tuple[int, int]]:
    first: dict[int, int] = {}
    for item in executions:
        first[item.run_id] = min(item.at_ms, first.get(item.run_id, item.at_ms))
    return sorted(
        (due_ms, min(first[row.id] for row in mine if row.id in first) - due_ms)
        for (_, due_ms), mine in found.items()
        if any(row.id in first for row in mine)
    )


def _delay(jobs: Mapping[int, Job], row: Row) -> bool:
    return row.job_id in jobs and jobs[row.job_id].delay_ms > 0


def _name(jobs: Mapping[int, Job], job_id: int) -> str:
    return repr(jobs[job_id].name) if job_id in jobs else f"job {job_id}"
