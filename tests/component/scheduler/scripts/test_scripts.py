"""Script jobs: what travels with their runs, and what it costs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import event, text

from tests.support import node as support
from tests.support.node import HandNode
from tests.support.rows import NOW, job_values
from xwheel.clock import ManualClock
from xwheel.errors import FieldError
from xwheel.model import Job, NewSource, Origin, RunState
from xwheel.plugin import ExecutorError, GlueRequest, HandlerLookup, SavedSource
from xwheel.plugin.discovery import Plugins
from xwheel.plugin.registries import Registry
from xwheel.scheduler.records import Fate
from xwheel.scheduler.send.lane import encode_parcel
from xwheel.storage import jobs, retention
from xwheel.storage.database.engine import Database
from xwheel.wire.codec import decode_batch
from xwheel.wire.messages import TriggerRequest


class ScriptGlue:
    """A glue type whose jobs have a source."""

    name = "SCRIPT"
    takes_source = True

    def build(self, request: GlueRequest, handlers: HandlerLookup) -> Any:
        raise NotImplementedError

    def check_source(self, source: str) -> None:
        if source == "bad":
            raise ExecutorError("line 1 is bad: write a good one")
        if source == "odd":
            raise RuntimeError("oh")


@pytest.fixture
def glue() -> ScriptGlue:
    """The glue type that the node has."""
    return ScriptGlue()


@pytest.fixture
def node(db: Database, monkeypatch: pytest.MonkeyPatch, glue: ScriptGlue) -> HandNode:
    known = support.plugins()
    types = {"BEAN": known.glue_types["BEAN"], "SCRIPT": glue}
    mine = Plugins(
        schedule_types=known.schedule_types, routers=known.routers, glue_types=Registry[Any]("glue type", types, {})
    )
    monkeypatch.setattr(support, "PLUGINS", [mine])
    made = HandNode(db, ManualClock(NOW))
    made.group()
    made.register("http://127.0.0.1:9001")
    return made


def script(node: HandNode, source: str = "one", **changes: Any) -> Job:
    values = job_values(anchor_ms=NOW, glue_type="SCRIPT", handler="", **changes)
    return node.scheduler.management.jobs.create(values, enabled=True, source=NewSource(source=source, author="me"))


def sent(node: HandNode) -> list[TriggerRequest]:
    parcels, node.sent[:] = list(node.sent), []
    return [request for parcel in parcels for request in decode_batch(encode_parcel(parcel)[1])[1]]


@pytest.fixture
def statements(node: HandNode) -> Iterator[list[str]]:
    found: list[str] = []

    def note(_conn: object, _cursor: object, text: str, *_: object) -> None:
        if "glue_version" in text and "FROM glue_version" in text:
            found.append(text)

    event.listen(node.db.engine, "before_cursor_execute", note)
    yield found
    event.remove(node.db.engine, "before_cursor_execute", note)


def test_r41_a_byte_order_mark_is_not_saved(node: HandNode) -> None:
    """R41: foreign executors would give it to their interpreters."""
    job = script(node, "\ufeff#!/bin/sh")
    node.run_for(1500)
    assert sent(node)[0].glue_source == "#!/bin/sh"
    assert node.scheduler.core.scripts.save(job.id, NewSource(source="\ufefftwo", author="me")).source == "two"


def test_runs_carry_the_newest_source_and_its_time(node: HandNode) -> None:
    job = script(node)
    node.run_for(1500)
    (first,) = sent(node)
    assert (first.glue_type, first.glue_source) == ("SCRIPT", "one")
    saved = node.scheduler.core.scripts.save(job.id, NewSource(source="two", author="me"))
    node.run_for(1000)
    second = sent(node)[-1]
    assert (second.glue_source, second.glue_updated_ms) == ("two", saved.created_ms)
    assert second.glue_updated_ms > first.glue_updated_ms


def test_r5_no_transaction_is_open_while_a_glue_type_is_asked(node: HandNode, monkeypatch: pytest.MonkeyPatch) -> None:
    inside: list[int] = []

    def check_source(_self: ScriptGlue, _source: str) -> None:
        inside.append(node.db.engine.pool.checkedout())  # type: ignore[attr-defined]

    monkeypatch.setattr(ScriptGlue, "check_source", check_source)
    job = script(node, "zero")
    assert script(node, "zero").id == job.id + 1  # nothing was begun in vain
    node.scheduler.management.jobs.edit(job.id, {}, source=NewSource(source="one", author="me"))
    node.scheduler.core.scripts.save(job.id, NewSource(source="two", author="me"))
    node.scheduler.core.scripts.restore(job.id, 1, author="me")
    assert inside == [0] * 5


class _Compares(ScriptGlue):
    """A glue type that reads the database; it takes sources while they are in ``allowed``."""

    db: Database

    def __init__(self) -> None:
        self.allowed = {"one", "two"}
        self.asked: list[tuple[str, int]] = []

    def check_saved_source(self, saved: SavedSource) -> None:
        assert self.db.engine.pool.checkedout() == 0  # type: ignore[attr-defined]
        with saved.database.read() as conn:
            conn.execute(text("SELECT 1"))
        self.asked.append((saved.source, saved.group_id))
        if saved.source not in self.allowed:
            raise ExecutorError("sha256: is another one")


@pytest.mark.parametrize("glue", [_Compares()])
def test_s12_a_glue_type_compares_sources_outside_of_transactions_whichever_way_they_come(
    node: HandNode, glue: _Compares
) -> None:
    scripts, manager = node.scheduler.core.scripts, node.scheduler.management.jobs
    glue.db = node.db
    other = node.group("others")
    job = script(node)
    first = manager.edit(job.id, {"description": "x"}).revision
    scripts.save(job.id, NewSource(source="two", author="me"))
    assert set(glue.asked) == {("one", job.group_id), ("two", job.group_id)}
    glue.allowed = set()
    for save in (
        lambda: script(node),
        lambda: manager.edit(job.id, {}, source=NewSource(source="one", author="me")),
        lambda: scripts.save(job.id, NewSource(source="one", author="me")),
        lambda: scripts.restore(job.id, 1, author="me"),
        lambda: manager.restore(job.id, first),
        lambda: manager.edit(job.id, {"group_id": other}),
    ):
        with pytest.raises(FieldError, match="^glue_source: sha256: is another one$"):
            save()
    assert glue.asked[-1] == ("two", other)
    assert manager.edit(job.id, {"description": "y"}).glue_version == 2
    glue.allowed = {"two"}
    assert manager.edit(job.id, {"group_id": other}).group_id == other


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("bad", "glue_source: line 1 is bad: write a good one"),
        ("odd", "glue_source: cannot be read: glue type SCRIPT failed: RuntimeError: oh"),
    ],
)
def test_a_source_that_its_glue_type_refuses_is_not_saved(node: HandNode, source: str, said: str) -> None:
    job = script(node)
    manager = node.scheduler.management.jobs
    for save in (
        lambda: script(node, source),
        lambda: manager.edit(job.id, {}, source=NewSource(source=source, author="me")),
        lambda: node.scheduler.core.scripts.save(job.id, NewSource(source=source, author="me")),
    ):
        with pytest.raises(FieldError, match=f"^{said}$"):
            save()
    with node.db.read() as conn:
        assert jobs.get_job(conn, job.id).glue_version == job.glue_version
        assert jobs.get_jobs(conn, [job.id, job.id + 1]).keys() == {job.id}


def test_a_version_is_read_once_and_never_for_beans(node: HandNode, statements: list[str]) -> None:
    node.job()
    node.run_for(2000)
    assert len(sent(node)) >= 2
    assert statements == []
    for number in range(5):
        script(node, f"echo {number}")
    statements.clear()
    node.run_for(5000)
    assert {item.glue_source for item in sent(node)} == {"", *(f"echo {number}" for number in range(5))}
    assert 1 <= len(statements) <= 5


def test_a_script_without_a_source_is_refused_where_nobody_checked(node: HandNode) -> None:
    job = script(node)
    node.db.transaction(lambda conn: jobs.update_job(conn, job.id, {"glue_version": 0, "revision": 9}))
    bean = node.job()
    node.run_for(1500)
    assert {item.job_id for item in sent(node)} == {bean.id}
    refused = [run for run in node.runs(job.id) if run.state is RunState.REFUSED]
    assert [(run.reason, f"job {job.id} has no SCRIPT source" in run.message) for run in refused] == [
        ("no_source", True)
    ]


def test_a_script_whose_glue_type_was_uninstalled_is_refused(node: HandNode, monkeypatch: pytest.MonkeyPatch) -> None:
    job = script(node)
    bean = node.job()
    monkeypatch.setattr(support, "PLUGINS", [])
    node.scheduler.core.lease.release()
    later = HandNode(node.db, node.clock)
    later.run_for(1500)
    assert {item.job_id for item in sent(later)} == {bean.id}
    refused = [run for run in later.runs(job.id) if run.state is RunState.REFUSED]
    assert refused
    assert {(run.reason, run.message) for run in refused} == {
        ("no_glue_type", "no glue type is called 'SCRIPT'; known: BEAN")
    }


def test_what_has_no_answer_is_sent_again_with_its_source(node: HandNode) -> None:
    job = script(node)
    node.run_for(1500)
    (first,) = sent(node)
    node.in_lane.clear()
    node.scheduler.management.jobs.stop(job.id)
    node.run_for(30_000, step_ms=500)
    again = [item for item in sent(node) if item.run_id == first.run_id]
    assert again
    assert {item.glue_source for item in again} == {"one"}


def test_long_sources_travel_in_small_requests(node: HandNode) -> None:
    long = "x" * 100_000
    for _ in range(24):
        script(node, long)
    node.run_for(1500)
    sizes, ids = [], []
    for _ in range(4):  # an address has room for a few requests at a time
        sizes += [len(encode_parcel(parcel)[1]) for parcel in node.sent]
        ids += [run.job_id for run in node.answer()]
        node.tick(50)
    assert len(sizes) == 3  # ten at once
    assert sorted(ids) == list(range(1, 25))
    assert max(sizes) <= node.config.trigger.batch_bytes


def test_a_run_of_a_deleted_job_keeps_its_source_until_the_tombstone_goes(node: HandNode) -> None:
    job = script(node)
    node.scheduler.management.jobs.delete(job.id)
    assert node.scheduler.core.sources.find([job]).sources[job.id].source == "one"
    removed = node.db.transaction(lambda conn: retention.delete_tombstones(conn, [job.id]))
    assert removed == 1
    node.scheduler.core.sources.forget()
    assert node.scheduler.core.sources.find([job]).sources == {}


def test_a_copy_in_memory_is_bounded(node: HandNode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xwheel.scheduler.sources.CACHED_CHARS", 25)
    made = [script(node, "0123456789") for _ in range(4)]
    found = node.scheduler.core.sources.find(made)
    assert (len(found.sources), len(found.left_out)) == (2, 2)
    assert found.sources.keys() | found.left_out == {job.id for job in made}
    later = [job for job in made if job.id in found.left_out]
    again = node.scheduler.core.sources.find(later)
    assert (again.sources.keys(), again.left_out) == (found.left_out, set())
    seen: list[str] = []
    event.listen(node.db.engine, "before_cursor_execute", lambda _c, _k, statement, *_: seen.append(statement))
    assert node.scheduler.core.sources.find(later).sources == again.sources
    assert seen == []  # these two are remembered, and neither of the two before
    for job in made:
        if job.id in found.sources:
            seen.clear()
            node.scheduler.core.sources.find([job])
            assert seen


def test_p11_sources_that_are_too_much_at_once_go_one_after_the_other(
    node: HandNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("xwheel.scheduler.sources.CACHED_CHARS", 25)
    made = {script(node, "0123456789").id for _ in range(5)}
    node.run_for(1000)  # a tick brings two of them
    (parcel,) = node.sent
    assert len(parcel.sources) == 2
    node.run_for(500)
    requests = sent(node)
    assert {request.job_id for request in requests} == made
    assert {request.glue_source for request in requests} == {"0123456789"}
    assert all(run.state is not RunState.REFUSED for run in node.runs())


def test_p11_a_request_keeps_no_sources_of_others(node: HandNode) -> None:
    for _ in range(3):
        script(node, "x" * (node.config.trigger.batch_bytes // 2))
    node.run_for(1500)
    assert len(node.sent) == 3
    for parcel in node.sent:
        assert parcel.sources.keys() == {shard.job.id for shard in parcel.shards}


def test_p11_sources_asked_again_are_bounded_too(node: HandNode, monkeypatch: pytest.MonkeyPatch) -> None:
    made = [script(node, "0123456789") for _ in range(8)]
    node.run_for(1500)
    assert {request.job_id for request in sent(node)} == {job.id for job in made}
    for job in made:
        node.scheduler.management.jobs.stop(job.id)
    node.in_lane.clear()
    monkeypatch.setattr("xwheel.scheduler.sources.CACHED_CHARS", 25)
    node.scheduler.core.sources.forget()
    again: list[TriggerRequest] = []
    for _ in range(8):
        node.run_for(10_000, step_ms=500)
        again += sent(node)
        node.in_lane.clear()
        node.answer(Fate.UNKNOWN)
    # what was too much for one go follows at its next check
    assert {request.job_id for request in again} == {job.id for job in made}
    assert {request.glue_source for request in again} == {"0123456789"}


def test_a_job_in_memory_whose_version_is_gone_is_read_again(node: HandNode) -> None:
    job = script(node)
    node.plan()
    for number in range(31):
        node.scheduler.core.scripts.save(job.id, NewSource(source=f"echo {number}", author="me"))
    node.tick(1500)
    assert sent(node) == []  # the fence saw that the job is another one
    assert not [run for run in node.runs(job.id) if run.state is RunState.REFUSED]
    node.tick(100)
    assert {item.glue_source for item in sent(node)} == {"echo 30"}
    assert not [run for run in node.runs(job.id) if run.state is RunState.REFUSED]


def test_a_manual_run_of_a_stopped_script_carries_its_source(node: HandNode) -> None:
    job = script(node, "by hand")
    node.scheduler.management.jobs.stop(job.id)
    run = node.scheduler.management.run_now.run(job.id, param="p")
    node.run_for(1000)
    (request,) = sent(node)
    assert (request.run_id, request.param, request.glue_source) == (run.id, "p", "by hand")
    assert run.origin is Origin.API
