"""Declared jobs on every database: written once, field by field, and nothing of a person's is lost."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

import pytest
from xwheel_devtools.testing import ManualClock
from xwheel_jobs_as_code.declarations import owners, records
from xwheel_jobs_as_code.declarations.ownership import DeclarationState, Declared
from xwheel_jobs_as_code.declarations.plan import BadDeclaration, FieldChange, SyncAction, SyncResult, WantedJob
from xwheel_jobs_as_code.declarations.records import DeclaredJob

from tests.product.jobs_as_code.conftest import manager_of
from tests.support.databases import twin_of
from tests.support.node import HandNode
from tests.support.rows import NOW, job_values, make_executor
from tests.support.versions import kept_versions
from xwheel.errors import ConflictError, FieldError, OwnedByCodeError, RevisionError
from xwheel.model import Job, Origin, RunState
from xwheel.model.access import ALL, Actor, ActorKind, acting
from xwheel.scheduler.jobs.jobs import BulkAction
from xwheel.storage import jobs

ONE, TWO, OTHER = Declared("1.0", "a" * 64), Declared("2.0", "b" * 64), Declared("1.0", "c" * 64)
GROUP = 1


def wanted(name: str = "report", **fields: Any) -> WantedJob:
    said = {"handler": name, "schedule_type": "FIX_RATE", "schedule_conf": "10s", "glue_type": "BEAN", **fields}
    draft = {key: value for key, value in job_values(**said).items() if key not in {"name", "group_id"}}
    return WantedJob(name=name, place=f"app.jobs:{name}", fields=said, draft=draft)


def sync(
    node: HandNode, *items: WantedJob, caller: Declared = ONE, is_executor: bool = True, **options: Any
) -> SyncResult:
    bad = options.pop("bad", [])
    return manager_of(node).sync(GROUP, caller, items, bad, is_executor=is_executor, **options)


def beat(node: HandNode, port: int, caller: Declared) -> None:
    facts = make_executor(
        f"http://127.0.0.1:{port}", instance=f"instance-{port}", release=caller.release, declared=caller.digest
    )
    node.scheduler.core.registry.register("demo", facts, node.clock.now_ms())


def by_name(node: HandNode) -> dict[str, Job]:
    with node.db.read() as conn:
        found = records.find_by_names(conn, GROUP, ["report", "clean", "other"])
        return {name: jobs.get_job(conn, ids[0]) for name, ids in found.items()}


def record(node: HandNode, job_id: int) -> DeclaredJob:
    with node.db.read() as conn:
        return records.get_declared(conn, [job_id])[job_id]


def actions(result: SyncResult) -> list[tuple[str, str]]:
    return [(step.action.value, step.name) for step in result.steps if step.action]


def test_jobs_are_created_started_and_owned(node: HandNode) -> None:
    result = sync(node, wanted(max_retries=3), wanted("clean", schedule_type="NONE", schedule_conf=""))
    assert (result.verdict.standing, result.problems) == (DeclarationState.OWNS, ())
    assert actions(result) == [("create", "clean"), ("create", "report")]
    made = by_name(node)
    assert (made["report"].enabled, made["report"].max_retries, made["report"].next_fire_ms) == (True, 3, NOW + 10_000)
    assert not made["clean"].enabled
    known = record(node, made["report"].id)
    assert known.owned == {"name", "handler", "schedule_type", "schedule_conf", "glue_type", "max_retries"}
    assert (known.place, known.problem) == ("app.jobs:report", "")
    assert (result.owner.release, result.owner.digest, result.owner.seen_ms) == (*ONE, NOW)
    assert result.owner.synced_ms == NOW


def test_the_same_again_changes_nothing(node: HandNode) -> None:
    sync(node, wanted())
    before = by_name(node)
    node.clock.advance(1000)
    assert actions(sync(node, wanted())) == []
    assert by_name(node) == before


def test_drift_is_corrected_field_by_field_and_the_rest_is_left_alone(node: HandNode) -> None:
    job = node.job(name="report", handler="old", param="a person's", schedule_conf="7", enabled=True)
    result = sync(node, wanted(max_retries=2))
    (step,) = result.steps
    assert step.action is SyncAction.UPDATE
    assert FieldChange("schedule_conf", "7", "10s") in step.changes
    assert {change.field for change in step.changes} == {"handler", "schedule_conf", "max_retries"}
    after = node.load(job.id)
    assert (after.handler, after.param, after.max_retries, after.enabled) == ("report", "a person's", 2, True)


def test_an_edit_that_leaves_the_schedule_alone_cancels_nothing(node: HandNode) -> None:
    sync(node, wanted(schedule_conf="3s"))
    node.clock.advance(1000)
    node.plan()
    before = [(run.id, run.state) for run in node.runs()]
    assert before
    (step,) = sync(node, wanted(schedule_conf="3s", max_retries=5), caller=ONE).steps
    assert [change.field for change in step.changes] == ["max_retries"]
    assert [(run.id, run.state) for run in node.runs()] == before
    sync(node, wanted(schedule_conf="7s", max_retries=5))
    assert {run.state for run in node.runs() if run.origin is Origin.SCHEDULE} == {RunState.CANCELLED}


def test_what_a_person_stopped_stays_stopped_and_what_code_started_fires(node: HandNode) -> None:
    sync(node, wanted(schedule_type="NONE", schedule_conf=""))
    (step,) = sync(node, wanted()).steps
    job = by_name(node)["report"]
    assert (step.action, job.enabled) == (SyncAction.UPDATE, True)
    node.scheduler.management.jobs.stop(job.id)
    sync(node, wanted(max_retries=1))
    assert not node.load(job.id).enabled
    sync(node, wanted(schedule_type="NONE", schedule_conf=""))
    assert node.load(job.id).schedule_type == "NONE"


def test_what_is_not_declared_any_more_is_stopped_and_comes_back(node: HandNode) -> None:
    sync(node, wanted(), wanted("clean"), wanted("other"))
    first = by_name(node)
    node.scheduler.management.jobs.stop(first["other"].id)
    result = sync(node, wanted(), caller=TWO)
    assert actions(result) == [("retire", "clean"), ("retire", "other")]
    after = by_name(node)
    assert [after[name].enabled for name in ("report", "clean", "other")] == [True, False, False]
    assert not record(node, first["clean"].id).owned
    assert actions(sync(node, wanted(), caller=TWO)) == []
    back = sync(node, wanted(), wanted("clean"), wanted("other"), caller=TWO)
    assert actions(back) == [("start", "clean")]
    again = by_name(node)
    # a person had stopped the other one
    assert [again[name].enabled for name in ("report", "clean", "other")] == [True, True, False]
    assert record(node, first["other"].id).owned


def test_what_a_person_started_meanwhile_is_not_started_again(node: HandNode) -> None:
    sync(node, wanted(), wanted("clean"))
    job = by_name(node)["clean"]
    sync(node, wanted(), caller=TWO)
    node.scheduler.management.jobs.start(job.id)
    before = node.load(job.id)
    node.clock.advance(1000)
    assert actions(sync(node, wanted(), wanted("clean"), caller=TWO)) == []
    assert node.load(job.id) == before
    assert record(node, job.id).owned


def test_a_persons_edit_is_refused_until_the_field_is_released(node: HandNode) -> None:
    sync(node, wanted(timezone="Asia/Shanghai"))
    job, manager = by_name(node)["report"], node.scheduler.management.jobs
    with pytest.raises(OwnedByCodeError, match=rf"release 1\.0 .*app\.jobs:report.*xwheel job release {job.id}"):
        manager.edit(job.id, {"schedule_conf": "1m"})
    assert node.load(job.id) == job
    manager.edit(job.id, {"param": "mine", "timezone": "Asia/Shanghai"})  # code says nothing of the one
    manager_of(node).release(job.id, ["schedule_conf"])
    manager.edit(job.id, {"schedule_conf": "1m"})
    assert actions(sync(node, wanted(timezone="UTC"))) == [("update", "report")]
    after = node.load(job.id)
    assert (after.schedule_conf, after.timezone, after.param) == ("1m", "UTC", "mine")
    manager_of(node).release(job.id, ["schedule_conf"], undo=True)
    assert manager_of(node).note(GROUP, ONE).needs_jobs
    sync(node, wanted(timezone="UTC"))
    assert node.load(job.id).schedule_conf == "10s"
    assert not manager_of(node).note(GROUP, ONE).needs_jobs


def test_a_job_that_is_released_whole_is_a_persons(node: HandNode) -> None:
    sync(node, wanted(), wanted("clean"))
    made, manager = by_name(node), node.scheduler.management.jobs
    for job in made.values():
        with pytest.raises(OwnedByCodeError, match="delete it there, or release it"):
            manager.delete(job.id)
    bulk = manager.change_many(BulkAction.DELETE, [job.id for job in made.values()])
    assert all(isinstance(item.error, OwnedByCodeError) for item in bulk)
    manager_of(node).release(made["report"].id, [])
    manager.edit(made["report"].id, {"name": "mine", "schedule_conf": "1m"})
    manager.edit(made["report"].id, {"name": "report"})
    assert actions(sync(node, wanted(), wanted("clean"))) == []
    assert node.load(made["report"].id).schedule_conf == "1m"
    manager.delete(made["report"].id)
    with node.db.read() as conn:
        assert records.get_declared(conn, [made["report"].id]) == {}
    # code does not declare it any more: it may go, too
    sync(node, wanted("other"), caller=TWO)
    manager.delete(made["clean"].id)


def test_a_release_of_what_code_does_not_say_is_refused(node: HandNode) -> None:
    job = node.job(name="mine")
    manager = manager_of(node)
    with pytest.raises(ConflictError, match="is not declared in code"):
        manager.release(job.id, [])
    sync(node, wanted())
    made = by_name(node)["report"]
    with pytest.raises(FieldError, match="code does not say 'param'"):
        manager.release(made.id, ["param"])
    with pytest.raises(RevisionError):
        manager.release(made.id, [], revision=made.revision + 1)


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"schedule_type": "CRON", "schedule_conf": "0 0 25 * * ?"}, "schedule_conf"),
        ({"route_strategy": "NEAREST"}, "route_strategy"),
        ({"timezone": "Asia/Shangai"}, "timezone"),
        ({"schedule_type": "MOON"}, "schedule_type"),
        ({"calendar_exclude": ("none-such",)}, "calendar_exclude"),
        ({"schedule_type": "CRON", "schedule_conf": "0 0 0 1 1 ? 2020"}, "schedule_conf"),
    ],
)
def test_one_wrong_declaration_harms_no_other_and_its_job_stays(
    node: HandNode, fields: Mapping[str, Any], field: str
) -> None:
    sync(node, wanted(), wanted("clean"))
    before = by_name(node)["report"]
    result = sync(node, wanted(**fields), wanted("clean", max_retries=1), wanted("other"), caller=TWO)
    (problem,) = result.problems
    assert (problem.name, problem.place, problem.field) == ("report", "app.jobs:report", field)
    assert actions(result) == [("update", "clean"), ("create", "other")]
    assert by_name(node)["report"] == before
    assert f"app.jobs:report: {field}: " in record(node, before.id).problem
    assert record(node, before.id).owned
    assert sync(node, wanted(), wanted("clean"), wanted("other"), caller=TWO).problems == ()
    assert record(node, before.id).problem == ""


def test_what_cannot_even_be_read_keeps_its_job(node: HandNode) -> None:
    sync(node, wanted())
    before = by_name(node)["report"]
    bad = BadDeclaration("report", "app.jobs:report", "crom", "is no field of jobs")
    result = sync(node, wanted("clean"), bad=[bad], caller=TWO)
    assert (result.problems, actions(result)) == ((bad,), [("create", "clean")])
    assert by_name(node)["report"] == before


def test_two_jobs_of_that_name_are_a_problem_of_that_declaration_alone(node: HandNode) -> None:
    ids = [node.job(name="report").id for _ in range(2)]
    result = sync(node, wanted(), wanted("clean"))
    assert [(problem.name, problem.field) for problem in result.problems] == [("report", "name")]
    assert str(ids[0]) in result.problems[0].reason
    assert actions(result) == [("create", "clean")]


def test_a_time_that_is_over_makes_a_job_that_does_not_fire(node: HandNode) -> None:
    past = wanted(schedule_type="ONCE", schedule_conf="2020-01-01T00:00:00")
    assert sync(node, past).problems == ()
    assert not by_name(node)["report"].enabled
    assert actions(sync(node, past)) == []


def test_a_dry_run_says_the_same_and_changes_nothing(node: HandNode) -> None:
    sync(node, wanted(), wanted("clean"))
    before = by_name(node)
    items = [wanted(max_retries=4), wanted("other"), wanted("bad", timezone="Nowhere")]
    dry = sync(node, *items, caller=TWO, dry_run=True)
    assert by_name(node) == before
    with node.db.read() as conn:
        assert owners.get_owner(conn, GROUP).release == "1.0"
    real = sync(node, *items, caller=TWO)
    assert sorted(actions(dry)) == sorted(actions(real))
    assert dry.problems == real.problems


def test_the_higher_release_owns_and_the_lower_takes_over_after_90_s(node: HandNode) -> None:
    beat(node, 9101, ONE)
    sync(node, wanted())
    beat(node, 9102, TWO)
    sync(node, wanted(max_retries=2), caller=TWO)
    refused = sync(node, wanted())
    assert (refused.verdict.standing, refused.verdict.other) == (DeclarationState.WAITS, TWO)
    assert by_name(node)["report"].max_retries == 2
    node.scheduler.core.registry.remove("demo", "http://127.0.0.1:9102")
    node.clock.advance(89_000)
    beat(node, 9101, ONE)
    assert manager_of(node).note(GROUP, ONE).verdict == (DeclarationState.WAITS, TWO, False, NOW + 90_000)
    node.clock.advance(1000)
    note = manager_of(node).note(GROUP, ONE)
    assert (note.verdict.standing, note.needs_jobs) == (DeclarationState.OWNS, True)
    sync(node, wanted(max_retries=0))
    assert by_name(node)["report"].max_retries == 0


def test_a_node_that_was_down_hands_nothing_to_the_executor_that_calls_first(node: HandNode) -> None:
    sync(node, wanted(max_retries=2), caller=TWO)
    node.clock.advance(3_600_000)
    later = node.successor()
    refused = sync(later, wanted())
    assert (refused.verdict.standing, refused.verdict.other) == (DeclarationState.WAITS, TWO)
    assert by_name(later)["report"].max_retries == 2
    later.clock.advance(90_000)
    assert sync(later, wanted()).verdict.standing is DeclarationState.OWNS


def test_a_conflict_changes_nothing_and_is_seen_by_both(node: HandNode) -> None:
    beat(node, 9101, ONE)
    sync(node, wanted())
    beat(node, 9102, OTHER)
    before = by_name(node)
    refused = sync(node, wanted(max_retries=9), caller=OTHER)
    assert (refused.verdict.standing, refused.verdict.other) == (DeclarationState.CONFLICTS, ONE)
    for _ in range(3):
        assert manager_of(node).note(GROUP, OTHER).verdict.standing is DeclarationState.CONFLICTS
        assert manager_of(node).note(GROUP, ONE).conflicts == (OTHER,)
    assert by_name(node) == before
    with node.db.read() as conn:
        owner = owners.get_owner(conn, GROUP)
    builds = manager_of(node).builds(GROUP, owner)
    assert [(build.declared, build.standing, build.executors) for build in builds] == [
        (ONE, DeclarationState.OWNS, 1),
        (OTHER, DeclarationState.CONFLICTS, 1),
    ]


def test_signs_of_life_are_written_now_and_then(node: HandNode) -> None:
    sync(node, wanted())
    for advance_ms, seen_ms in ((1000, NOW), (4000, NOW + 5000), (1000, NOW + 5000)):
        node.clock.advance(advance_ms)
        assert not manager_of(node).note(GROUP, ONE).needs_jobs
        with node.db.read() as conn:
            assert owners.get_owner(conn, GROUP).seen_ms == seen_ms


def test_an_edit_meanwhile_wins_no_race_and_loses_nothing(node: HandNode, monkeypatch: pytest.MonkeyPatch) -> None:
    sync(node, wanted())
    job, manager = by_name(node)["report"], manager_of(node)
    look, edits = manager._plan, iter(range(1))

    def plan(*given: Any) -> Any:
        found = look(*given)
        for _ in edits:  # after the look, before the lock
            node.scheduler.management.jobs.edit(job.id, {"param": "meanwhile"})
        return found

    monkeypatch.setattr(manager, "_plan", plan)
    sync(node, wanted(max_retries=7))
    after = node.load(job.id)
    assert (after.param, after.max_retries, after.revision) == ("meanwhile", 7, job.revision + 2)


def test_a_field_that_is_released_meanwhile_is_left_alone(node: HandNode, monkeypatch: pytest.MonkeyPatch) -> None:
    sync(node, wanted(max_retries=1))
    job, manager = by_name(node)["report"], manager_of(node)
    look, edits = manager._plan, iter(range(1))

    def plan(*given: Any) -> Any:
        found = look(*given)
        for _ in edits:  # after the look, before the lock
            manager.release(job.id, ["max_retries"])
            node.scheduler.management.jobs.edit(job.id, {"max_retries": 5})
        return found

    monkeypatch.setattr(manager, "_plan", plan)
    sync(node, wanted(max_retries=7))
    assert node.load(job.id).max_retries == 5


def test_a_higher_release_that_comes_meanwhile_keeps_what_it_wrote(
    node: HandNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    sync(node, wanted(max_retries=1))
    manager = manager_of(node)
    look, turns = manager._plan, iter(range(1))

    def plan(*given: Any) -> Any:
        found = look(*given)
        for _ in turns:  # after the look, before the lock
            sync(node, wanted(timezone="Asia/Shanghai"), caller=TWO)
        return found

    monkeypatch.setattr(manager, "_plan", plan)
    with pytest.raises(ConflictError, match=r"release 2\.0 took the declared jobs"):
        sync(node, wanted(max_retries=7), wanted("other"))
    assert by_name(node)["report"].max_retries == 1
    assert "other" not in by_name(node)


def test_two_nodes_that_sync_the_same_at_once_make_each_job_once(node: HandNode) -> None:
    other = twin_of(node.db) if node.db.backend != "sqlite" else None
    twin = node if other is None else HandNode(other, ManualClock(NOW))
    items = [wanted(name) for name in ("report", "clean", "other")]
    results: list[SyncResult] = []
    start = threading.Barrier(2)

    def work(mine: HandNode) -> None:
        start.wait()
        results.append(sync(mine, *items))

    threads = [threading.Thread(target=work, args=(mine,)) for mine in (node, twin)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    if other is not None:
        other.close()
    assert len(results) == 2
    assert all(result.verdict.standing is DeclarationState.OWNS and not result.problems for result in results)
    assert sorted(action for result in results for action in actions(result)) == [
        ("create", "clean"),
        ("create", "other"),
        ("create", "report"),
    ]
    with node.db.read() as conn:
        found = records.find_by_names(conn, GROUP, ["report", "clean", "other"])
    assert {len(ids) for ids in found.values()} == {1}


def test_a_batch_is_one_transaction_and_many_jobs_are_several(node: HandNode) -> None:
    items = [wanted(f"job-{number:03}") for number in range(150)]
    items[120] = wanted("job-120", route_strategy="NEAREST")
    result = sync(node, *items)
    assert (len(result.steps), [problem.name for problem in result.problems]) == (149, ["job-120"])


def test_each_sync_leaves_one_version_of_each_job_that_it_changed(node: HandNode) -> None:
    def actions(name: str) -> list[tuple[int, str, str]]:
        job_id = by_name(node)[name].id
        with node.db.read() as conn:
            found = kept_versions(conn, job_id)
        return [(item.revision, item.action, item.actor) for item in found]

    app = Actor(kind=ActorKind.GROUP, name="orders", grants=ALL)
    with acting(app):
        sync(node, wanted(), wanted("clean"))
    created = by_name(node)["report"].revision
    with acting(app):
        sync(node, wanted(schedule_conf="20s"), wanted("clean"), caller=TWO)
    edited = by_name(node)["report"].revision
    with acting(app):
        sync(node, wanted("clean"), caller=Declared("3.0", "d" * 64))
    assert actions("report") == [
        (created, "sync", "orders"),
        (edited, "sync", "orders"),
        (by_name(node)["report"].revision, "sync", "orders"),
    ]
    assert actions("clean") == [(by_name(node)["clean"].revision, "sync", "orders")]
    manager_of(node).release(by_name(node)["clean"].id, ())
    assert actions("clean")[-1][1:] == ("release", "")


def test_what_code_declares_of_a_job_stays_codes(node: HandNode) -> None:
    manager = node.scheduler.management.jobs
    job = node.job(name="report", param="a", timeout_s=1, enabled=False)
    manager.edit(job.id, {"param": "b"})
    manager.edit(job.id, {"timeout_s": 2})
    declared = DeclaredJob(job_id=job.id, group_id=job.group_id, place="app.jobs", fields=("param",))
    node.db.transaction(lambda conn: records.insert_declared(conn, [declared]))
    with pytest.raises(OwnedByCodeError, match="param"):
        manager.restore(job.id, 1)
    assert manager.restore(job.id, 2).timeout_s == 1
