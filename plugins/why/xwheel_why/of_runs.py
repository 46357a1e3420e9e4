"""The verdict on a due time that has a row: a run, a skip row, or a run that was cancelled before it was sent."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from xwheel.model import FINAL_STATES, BlockScope, Origin, Run, RunState
from xwheel.model.reasons import WAITS, RunReason
from xwheel.model.versions import JobAction, JobVersion

from xwheel_why.audit import AuditAccess, AuditedDeed
from xwheel_why.facts import Evidence, Facts, Kind, Stage, Verdict
from xwheel_why.words import moment, quoted, span, who

LATE_MS: Final = 1000
"""A run that began later than this after its due time is called late."""

MOST_COUNTED: Final = 1000
"""A skip row counts so far; one more means at least this many."""

REASONS: Final = {reason.value: reason for reason in RunReason}
MADE_BY: Final = {
    RunReason.EDITED: (JobAction.EDIT, JobAction.RESTORE, JobAction.SYNC),
    RunReason.STOPPED: (JobAction.STOP, JobAction.SYNC),
    RunReason.DELETED: (JobAction.DELETE,),
    RunReason.CALENDAR: (JobAction.CALENDAR,),
    RunReason.CLOCK: (JobAction.CLOCK,),
    RunReason.PAUSED: (JobAction.PAUSE,),
}
"""Which changes of a job cancel its runs for which reason."""

ENDS: Final = {
    RunState.SUCCEEDED: "succeeded",
    RunState.FAILED: "failed",
    RunState.TIMED_OUT: "ran into the job's time limit",
    RunState.KILLED: "was killed",
    RunState.LOST: "is taken for lost",
    RunState.REFUSED: "was refused and not executed",
    RunState.RUNNING: "is running",
    RunState.DISPATCHING: "was sent, and its executor has not answered yet",
}
BEFORE: Final = {
    "planned": "before its row was planned",
    "due": "before it was to be sent: the job's jitter",
    "dispatched": "before its dispatch, where runs wait for an executor, for room or for an earlier run",
    "accepted": "until its executor had accepted it",
    "began": "at its executor, behind earlier runs",
}
"""What a stage that ended before the begin of a run was."""


def stages_of(run: Run, now_ms: int) -> list[Stage]:
    """Return the stages of a run's life that took time or are under way, in their order."""
    begin_ms, found = run.planned_ms, []
    is_open = run.state not in FINAL_STATES
    ends = (
        ("planned", run.created_ms),
        ("due", run.due_ms),
        ("dispatched", run.dispatched_ms),
        ("accepted", run.accepted_ms),
        *([("began", run.began_ms)] if run.began_ms != run.accepted_ms else []),
        ("finished", run.finished_ms),
    )
    for name, end_ms in ends:
        if end_ms is None:
            if not is_open:
                continue  # one that was refused was accepted by none
            if begin_ms < now_ms:
                stage = Stage(name=name, from_ms=begin_ms, to_ms=now_ms, took_ms=now_ms - begin_ms, is_over=False)
                found.append(stage)
            break
        if end_ms > begin_ms:  # what was ready before it was due took no time of the run's
            found.append(Stage(name=name, from_ms=begin_ms, to_ms=end_ms, took_ms=end_ms - begin_ms))
            begin_ms = end_ms
    return found


def row_of(run: Run, says: str) -> Evidence:
    """Return a run as a row that says something."""
    table = "run_history" if run.state in FINAL_STATES else "open_run"
    return Evidence(table=table, key=str(run.id), at_ms=run.finished_ms or run.created_ms, says=says)


def version_row(version: JobVersion) -> Evidence:
    """Return a version of a job as a row that says who changed it."""
    key = f"{version.job_id}/{version.revision}"
    return Evidence(table="job_version", key=key, at_ms=version.at_ms, says=f"{version.action} by {who(version)}")


def deed_row(deed: AuditedDeed) -> Evidence:
    """Return a row of the audit as one that says who did something."""
    return Evidence(table="audit", key=str(deed.id), at_ms=deed.at_ms, says=f"{deed.action} by {who(deed)}")


def without_audit(access: AuditAccess, what: str) -> list[str]:
    """Return what is missing because the audit was not read; nothing if it was."""
    why = {
        AuditAccess.ABSENT: "the audit is not installed, or not enabled",
        AuditAccess.HIDDEN: "the audit shows that to its readers only",
    }
    return [f"{what}: {why[access]}"] if access in why else []


def reason_of(run: Run) -> RunReason:
    """Return why a run is in its state; PLAIN if its state says it all, or the word is not known here."""
    return REASONS.get(run.reason, RunReason.PLAIN)


def sentence_of(run: Run) -> str:
    """Return what a row says about one run, in a few words."""
    reason = reason_of(run)
    return reason.sentence or f"It {_end(run)}."


def verdict_on_run(facts: Facts, run: Run) -> Verdict:
    """Return the verdict on a run that was not cancelled."""
    reason, stages = reason_of(run), stages_of(run, facts.now_ms)
    began_ms = run.began_ms
    lateness_ms = None if began_ms is None else max(0, began_ms - run.planned_ms)
    how = _how_it_went(facts, run, stages, lateness_ms)
    sentences = [reason.sentence, *_pause(facts, run), how, *_said(run), *_followed(facts, run)]
    evidence = [row_of(run, _row_words(run)), *(row_of(other, _row_words(other)) for other in facts.fire)]
    missing: list[str] = []
    if reason is RunReason.MISFIRE or run.kill_requested:
        more, missing = _who(facts, run)
        evidence += more
    if run.state is RunState.PLANNED and run.due_ms < facts.now_ms:
        waits_for = _in_the_way(facts, run)
        evidence += waits_for
        sentences += [f"{row.says}." for row in waits_for]
    return Verdict(
        kind=Kind.RUN,
        cause=reason.value or str(run.state),
        sentence=" ".join(part for part in sentences if part),
        run=run,
        runs=facts.fire,
        lateness_ms=lateness_ms,
        stages=stages,
        took_most=max(stages, key=lambda stage: stage.took_ms).name if stages else "",
        facts=_run_facts(facts, run),
        evidence=evidence,
        missing=[*missing, *(["more runs of this fire: only the newest were read"] if facts.has_more else [])],
    )


def verdict_on_skip(facts: Facts, row: Run) -> Verdict:
    """Return the verdict on a due time that was skipped."""
    reason = reason_of(row)
    sentences = [reason.sentence or "It was skipped.", *_pause(facts, row)]
    known: dict[str, Any] = {"run_id": row.id, "reason": row.reason}
    if row.skip_last_ms is not None:
        least = "at least " if row.skip_count > MOST_COUNTED else ""
        count = min(row.skip_count, MOST_COUNTED)
        times = f"{least}{count} due time{'s' if count != 1 else ''}"
        sentences.append(f"{times} from {moment(row.planned_ms)} to {moment(row.skip_last_ms)} were skipped together."
                         if count != 1 else f"It was skipped at {moment(row.created_ms)}.")  # fmt: skip
        known |= {"first_ms": row.planned_ms, "last_ms": row.skip_last_ms, "count": count, "is_at_least": bool(least)}
        known |= {"misfire_policy": str(facts.job.misfire_policy)}
    sentences += _said(row)
    evidence, missing = _who(facts, row)
    return Verdict(
        kind=Kind.SKIPPED,
        cause=reason.value or str(row.state),
        sentence=" ".join(sentences),
        run=row,
        facts=known,
        evidence=[row_of(row, _row_words(row)), *evidence],
        missing=missing,
    )


def verdict_on_cancelled(facts: Facts, row: Run) -> Verdict:
    """Return the verdict on a run that was cancelled, with who did it."""
    reason = reason_of(row)
    sentences = [reason.sentence or "It was cancelled before it began."]
    version = cancelling_version(facts, row, reason)
    known: dict[str, Any] = {"run_id": row.id, "reason": row.reason, "cancelled_ms": row.finished_ms}
    evidence, missing = _who(facts, row)
    if version is not None:
        sentences.append(f"That was done by {who(version)} at {moment(version.at_ms)}.")
        known |= {"by": version.actor, "by_kind": version.actor_kind, "why": version.reason}
        known |= {"revision": version.revision, "action": version.action}
        evidence = [version_row(version), *evidence]
    elif reason in MADE_BY:
        missing = [f"who did it: the version of the job of {moment(row.finished_ms or 0)} is not kept", *missing]
    elif reason is RunReason.KILLED_BY_USER and (kill := facts.audit.kill) is not None:
        sentences.append(f"That was done by {who(kill)} at {moment(kill.at_ms)}.")
        known |= {"by": kill.actor, "by_kind": kill.actor_kind, "why": kill.reason}
    sentences += _said(row)
    if reason is RunReason.PAUSED and facts.paused_since_ms is not None and _still_to_come(facts):
        sentences.append("Its misfire policy decides about it when schedules fire again.")
    return Verdict(
        kind=Kind.CANCELLED,
        cause=reason.value or str(row.state),
        sentence=" ".join(sentences),
        run=row,
        runs=[*(run for run in facts.cancelled if run.id != row.id), *facts.fire],
        facts=known,
        evidence=[row_of(row, _row_words(row)), *evidence],
        missing=missing,
    )


def cancelling_version(facts: Facts, row: Run, reason: RunReason) -> JobVersion | None:
    """Return the version of the job whose change cancelled a run, or None if it is not kept.

    Both were written in one transaction and have its time, but for runs of a deleted job that were found later.
    """
    actions, at_ms = MADE_BY.get(reason, ()), row.finished_ms or 0
    if same := [version for version in facts.versions if version.at_ms == at_ms and version.action in actions]:
        return same[0]
    if reason is not RunReason.DELETED:
        return None
    return next((version for version in facts.versions if version.action in actions and version.at_ms <= at_ms), None)


def _how_it_went(facts: Facts, run: Run, stages: Sequence[Stage], lateness_ms: int | None) -> str:
    if run.state is RunState.PLANNED:
        if run.due_ms >= facts.now_ms:
            return f"Run {run.id} is planned and is to be sent at {moment(run.due_ms)}."
        return f"Run {run.id} is planned and has waited {span(facts.now_ms - run.due_ms)} to be sent."
    end = _end(run)
    if lateness_ms is None:
        return f"Run {run.id} {end}."
    if lateness_ms <= LATE_MS:
        return f"Run {run.id} began {span(lateness_ms)} after its due time and {end}."
    before = max((stage for stage in stages if stage.name in BEFORE), key=lambda stage: stage.took_ms)
    most = f"{span(before.took_ms)} of that passed {BEFORE[before.name]}"
    return f"Run {run.id} began late, {span(lateness_ms)} after its due time, and {end}; {most}."


def _in_the_way(facts: Facts, run: Run) -> list[Evidence]:
    """Return what a run that is due and planned waits for, as far as rows tell."""
    holder, waiting, found = facts.holder, facts.waiting, []
    if holder is not None and not holder.is_alive:
        says = f"No living node holds partition {holder.partition}, which the run belongs to"
        found.append(Evidence(table="partition_lease", key=str(holder.partition), says=says))
    if waiting is None:
        return found
    if not waiting.live_executors:
        says = "Its group has no live executor now"
        found.append(Evidence(table="executor", key=f"group {run.group_id}", says=says))
    if 0 < waiting.max_running <= waiting.open_in_group:
        says = f"Executors of its group have {waiting.open_in_group} runs; its limit is {waiting.max_running}"
        found.append(Evidence(table="executor_group", key=str(run.group_id), says=says))
    if facts.job.block_scope is BlockScope.CLUSTER and waiting.open_of_job:
        first = min(waiting.open_of_job)
        says = f"Run {first} of the job is open, and the job runs once at a time in the whole cluster"
        found.append(Evidence(table="open_run", key=str(first), says=says))
    return found


def _end(run: Run) -> str:
    if run.reason.startswith(WAITS):
        return "is on its executor, which has not begun it: earlier runs are before it there"
    return ENDS.get(run.state, f"is {run.state}")


def _followed(facts: Facts, run: Run) -> Iterator[str]:
    """Give what became of the rest of the fire: its shards, retries and recoveries."""
    own = [other for other in facts.fire if other.shard_index == run.shard_index]
    for other in own:
        what = "recovery" if other.origin is Origin.RECOVERY else "retry"
        yield f"A {what} followed: run {other.id} (attempt {other.attempt}) is {other.state}."
    shards = [other for other in facts.fire if other.shard_index != run.shard_index and other.state != run.state]
    if shards:
        yield f"It has {run.shard_total} shards; {len(shards)} other runs of them are in another state."


def _run_facts(facts: Facts, run: Run) -> dict[str, Any]:
    known: dict[str, Any] = {
        "run_id": run.id, "origin": str(run.origin), "state": str(run.state), "reason": run.reason,
        "attempt": run.attempt, "address": run.address, "message": quoted(run.message),
    }  # fmt: skip
    if run.kill_requested and (kill := facts.audit.kill) is not None:
        known |= {"killed_by": kill.actor, "killed_by_kind": kill.actor_kind, "why": kill.reason}
    if run.origin in {Origin.RETRY, Origin.RECOVERY}:
        known["repeats_run_id"] = abs(run.origin_key)
    if run.origin is Origin.CHILD:
        known["parent_run_id"] = run.origin_key
    if facts.waiting is not None:
        known |= {"live_executors": facts.waiting.live_executors, "open_runs_of_job": len(facts.waiting.open_of_job)}
        known["wait_for_executor_s"] = facts.job.wait_for_executor_s
    return known


def _row_words(run: Run) -> str:
    words = [str(run.state), reason_of(run).sentence, f"message: {quoted(run.message)}" if run.message else ""]
    return ": ".join(word for word in words if word).replace(".: message", "; message")


def _who(facts: Facts, row: Run) -> tuple[list[Evidence], list[str]]:
    """Return what the audit adds to a row, and what is missing without it."""
    audit = facts.audit
    if row.kill_requested or row.reason == RunReason.KILLED_BY_USER:
        if audit.kill is not None:
            return [deed_row(audit.kill)], []
        missing = without_audit(audit.access, "who killed it")
        return [], missing or ["who killed it: the audit has no row of that any more"]
    if row.reason == RunReason.MISFIRE:
        missing = without_audit(audit.pauses_access, "whether all schedules were paused")
        return [deed_row(audit.pause)] if audit.pause is not None else [], missing
    return [], []


def _pause(facts: Facts, row: Run) -> Iterator[str]:
    pause = facts.audit.pause
    if row.reason == RunReason.MISFIRE and pause is not None:
        yield f"All schedules were paused since {moment(pause.at_ms)} by {who(pause)}."


def _still_to_come(facts: Facts) -> bool:
    next_ms = facts.job.next_fire_ms
    return next_ms is not None and facts.due_ms is not None and next_ms <= facts.due_ms


def _said(row: Run) -> list[str]:
    """Return the message of a row that did not end well, as a sentence."""
    line = quoted(row.message)
    if not line or row.state not in FINAL_STATES or row.state is RunState.SUCCEEDED:
        return []
    return [f"Its row says: {line if line.endswith(('.', '!', '?')) else f'{line}.'}"]
