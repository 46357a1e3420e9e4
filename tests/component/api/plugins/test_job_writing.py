"""Many jobs that a plugin writes in a transaction of its own, next to rows of its own."""

from __future__ import annotations

from typing import Any

import pytest

from tests.component.api.conftest import Api, make_api
from tests.support.recorder import noted, recorders
from tests.support.rows import NOW, job_values
from tests.support.versions import kept_versions
from xwheel.api.plugins.site import RouteSite
from xwheel.errors import FieldError, NameTakenError
from xwheel.model import Job
from xwheel.model.versions import JobAction
from xwheel.plugin import JobWriter
from xwheel.storage import jobs
from xwheel.storage.database.engine import Database


@pytest.fixture
def api(db: Database) -> Api:
    return make_api(db, {}, recorders=recorders())


@pytest.fixture
def writer(api: Api) -> JobWriter:
    return RouteSite(api.parts).job_writer


def values(group_id: int, name: str, **changes: Any) -> dict[str, Any]:
    return {**job_values(name=name, group_id=group_id), "schedule_type": "FIX_RATE", "schedule_conf": "10s", **changes}


def test_jobs_are_created_changed_started_and_stopped_in_one_transaction(api: Api, writer: JobWriter) -> None:
    group_id = api.group()
    drafts = [writer.draft(values(group_id, name)) for name in ("one", "two")]
    begun: list[Any] = []

    def work(conn: Any) -> list[Job]:
        begun.append(conn)
        writer.need(drafts, NOW)
        one, two = (writer.insert(conn, draft, NOW, enabled=True) for draft in drafts)
        changed = writer.edit(conn, one, {"param": "x"}, NOW)
        writer.stop(conn, [two], NOW)
        stopped = jobs.get_job(conn, two.id)
        started = writer.start(conn, stopped, NOW)
        writer.record(conn, JobAction.SYNC, [(None, changed), (None, started)], NOW)
        return [changed, started]

    one, two = writer.transaction(work)
    assert (one.param, one.enabled, two.enabled, two.next_fire_ms) == ("x", True, True, NOW + 10_000)
    assert writer.next_fire(two, NOW) == NOW + 10_000
    with api.db.read() as conn:
        versions = kept_versions(conn, one.id)
    assert [(item.revision, item.action) for item in versions] == [(one.revision, "sync")]
    assert {row["action"] for row in noted(api.db)} >= {"job.sync"}


def test_what_fails_leaves_nothing(api: Api, writer: JobWriter) -> None:
    group_id = api.group()
    draft = writer.draft(values(group_id, "one"))

    def work(conn: Any) -> None:
        writer.insert(conn, draft, NOW, enabled=False)
        writer.insert(conn, draft, NOW, enabled=False)

    with pytest.raises(NameTakenError):
        writer.transaction(work)
    assert api.call("GET", "jobs").json["items"] == []
    with pytest.raises(FieldError, match="timezone"):
        writer.draft(values(group_id, "one", timezone="Nowhere"))


def test_who_saw_a_job_before_it_was_touched_must_see_it_again(api: Api, writer: JobWriter) -> None:
    made = api.job()
    with api.db.write() as conn:
        job = jobs.get_job(conn, made["id"], lock=True)
        assert writer.touch(conn, job, NOW).revision == job.revision + 1
    answer = api.call("PATCH", f"jobs/{made['id']}", {"param": "x", "revision": made["revision"]})
    assert answer.status_code == 409
    with pytest.raises(FieldError, match="timezone"):
        writer.merge(job, {"timezone": "Nowhere"})
