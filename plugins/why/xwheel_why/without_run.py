"""The verdict on a due time without a row: the first of some rules that other rows prove."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from xwheel.model import FINAL_STATES
from xwheel.model.versions import JobAction, JobVersion
from xwheel.scheduler.jobs.jobs import SCHEDULE_FIELDS

from xwheel_why.facts import Cause, Evidence, Facts, Kind, Verdict
from xwheel_why.of_runs import deed_row, row_of, version_row, without_audit
from xwheel_why.words import moment, quoted, who

NONE: Final = "NONE"
"""The schedule type of jobs without a schedule."""

RESETS: Final = frozenset({JobAction.STOP, JobAction.DELETE, JobAction.START, JobAction.CALENDAR, JobAction.CLOCK})
"""Changes after which a job fires from its next due time on, or not at all."""

STOPS: Final = frozenset({JobAction.STOP, JobAction.SYNC, JobAction.RELEASE})
"""Changes that stop a job; those of code that declares it among them."""

Rule = Callable[[Facts], Verdict | None]
"""Returns the verdict on the time that is explained, if rows prove it."""


def verdict_without_run(facts: Facts) -> Verdict:
    """Return the verdict on a due time that has no row, or on a time that is none."""
    for rule in RULES:
        found = rule(facts)
        if found is not None:
            return found
    return _unknown(facts)


def _hidden(facts: Facts) -> Verdict | None:
    if not facts.is_hidden:
        return None
    return _missing(
        "There is a run, of a group to which the job belonged then and which the caller may not read.",
        ["what became of it: that is told to readers of that group"],
        {},
        [],
    )


def _not_created(facts: Facts) -> Verdict | None:
    created_ms = facts.job.created_ms
    if facts.asked_ms is None or facts.at_ms > created_ms:
        return None
    first = next((one for one in reversed(facts.versions) if one.action == JobAction.CREATE), None)
    by = f" by {who(first)}" if first is not None else ""
    rows = (
        [version_row(first)] if first is not None else [_job_row(facts, f"created at {moment(created_ms)}", created_ms)]
    )
    sentence = f"The job did not exist yet: it was created at {moment(created_ms)}{by}."
    return _no_run(Cause.NOT_CREATED, sentence, {"created_ms": created_ms, **_by(first)}, rows)


def _version_gone(facts: Facts) -> Verdict | None:
    if facts.then is not None:
        return None
    oldest = facts.versions[-1].at_ms if facts.versions else facts.job.updated_ms
    return _missing(
        f"Rows do not tell how the job was then: its versions before {moment(oldest)} are not kept.",
        [f"unknown before {moment(oldest)}: older versions of the job were deleted, or never written"],
        {"versions_from_ms": oldest},
        [version_row(facts.versions[-1])] if facts.versions else [],
    )


def _deleted(facts: Facts) -> Verdict | None:
    then = facts.then
    if then is None or then.action != JobAction.DELETE:
        return None
    sentence = f"The job was deleted at {moment(then.at_ms)} by {who(then)}."
    return _no_run(Cause.JOB_DELETED, sentence, {"deleted_ms": then.at_ms, **_by(then)}, [version_row(then)])


def _stopped(facts: Facts) -> Verdict | None:
    then = facts.then
    if then is None or _is_enabled(then):
        return None
    turn = _turned_off(facts)
    if turn is None or turn.action == JobAction.FOUND:
        missing = ["who stopped it, and when: that version of the job is not kept"]
        return _no_run(Cause.JOB_STOPPED, "The job was stopped.", {}, [version_row(then)], missing)
    if turn.action == JobAction.CREATE:
        sentence = f"The job had not been started since it was created at {moment(turn.at_ms)} by {who(turn)}."
        return _no_run(Cause.NEVER_STARTED, sentence, {"created_ms": turn.at_ms, **_by(turn)}, [version_row(turn)])
    if turn.action in STOPS:
        sentence = f"The job was stopped: {who(turn)} stopped it at {moment(turn.at_ms)}."
        return _no_run(Cause.JOB_STOPPED, sentence, {"stopped_ms": turn.at_ms, **_by(turn)}, [version_row(turn)])
    return _broken(facts, turn)


def _turned_off(facts: Facts) -> JobVersion | None:
    """Return the version since which the job was stopped, or None if it is not kept.

    One whose action stops no job only shows that the scheduler had stopped it before.
    """
    found = None
    for version in facts.earlier:
        if _is_enabled(version):
            return found
        found = version
    # the definitions that were read end here; what was done before is known without them
    if found is None or found.action in {*STOPS, JobAction.CREATE}:
        return found
    before = (one for one in facts.versions if one.revision < found.revision)
    return next((one for one in before if one.action in {JobAction.STOP, JobAction.CREATE}), None)


def _is_enabled(version: JobVersion) -> bool:
    return bool(version.definition.get("enabled", True))


def _schedule_broken(facts: Facts) -> Verdict | None:
    """Find that the scheduler itself stopped the job: it writes no version, so rows after it tell that."""
    then, job = facts.then, facts.job
    if then is None:
        return None
    shown = _shown_stopped(facts)
    is_after_last = job.last_fire_ms is None or facts.at_ms > job.last_fire_ms
    if job.schedule_error and not job.enabled and is_after_last and (shown is not None or not facts.later):
        return _broken(facts, then)
    if shown is None or _is_gone(facts):
        return None
    what = "started it again" if shown.action == JobAction.START else f"changed it ({shown.action})"
    sentence = (
        f"The scheduler itself had stopped the job, since its schedule failed; {who(shown)} {what} at "
        f"{moment(shown.at_ms)}."
    )
    known = {"changed_ms": shown.at_ms, "action": shown.action, **_by(shown)}
    return _no_run(Cause.SCHEDULE_ERROR, sentence, known, [version_row(then), version_row(shown)], [_error_gone()])


def _shown_stopped(facts: Facts) -> JobVersion | None:
    """Return the first later version that shows that the scheduler had stopped the job, before which none reset it.

    It is a start, which is written for stopped jobs alone, or one that is stopped by an action that stops no job.
    """
    for version in facts.later:
        if version.action == JobAction.START:
            return version
        if not _is_enabled(version):
            return None if version.action in {*STOPS, JobAction.DELETE, JobAction.FOUND} else version
        if is_reset(facts.then, version):
            return None
    return None


def _broken(facts: Facts, version: JobVersion) -> Verdict:
    error = facts.job.schedule_error
    rows = [version_row(version)]
    if not error:
        sentence = "The scheduler itself had stopped the job, since its schedule failed."
        return _no_run(Cause.SCHEDULE_ERROR, sentence, {"revision": version.revision}, rows, [_error_gone()])
    sentence = f"The scheduler stopped the job, since its schedule failed: {quoted(error)}"
    known = {"schedule_error": error, "last_fire_ms": facts.job.last_fire_ms}
    rows = [_job_row(facts, f"schedule_error: {quoted(error)}"), *rows]
    return _no_run(Cause.SCHEDULE_ERROR, sentence, known, rows, ["when that was: the job's row does not say"])


def _error_gone() -> str:
    return "how the schedule failed, and when: that is kept only until the job is started again"


def _no_schedule(facts: Facts) -> Verdict | None:
    job = facts.job_then
    if job is None or job.schedule_type != NONE:
        return None
    sentence = "The job has no schedule: it runs only when a person, a program or a parent job runs it."
    return _no_run(Cause.NO_SCHEDULE, sentence, {"schedule_type": NONE}, _then_rows(facts))


def _waits(facts: Facts) -> Verdict | None:
    """Find that the run before was not over yet: the end of a fire sets the next one."""
    if not facts.awaits_completion:
        return None
    run = facts.awaited if facts.awaited is not None and not facts.later else facts.previous
    if run is None:
        return None
    last_ms = None if run.state not in FINAL_STATES else max(one.finished_ms or 0 for one in (run, *facts.fire))
    is_open = last_ms is None or any(one.state not in FINAL_STATES for one in facts.fire)
    if facts.at_ms <= run.planned_ms or (not is_open and facts.at_ms >= (last_ms or 0)):
        return None
    until = "is not over yet" if is_open else f"was over at {moment(last_ms or 0)}"
    sentence = (
        f"The job fires again when its last run has ended: run {run.id}, due at {moment(run.planned_ms)}, {until}."
    )
    known = {"run_id": run.id, "state": str(run.state), "ended_ms": None if is_open else last_ms}
    return _no_run(Cause.WAITS_FOR_RUN, sentence, known, [row_of(run, str(run.state)), *_then_rows(facts)])


def _not_asked(facts: Facts) -> Verdict | None:
    error = facts.naming.error
    if not error:
        return None
    return _missing(
        "Whether the schedule names this time is not known: it could not be asked.",
        [f"the due times of the schedule: {quoted(error)}"],
        {"schedule_type": facts.job_then.schedule_type if facts.job_then else None},
        _then_rows(facts),
    )


def _excluded(facts: Facts) -> Verdict | None:
    names, job = facts.naming.calendars, facts.job_then
    if not names or job is None:
        return None
    if any(name in facts.naming.changed_calendars for name in names):
        return _calendars_changed(facts)
    said = [f"{'excluded by' if name in job.calendar_exclude else 'not in'} calendar {name}" for name in names]
    sentence = f"The schedule names this time, and it is {' and '.join(said)}."
    rows = [Evidence(table="calendar", key=name, says=words) for name, words in zip(names, said, strict=True)]
    return _no_run(
        Cause.CALENDAR_EXCLUDES, sentence, {"calendars": list(names), **_near(facts)}, [*rows, *_then_rows(facts)]
    )


def _calendars_changed(facts: Facts) -> Verdict | None:
    changed = facts.naming.changed_calendars
    if not changed:
        return None
    said = [f"calendar {name} was changed at {moment(ms)}" for name, ms in sorted(changed.items())]
    return _missing(
        "Whether a calendar of the job allowed this time then is not known.",
        [f"{words}: what it held before is not kept" for words in said],
        {"calendars": sorted(changed), **_near(facts)},
        [Evidence(table="calendar", key=name, at_ms=ms, says="changed since") for name, ms in sorted(changed.items())],
    )


def _outside(facts: Facts) -> Verdict | None:
    field, job = facts.naming.outside, facts.job_then
    if not field or job is None:
        return None
    edge_ms = getattr(job, field)
    words = "begins only at" if field == "start_ms" else "ended at"
    sentence = f"The schedule {words} {moment(edge_ms)} ({field}); without that it would name this time."
    return _no_run(Cause.OUTSIDE_PERIOD, sentence, {field: edge_ms, **_near(facts)}, _then_rows(facts))


def _not_named(facts: Facts) -> Verdict | None:
    if facts.naming.is_named:
        return None
    job, near = facts.job_then, _near(facts)
    if facts.asked_ms is None:
        sentence = "The job has had no due time yet: " + (
            f"its first one is {moment(near['after_ms'])}." if near["after_ms"] else "its schedule names none."
        )
        return _no_run(Cause.NO_DUE_TIME, sentence, near, _then_rows(facts))
    around = [f"{words} {moment(ms)}" for words, ms in zip(("before", "after"), near.values(), strict=True) if ms]
    nearest = f"; the nearest one{'s' if len(around) > 1 else ''}: {', '.join(around)}" if around else ""
    words = f"{job.schedule_type} {quoted(job.schedule_conf)}" if job is not None else "as it was then"
    sentence = f"The schedule that was valid then ({words}) names no such time{nearest}."
    return _no_run(Cause.NO_SUCH_TIME, sentence, near, _then_rows(facts))


def _not_due(facts: Facts) -> Verdict | None:
    if facts.at_ms <= facts.now_ms:
        return None
    pause = " All schedules are paused now." if facts.paused_since_ms is not None else ""
    sentence = f"It is not due yet; its run is planned some seconds before {moment(facts.at_ms)}.{pause}"
    known = {"next_fire_ms": facts.job.next_fire_ms, "paused_since_ms": facts.paused_since_ms}
    return _no_run(
        Cause.NOT_DUE_YET,
        sentence,
        known,
        [_job_row(facts, f"next_fire_ms {moment(facts.job.next_fire_ms or facts.at_ms)}")],
    )


def _not_planned(facts: Facts) -> Verdict | None:
    """Find that it is still to be planned: the job's next fire is this due time, or an earlier one."""
    next_ms = facts.job.next_fire_ms
    if next_ms is None or next_ms > facts.at_ms or any(is_reset(facts.then, one) for one in facts.later):
        return None
    row = _job_row(facts, f"next_fire_ms {moment(next_ms)}: planned up to there")
    if facts.paused_since_ms is not None:
        return _paused(facts, row)
    holder = facts.holder
    if holder is None:
        return None
    known = {"partition": holder.partition, "node": holder.node, "next_fire_ms": next_ms}
    lease = Evidence(table="partition_lease", key=str(holder.partition), says=f"owner {holder.node or 'none'}")
    if not holder.is_alive:
        held = f"node {quoted(holder.node)}, which does not live" if holder.node else "no node"
        sentence = f"It is due and not planned: partition {holder.partition} of the job is held by {held}."
        return _no_run(Cause.NOT_PLANNED_NO_NODE, sentence, known, [row, lease])
    sentence = (
        f"It is due and not planned yet: node {quoted(holder.node or '')} holds the job's partition and is behind with "
        "its planning."
    )
    node = Evidence(table="node", key=holder.node or "", at_ms=holder.started_ms, says="alive")
    known["node_started_ms"] = holder.started_ms
    return _no_run(Cause.NOT_PLANNED_NODE_BEHIND, sentence, known, [row, lease, node])


def _paused(facts: Facts, row: Evidence) -> Verdict:
    since_ms = facts.paused_since_ms or 0
    pause = facts.audit.present_pause
    by = f" by {who(pause)}" if pause is not None else ""
    sentence = (
        f"All schedules are paused since {moment(since_ms)}{by}. The job's misfire policy decides about this due time "
        "when they fire again."
    )
    rows = [Evidence(table="setting", key="paused", at_ms=since_ms, says=f"since {moment(since_ms)}"), row]
    known: dict[str, Any] = {"paused_since_ms": since_ms, "misfire_policy": str(facts.job.misfire_policy)}
    if pause is not None:
        rows.append(deed_row(pause))
        known |= {"by": pause.actor, "by_kind": pause.actor_kind, "why": pause.reason}
    missing = without_audit(facts.audit.pauses_access, "who paused them")
    if pause is None and not missing:
        missing = ["who paused them: the audit has no row of that any more"]
    return _no_run(Cause.SCHEDULES_PAUSED, sentence, known, rows, missing)


def _history_gone(facts: Facts) -> Verdict | None:
    from_ms = facts.kept_from_ms
    if from_ms is None or not _is_gone(facts):
        return None
    return _missing(
        "The schedule names this time, and what became of it is not kept: runs of then were deleted by retention.",
        [f"unknown before {moment(from_ms)}: runs were deleted by retention"],
        {"kept_from_ms": from_ms},
        _then_rows(facts),
    )


def _is_gone(facts: Facts) -> bool:
    """Return whether runs of a time may have been deleted as old."""
    return facts.kept_from_ms is not None and facts.at_ms < facts.kept_from_ms


def _changed(facts: Facts) -> Verdict | None:
    """Find that a later change of the job took away what was due and not planned yet."""
    change = next((one for one in facts.later if is_reset(facts.then, one)), None)
    if change is None:
        return None
    sentence = (
        f"It was due and not planned yet when {who(change)} changed the job at {moment(change.at_ms)} "
        f"({change.action}): since then the job fires by that change."
    )
    known = {"changed_ms": change.at_ms, "action": change.action, "revision": change.revision, **_by(change)}
    rows, pause = [version_row(change)], facts.audit.pause
    missing = ["why no node had planned it until then: nodes keep no record of when they were down"]
    if pause is not None:
        sentence += f" All schedules had been paused at {moment(pause.at_ms)} by {who(pause)}."
        rows, missing = [*rows, deed_row(pause)], []
    return _no_run(Cause.CHANGED_BEFORE_PLANNED, sentence, known, rows, missing)


def is_reset(then: JobVersion | None, version: JobVersion) -> bool:
    """Return whether a later version made the job fire from then on, by its action or by another schedule."""
    if version.action in RESETS:
        return True
    if then is None:
        return False
    return any(version.definition.get(name) != then.definition.get(name) for name in (*SCHEDULE_FIELDS, "enabled"))


def _unknown(facts: Facts) -> Verdict:
    missing = ["what became of it: there is no run, no skip row and no change of the job that covers it"]
    if not facts.is_searched:
        missing.append("skip rows: the job has more runs around this time than are searched")
    return _missing("The schedule names this time, and no row tells what became of it.", missing, {}, _then_rows(facts))


def _no_run(
    cause: Cause, sentence: str, known: dict[str, Any], rows: Sequence[Evidence], missing: Sequence[str] = ()
) -> Verdict:
    return Verdict(kind=Kind.NO_RUN, cause=cause, sentence=sentence, facts=known, evidence=rows, missing=missing)


def _missing(sentence: str, missing: Sequence[str], known: dict[str, Any], rows: Sequence[Evidence]) -> Verdict:
    return Verdict(
        kind=Kind.UNKNOWN, cause=Cause.UNKNOWN, sentence=sentence, facts=known, evidence=rows, missing=missing
    )


def _by(version: JobVersion | None) -> dict[str, Any]:
    if version is None:
        return {}
    return {"by": version.actor, "by_kind": version.actor_kind, "why": version.reason, "revision": version.revision}


def _near(facts: Facts) -> dict[str, Any]:
    return {"before_ms": facts.naming.before_ms, "after_ms": facts.naming.after_ms}


def _then_rows(facts: Facts) -> list[Evidence]:
    return [version_row(facts.then)] if facts.then is not None else []


def _job_row(facts: Facts, says: str, at_ms: int | None = None) -> Evidence:
    return Evidence(table="job", key=str(facts.job.id), at_ms=at_ms, says=says)


RULES: Final[Sequence[Rule]] = (
    _hidden,
    _not_created,
    _version_gone,
    _deleted,
    _stopped,
    _schedule_broken,
    _no_schedule,
    _waits,
    _not_asked,
    _outside,
    _excluded,
    _not_named,
    _not_due,
    _not_planned,
    _history_gone,
    _calendars_changed,
    _changed,
)
"""In the order in which they are tried; each is about what those before it leave."""
