"""Mistakes in planning, and in what people change while runs are on their way."""

from __future__ import annotations

from tests.mutants import Mistake

MISTAKES = [
    Mistake(
        file="xwheel/scheduler/plan/rules.py",
        old="missed.pop(0 if uncounted else -1)",
        new="missed.pop(-1)",
        why="A fire that was made up for stands within its own range of skipped fires.",
        tests=("tests/unit/scheduler/plan/test_rules.py",),
    ),
    Mistake(
        file="xwheel/scheduler/jobs/pause.py",
        old="            if job.enabled:  # one that was stopped",
        new="            if True:  # one that was stopped",
        why="A pause gives a stopped job a next fire (R11).",
        tests=("tests/component/scheduler/jobs/test_pause.py",),
    ),
    Mistake(
        file="xwheel/scheduler/jobs/set_back.py",
        old="        if at_ms - self._since_ms < SETTLED_MS:",
        new="        if False:",
        why="A clock that goes back for some seconds plans all jobs again.",
        tests=("tests/component/scheduler/jobs/test_set_back.py",),
    ),
    Mistake(
        file="xwheel/scheduler/jobs/set_back.py",
        old="        if steps != self._steps:",
        new="        if False:",
        why="A clock that is set back while a node runs is only noticed by the next node (R48).",
        tests=("tests/component/scheduler/jobs/test_set_back.py",),
    ),
    Mistake(
        file="xwheel/scheduler/jobs/set_back.py",
        old="    return max(job.updated_ms, job.last_fire_ms or 0)",
        new="    return job.last_fire_ms or 0",
        why="A job that was started while the clock was ahead, and has not fired, stands still (R48).",
        tests=("tests/component/scheduler/jobs/test_set_back.py",),
    ),
    Mistake(
        file="xwheel/scheduler/jobs/set_back.py",
        old="now_ms < job.anchor_ms <= _written_ms(job)",
        new="now_ms < job.anchor_ms",
        why="A clock that is set back takes away an anchor that somebody set.",
        tests=("tests/component/scheduler/jobs/test_set_back.py",),
    ),
    Mistake(
        file="xwheel/scheduler/jobs/set_back.py",
        old="            runs.free_skipped(conn, ids, now_ms)\n",
        new="",
        why="What was skipped while the clock was ahead does not run at its time either.",
        tests=("tests/component/scheduler/jobs/test_set_back.py",),
    ),
    Mistake(
        file="xwheel/scheduler/jobs/jobs.py",
        old="        self._cancel_planned(conn, [job.id for job, _ in fires], reason, now_ms, (Origin.SCHEDULE,))",
        new="        self._cancel_planned(conn, [job.id for job, _ in fires], reason, now_ms)",
        why="A clock that is set back cancels retries.",
        tests=("tests/component/scheduler/jobs/test_set_back.py",),
    ),
    Mistake(
        file="xwheel/scheduler/jobs/jobs.py",
        old="        if waits and job.awaits_root in runs.find_open_roots(conn, {job.awaits_root or 0}):",
        new="        if waits and job.awaits_root is None:",
        why="An edited fixed delay fires while its run is still open.",
        tests=("tests/component/scheduler/jobs/test_edits.py",),
    ),
    Mistake(
        file="xwheel/scheduler/finish/finish.py",
        old="job.id not in asked or asked[job.id].revision != job.revision",
        new="job.id not in asked",
        why="A fixed delay that is edited while its run ends goes on by the old schedule.",
        tests=("tests/component/scheduler/jobs/test_edits.py",),
    ),
    Mistake(
        file="xwheel/scheduler/fire/limits.py",
        old="key=lambda item: (item.run.due_ms, item.run.id)",
        new="key=lambda item: item.run.id",
        why="A limit lets the row that was made first go, not the run that is due first.",
        tests=("tests/component/scheduler/fire/test_limits.py",),
    ),
    Mistake(
        file="xwheel/scheduler/send/results.py",
        old="run.attempt >= MOST_OVER or not goes_on",
        new="not goes_on",
        why="A run that never meets a connection is promised another attempt at its last one.",
        tests=("tests/component/scheduler/send/test_unreached.py",),
    ),
    Mistake(
        file="xwheel/scheduler/plan/rules.py",
        old="        if job.block_scope is BlockScope.CLUSTER or job.group_id in limited:",
        new="        if job.block_scope is BlockScope.CLUSTER:",
        why="Runs that wait for room in their group are skipped when another node takes over (N42).",
        tests=("tests/unit/scheduler/plan/test_rules.py",),
    ),
    Mistake(
        file="xwheel/scheduler/jobs/jobs.py",
        old='        if schedule != (merged.schedule_type, merged.schedule_conf) and "anchor_ms" not in changes:',
        new="        if False:",
        why="An interval that is edited counts from the day on which the job was made (N42).",
        tests=("tests/component/scheduler/jobs/test_edits.py",),
    ),
    Mistake(
        file="xwheel/scheduler/check/loop.py",
        old="            executor = live.get(name_of(holder))",
        new="            executor = live.get(name_of(holder._replace(instance='')))",
        why="An executor that moved to another port is not asked there about its runs (N42).",
        tests=("tests/component/scheduler/check/test_loop.py",),
    ),
]
