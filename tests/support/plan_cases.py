"""A call of every function in ``xwheel.storage`` that asks a database, over the rows of :mod:`tests.support.million`.

Each reads at most :data:`ROWS` rows or index entries, however many there are; those that may read more say why.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection

from tests.support.million import BUSY_CHAIN, BUSY_GROUP, BUSY_JOB, HOUR_MS, JOBS, QUIET_JOB, RUNS, SENT, WAITING
from tests.support.rows import NOW, job_values, make_executor, make_run
from xwheel.model import OPEN_STATES, PARTITIONS, ChildLink, EnteredAddress, NewSource, Origin, RunState
from xwheel.runtime.sealing import KeyRing
from xwheel.storage import (
    executors,
    history_days,
    jobs,
    leases,
    open_runs,
    plugin_rows,
    retention,
    run_ids,
    run_list,
    runs,
    scripts,
    settings,
)
from xwheel.storage.access import executor_secrets, tokens

ROWS: Final = 1500
MANY: Final = 50
"""How many rows each call is about."""

INDEXED: Final = 3 * MANY
"""What a page reads of which an index knows everything: less than it may look through."""

ALL: Final = tuple(range(PARTITIONS))
PLANNED: Final = tuple(range(RUNS - WAITING + 1, RUNS - WAITING + 1 + MANY))
NEWS: Final = tuple(range(RUNS - MANY + 1, RUNS + 1))
OPEN: Final = tuple(range(RUNS - WAITING - SENT + 1, RUNS - WAITING - SENT + 1 + MANY))
PAST: Final = tuple(range(RUNS // 2, RUNS // 2 + MANY))
KEYS: Final = KeyRing(["a" * 43 + "="])
INDEXED_CHAINS: Final = ("chain", "chain of some groups", "busy chain")
FEW_GROUPS: Final = (2, 3, BUSY_GROUP)
SOME_JOBS: Final = (*range(1, MANY), BUSY_JOB)
TOMBSTONES: Final = tuple(range(200, 200 * MANY, 200))
OPEN_ROWS: Final = "reads what is open, which limits of groups and executors bound"
IDENTITIES: Final = [(1 + item * 7919 % 20_000, "schedule", item, 0) for item in PAST if item % 10 and item % 100 != 99]


class Case(NamedTuple):
    """A call; ``why`` says why it may read more than :data:`ROWS` rows."""

    name: str
    work: Callable[[Connection], object]
    rows: int = ROWS
    why: str = ""


def cases() -> Iterator[Case]:
    """Give all calls, each named after its function and, behind a colon, what is special."""
    for given in (
        _runs(),
        _pages(),
        _jobs(),
        _checks(),
        _follow_ups(),
        _upkeep(),
        _rows_of_plugins(),
        _others(),
        _nodes(),
        _secrets(),
    ):
        yield from given


def _runs() -> Iterator[Case]:
    yield Case("runs.insert_runs", lambda conn: runs.insert_runs(conn, [make_run(RUNS + n) for n in range(1, MANY)]))
    yield Case("runs.find_existing", lambda conn: runs.find_existing(conn, [make_run(item) for item in PAST]))
    yield Case("runs.get_run", lambda conn: runs.get_run(conn, 5))
    yield Case("runs.find_run", lambda conn: runs.find_run(conn, runs.identity_of(make_run(5))))
    every_open = "sorts all that is open"
    yield Case("runs.list_runs", lambda conn: runs.list_runs(conn, limit=MANY), 3000, every_open)
    yield Case("runs.list_runs: next", lambda conn: runs.list_runs(conn, before=(NOW - 10**9, 5), limit=MANY))
    for job_id in (BUSY_JOB, QUIET_JOB):
        yield Case(f"runs.list_runs: job {job_id}", lambda conn, j=job_id: runs.list_runs(conn, job_id=j, limit=MANY))
    for horizon_ms in (NOW, NOW + 10**9):
        yield Case("runs.find_unadopted", lambda conn, h=horizon_ms: runs.find_unadopted(conn, ALL, h, MANY))
    yield Case("runs.find_unadopted: one partition", lambda conn: runs.find_unadopted(conn, [5], NOW + 10**9, MANY))
    yield Case("runs.find_planned", lambda conn: runs.find_planned(conn, IDENTITIES))
    yield Case("runs.list_planned", lambda conn: runs.list_planned(conn, PLANNED))
    each_twice = "MariaDB counts the rows of each part of the union twice"
    yield Case("runs.find_left", lambda conn: runs.find_left(conn, dict.fromkeys(ALL, 10**6), MANY), 2500, each_twice)
    yield Case("runs.find_left: one partition", lambda conn: runs.find_left(conn, {5: 10**6}, MANY))
    yield Case("runs.lock_planned_rows", lambda conn: runs.lock_planned_rows(conn, NEWS))
    yield Case(
        "open_runs.find_last_missed",  # of the last thousand fires; here their keys are numbers
        lambda conn: open_runs.find_last_missed(conn, SOME_JOBS, NOW, after_ms=RUNS - 1000, threshold_ms=30_000),
    )
    yield Case("runs.update_epochs", lambda conn: runs.update_epochs(conn, [(item, 1) for item in NEWS]))
    epochs = dict.fromkeys(ALL, 1)
    yield Case("runs.find_overdue", lambda conn: runs.find_overdue(conn, epochs, NOW + 10**9, MANY))
    after = runs.QueuedRun(id=RUNS - WAITING + 5, job_id=1, group_id=1, partition=5, epoch=1, due_ms=NOW)
    yield Case("runs.find_overdue: next", lambda conn: runs.find_overdue(conn, epochs, NOW + 10**9, MANY, after))
    yield Case("runs.load_due", lambda conn: runs.load_due(conn, PLANNED))
    yield Case("runs.lock_planned", lambda conn: runs.lock_planned(conn, PLANNED))
    fenced = [runs.FencedRow(item, "http://127.0.0.1:9001", "instance-1", 1, None) for item in PLANNED]
    yield Case("runs.update_fenced", lambda conn: runs.update_fenced(conn, fenced, now_ms=NOW, check_ms=NOW))
    yield Case(
        "runs.update_accepted",
        lambda conn: runs.update_accepted(conn, dict.fromkeys(OPEN, runs.AcceptedRow(NOW, NOW)), NOW),
    )
    yield Case("runs.list_unanswered", lambda conn: runs.list_unanswered(conn, ALL, NOW + 10**9, MANY))
    yield Case("runs.lock_runs", lambda conn: runs.lock_runs(conn, OPEN))
    yield Case("runs.update_groups", lambda conn: runs.update_groups(conn, [(item, 2) for item in PLANNED]))
    yield Case("runs.get_origins", lambda conn: runs.get_origins(conn, PAST))
    ended = [(item, RunState.SUCCEEDED, "", 200, "done", NOW, NOW, NOW) for item in OPEN]
    yield Case("runs.close_runs", lambda conn: runs.close_runs(conn, ended))
    yield Case("runs.find_open_roots", lambda conn: runs.find_open_roots(conn, OPEN))
    yield Case("runs.find_planned_jobs", lambda conn: runs.find_planned_jobs(conn, MANY))
    yield Case("runs.find_early_jobs", lambda conn: runs.find_early_jobs(conn, NOW))
    for job_id in (BUSY_JOB, QUIET_JOB):
        yield Case(
            f"runs.find_early: job {job_id}",
            lambda conn, j=job_id: runs.find_early(conn, [j], (Origin.SCHEDULE, Origin.RETRY), NOW),
        )
        yield Case(
            f"runs.lock_unsent_of_jobs: job {job_id}",
            lambda conn, j=job_id: runs.lock_unsent_of_jobs(conn, [j], (Origin.SCHEDULE, Origin.RETRY)),
        )
    yield Case("runs.free_skipped", lambda conn: runs.free_skipped(conn, [QUIET_JOB], NOW))
    yield Case("runs.cancel_runs", lambda conn: runs.cancel_runs(conn, PLANNED, reason="edited", now_ms=NOW))


def _pages() -> Iterator[Case]:
    wanted = {
        "all": run_list.RunFilter(),
        "job": run_list.RunFilter(job_id=BUSY_JOB),
        "quiet job": run_list.RunFilter(job_id=QUIET_JOB),
        "group": run_list.RunFilter(group_id=BUSY_GROUP),
        "root": run_list.RunFilter(root_id=5),
        "chain": run_list.RunFilter(chain_id=5),
        "busy chain": run_list.RunFilter(chain_id=BUSY_CHAIN),
        "failed": run_list.RunFilter(states=frozenset({RunState.FAILED})),
        "ended badly": run_list.RunFilter(
            states=frozenset({RunState.FAILED, RunState.LOST, RunState.KILLED, RunState.REFUSED})
        ),
        "succeeded": run_list.RunFilter(states=frozenset({RunState.SUCCEEDED})),
        "failed of a job": run_list.RunFilter(job_id=BUSY_JOB, states=frozenset({RunState.FAILED})),
        "succeeded of a group": run_list.RunFilter(group_id=BUSY_GROUP, states=frozenset({RunState.SUCCEEDED})),
        "retries of a group": run_list.RunFilter(group_id=BUSY_GROUP, origin="retry"),
        "lost of a group": run_list.RunFilter(group_id=BUSY_GROUP, states=frozenset({RunState.LOST})),
        "planned": run_list.RunFilter(states=frozenset({RunState.PLANNED})),
        "running": run_list.RunFilter(states=frozenset({RunState.RUNNING})),
        "open": run_list.RunFilter(states=OPEN_STATES, group_id=BUSY_GROUP),
        "an hour": run_list.RunFilter(from_ms=NOW - HOUR_MS, to_ms=NOW),
        "an hour long ago": run_list.RunFilter(from_ms=NOW - 500 * HOUR_MS, to_ms=NOW - 499 * HOUR_MS),
        "an hour of a job": run_list.RunFilter(job_id=BUSY_JOB, from_ms=NOW - 500 * HOUR_MS, to_ms=NOW - 499 * HOUR_MS),
        "address": run_list.RunFilter(address="http://127.0.0.1:9009"),
        "retries": run_list.RunFilter(origin="retry"),
        "jobs": run_list.RunFilter(job_ids=[*range(1, 31), BUSY_JOB]),
        "many jobs": run_list.RunFilter(job_ids=range(1, 2000)),
        "a message": run_list.RunFilter(message="nothing"),
        "a message of a job": run_list.RunFilter(job_id=BUSY_JOB, message="nothing"),
        "failed with a message": run_list.RunFilter(states=frozenset({RunState.FAILED}), message="nothing"),
        "long ones": run_list.RunFilter(min_duration_ms=10**6, now_ms=NOW),
        "long ones of a group": run_list.RunFilter(group_id=BUSY_GROUP, min_duration_ms=10**6, now_ms=NOW),
    }
    some = ("all", "job", "quiet job", "root", "chain", "busy chain", "failed", "succeeded", "open", "an hour long ago")
    wanted |= {f"{name} of some groups": wanted[name]._replace(groups=FEW_GROUPS) for name in some}
    wanted["ended badly in a group that may be seen"] = wanted["ended badly"]._replace(groups=(BUSY_GROUP,))
    wanted["job of another group"] = run_list.RunFilter(job_id=QUIET_JOB, groups=(BUSY_GROUP,))
    wanted["open of some groups"] = run_list.RunFilter(states=OPEN_STATES, groups=FEW_GROUPS)
    places = (None, run_list.Key(NOW - 10**9, 5))
    for name, one in wanted.items():
        for before in places:
            # open rows are few, and all of them are looked at for what no index of theirs answers
            is_open = bool(one.states) and one.states <= OPEN_STATES
            is_wide = is_open or name == "many jobs"
            yield Case(
                f"run_list.page_runs: {name}{', next' if before else ''}",
                lambda conn, w=one, b=before, look=2000 if is_open else 200: run_list.page_runs(
                    conn, w, before=b, limit=MANY, look=look
                ),
                rows=5 * (WAITING + SENT) + ROWS if is_wide else INDEXED if name in INDEXED_CHAINS else ROWS,
                why=OPEN_ROWS if is_wide else "",
            )


def _jobs() -> Iterator[Case]:
    extra = {"enabled": True, "next_fire_ms": NOW, "last_fire_ms": None, "awaits_root": None, "revision": 1}
    values = {**job_values(), **extra, "schedule_error": "", "created_ms": NOW, "updated_ms": NOW}
    yield Case("jobs.insert_job", lambda conn: jobs.insert_job(conn, values))
    yield Case("jobs.get_job", lambda conn: jobs.get_job(conn, QUIET_JOB, lock=True))
    yield Case("jobs.get_jobs", lambda conn: jobs.get_jobs(conn, SOME_JOBS))
    yield Case("jobs.find_names", lambda conn: jobs.find_names(conn, SOME_JOBS))
    yield Case(
        "jobs.find_by_beginning",
        lambda conn: jobs.find_by_beginning(conn, "nothing", look=JOBS // 2),
        JOBS // 2 + ROWS,
        "looks through names of jobs, of which there are few next to the runs",
    )
    yield Case(
        "jobs.find_by_beginning: some groups",
        lambda conn: jobs.find_by_beginning(conn, "nothing", FEW_GROUPS),
        JOBS + ROWS,
        "the same; a server may read the jobs of other groups",
    )
    yield Case("jobs.find_namesake", lambda conn: jobs.find_namesake(conn, 1, "no such job"))
    yield Case("jobs.get_jobs: there", lambda conn: jobs.get_jobs(conn, SOME_JOBS, deleted=False))
    yield Case("jobs.update_job", lambda conn: jobs.update_job(conn, QUIET_JOB, {"revision": 2}))
    yield Case("jobs.stop_jobs", lambda conn: jobs.stop_jobs(conn, [QUIET_JOB], NOW))
    yield Case("jobs.delete_jobs", lambda conn: jobs.delete_jobs(conn, [QUIET_JOB], NOW))
    yield Case("jobs.find_due_jobs", lambda conn: jobs.find_due_jobs(conn, ALL, NOW, 500))
    yield Case("jobs.find_due_jobs: one partition", lambda conn: jobs.find_due_jobs(conn, [7], NOW, MANY))
    yield Case("jobs.find_due_jobs: none", lambda conn: jobs.find_due_jobs(conn, ALL, NOW, 99, after_ms=NOW))
    yield Case(
        "jobs.find_ahead",
        lambda conn: jobs.find_ahead(conn, ALL, NOW, 0, 100),
        100_000,
        "a node gets partitions, or the clock was set: each of their jobs is looked at once",
    )
    yield Case("jobs.lock_fires", lambda conn: jobs.lock_fires(conn, SOME_JOBS))
    cursors = [jobs.JobCursor(item, NOW, NOW, None, True, "") for item in SOME_JOBS]
    yield Case("jobs.update_fires", lambda conn: jobs.update_fires(conn, cursors))
    yield Case(
        "jobs.update_seen_fires", lambda conn: jobs.update_seen_fires(conn, cursors, jobs.get_jobs(conn, SOME_JOBS))
    )
    yield Case("jobs.lock_jobs", lambda conn: jobs.lock_jobs(conn, SOME_JOBS))
    looked: dict[str, jobs.JobFilter] = {
        "all": jobs.JobFilter(),
        "group": jobs.JobFilter(group_id=BUSY_GROUP),
        "name": jobs.JobFilter(name="19999"),
        "part": jobs.JobFilter(group_id=BUSY_GROUP, name_contains="nothing"),
        "some groups": jobs.JobFilter(groups=FEW_GROUPS),
        "part in some groups": jobs.JobFilter(groups=FEW_GROUPS, name_contains="nothing"),
    }
    for name, one in looked.items():
        yield Case(
            f"jobs.page_jobs: {name}", lambda conn, w=one: jobs.page_jobs(conn, w, after_id=9000, limit=MANY, look=200)
        )


def _checks() -> Iterator[Case]:
    # the executor that holds everything that is open
    holder = open_runs.Holder(BUSY_GROUP, "http://127.0.0.1:9001", "instance-1")
    foreign = open_runs.Holder(BUSY_GROUP, "http://127.0.0.1:9001", "")
    yield Case("open_runs.list_due", lambda conn: open_runs.list_due(conn, ALL, NOW, NOW - 9000, MANY))
    yield Case("open_runs.lock_checks", lambda conn: open_runs.lock_checks(conn, OPEN))
    yield Case(
        "open_runs.update_findings",
        lambda conn: open_runs.update_findings(conn, [(item, NOW, "idle", None) for item in OPEN]),
    )
    yield Case("open_runs.update_checks", lambda conn: open_runs.update_checks(conn, [(item, NOW) for item in OPEN]))
    yield Case("open_runs.request_kill", lambda conn: open_runs.request_kill(conn, OPEN[0], NOW))
    yield Case("open_runs.list_holders", lambda conn: open_runs.list_holders(conn, ALL, NOW))
    for one in (holder, foreign):
        yield Case(
            "open_runs.find_later", lambda conn, h=one: open_runs.find_later(conn, h, ALL, NOW, after_id=0, limit=MANY)
        )
    yield Case("open_runs.lock_same_job", lambda conn: open_runs.lock_same_job(conn, BUSY_JOB, foreign))
    for job_id in (BUSY_JOB, QUIET_JOB):
        yield Case(
            f"open_runs.list_ahead: job {job_id}",
            lambda conn, j=job_id: open_runs.list_ahead(conn, [_open_run(j)]),
            rows=6000,
            why="reads the job's runs of one day, where an executor's queue may have begun",
        )
    yield Case("open_runs.lock_limits", lambda conn: open_runs.lock_limits(conn, [1, 2]))
    yield Case("open_runs.count_open", lambda conn: open_runs.count_open(conn, [1, BUSY_GROUP]))
    yield Case("open_runs.list_open", lambda conn: open_runs.list_open(conn, [BUSY_JOB, QUIET_JOB]))
    yield Case("open_runs.request_kills", lambda conn: open_runs.request_kills(conn, OPEN, NOW))


def _open_run(job_id: int) -> open_runs.OpenRun:
    return open_runs.OpenRun(
        id=OPEN[0],
        job_id=job_id,
        group_id=1,
        partition=1,
        state=RunState.RUNNING,
        created_ms=NOW,
        address="http://127.0.0.1:9001",
        instance="",
        dispatched_ms=NOW,
        accepted_ms=NOW,
        check_ms=NOW,
        reason="",
        kill_requested=False,
        started_ms=None,
        timeout_s=0,
    )


def _follow_ups() -> Iterator[Case]:
    yield Case("jobs.find_followed", lambda conn: jobs.find_followed(conn, SOME_JOBS))
    yield Case("runs.find_roots", lambda conn: runs.find_roots(conn, OPEN))
    yield Case("jobs.children_of", lambda conn: jobs.children_of(conn, SOME_JOBS))
    yield Case("jobs.parents_of", lambda conn: jobs.parents_of(conn, SOME_JOBS))
    links = [ChildLink(parent_id=QUIET_JOB, child_id=BUSY_JOB, param=None)]
    yield Case("jobs.replace_children", lambda conn: jobs.replace_children(conn, QUIET_JOB, links))
    yield Case("jobs.delete_links", lambda conn: jobs.delete_links(conn, [QUIET_JOB]))
    yield Case("jobs.list_root_runs", lambda conn: jobs.list_root_runs(conn, OPEN))
    places = [(item % 500, item) for item in range(1, MANY)]
    yield Case("jobs.list_arrivals", lambda conn: jobs.list_arrivals(conn, places))
    arrivals = [jobs.Arrival(900, item, 1, item, NOW) for item in range(MANY)]
    yield Case("jobs.insert_arrivals", lambda conn: jobs.insert_arrivals(conn, arrivals))
    yield Case("jobs.find_recovered", lambda conn: jobs.find_recovered(conn, [(item, 0) for item in OPEN]))


def _upkeep() -> Iterator[Case]:
    for job_id in (None, BUSY_JOB, QUIET_JOB):
        for after in ((0, 0), (NOW - 20 * retention.DAY_MS, 5)):
            yield Case(
                "retention.find_old_runs",
                lambda conn, j=job_id, a=after: retention.find_old_runs(conn, NOW - 9 * retention.DAY_MS, a, MANY, j),
            )
    yield Case("retention.find_own_retention", lambda conn: retention.find_own_retention(conn, SOME_JOBS))
    yield Case("retention.list_retentions", lambda conn: retention.list_retentions(conn, 5000, MANY))
    yield Case(
        "retention.find_jobs_with_old_runs", lambda conn: retention.find_jobs_with_old_runs(conn, TOMBSTONES, NOW)
    )
    yield Case("retention.find_longest", retention.find_longest, JOBS + 1, "all jobs, once a sweep")
    yield Case("history_days.list_days", history_days.list_days)
    days = history_days.Days(1, 2, RUNS // 2, RUNS // 2 + RUNS // 10)
    yield Case("history_days.has_open", lambda conn: history_days.has_open(conn, days))
    yield Case("history_days.find_unsettled", lambda conn: history_days.find_unsettled(conn, days, MANY))
    settled = history_days.Days(1, 2, RUNS // 2 + 10, RUNS // 2 + 990)
    yield Case("history_days.find_unsettled: none", lambda conn: history_days.find_unsettled(conn, settled, MANY))
    yield Case(
        "history_days.count_kept",
        lambda conn: history_days.count_kept(conn, days, days.first_id, MANY, before_ms=NOW, now_ms=NOW),
    )
    old = [retention.OldRun(NOW, item, 1, item) for item in PAST]
    due = dict.fromkeys(range(1, 20_001), NOW)
    yield Case("retention.delete_closed", lambda conn: retention.delete_closed(conn, old, due))
    yield Case("retention.delete_arrivals", lambda conn: retention.delete_arrivals(conn, NOW + 10**6, MANY))
    yield Case("retention.list_tombstones", lambda conn: retention.list_tombstones(conn, (NOW - 9000, 5), MANY))
    yield Case("retention.find_empty_tombstones", lambda conn: retention.find_empty_tombstones(conn, TOMBSTONES))
    yield Case("retention.delete_tombstones", lambda conn: retention.delete_tombstones(conn, TOMBSTONES))


def _rows_of_plugins() -> Iterator[Case]:
    # tables of ours stand for those of a plugin
    mine: dict[str, Any] = {
        "mine": SimpleNamespace(of_jobs={"glue_version": "job_id"}, of_groups={"executor": "group_id"})
    }
    yield Case(
        "plugin_rows.insert_rows",
        lambda conn: plugin_rows.insert_rows(conn, "mine", {"setting": [{"name": "mine", "value": ""}]}),
    )
    yield Case(
        "plugin_rows.write_rows",
        lambda conn: plugin_rows.write_rows(conn, "mine", {"setting": [{"name": "mine", "value": ""}]}),
    )
    yield Case("plugin_rows.read_rows_of", lambda conn: plugin_rows.read_rows_of(conn, "glue_version", [QUIET_JOB]))
    yield Case("plugin_rows.delete_of_jobs", lambda conn: plugin_rows.delete_of_jobs(conn, mine, [QUIET_JOB]))
    yield Case("plugin_rows.delete_of_group", lambda conn: plugin_rows.delete_of_group(conn, mine, 1))


def _others() -> Iterator[Case]:
    yield Case("settings.find_calendar", lambda conn: settings.find_calendar(conn, "easter"))
    yield Case("settings.save_calendar", lambda conn: settings.save_calendar(conn, "easter", {}, NOW))
    yield Case("settings.list_calendars", settings.list_calendars)
    yield Case("settings.calendars_version", settings.calendars_version)
    yield Case("settings.delete_calendar", lambda conn: settings.delete_calendar(conn, "feasts"))
    every_job = "a person deletes or lists a calendar: nothing but the jobs' texts says who uses it"
    yield Case(
        "jobs.find_glue_user",
        lambda conn: jobs.find_glue_user(conn, 1, ["GLUE_GROOVY"]),
        100_000,
        "a person takes a glue type from a group: its jobs are read until one has it",
    )
    yield Case("jobs.find_calendar_users", lambda conn: jobs.find_calendar_users(conn, "easter"), 100_000, every_job)
    yield Case("executors.save_executor", lambda conn: executors.save_executor(conn, make_executor()))
    yield Case("executors.find_executor", lambda conn: executors.find_executor(conn, 1, "1"))
    yield Case("executors.taken_elsewhere", lambda conn: executors.taken_elsewhere(conn, 1, ["1", "2"], NOW))
    yield Case("executors.delete_executor", lambda conn: executors.delete_executor(conn, 2, "1"))
    yield Case("executors.list_executors", executors.list_executors)
    yield Case("executors.list_addresses", executors.list_addresses)
    yield Case("executors.is_entered", lambda conn: executors.is_entered(conn, 1, "1", 1))
    yield Case("executors.is_named", lambda conn: executors.is_named(conn, "1", 1))
    yield Case("executors.replace_addresses", lambda conn: executors.replace_addresses(conn, 1, {"2": 1}))
    entered = EnteredAddress(group_id=1, address="1", secret_id=1)
    yield Case("executors.update_address_error", lambda conn: executors.update_address_error(conn, entered, "x"))
    yield Case("executors.find_secret_user", lambda conn: executors.find_secret_user(conn, 1))
    yield Case("executors.count_runs", executors.count_runs, 3000, "counts every open run")
    yield Case("executors.update_beats", lambda conn: executors.update_beats(conn, [(1, NOW), (2, NOW)]))
    yield Case("executors.sweep_executors", lambda conn: executors.sweep_executors(conn, NOW + 9))
    yield Case(
        "executors.insert_group", lambda conn: executors.insert_group(conn, app_name="new", title="", now_ms=NOW)
    )
    yield Case("executors.get_group", lambda conn: executors.get_group(conn, 1))
    yield Case("executors.find_group", lambda conn: executors.find_group(conn, "new"))
    yield Case("executors.list_groups", lambda conn: executors.list_groups(conn, prefix="1"))
    yield Case("executors.list_groups: some", lambda conn: executors.list_groups(conn, groups=FEW_GROUPS))
    yield Case("executors.list_limits", executors.list_limits, 3000, "reads every group")
    yield Case("executors.update_group", lambda conn: executors.update_group(conn, 1, {"title": "x"}, NOW))

    def delete_group(conn: Connection) -> None:
        executors.delete_group(conn, executors.insert_group(conn, app_name="gone", title="", now_ms=NOW).id)

    yield Case("executors.delete_group", delete_group)
    new = NewSource(source="exit 0", author="", remark="")
    yield Case("scripts.insert_version", lambda conn: scripts.insert_version(conn, 5, "GLUE_SHELL", new, NOW, keep=9))
    yield Case("scripts.get_version", lambda conn: scripts.get_version(conn, 5, 5))
    yield Case("scripts.list_versions", lambda conn: scripts.list_versions(conn, 5, before=0, limit=MANY))
    yield Case(
        "scripts.load_versions",
        lambda conn: scripts.load_versions(conn, [(item, item) for item in range(1, MANY)], MANY),
    )
    yield Case("run_ids.claim_ids", lambda conn: run_ids.claim_ids(conn, 100))
    yield Case("settings.insert_setting", lambda conn: settings.insert_setting(conn, "paused", ""))
    yield Case("settings.find_setting", lambda conn: settings.find_setting(conn, "paused"))
    yield Case("settings.lock_setting", lambda conn: settings.lock_setting(conn, "chains"))
    yield Case("settings.delete_setting", lambda conn: settings.delete_setting(conn, "paused"))
    yield Case("access.tokens.insert_token", lambda conn: tokens.insert_token(conn, "new", "secret", NOW, group_id=1))
    yield Case("access.tokens.list_tokens", tokens.list_tokens)
    yield Case("access.tokens.has_unrestricted", tokens.has_unrestricted)
    yield Case("access.tokens.delete_token", lambda conn: tokens.delete_token(conn, "first"))
    yield Case("access.tokens.replace_token", lambda conn: tokens.replace_token(conn, "first", "another", NOW))


def _nodes() -> Iterator[Case]:
    names: Sequence[str] = ("node-1", "node-2")
    plain: dict[str, Callable[[Connection], Any]] = {
        "take_all_leases": lambda conn: leases.take_all_leases(conn, "node-1"),
        "renew_node": lambda conn: leases.renew_node(conn, "node-1", NOW, NOW),
        "list_nodes": leases.list_nodes,
        "forget_nodes": lambda conn: leases.forget_nodes(conn, dict.fromkeys(names, 1)),
        "delete_node": lambda conn: leases.delete_node(conn, "node-1"),
        "list_leases": leases.list_leases,
        "take_leases": lambda conn: leases.take_leases(conn, "node-1", dict.fromkeys(ALL), dict.fromkeys(names, 1)),
        "give_leases": lambda conn: leases.give_leases(
            conn, "node-1", dict.fromkeys(ALL, "node-2"), dict.fromkeys(ALL, 1)
        ),
        "lock_leases": lambda conn: leases.lock_leases(conn, "node-1", ALL),
        "lock_all_leases": leases.lock_all_leases,
        "release_leases": lambda conn: leases.release_leases(conn, "node-1"),
    }
    for name, work in plain.items():
        yield Case(f"leases.{name}", work)


def _secrets() -> Iterator[Case]:
    asked = executor_secrets
    yield Case(
        "access.executor_secrets.insert_secret",
        lambda conn: asked.insert_secret(conn, "next", "another secret", KEYS, NOW, group_id=1),
    )
    yield Case("access.executor_secrets.list_secrets", asked.list_secrets)
    yield Case("access.executor_secrets.get_secret", lambda conn: asked.get_secret(conn, "first"))
    yield Case("access.executor_secrets.retire_secret", lambda conn: asked.retire_secret(conn, "first", NOW))
    yield Case(
        "access.executor_secrets.rotate_secret",
        lambda conn: asked.rotate_secret(conn, "first", "next", "another secret", KEYS, NOW, keep_ms=1),
    )
    yield Case("access.executor_secrets.delete_secret", lambda conn: asked.delete_secret(conn, "first"))
    yield Case("access.executor_secrets.check_key", lambda conn: asked.check_key(conn, KEYS))
    yield Case("access.executor_secrets.seal_all", lambda conn: asked.seal_all(conn, KEYS))
