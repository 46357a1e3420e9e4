"""The words of an alarm: a title of one line, and the same at length. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from xwheel.model import ExecutorGroup, Job, Run
from xwheel.model.alarms import AlarmKind, AlarmRow
from xwheel.plugin import Alarm

LINES: Final = 50
"""Jobs that a summary names; the others are a number."""

WORDS: Final = {
    AlarmKind.FAILED: "failed",
    AlarmKind.LOST: "was lost",
    AlarmKind.REFUSED: "was refused",
    AlarmKind.SKIPPED: "was skipped",
    AlarmKind.NOT_RUN: "did not run",
    AlarmKind.STILL_RUNNING: "is still running",
    AlarmKind.SCHEDULE_ERROR: "was stopped, its schedule fails",
    AlarmKind.RECOVERED: "is well again",
    AlarmKind.TEST: "test",
}


def make_alarm(
    row: AlarmRow,
    job: Job | None,
    group: ExecutorGroup | None,
    run: Run | None,
    *,
    members: Sequence[AlarmRow] = (),
    names: dict[int, str] | None = None,
    receivers: Sequence[str] = (),
) -> Alarm:
    """Return what a channel is asked to tell.

    Args:
        row: The alarm.
        job: Its job.
        group: Its job's group.
        run: The run that it is about, if it is still there.
        members: For a summary, what else it counts.
        names: Names of the jobs of those, by id.
        receivers: Who shall get it.
    """
    if members:
        title, text = _summary([row, *members], names or {}, row.count)
        if len({item.job_id for item in (row, *members)}) > 1:
            job, group, run = None, None, None
    else:
        title = _title(row, job)
        text = "\n".join([title, *_facts(row, job, group, run)])
    return Alarm(
        id=row.id,
        kind=row.kind,
        at_ms=row.at_ms,
        title=title,
        text=text,
        reason=row.reason,
        job=job,
        group=group,
        run=run,
        count=row.count,
        receivers=tuple(receivers),
    )


def _title(row: AlarmRow, job: Job | None) -> str:
    if row.kind is AlarmKind.TEST:
        return "Test of an alarm channel"
    name = " ".join(job.name.split()) if job is not None else ""
    title = f"Job {row.job_id}{f' ({name})' if name else ''} {WORDS[row.kind]}"
    if row.kind is AlarmKind.RECOVERED:
        return title
    return f"{title} {row.count} times" if row.count > 1 else title


def _facts(row: AlarmRow, job: Job | None, group: ExecutorGroup | None, run: Run | None) -> list[str]:
    if row.kind is AlarmKind.TEST:
        return ["Nothing happened: somebody tried whether alarms arrive."]
    is_end = row.kind is AlarmKind.RECOVERED
    facts = [
        ("At", _time(row.at_ms)),
        ("Last", _time(row.last_ms) if row.last_ms > row.at_ms else ""),
        ("Was told before" if is_end else "Reason", row.reason),
        ("Not told since", str(row.count - 1) if is_end and row.count > 1 else ""),
        ("Message", row.message),
        ("Run", str(row.run_id or "")),
        *(_run_facts(run) if run is not None else ()),
        ("Group", group.app_name if group is not None else ""),
        ("Handler", job.handler if job is not None else ""),
    ]
    return [f"{name}: {value}" for name, value in facts if value]


def _run_facts(run: Run) -> list[tuple[str, str]]:
    return [
        ("Due", _time(run.due_ms)),
        ("Attempt", str(run.attempt)),
        ("Shard", f"{run.shard_index} of {run.shard_total}" if run.shard_total > 1 else ""),
        ("Executor", run.address or ""),
    ]


def _summary(rows: Sequence[AlarmRow], names: dict[int, str], count: int) -> tuple[str, str]:
    title = f"Quiet hours are over: {count} alarms of {len({row.job_id for row in rows})} jobs"
    lines = [
        f"Job {row.job_id}{f' ({name})' if (name := names.get(row.job_id or 0, '')) else ''} {WORDS[row.kind]}, "
        f"last at {_time(row.last_ms)}{f': {row.reason}' if row.reason else ''}"
        for row in rows[:LINES]
    ]
    if len(rows) > LINES:
        lines.append(f"and {len(rows) - LINES} more")
    return title, "\n".join([title, *lines])


def _time(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
