"""``GET /jobs/{job_id}/why``: what it takes, refuses and shows to whom."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from sqlalchemy import delete, event

from tests.product.why.world import DAY_MS, HOUR_MS, MINUTE_MS, World
from tests.support.rows import NOW
from xwheel.errors import PluginError
from xwheel.model import Job, RunReason, RunState
from xwheel.model.access import Grant, Grants, Role
from xwheel.plugin.registries import Registry
from xwheel.storage.access import tokens
from xwheel.storage.database.engine import Database
from xwheel.storage.schema import tables

FIRST = NOW + MINUTE_MS
NASTY = "\x1b[31m<script>alert(1)</script> ' OR 1=1 -- \u202e中"


@pytest.fixture
def world(db: Database) -> World:
    return World(db)


def as_reader(world: World, group_id: int, role: Role = Role.VIEWER) -> dict[str, str]:
    """Return headers of a caller who has a role in one group alone."""
    grants = Grants(groups={group_id: Grant(role)})
    world.db.transaction(lambda conn: tokens.insert_token(conn, "reader", "secret-of-the-reader", NOW, grants=grants))
    world.api.parts.tokens.forget()
    return {"Authorization": "Bearer secret-of-the-reader"}


@pytest.mark.parametrize(
    "text",
    [
        str(FIRST),
        "2026-01-01T00:01:00Z",
        "2026-01-01T08:01:00+08:00",
        "2026-01-01T08:01:00 08:00",  # what is left of a plus sign that was not encoded
        "2026-01-01 00:01:00+00:00",
        "20260101T000100Z",
        datetime.fromtimestamp(FIRST / 1000, timezone(timedelta(hours=-5))).isoformat(),
        datetime.fromtimestamp(FIRST / 1000, UTC).isoformat(timespec="milliseconds"),
    ],
)
def test_a_time_is_iso_8601_with_an_offset_or_epoch_milliseconds(world: World, text: str) -> None:
    job_id = world.job()
    assert world.why(job_id, text)["asked_ms"] == FIRST


@pytest.mark.parametrize(
    "text",
    [
        "", "x", "yesterday", "2026-01-01T00:01:00", "2026-01-01", "2026-13-01T00:00:00Z", "1e12", "-5", "0", "1.5",
        "0001-01-01T00:00:00Z", "9999-12-31T23:59:59-14:00", "9" * 15, "9" * 41, "１２３４５",
    ],
)  # fmt: skip
def test_a_time_that_cannot_be_read_is_refused_with_the_forms_that_are_taken(world: World, text: str) -> None:
    job_id = world.job()
    answer = world.api.call("GET", f"jobs/{job_id}/why", params={"at": text})
    assert (answer.status_code, answer.json["field"]) == (422, "at")
    assert "ISO 8601 with an offset" in answer.json["detail"]
    assert "epoch milliseconds" in answer.json["detail"]


def test_a_field_that_is_none_is_refused(world: World) -> None:
    answer = world.api.call("GET", f"jobs/{world.job()}/why", params={"time": "5"})
    assert (answer.status_code, answer.json["field"]) == (422, "time")


@pytest.mark.parametrize("at_ms", [253_402_300_799_999, 253_402_300_799_000, 1, NOW + 900 * 366 * DAY_MS])
@pytest.mark.parametrize(
    "schedule",
    [
        {},
        {"schedule_type": "CRON", "schedule_conf": "0 0 9 ? * MON-FRI", "timezone": "Asia/Shanghai"},
        {"schedule_type": "ONCE", "schedule_conf": "2026-01-01T00:30:00"},
        {"schedule_type": "CRON", "schedule_conf": "0 0 0 * * ?", "calendar_exclude": ["never"]},
    ],
)
def test_a_time_thousands_of_years_away_is_answered(world: World, at_ms: int, schedule: dict[str, Any]) -> None:
    world.api.calendar("never", weekdays="MON,TUE")
    job_id = world.job(**schedule)
    found = world.why(job_id, at_ms)
    if found["cause"] == "unknown":  # a schedule type may fail that far away
        assert found["missing"][0].startswith("the due times of the schedule: schedule type CRON failed")
        return
    wanted = {"not_created"} if at_ms == 1 else {"no_such_time", "not_due_yet", "calendar_excludes"}
    assert found["cause"] in wanted


def test_an_unknown_job_is_not_found(world: World) -> None:
    for path in ("jobs/99/why", "jobs/9007199254740991/why"):
        answer = world.api.call("GET", path)
        assert (answer.status_code, "does not exist" in answer.json["detail"]) == (404, True)


def test_who_may_not_read_the_group_is_told_that_there_is_no_job(world: World) -> None:
    job_id = world.job()
    other = as_reader(world, world.api.group("other"))
    answer = world.api.call("GET", f"jobs/{job_id}/why", headers=other)
    assert answer.status_code == 404
    assert answer.json["detail"] == world.api.call("GET", f"jobs/{job_id}", headers=other).json["detail"]
    assert world.api.call("GET", f"jobs/{job_id}/why", headers={"Authorization": "Bearer wrong"}).status_code == 401


def test_a_reader_learns_no_more_of_the_audit_than_the_audit_shows(world: World) -> None:
    job_id = world.job()
    world.plan_at(FIRST - 2000)
    (run,) = world.node.runs(job_id)
    world.change("POST", f"runs/{run.id}/kill", why="secret reason")
    world.change("PUT", "schedule/pause", why="another secret")
    world.clock.advance(10 * MINUTE_MS)
    reader = as_reader(world, world.group)
    for at_ms, cause in ((FIRST, "killed_by_user"), (FIRST + MINUTE_MS, "schedules_paused")):
        answer = world.api.call("GET", f"jobs/{job_id}/why", params={"at": at_ms}, headers=reader)
        assert (answer.status_code, answer.json["cause"]) == (200, cause)
        assert "secret" not in answer.text
        assert "to its readers only" in answer.json["missing"][0]
        assert "secret" in world.api.call("GET", f"jobs/{job_id}/why", params={"at": at_ms}).text


def test_runs_of_a_group_to_which_the_job_belonged_before_are_not_shown(world: World) -> None:
    job_id = world.job()
    failed = world.row(job_id, RunState.FAILED, RunReason.INTERRUPTED, message="what only readers may know")
    late = FIRST + MINUTE_MS
    world.row(job_id, RunState.SUCCEEDED, planned_ms=late, id=8000, message="what only readers may know", root_id=8000)
    other = world.api.group("other")
    world.clock.advance(10 * MINUTE_MS)
    world.node.scheduler.management.jobs.edit(job_id, {"group_id": other})
    reader = as_reader(world, other)
    assert world.api.call("GET", f"runs/{failed.id}", headers=reader).status_code == 404
    for at_ms in (FIRST, late):
        found = world.api.call("GET", f"jobs/{job_id}/why", params={"at": at_ms}, headers=reader)
        assert (found.json["cause"], found.json["runs"]) == ("unknown", [])
        assert "only readers" not in found.text
    assert world.why(job_id, FIRST)["cause"] == "interrupted"


def test_without_the_plugin_that_keeps_the_audit_it_says_so(world: World) -> None:
    job_id = world.job()
    world.plan_at(FIRST - 2000)
    (run,) = world.node.runs(job_id)
    world.change("POST", f"runs/{run.id}/kill")
    plugins = world.api.parts.plugins
    object.__setattr__(plugins, "recorders", Registry("recorder", {}, {}))
    found = world.why(job_id, FIRST)
    assert (found["cause"], "by" in found["facts"]) == ("killed_by_user", False)
    assert "the audit is not installed" in found["missing"][0]


def test_a_schedule_type_that_is_not_installed_is_named(world: World) -> None:
    job_id = world.job()
    with world.db.write() as conn:
        conn.execute(delete(tables.job_version))
    world.rewrite(job_id, schedule_type="GONE", updated_ms=NOW - 5)
    world.clock.advance(HOUR_MS)
    for at_ms in (None, FIRST):
        found = world.why(job_id, at_ms)
        assert found["kind"] == "unknown"
        assert "'GONE'" in found["missing"][0]
    # a row tells what it tells all the same
    world.row(job_id, RunState.FAILED, RunReason.INTERRUPTED)
    assert world.why(job_id, FIRST)["cause"] == "interrupted"
    assert world.why(job_id)["cause"] == "interrupted"


@pytest.mark.parametrize("at_ms", [None, FIRST, FIRST + 500])
def test_a_schedule_type_that_fails_is_asked_once(world: World, at_ms: int | None) -> None:
    job_id = world.job()
    world.clock.advance(HOUR_MS)
    asked: list[int] = []

    def fail(_job: Job, after_ms: int) -> int | None:
        asked.append(after_ms)
        raise PluginError("schedule type FIX_RATE did not come back within 5 s")

    world.api.parts.job_writer.next_fire = fail
    found = world.why(job_id, at_ms)
    assert (found["kind"], len(asked)) == ("unknown", 1)
    assert "did not come back" in found["missing"][0]


def test_a_definition_that_cannot_be_read_here_is_told(world: World) -> None:
    job_id = world.job()
    with world.db.write() as conn:
        conn.execute(tables.job_version.update().values(definition='{"anchor_ms": "x", "enabled": true}'))
    world.clock.advance(HOUR_MS)
    found = world.why(job_id, FIRST)
    assert (found["kind"], "cannot be read here" in found["missing"][0]) == ("unknown", True)


def test_hostile_names_stay_values(world: World) -> None:
    job_id = world.job(name=NASTY, misfire_policy="skip")
    world.row(job_id, RunState.FAILED, message="a\nb" + NASTY)
    world.change("POST", f"jobs/{job_id}/stop", why="a 'because'")
    found = world.why(job_id, FIRST)
    assert found["job_name"] == NASTY
    assert "\n" not in found["sentence"]
    assert found["cause"] == "failed"


def test_jitter_moves_the_run_and_not_the_due_time(world: World) -> None:
    job_id = world.job(jitter_ms=30_000)
    world.plan_at(FIRST - 2000)
    (run,) = world.node.runs(job_id)
    assert run.due_ms > run.planned_ms == FIRST
    world.change("PATCH", f"jobs/{job_id}", {"jitter_ms": 0})
    found = world.why(job_id, FIRST)
    assert (found["cause"], found["facts"]["run_id"]) == ("edited", run.id)
    assert world.why(job_id, run.due_ms)["due_ms"] in {FIRST, None}


def test_a_fire_that_was_planned_late_and_cancelled_is_found(world: World) -> None:
    job_id = world.job(misfire_policy="fire_once", misfire_threshold_ms=1000)
    world.plan_at(FIRST + 30_000)
    (run,) = world.node.runs(job_id)
    assert (run.planned_ms, run.due_ms) == (FIRST, FIRST + 30_000)
    world.change("POST", f"jobs/{job_id}/stop", why="off")
    found = world.why(job_id, FIRST)
    assert (found["cause"], found["facts"]["why"]) == ("stopped", "off")


def test_shards_and_attempts_of_a_fire_come_with_it(world: World) -> None:
    world.node.register("http://127.0.0.1:9001")
    job_id = world.job(max_retries=1)
    (run,) = world.fire_at(FIRST)
    world.node.finish([run], RunState.FAILED)
    found = world.why(job_id, FIRST)
    assert (found["cause"], [item["origin"] for item in found["runs"]]) == ("failed", ["schedule", "retry"])
    assert f"A retry followed: run {found['runs'][1]['id']}" in found["sentence"]


def test_a_run_that_was_killed_while_it_ran_says_who_did_it(world: World) -> None:
    world.node.register("http://127.0.0.1:9001")
    job_id = world.job()
    (run,) = world.fire_at(FIRST)
    world.change("POST", f"runs/{run.id}/kill", why="too slow")
    world.node.finish([run], RunState.KILLED)
    found = world.why(job_id, FIRST)
    assert (found["cause"], found["facts"]["killed_by"], found["facts"]["why"]) == ("killed", "tests", "too slow")


def test_a_run_that_waits_says_what_it_waits_for(world: World) -> None:
    world.node.register("http://127.0.0.1:9001")
    job_id = world.job(block_scope="cluster", block_strategy="SERIAL_EXECUTION")
    (run,) = world.fire_at(FIRST)
    world.fire_at(FIRST + MINUTE_MS)
    found = world.why(job_id, FIRST + MINUTE_MS)
    assert (found["cause"], found["stages"][-1]["name"]) == ("planned", "dispatched")
    assert f"Run {run.id} of the job is open" in found["sentence"]
    assert found["facts"]["open_runs_of_job"] == 1


@pytest.mark.parametrize("at_ms", [None, FIRST, FIRST + 500, NOW + 300 * DAY_MS])
def test_few_questions_are_asked(world: World, at_ms: int | None) -> None:
    job_id = world.job(calendar_exclude=["free"]) if world.api.calendar("free", dates=["2031-01-01"]) else world.job()
    world.plan_at(NOW + 10 * MINUTE_MS)
    world.why(job_id, at_ms)
    asked: list[str] = []
    event.listen(world.db.engine, "before_cursor_execute", lambda *seen: asked.append(seen[2]))
    world.why(job_id, at_ms)
    assert len([text for text in asked if text.upper().startswith(("SELECT", "WITH", "("))]) <= 40
