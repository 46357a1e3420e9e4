"""Retries, recovery runs, child runs, joins, fixed delays, shards and runs by hand: each there once. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from xwheel_devtools.verify.records import (
    Did,
    Disturbances,
    ExpectedJob,
    Finding,
    FindingKind,
    RunRow,
    UserAction,
    is_delay,
    name_of,
)

FIRST_MS: Final = 50
"""So far from its start plus its delay a fixed delay's first fire may be planned."""

RETRYABLE: Final = frozenset({"failed", "refused", "timed_out"})
FAILED_OVER: Final = "failed_over"
"""Reason of a run that goes to the next executor without using up a retry."""


def retries(
    jobs: Mapping[int, ExpectedJob], rows: Sequence[RunRow], actions: Sequence[UserAction]
) -> Iterable[Finding]:
    """Find failures without their one retry, lost runs without their recovery run, and further ones of either."""
    # what a stop or a new schedule cancels has its own id, negative, in place of what it existed for
    there = [row for row in rows if row.origin_key > 0]
    retried = Counter(row.origin_key for row in there if row.origin == "retry")
    recovered = Counter(row.origin_key for row in there if row.origin == "recovery")
    shards_recovered = Counter((row.root_id, row.shard_index) for row in there if row.origin == "recovery")
    stopped = {item.job_id for item in actions if item.did in (Did.STOP, Did.RESCHEDULE)}
    for row in rows:
        job = jobs.get(row.job_id)
        count, recoveries = retried.pop(row.id, 0), recovered.pop(row.id, 0)
        wanted = int(
            not row.kill_requested and (row.reason == FAILED_OVER or (row.state in RETRYABLE and row.retries_left > 0))
        )
        # a planned retry ends with its job's schedule, and what was lost first has its recovery run
        may_differ = row.job_id in stopped or shards_recovered[row.root_id, row.shard_index] > 0
        if count != wanted and not (may_differ and count < wanted):
            what = f"run {row.id} of {name_of(jobs, row.job_id)}"
            text = f"{what}: is {row.state} and has {count} retries, {wanted} expected"
            yield Finding(FindingKind.RETRY, 7, text, row.planned_ms)
        recovers = job is not None and job.recover_lost and not row.kill_requested and row.job_id not in stopped
        is_first = shards_recovered[row.root_id, row.shard_index] == recoveries
        if recoveries > 1 or (row.state == "lost" and recovers and is_first and not recoveries):
            text = f"run {row.id} of {name_of(jobs, row.job_id)}: is {row.state} and has {recoveries} recovery runs"
            yield Finding(FindingKind.RETRY, 7, text, row.planned_ms)
    for origin_key, count in (retried + recovered).items():
        yield Finding(FindingKind.RETRY, 7, f"{count} retries are there of run {origin_key}, which is not")


def children(jobs: Mapping[int, ExpectedJob], rows: Sequence[RunRow]) -> Iterable[Finding]:
    """Find successes without one run of each child, and chains without one run of each join whose parents succeeded."""
    born = Counter((row.job_id, row.origin_key) for row in rows if row.origin == "child")
    succeeded = _succeeded(rows)
    joins: dict[tuple[int, int], set[int]] = defaultdict(set)
    for root_id, first in sorted(succeeded.items()):
        job = jobs.get(first.job_id)
        for child in job.children if job else ():
            if child in jobs and jobs[child].parents:
                joins[child, first.chain_id or root_id].add(first.job_id)
                continue
            count = born.pop((child, root_id), 0)
            if count != 1:
                text = f"run {root_id} of {name_of(jobs, first.job_id)} succeeded and has {count} runs of "
                yield Finding(FindingKind.CHILD, 7, f"{text}{name_of(jobs, child)}, 1 expected", first.planned_ms)
    for (child, chain_id), parents in sorted(joins.items()):
        wanted, count = int(parents == set(jobs[child].parents)), born.pop((child, chain_id), 0)
        if count != wanted:
            text = f"{name_of(jobs, child)} has {count} runs in chain {chain_id}, {wanted} expected"
            yield Finding(FindingKind.CHILD, 7, text)
    for (child, origin_key), count in born.items():
        text = f"{count} runs of {name_of(jobs, child)} are there of run {origin_key}, which did not succeed"
        yield Finding(FindingKind.CHILD, 7, text)


def _succeeded(rows: Iterable[RunRow]) -> dict[int, RunRow]:
    """Return the first run of each fire of which every shard succeeded, in one of its attempts, by root id."""
    roots: dict[int, list[RunRow]] = defaultdict(list)
    for row in rows:
        roots[row.root_id or row.id].append(row)
    found: dict[int, RunRow] = {}
    for root_id, mine in roots.items():
        good = {row.shard_index for row in mine if row.state == "succeeded"}
        if good >= set(range(max(row.shard_total for row in mine))):
            found[root_id] = min(mine, key=lambda row: (row.attempt, row.shard_index))
    return found


def delays(jobs: Mapping[int, ExpectedJob], rows: Iterable[RunRow], disturbances: Disturbances) -> Iterable[Finding]:
    """Find fires of a fixed delay that do not follow on the end of the one before, until the end of the job."""
    if disturbances.clock_moved:
        return
    fires: dict[int, list[RunRow]] = defaultdict(list)
    ends: Counter[int] = Counter()
    for row in rows:
        if is_delay(jobs, row):
            ends[row.root_id or row.id] = max(ends[row.root_id or row.id], row.finished_ms or 0)
            if row.origin == "schedule" and row.state != "cancelled":
                fires[row.job_id].append(row)
    for job_id, job in jobs.items():
        if not job.delay_ms:
            continue
        wanted, slack_ms = job.first_ms, FIRST_MS
        for row in sorted(fires[job_id], key=lambda row: (row.planned_ms, row.id)):
            off_ms = row.planned_ms - wanted
            if not -FIRST_MS <= off_ms <= slack_ms:
                text = f"run {row.id} of {job.name!r}: is due {off_ms} ms off its predecessor's end and delay"
                yield Finding(FindingKind.DELAY, 8, text, row.planned_ms)
            wanted = (ends[row.root_id or row.id] or row.planned_ms) + job.delay_ms
            slack_ms = disturbances.slack_ms
        if wanted + slack_ms <= job.end_ms:
            text = f"{job.name!r}, due {wanted}: the fixed delay stopped firing"
            yield Finding(FindingKind.MISSING, 8, text, wanted)


def shards(jobs: Mapping[int, ExpectedJob], rows: Iterable[RunRow], disturbances: Disturbances) -> Iterable[Finding]:
    """Find fires whose shards are not 0 to N - 1, or have unequal totals."""
    roots: dict[tuple[int, int], list[RunRow]] = defaultdict(list)
    for row in rows:
        if row.origin == "schedule" and row.state not in ("skipped", "planned", "refused", "cancelled"):
            roots[row.job_id, row.root_id].append(row)
    for (job_id, root_id), mine in sorted(roots.items()):
        most = jobs[job_id].shards if job_id in jobs else 1
        indexes, totals = sorted(row.shard_index for row in mine), {row.shard_total for row in mine}
        count = max(totals)
        # as many as there were executors then; a shard that was refused has a row that was left out above
        is_number = count <= most if disturbances.executors_ended else count == most
        is_whole = set(indexes) <= set(range(count)) if disturbances.executors_ended else indexes == list(range(count))
        if not is_number or not is_whole or len(totals) > 1 or len(set(indexes)) < len(indexes):
            what = f"root {root_id} of {name_of(jobs, job_id)}"
            text = f"{what}: has shards {indexes} of {sorted(totals)}, {most} expected"
            yield Finding(FindingKind.SHARDS, 10, text, mine[0].planned_ms)


def by_hand(
    jobs: Mapping[int, ExpectedJob], rows: Iterable[RunRow], actions: Sequence[UserAction]
) -> Iterable[Finding]:
    """Find runs by hand that were answered and are not there, or are there though none was asked for."""
    asked = [item for item in actions if item.did is Did.RUN]
    known = {item.run_id for item in asked if item.run_id}
    unknown = Counter(item.job_id for item in asked if not item.run_id)
    found = {row.id: row.job_id for row in rows if row.origin == "api" and row.shard_index == 0}
    for run_id in sorted(known - found.keys()):
        yield Finding(FindingKind.BY_HAND, 1, f"run {run_id} was asked for by hand and answered, and is not there")
    further = Counter(job_id for run_id, job_id in found.items() if run_id not in known)
    for job_id, count in further.items():
        if count > unknown[job_id]:
            text = f"{name_of(jobs, job_id)} has {count} runs by hand more than were asked for"
            yield Finding(FindingKind.BY_HAND, 1, text)
