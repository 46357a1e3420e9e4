"""Pages of runs and jobs: nothing is left out or given twice, and no page reads a whole table."""

from __future__ import annotations

import random
import re
from typing import Any

import pytest
from sqlalchemy import event

from tests.support.rows import NOW, job_values, make_run
from xwheel.model import OPEN_STATES, Origin, Run, RunState
from xwheel.storage import executors, jobs, runs
from xwheel.storage.database.engine import Database
from xwheel.storage.jobs import JobFilter, page_jobs
from xwheel.storage.run_list import FoundRuns, Key, RunFilter, page_runs

STATES = list(RunState)


def some_runs(count: int = 400) -> list[Run]:
    """Runs of every kind; many share their due time, and ids follow no order."""
    chance, other = random.Random(5), random.Random(6)
    ids = chance.sample(range(1, 100_000), count)
    made = []
    for run_id in ids:
        state = chance.choice([*STATES, *[RunState.SUCCEEDED] * 8])
        is_asked = state in {RunState.DISPATCHING, RunState.RUNNING}
        made.append(
            make_run(
                run_id,
                job_id=chance.randint(1, 4),
                group_id=chance.randint(1, 4),
                partition=chance.randint(0, 63),
                state=state,
                epoch=chance.randint(0, 2),
                due_ms=NOW + chance.randint(0, 20) * 1000,
                origin=chance.choice([Origin.SCHEDULE, Origin.API]),
                root_id=chance.choice(ids),
                chain_id=chance.choice(ids[:9]),
                address=chance.choice([None, "http://a:1", "http://b:1"]),
                check_ms=NOW if is_asked else None,
                accepted_ms=other.choice([None, NOW, NOW + 5000]),
                started_ms=other.choice([None, None, 0, NOW + 6000]),
                reason=other.choice(["", "waits:1790000000000"]) if is_asked else "",
                finished_ms=None if state in OPEN_STATES else NOW + other.randint(0, 20) * 1000,
                message=other.choice(["", "Connection RESET by Peer", "100%_done", "École", "a\\b"]),
            )
        )
    return made


def pages(db: Database, wanted: RunFilter, *, limit: int, look: int) -> list[int]:
    found: list[int] = []
    before: Key | None = None
    for _ in range(10_000):
        with db.read() as conn:
            page = page_runs(conn, wanted, before=before, limit=limit, look=look)
        assert len(page.runs) <= limit
        found += [run.id for run in page.runs]
        if page.next is None:
            return found
        assert before is None or page.next < before
        before = page.next
    raise AssertionError("the pages have no end")


def expected(made: list[Run], wanted: RunFilter) -> list[int]:
    def fits(run: Run) -> bool:
        same = all(
            getattr(wanted, name) in (None, getattr(run, name))
            for name in ("job_id", "group_id", "root_id", "chain_id", "origin", "address")
        )
        same = same and (wanted.job_ids is None or run.job_id in wanted.job_ids)
        if wanted.message is not None:
            same = same and wanted.message.lower() in run.message.lower()
        if wanted.min_duration_ms is not None:
            until_ms = wanted.now_ms if run.finished_ms is None else run.finished_ms
            same = same and run.began_ms is not None
            same = same and until_ms - (run.began_ms or 0) >= wanted.min_duration_ms
        begins = wanted.from_ms is None or run.due_ms >= wanted.from_ms
        ends = wanted.to_ms is None or run.due_ms < wanted.to_ms
        is_own = wanted.groups is None or run.group_id in wanted.groups
        return same and begins and ends and is_own and (not wanted.states or run.state in wanted.states)

    return [run.id for run in sorted(made, key=lambda run: (-run.due_ms, -run.id)) if fits(run)]


FILTERS = {
    "all": RunFilter(),
    "job": RunFilter(job_id=2),
    "group": RunFilter(group_id=1),
    "times": RunFilter(from_ms=NOW + 3000, to_ms=NOW + 9000),
    "job and times": RunFilter(job_id=1, from_ms=NOW + 3000, to_ms=NOW + 3001),
    "planned": RunFilter(states=frozenset({RunState.PLANNED})),
    "running": RunFilter(states=frozenset({RunState.RUNNING})),
    "open": RunFilter(states=frozenset({RunState.PLANNED, RunState.DISPATCHING, RunState.RUNNING})),
    "open of a job": RunFilter(states=frozenset({RunState.PLANNED, RunState.RUNNING}), job_id=3),
    "one rare": RunFilter(states=frozenset({RunState.LOST})),
    "rare": RunFilter(states=frozenset({RunState.FAILED, RunState.LOST, RunState.SKIPPED})),
    "rare of a group": RunFilter(states=frozenset({RunState.FAILED, RunState.KILLED}), group_id=2),
    "rare of a job": RunFilter(states=frozenset({RunState.FAILED}), job_id=2),
    "common": RunFilter(states=frozenset({RunState.SUCCEEDED})),
    "mixed": RunFilter(states=frozenset({RunState.SUCCEEDED, RunState.FAILED, RunState.PLANNED})),
    "origin": RunFilter(origin="api"),
    "address": RunFilter(address="http://a:1", group_id=1),
    "nobody": RunFilter(address="http://c:1"),
    "jobs": RunFilter(job_ids=[1, 3]),
    "no job": RunFilter(job_ids=[]),
    "many jobs": RunFilter(job_ids=[2, 4, *range(100, 200)]),
    "jobs in a state": RunFilter(job_ids=[1, 3], states=frozenset({RunState.SUCCEEDED})),
    "job among jobs": RunFilter(job_id=1, job_ids=[1, 3]),
    "job not among jobs": RunFilter(job_id=2, job_ids=[1, 3]),
    "message": RunFilter(message="reset BY"),
    "signs": RunFilter(message="%_D"),
    "backslash": RunFilter(message="A\\B"),
    "letters": RunFilter(message="École"),
    "message of a group": RunFilter(message="peer", group_id=1, states=frozenset({RunState.FAILED})),
    "long": RunFilter(min_duration_ms=9000, now_ms=NOW + 12_000),
    "long and open": RunFilter(
        min_duration_ms=9000, now_ms=NOW + 12_000, states=frozenset({RunState.RUNNING, RunState.PLANNED})
    ),
    "long of jobs": RunFilter(min_duration_ms=9000, now_ms=NOW, job_ids=[1, 2], from_ms=NOW + 3000),
}


# each filter is a statement of its own; where its pages are cut, no database sees
@pytest.mark.servers_get(len(FILTERS))
@pytest.mark.parametrize("name", FILTERS)
@pytest.mark.parametrize(("limit", "look"), [(7, 3), (1, 7), (7, 10_000), (1000, 10_000)])
def test_all_pages_together_are_what_was_wanted(db: Database, name: str, limit: int, look: int) -> None:
    made = some_runs(150 if limit > 1 else 30)
    db.transaction(lambda conn: runs.insert_runs(conn, made))
    root, chain = made[0].root_id, made[0].chain_id
    for wanted in (FILTERS[name], RunFilter(root_id=root), RunFilter(chain_id=chain)):
        assert pages(db, wanted, limit=limit, look=look) == expected(made, wanted)


@pytest.mark.servers_get(6)
@pytest.mark.parametrize("groups", [frozenset(), {2}, {1, 3}, {1, 2, 3, 9}], ids=str)
@pytest.mark.parametrize(("limit", "look"), [(1, 7), (7, 30), (1000, 10_000)])
def test_pages_of_some_groups_leave_nothing_out_and_show_nothing_else(
    db: Database, groups: set[int], limit: int, look: int
) -> None:
    made = some_runs(150 if limit > 1 else 30)
    db.transaction(lambda conn: runs.insert_runs(conn, made))
    root, chain = made[0].root_id, made[0].chain_id
    seen = 0
    for wanted in (*FILTERS.values(), RunFilter(root_id=root), RunFilter(chain_id=chain)):
        of_groups = wanted._replace(groups=groups)
        found = pages(db, of_groups, limit=limit, look=look)
        assert found == expected(made, of_groups)
        seen += len(found)
    assert bool(seen) == bool(groups)


@pytest.mark.servers_get(1)
@pytest.mark.parametrize("groups", [{2}, {1, 3}], ids=str)
def test_where_a_page_ends_tells_nothing_of_other_groups(db: Database, groups: set[int]) -> None:
    made = some_runs(300)
    of_job = [
        make_run(200_000 + number, job_id=77, group_id=4, root_id=55, state=RunState.FAILED, due_ms=NOW)
        for number in range(30)
    ]
    db.transaction(lambda conn: runs.insert_runs(conn, [*made, *of_job]))
    mine = {Key(item.due_ms, item.id) for item in made if item.group_id in groups}
    for wanted in (*FILTERS.values(), RunFilter(root_id=made[0].root_id), RunFilter(chain_id=made[0].chain_id)):
        before: Key | None = None
        for _ in range(1000):
            with db.read() as conn:
                page = page_runs(conn, wanted._replace(groups=groups), before=before, limit=2, look=9)
            before = page.next
            if before is None:
                break
            assert before in mine, wanted
    for theirs, unknown in (
        (RunFilter(job_id=77), RunFilter(job_id=9999)),
        (RunFilter(root_id=55), RunFilter(root_id=999_999)),
    ):
        with db.read() as conn:
            found = [page_runs(conn, wanted._replace(groups=groups), limit=2, look=9) for wanted in (theirs, unknown)]
        assert found[0] == found[1]


def test_no_page_reads_a_whole_table(sqlite_db: Database) -> None:
    db = sqlite_db
    db.transaction(lambda conn: runs.insert_runs(conn, some_runs()))
    statements: dict[str, Any] = {}

    def note(_conn: object, _cursor: object, statement: str, parameters: Any, *_: object) -> None:
        if statement.startswith("SELECT"):
            statements.setdefault(statement, parameters)

    event.listen(db.engine, "before_cursor_execute", note)
    wanted = [
        *FILTERS.values(),
        RunFilter(root_id=5),
        RunFilter(root_id=5, states=frozenset({RunState.LOST})),
        RunFilter(chain_id=5),
        RunFilter(chain_id=5, states=frozenset({RunState.LOST})),
    ]
    with db.read() as conn:
        for item in wanted:
            page_runs(conn, item, limit=3, look=20)
            page_runs(conn, item, before=Key(NOW + 9000, 50_000), limit=3, look=20)
        page_jobs(conn, JobFilter(name_contains="x", group_id=1))
        for item in wanted:
            page_runs(conn, item._replace(groups=[1, 2]), before=Key(NOW + 9000, 50_000), limit=3, look=20)
        page_jobs(conn, JobFilter(groups=[1, 2]))
    assert len(statements) > 30
    used: set[str] = set()
    with db.read() as conn:
        for statement, parameters in statements.items():
            for row in conn.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters).fetchall():
                used.update(re.findall(r"USING (?:COVERING )?INDEX (\w+)", row[-1]))
                # in the order of its index and up to a limit is a look, not a scan
                if re.match(r"SCAN (run_history|job)\b(?! USING)", row[-1]):
                    raise AssertionError(f"{row[-1]}:\n{statement}")
                if "TEMP B-TREE" in row[-1]:
                    known = ("seen", "few", "root_id", "FROM open_run")
                    assert any(word in statement for word in known), statement
    assert {"ix_run_job", "ix_run_group", "ix_run_rare", "ix_run_due", "ix_open_run_check"} <= used
    assert {"ix_run_root", "ix_run_chain", "ix_open_run_root", "ix_open_run_chain", "ix_job_group"} <= used


def test_jobs_that_fit_are_found_wherever_they_are(db: Database) -> None:
    def fill(conn: Any) -> None:
        for number in range(60):
            name = "Special" if number % 13 == 5 else f"job {number}"
            jobs.insert_job(
                conn,
                {
                    **job_values(
                        name=name,
                        group_id=1 + number % 3,
                        handler=f"Handler-{number % 5}",
                        description=f"words {number % 2}",
                    ),
                    "enabled": number % 3 == 0,
                    "next_fire_ms": None,
                    "last_fire_ms": None,
                    "awaits_root": None,
                    "revision": 1,
                    "schedule_error": "",
                    "created_ms": NOW,
                    "updated_ms": NOW,
                },
            )

    db.transaction(fill)
    with db.read() as conn:
        known = jobs.get_jobs(conn, range(1, 101), deleted=False)
        every = [known[job_id] for job_id in sorted(known)]
        for wanted, fits in (
            (JobFilter(), lambda item: True),
            (JobFilter(name_contains="sPEC"), lambda item: item.name == "Special"),
            (JobFilter(name="special"), lambda item: False),
            (JobFilter(search="sPEC"), lambda item: item.name == "Special"),
            (JobFilter(search="handler-2"), lambda item: item.handler == "Handler-2"),
            (JobFilter(search="WORDS 1"), lambda item: item.description == "words 1"),
            (JobFilter(search="words", glue_type="BEAN"), lambda item: True),
            (JobFilter(glue_type="GLUE_SHELL"), lambda item: False),
            (JobFilter(group_id=2, enabled=True), lambda item: item.group_id == 2 and item.enabled),
            (JobFilter(groups={1, 3}), lambda item: item.group_id != 2),
            (JobFilter(groups={1, 3}, group_id=3), lambda item: item.group_id == 3),
            (JobFilter(groups={1, 3}, group_id=2), lambda item: False),
            (JobFilter(groups=set()), lambda item: False),
            (JobFilter(groups={2, 3, 9}, enabled=True), lambda item: item.group_id > 1 and item.enabled),
        ):
            for limit, look in ((1, 4), (5, 7), (100, 1000)):
                found: list[int] = []
                after: int | None = 0
                while after is not None:
                    page = page_jobs(conn, wanted, after_id=after, limit=limit, look=look)
                    assert len(page.jobs) <= limit
                    found += [item.id for item in page.jobs]
                    after = page.next
                assert found == [item.id for item in every if fits(item)]


def test_jobs_are_found_by_how_their_names_begin(db: Database) -> None:
    def fill(conn: Any) -> None:
        group = executors.insert_group(conn, app_name="shop", title="", now_ms=NOW)
        extra = {"enabled": False, "next_fire_ms": None, "last_fire_ms": None, "awaits_root": None}
        more = {"revision": 1, "schedule_error": "", "created_ms": NOW, "updated_ms": NOW}
        for number, name in enumerate(["Night 1", "night 2", "a night", "Nacht"]):
            values = job_values(name=name, group_id=group.id + number % 2)
            jobs.insert_job(conn, {**values, **extra, **more})

    db.transaction(fill)
    with db.read() as conn:
        assert jobs.find_by_beginning(conn, "NIGHT") == [2, 1]
        assert jobs.find_by_beginning(conn, "night", [1]) == [1]
        assert jobs.find_by_beginning(conn, "night", [1, 2], look=2) == []
        assert jobs.find_by_beginning(conn, "x") == []


@pytest.mark.parametrize("ended", [0, 2, 5], ids=["open", "half-way", "ended"])
@pytest.mark.parametrize("groups", [None, {1, 2}], ids=["everybody", "some groups"])
def test_a_chain_is_found_at_once_however_many_other_runs_came_since(
    db: Database, groups: set[int] | None, ended: int
) -> None:
    states = [*[RunState.FAILED] * ended, *[RunState.PLANNED] * 5]
    first = make_run(1, due_ms=NOW, state=states[0])
    retry = make_run(2, root_id=1, chain_id=1, due_ms=NOW + 1, state=states[1])
    follows = {"chain_id": 1, "chain_depth": 1}
    child = make_run(900, job_id=2, group_id=2, **follows, due_ms=NOW + 9000, state=states[2])
    again = make_run(950, root_id=900, **follows, job_id=2, group_id=2, due_ms=NOW + 9001, state=states[3])
    hidden = make_run(960, job_id=3, group_id=3, **follows, due_ms=NOW + 9002, state=states[4])
    others = [make_run(number, job_id=7, due_ms=NOW + 10_000 + number) for number in range(3, 300)]
    db.transaction(lambda conn: runs.insert_runs(conn, [first, retry, child, again, hidden, *others]))
    with db.read() as conn:
        found = page_runs(conn, RunFilter(chain_id=1, groups=groups), limit=10, look=20)
        # one of whose own fire is in the chain of another begins none
        none = page_runs(conn, RunFilter(chain_id=900, groups=groups), limit=10, look=20)
    assert [run.id for run in found.runs] == ([960, 950, 900, 2, 1] if groups is None else [950, 900, 2, 1])
    assert found.next is None
    assert none == FoundRuns([], None)
