"""Versions of jobs: each change writes one, in its transaction, with who and why, and a job can go back to it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import event, text

from tests.support import node as support
from tests.support.node import HandNode
from tests.support.recorder import noted, recorders
from tests.support.rows import NOW, job_values
from tests.support.versions import kept_versions
from xwheel.clock import ManualClock
from xwheel.errors import FieldError, ForbiddenError, NameTakenError, NotFoundError, RevisionError
from xwheel.model import ChildLink, Job, NewSource
from xwheel.model.access import Actor, ActorKind, Grant, Grants, Role, acting
from xwheel.model.versions import JobVersion
from xwheel.plugin import GlueRequest, HandlerLookup
from xwheel.plugin.discovery import Plugins
from xwheel.plugin.registries import Registry
from xwheel.scheduler.jobs.jobs import BulkAction
from xwheel.storage import executors, job_versions, jobs, retention
from xwheel.storage.database.engine import Connection, Database
from xwheel.storage.schema.tables import job_version

RATE = {"schedule_type": "FIX_RATE", "schedule_conf": "60s"}


class ScriptGlue:
    name = "SCRIPT"
    takes_source = True

    def build(self, request: GlueRequest, handlers: HandlerLookup) -> Any:
        raise NotImplementedError


@pytest.fixture
def node(db: Database, monkeypatch: pytest.MonkeyPatch) -> HandNode:
    known = support.plugins()
    types = {"BEAN": known.glue_types["BEAN"], "SCRIPT": ScriptGlue()}
    mine = Plugins(
        schedule_types=known.schedule_types,
        routers=known.routers,
        glue_types=Registry[Any]("glue type", types, {}),
        recorders=recorders(),
    )
    monkeypatch.setattr(support, "PLUGINS", [mine])
    made = HandNode(db, ManualClock(NOW))
    made.group()
    return made


def alice(why: str = "", role: Role = Role.ADMIN, *, script: bool = False) -> Actor:
    grants = Grants(Grant(role, script))
    return Actor(kind=ActorKind.ACCOUNT, name="alice", grants=grants, reason=why, account_id=7)


def make(node: HandNode, **changes: Any) -> Job:
    values = {name: value for name, value in job_values(**changes).items() if name in node_fields()}
    return node.scheduler.management.jobs.create(values)


def node_fields() -> set[str]:
    from xwheel.model.versions import DEFINED

    return set(DEFINED)


def versions(node: HandNode, job_id: int) -> list[JobVersion]:
    """Return all versions of a job, oldest first, with their definitions."""
    with node.db.read() as conn:
        return kept_versions(conn, job_id)


def told(node: HandNode, job_id: int) -> list[tuple[int, str, str, str]]:
    return [(one.revision, one.action, one.actor, one.reason) for one in versions(node, job_id)]


def audited(node: HandNode) -> list[tuple[str, str, str, str]]:
    return [(row["action"], row["object_id"], row["actor"], row["reason"]) for row in noted(node.db)]


def details(node: HandNode) -> list[dict[str, Any]]:
    return [row["detail"] for row in noted(node.db)]


def current(node: HandNode, job_id: int) -> Job:
    with node.db.read() as conn:
        return jobs.get_job(conn, job_id)


def forget(node: HandNode) -> None:
    """Leave the jobs as a node of the version before left them."""
    node.db.transaction(lambda conn: conn.execute(job_version.delete()))
    node.db.transaction(lambda conn: conn.execute(text("DELETE FROM notes")))


@pytest.fixture
def inserts(node: HandNode) -> Iterator[list[str]]:
    """What is inserted from now on: the first words of each statement."""
    found: list[str] = []

    def note(conn: Any, cursor: Any, statement: str, *rest: Any) -> None:
        if statement.lstrip().upper().startswith("INSERT"):
            found.append(" ".join(statement.split()[:3]).replace("`", "").replace('"', ""))

    event.listen(node.db.engine, "before_cursor_execute", note)
    yield found
    event.remove(node.db.engine, "before_cursor_execute", note)


def test_each_change_has_a_version_with_who_and_why(node: HandNode) -> None:
    manager = node.scheduler.management.jobs
    with acting(alice("it is new")):
        job = make(node, name="report", param="a")
    with acting(alice("b is better")):
        manager.edit(job.id, {"param": "b"})
    manager.edit(job.id, RATE)
    with acting(alice("let it go")):
        manager.start(job.id)
        manager.start(job.id)
    manager.stop(job.id)
    with acting(alice("enough")):
        manager.delete(job.id)
    assert told(node, job.id) == [
        (1, "create", "alice", "it is new"),
        (2, "edit", "alice", "b is better"),
        (3, "edit", "", ""),
        (4, "start", "alice", "let it go"),
        (5, "stop", "", ""),
        (6, "delete", "alice", "enough"),
    ]
    found = versions(node, job.id)
    assert [one.definition["param"] for one in found] == ["a", "b", "b", "b", "b", "b"]
    assert [one.definition["enabled"] for one in found] == [False, False, False, True, False, False]
    assert [one.actor_kind for one in found[:3]] == ["account", "account", "node"]
    assert {one.at_ms for one in found} == {NOW}
    assert audited(node) == [
        ("job.create", str(job.id), "alice", "it is new"),
        ("job.edit", str(job.id), "alice", "b is better"),
        ("job.edit", str(job.id), "", ""),
        ("job.start", str(job.id), "alice", "let it go"),
        ("job.stop", str(job.id), "", ""),
        ("job.delete", str(job.id), "alice", "enough"),
    ]
    assert details(node)[1] == {
        "before": {"param": "a", "revision": 1}, "after": {"param": "b", "revision": 2},
    }  # fmt: skip


def test_a_definition_holds_what_an_author_writes_and_nothing_that_nodes_move(node: HandNode) -> None:
    job = make(node, calendar_exclude=(), retry_delays_ms=(1, 2))
    (found,) = versions(node, job.id)
    assert {"param", "schedule_conf", "enabled", "group_id", "anchor_ms"} <= found.definition.keys()
    assert not {"next_fire_ms", "last_fire_ms", "revision", "partition", "glue_version"} & found.definition.keys()
    assert found.definition["retry_delays_ms"] == [1, 2]


def test_what_was_there_before_is_kept_with_the_first_change(node: HandNode) -> None:
    job = make(node, param="old")
    forget(node)
    node.clock.advance(1000)
    with acting(alice("now we keep them")):
        node.scheduler.management.jobs.edit(job.id, {"param": "new"})
    assert told(node, job.id) == [(1, "found", "", ""), (2, "edit", "alice", "now we keep them")]
    before, after = versions(node, job.id)
    assert (before.definition["param"], before.at_ms, before.actor_kind) == ("old", NOW, "unknown")
    assert (after.definition["param"], after.at_ms) == ("new", NOW + 1000)


def test_what_a_node_of_an_older_version_changed_is_found_later(node: HandNode) -> None:
    job = make(node, param="a")
    node.db.transaction(lambda conn: jobs.update_job(conn, job.id, {"param": "b", "revision": 2}))
    node.scheduler.management.jobs.edit(job.id, {"param": "c"})
    assert [(one.revision, one.action, one.definition["param"]) for one in versions(node, job.id)] == [
        (1, "create", "a"), (2, "found", "b"), (3, "edit", "c"),
    ]  # fmt: skip


def test_an_edit_costs_one_statement_for_versions_whatever_it_does(node: HandNode, inserts: list[str]) -> None:
    manager = node.scheduler.management.jobs
    job = make(node, **RATE)
    manager.start(job.id)
    forget(node)
    for changes in ({"param": "a"}, {"schedule_conf": "90s"}):
        inserts.clear()
        manager.edit(job.id, changes)
        assert inserts == ["INSERT INTO job_version", "INSERT INTO notes"]


def test_what_is_refused_leaves_no_version(node: HandNode) -> None:
    job = make(node)
    manager = node.scheduler.management.jobs
    with pytest.raises(FieldError):
        manager.edit(job.id, {"schedule_type": "UNKNOWN_ACTOR"})
    with pytest.raises(RevisionError):
        manager.edit(job.id, {"param": "x"}, revision=9)
    with pytest.raises(ForbiddenError), acting(alice(role=Role.VIEWER)):
        manager.edit(job.id, {"param": "x"})
    assert told(node, job.id) == [(1, "create", "", "")]
    assert len(audited(node)) == 1


def test_many_jobs_are_written_down_in_bulk(node: HandNode, inserts: list[str]) -> None:
    manager = node.scheduler.management.jobs
    made = [make(node, name=f"job {number}", **RATE).id for number in range(30)]
    dead = make(node, name="never", schedule_type="NONE", schedule_conf="").id
    inserts.clear()
    rows = []
    for action in (BulkAction.START, BulkAction.START, BulkAction.STOP, BulkAction.DELETE):
        with acting(alice(f"all {action}")):
            manager.change_many(action, [*made, dead, 999])
        rows.append(len(inserts))
        inserts.clear()
    assert rows[1] == 0  # they were started already
    assert max(rows) <= 2 if node.db.backend != "sqlite" else True
    for job_id in made:
        assert told(node, job_id) == [
            (1, "create", "", ""),
            (2, "start", "alice", "all start"),
            (3, "stop", "alice", "all stop"),
            (4, "delete", "alice", "all delete"),
        ]
    assert [action for _, action, _, _ in told(node, dead)] == ["create", "stop", "delete"]
    assert len(audited(node)) == 31 + 30 + 31 + 31


def test_sources_are_versions_of_their_job_and_are_recorded(node: HandNode) -> None:
    job = make(node, glue_type="SCRIPT", handler="")
    scripts = node.scheduler.core.scripts
    with acting(alice("first")):
        scripts.save(job.id, NewSource(source="echo secret", author="alice"))
    scripts.save(job.id, NewSource(source="echo two", author="alice"))
    scripts.restore(job.id, 1, author="bob")
    found = versions(node, job.id)
    assert [(one.action, one.glue_version) for one in found] == [
        ("create", 0), ("script", 1), ("script", 2), ("script", 3),
    ]  # fmt: skip
    assert [action for action, *_ in audited(node)] == ["job.create", *["script.save"] * 3]
    said = details(node)[1]["after"]
    assert said["glue_version"] == 1
    assert said["source"] == "echo secret"  # a recorder may show less of it


def test_children_are_part_of_the_version_that_changed_them(node: HandNode) -> None:
    first, second = make(node, name="first"), make(node, name="second")
    links = [ChildLink(parent_id=first.id, child_id=second.id, param=None)]
    with acting(alice("chain them")):
        node.scheduler.management.dependencies.set_children(first.id, links)
    found = versions(node, first.id)[-1]
    assert (found.action, found.reason) == ("children", "chain them")
    assert found.definition["children"] == [{"child_id": second.id, "param": None}]
    assert found.definition["children_before"] == []
    assert details(node)[-1]["after"]["children"] == [{"child_id": second.id, "param": None}]


def test_calendars_and_the_pause_write_down_which_jobs_they_changed(node: HandNode) -> None:
    management = node.scheduler.management
    management.schedules.save_calendar("free", {"dates": ["2030-01-01"]})
    job = make(node, calendar_exclude=("free",), schedule_type="FIX_RATE", schedule_conf="1")
    management.jobs.start(job.id)
    with acting(alice("another holiday")):
        management.schedules.save_calendar("free", {"dates": ["2030-01-02"]})
    assert told(node, job.id)[-1] == (3, "calendar", "alice", "another holiday")
    node.plan()
    with acting(alice("works")):
        management.schedules.pause()
    assert told(node, job.id)[-1] == (4, "pause", "alice", "works")
    assert current(node, job.id).revision == 4


# -- back to a version


def test_a_job_goes_back_to_how_it_was(node: HandNode) -> None:
    manager = node.scheduler.management.jobs
    job = make(node, name="report", param="good", timeout_s=5, retry_delays_ms=(1, 2), **RATE)
    manager.edit(job.id, {"param": "bad", "name": "other", "timeout_s": 9, "retry_delays_ms": ()})
    manager.start(job.id)
    with acting(alice("the night was bad")):
        back = manager.restore(job.id, 1, revision=3)
    assert (back.name, back.param, back.timeout_s, back.retry_delays_ms) == ("report", "good", 5, (1, 2))
    assert (back.enabled, back.revision) == (True, 4)
    assert told(node, job.id)[-1] == (4, "restore", "alice", "the night was bad")
    assert audited(node)[-1][0] == "job.restore"
    again = manager.restore(job.id, 2)
    assert (again.name, again.param) == ("other", "bad")


def test_a_started_job_that_goes_back_fires_by_its_old_schedule(node: HandNode) -> None:
    manager = node.scheduler.management.jobs
    job = make(node, **RATE)
    manager.start(job.id)
    manager.edit(job.id, {"schedule_conf": "7200s"})
    assert current(node, job.id).next_fire_ms == NOW + 7_200_000
    back = manager.restore(job.id, 1)
    assert (back.schedule_conf, back.next_fire_ms) == ("60s", NOW + 60_000)
    assert back.revision == told(node, job.id)[-1][0]


def test_the_source_comes_back_as_a_new_version_of_it(node: HandNode) -> None:
    manager, scripts = node.scheduler.management.jobs, node.scheduler.core.scripts
    job = make(node, glue_type="SCRIPT", handler="")
    scripts.save(job.id, NewSource(source="one", author="a"))
    scripts.save(job.id, NewSource(source="two", author="a"))
    with acting(alice("two is wrong")):
        back = manager.restore(job.id, 2)
    assert back.glue_version == 3
    found = node.scheduler.core.sources.find([back]).sources[job.id]
    assert (found.source, found.author, found.remark) == ("one", "alice", "revision 2 again")
    assert manager.restore(job.id, 4).glue_version == 3  # it is that already


def test_another_glue_type_takes_its_source_along(node: HandNode) -> None:
    manager, scripts = node.scheduler.management.jobs, node.scheduler.core.scripts
    job = make(node, glue_type="SCRIPT", handler="")
    scripts.save(job.id, NewSource(source="one", author="a"))
    manager.edit(job.id, {"glue_type": "BEAN", "handler": "report"})
    assert current(node, job.id).glue_version == 0
    back = manager.restore(job.id, 2)
    assert (back.glue_type, back.handler) == ("SCRIPT", "")
    assert node.scheduler.core.sources.find([back]).sources[job.id].source == "one"


def test_a_source_needs_the_right_to_scripts_and_the_rest_the_right_to_edit(node: HandNode) -> None:
    manager, scripts = node.scheduler.management.jobs, node.scheduler.core.scripts
    job = make(node, glue_type="SCRIPT", handler="", param="a")
    scripts.save(job.id, NewSource(source="one", author="a"))
    manager.edit(job.id, {"param": "b"})
    with acting(alice(role=Role.EDITOR)):
        manager.restore(job.id, 2)
    scripts.save(job.id, NewSource(source="two", author="a"))
    with acting(alice(role=Role.EDITOR)), pytest.raises(ForbiddenError, match="script"):
        manager.restore(job.id, 2)
    with acting(alice(role=Role.EDITOR, script=True)):
        manager.restore(job.id, 2)
    with acting(alice(role=Role.OPERATOR)), pytest.raises(ForbiddenError, match="edit"):
        manager.restore(job.id, 2)


def test_what_is_gone_meanwhile_refuses_it_and_changes_nothing(node: HandNode) -> None:
    manager, scripts = node.scheduler.management.jobs, node.scheduler.core.scripts
    management = node.scheduler.management
    management.schedules.save_calendar("free", {"dates": ["2030-01-01"]})
    other = node.db.transaction(lambda conn: executors.insert_group(conn, app_name="other", title="", now_ms=NOW).id)
    job = make(node, glue_type="SCRIPT", handler="", calendar_exclude=("free",), name="report")
    scripts.save(job.id, NewSource(source="one", author="a"))
    manager.edit(job.id, {"group_id": other})
    manager.edit(job.id, {"calendar_exclude": (), "name": "mine", "group_id": job.group_id})
    rows = len(audited(node))

    def refused(revision: int, error: type[Exception], words: str) -> None:
        before = current(node, job.id)
        with pytest.raises(error, match=words):
            manager.restore(job.id, revision)
        assert current(node, job.id) == before
        assert len(audited(node)) == rows

    refused(9, NotFoundError, "version of job .* at revision 9 does not exist")
    refused(2**53 - 1, NotFoundError, "does not exist")
    taken = make(node, name="report")
    rows = len(audited(node))
    refused(1, NameTakenError, "called 'report' already")
    manager.delete(taken.id)
    management.schedules.delete_calendar("free")
    rows = len(audited(node))
    refused(1, FieldError, "calendar_exclude: no calendar is called 'free'")
    management.schedules.save_calendar("free", {"dates": ["2030-01-03"]})
    rows = len(audited(node))
    node.db.transaction(lambda conn: executors.delete_group(conn, other))
    refused(3, NotFoundError, f"group {other} does not exist")
    for number in range(30):
        scripts.save(job.id, NewSource(source=f"more {number}", author="a"))
    rows = len(audited(node))
    refused(2, FieldError, "had version 1 of the source, which is not kept any more")
    with pytest.raises(NotFoundError, match="job 99 does not exist"):
        manager.restore(99, 1)
    with pytest.raises(RevisionError):
        manager.restore(job.id, 4, revision=1)


def test_a_plugin_that_is_gone_or_a_value_of_a_newer_xwheel_refuses_it(node: HandNode) -> None:
    job = make(node, param="a")
    node.scheduler.management.jobs.edit(job.id, {"param": "b"})

    def change(**fields: Any) -> None:
        def work(conn: Connection) -> None:
            known = job_versions.get_version(conn, job.id, 1)
            text = json.dumps({**known.definition, **fields})
            conn.execute(job_version.update().where(job_version.c.revision == 1).values(definition=text))

        node.db.transaction(work)

    change(route_strategy="NEAREST")
    with pytest.raises(FieldError, match="route_strategy: 'NEAREST' is not installed"):
        node.scheduler.management.jobs.restore(job.id, 1)
    change(route_strategy="RANDOM", misfire_policy="fire_twice")
    with pytest.raises(FieldError, match="revision: cannot be restored here: .*fire_twice"):
        node.scheduler.management.jobs.restore(job.id, 1)
    change(misfire_policy="skip", taste="sour")  # a field that this version does not have
    assert node.scheduler.management.jobs.restore(job.id, 1).misfire_policy == "skip"


def test_versions_go_with_the_job(node: HandNode) -> None:
    kept, gone = make(node, name="kept"), make(node, name="gone")
    node.scheduler.management.jobs.delete(gone.id)
    assert [one.action for one in versions(node, gone.id)] == ["create", "delete"]
    node.db.transaction(lambda conn: retention.delete_tombstones(conn, [kept.id, gone.id]))
    assert versions(node, gone.id) == []
    assert len(versions(node, kept.id)) == 1
