"""Due times without a run: each cause is made to happen, and told with the rows that prove it."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import delete

from tests.product.why.world import DAY_MS, HOUR_MS, MINUTE_MS, World
from tests.support.rows import NOW
from xwheel.model import Origin, RunState
from xwheel.model.versions import JobAction, JobVersion, definition_of
from xwheel.storage import job_versions, leases
from xwheel.storage.database.engine import Database
from xwheel.storage.schema import tables

FIRST = NOW + MINUTE_MS
SECOND = FIRST + MINUTE_MS


@pytest.fixture
def world(db: Database) -> World:
    return World(db)


def tables_of(found: dict[str, Any]) -> set[str]:
    return {row["table"] for row in found["evidence"]}


def test_the_job_did_not_exist_yet(world: World) -> None:
    world.clock.advance(HOUR_MS)
    job_id = world.job(anchor_ms=NOW)
    found = world.why(job_id, NOW + MINUTE_MS)
    assert (found["kind"], found["cause"], found["due_ms"]) == ("no_run", "not_created", None)
    assert (found["facts"]["created_ms"], found["facts"]["by"]) == (NOW + HOUR_MS, "tests")
    assert tables_of(found) == {"job_version"}


def test_the_job_was_deleted(world: World) -> None:
    job_id = world.job()
    world.clock.advance(1000)
    world.change("DELETE", f"jobs/{job_id}", why="replaced")
    world.clock.advance(HOUR_MS)
    for at_ms in (FIRST, None):
        found = world.why(job_id, at_ms)
        assert (found["cause"], found["facts"]["why"]) == ("job_deleted", "replaced")
        assert found["facts"]["deleted_ms"] == NOW + 1000
        assert 'token tests ("replaced")' in found["sentence"]


def test_the_job_was_stopped_by_somebody(world: World) -> None:
    job_id = world.job()
    world.clock.advance(1000)
    world.change("POST", f"jobs/{job_id}/stop", why="too loud")
    world.change("PATCH", f"jobs/{job_id}", {"param": "x"})
    world.clock.advance(10 * MINUTE_MS)
    for at_ms in (FIRST, None):
        found = world.why(job_id, at_ms)
        assert (found["cause"], found["facts"]["by"], found["facts"]["why"]) == ("job_stopped", "tests", "too loud")
        assert (found["facts"]["stopped_ms"], found["facts"]["revision"]) == (NOW + 1000, 3)
    assert found["due_ms"] == FIRST + 9 * MINUTE_MS
    assert found["missing"] == []


def test_the_job_was_never_started(world: World) -> None:
    job_id = world.job(enabled=False)
    world.clock.advance(HOUR_MS)
    world.change("PATCH", f"jobs/{job_id}", {"param": "x"})
    found = world.why(job_id, FIRST)
    assert (found["cause"], found["facts"]["by"]) == ("never_started", "tests")
    assert world.why(job_id)["cause"] == "never_started"


def test_who_stopped_the_job_may_not_be_kept(world: World) -> None:
    job_id = world.job()
    world.change("POST", f"jobs/{job_id}/stop")
    world.clock.advance(1000)
    world.change("PATCH", f"jobs/{job_id}", {"param": "x"})
    world.db.transaction(lambda conn: job_versions.delete_until(conn, {job_id: 3}))
    world.clock.advance(HOUR_MS)
    found = world.why(job_id, FIRST)
    assert (found["cause"], found["missing"] != []) == ("job_stopped", True)
    assert "by" not in found["facts"]


def test_a_schedule_that_fails_has_stopped_the_job(world: World) -> None:
    job_id = world.job()
    world.rewrite(job_id, enabled=False, next_fire_ms=None, schedule_error="the type failed: \x1b[31mred")
    world.clock.advance(10 * MINUTE_MS)
    found = world.why(job_id)
    assert (found["cause"], found["kind"]) == ("schedule_error", "no_run")
    assert found["facts"]["schedule_error"].startswith("the type failed")
    assert tables_of(found) == {"job", "job_version"}
    world.change("PATCH", f"jobs/{job_id}", {"param": "x"})
    world.clock.advance(MINUTE_MS)
    assert world.why(job_id)["cause"] == "schedule_error"
    world.change("POST", f"jobs/{job_id}/start")
    found = world.why(job_id, FIRST)
    assert (found["cause"], len(found["missing"])) == ("schedule_error", 1)
    assert "until the job is started again" in found["missing"][0]


def test_a_start_shows_that_the_scheduler_had_stopped_the_job(world: World) -> None:
    job_id = world.job()
    world.rewrite(job_id, enabled=False, next_fire_ms=None, schedule_error="the type failed")
    world.clock.advance(10 * MINUTE_MS)
    world.change("POST", f"jobs/{job_id}/start", why="it is installed again")
    found = world.why(job_id, FIRST)
    assert (found["cause"], found["facts"]["action"]) == ("schedule_error", "start")
    assert "started it again" in found["sentence"]


def test_a_job_without_a_schedule_says_so(world: World) -> None:
    job_id = world.job(schedule_type="NONE", schedule_conf="", enabled=False)
    world.rewrite(job_id, enabled=True)
    with world.db.write() as conn:
        conn.execute(delete(tables.job_version))
    world.clock.advance(MINUTE_MS)
    assert world.why(job_id)["cause"] == "no_schedule"
    assert world.why(job_id, NOW + 500)["cause"] == "no_schedule"


def test_a_run_by_hand_is_told_at_its_time(world: World) -> None:
    job_id = world.job(schedule_type="NONE", schedule_conf="", enabled=False)
    world.change("POST", f"jobs/{job_id}/run")
    (run,) = world.node.runs(job_id)
    found = world.why(job_id, run.due_ms)
    assert (found["kind"], found["cause"], found["runs"][0]["origin"]) == ("run", "planned", str(Origin.API))
    assert found["due_ms"] == run.planned_ms


def test_the_schedule_of_then_names_no_such_time(world: World) -> None:
    job_id = world.job()
    world.clock.advance(10 * MINUTE_MS + 500)
    world.change("PATCH", f"jobs/{job_id}", {"schedule_conf": "7m"})
    world.clock.advance(HOUR_MS)
    between = world.why(job_id, FIRST + 30_000)
    assert (between["cause"], between["before_ms"], between["after_ms"]) == ("no_such_time", FIRST, SECOND)
    assert "FIX_RATE 60s" in between["sentence"]
    # that minute was named before the change, and is not any more
    after = world.why(job_id, NOW + 12 * MINUTE_MS)
    assert (after["cause"], after["before_ms"]) == ("no_such_time", NOW + 10 * MINUTE_MS)
    assert after["after_ms"] == NOW + 17 * MINUTE_MS + 500
    assert "FIX_RATE 7m" in after["sentence"]


@pytest.mark.parametrize(("field", "at_ms"), [("start_ms", FIRST), ("end_ms", FIRST + 6 * MINUTE_MS)])
def test_the_time_is_outside_of_start_and_end(world: World, field: str, at_ms: int) -> None:
    job_id = world.job(start_ms=FIRST + 90_000, end_ms=FIRST + 5 * MINUTE_MS)
    world.clock.advance(HOUR_MS)
    found = world.why(job_id, at_ms)
    assert (found["cause"], next(iter(found["facts"]))) == ("outside_period", field)


def test_a_calendar_excludes_the_time_unless_it_was_changed_since(world: World) -> None:
    world.api.calendar("free", dates=["2026-01-01"])
    job_id = world.job(calendar_exclude=["free"])
    world.clock.advance(HOUR_MS)
    found = world.why(job_id, FIRST)
    assert (found["cause"], found["facts"]["calendars"]) == ("calendar_excludes", ["free"])
    assert found["after_ms"] == NOW + DAY_MS
    assert "calendar" in tables_of(found)
    world.api.calendar("free", dates=["2026-01-01", "2027-01-01"])
    found = world.why(job_id, FIRST)
    assert (found["kind"], found["cause"]) == ("unknown", "unknown")
    assert "what it held before is not kept" in found["missing"][0]


def test_a_calendar_that_was_changed_since_may_have_excluded_the_time(world: World) -> None:
    world.api.calendar("free", dates=["2026-01-01"])
    job_id = world.job(calendar_exclude=["free"])
    world.clock.advance(HOUR_MS)
    world.api.calendar("free", dates=["2031-01-01"])
    found = world.why(job_id, FIRST)
    assert (found["kind"], found["due_ms"]) == ("unknown", FIRST)
    assert "what it held before is not kept" in found["missing"][0]


def test_all_schedules_are_paused(world: World) -> None:
    job_id = world.job()
    world.change("PUT", "schedule/pause", why="the flood")
    world.plan_at(NOW + 10 * MINUTE_MS)
    found = world.why(job_id)
    assert (found["cause"], found["due_ms"]) == ("schedules_paused", NOW + 10 * MINUTE_MS)
    assert (found["facts"]["by"], found["facts"]["why"], found["facts"]["paused_since_ms"]) == (
        "tests", "the flood", NOW,
    )  # fmt: skip
    assert tables_of(found) == {"audit", "job", "setting"}
    assert world.why(job_id, FIRST)["cause"] == "schedules_paused"
    world.change("DELETE", "schedule/pause")
    world.plan_at(NOW + 10 * MINUTE_MS + 1000)
    # what the misfire policy then skipped says that it was the pause
    found = world.why(job_id, FIRST)
    assert (found["kind"], found["cause"]) == ("skipped", "misfire")
    assert 'paused since 2026-01-01T00:00:00Z by token tests ("the flood")' in found["sentence"]


def test_the_job_waits_for_its_last_run(world: World) -> None:
    world.node.register("http://127.0.0.1:9001")
    job_id = world.job(schedule_type="FIX_DELAY", schedule_conf="60s")
    (run,) = world.fire_at(FIRST)
    world.clock.advance(HOUR_MS)
    for at_ms in (None, SECOND):
        found = world.why(job_id, at_ms)
        assert (found["cause"], found["facts"]["run_id"]) == ("waits_for_run", run.id)
        assert "is not over yet" in found["sentence"]
    world.node.finish([run])
    ended_ms = world.clock.now_ms()
    found = world.why(job_id, SECOND)
    assert (found["cause"], found["facts"]["ended_ms"]) == ("waits_for_run", ended_ms)
    found = world.why(job_id, ended_ms + 30_000)
    assert (found["cause"], found["after_ms"]) == ("no_such_time", ended_ms + MINUTE_MS)
    assert world.why(job_id, ended_ms + MINUTE_MS)["cause"] == "not_due_yet"
    assert world.why(job_id, FIRST)["cause"] == "succeeded"
    world.clock.advance(10 * MINUTE_MS)
    world.node.keep_lease()
    assert world.why(job_id)["cause"] == "not_planned_node_behind"


def test_a_job_that_had_a_fixed_delay_then_is_told_by_that(world: World) -> None:
    world.node.register("http://127.0.0.1:9001")
    job_id = world.job(schedule_type="FIX_DELAY", schedule_conf="60s")
    (run,) = world.fire_at(FIRST)
    world.node.finish([run])
    world.clock.advance(10 * MINUTE_MS)
    world.change("PATCH", f"jobs/{job_id}", {"schedule_type": "FIX_RATE", "schedule_conf": "1h"})
    world.clock.advance(2 * HOUR_MS)
    found = world.why(job_id, FIRST + 30_000)
    assert (found["cause"], found["before_ms"]) == ("no_such_time", FIRST)
    assert "FIX_DELAY 60s" in found["sentence"]
    assert world.why(job_id, FIRST)["cause"] == "succeeded"


def test_it_is_not_due_yet(world: World) -> None:
    job_id = world.job()
    found = world.why(job_id, FIRST)
    assert (found["cause"], found["due_ms"], found["facts"]["next_fire_ms"]) == ("not_due_yet", FIRST, FIRST)
    world.change("PUT", "schedule/pause")
    assert "All schedules are paused now." in world.why(job_id, FIRST)["sentence"]


def test_the_job_has_had_no_due_time_yet(world: World) -> None:
    job_id = world.job()
    found = world.why(job_id)
    assert (found["cause"], found["due_ms"], found["after_ms"]) == ("no_due_time", None, FIRST)


def test_no_node_holds_the_partition(world: World) -> None:
    job_id = world.job()
    owner = world.node.scheduler.core.lease.owner
    world.clock.advance(10 * MINUTE_MS)
    # as if its term had passed; servers count it by a clock of their own
    world.db.transaction(lambda conn: leases.renew_node(conn, owner, 0, 0))
    found = world.why(job_id)
    assert (found["cause"], found["due_ms"]) == ("not_planned_no_node", NOW + 10 * MINUTE_MS)
    assert found["facts"]["node"] == owner
    world.db.transaction(lambda conn: leases.release_leases(conn, owner))
    found = world.why(job_id)
    assert (found["cause"], found["facts"]["node"]) == ("not_planned_no_node", None)
    assert "partition_lease" in tables_of(found)


def test_the_node_is_behind_with_its_planning(world: World) -> None:
    job_id = world.job()
    world.clock.advance(10 * MINUTE_MS)
    world.node.keep_lease()
    found = world.why(job_id)
    assert (found["cause"], found["facts"]["next_fire_ms"]) == ("not_planned_node_behind", FIRST)
    assert found["facts"]["node_started_ms"] > 0
    assert {"node", "partition_lease", "job"} <= tables_of(found)


@pytest.mark.parametrize(
    ("method", "path", "body", "action"),
    [
        ("PATCH", "", {"schedule_conf": "90s"}, JobAction.EDIT),
        ("POST", "/stop", None, JobAction.STOP),
        ("DELETE", "", None, JobAction.DELETE),
    ],
)
def test_a_change_took_away_what_no_node_had_planned(
    world: World, method: str, path: str, body: Any, action: JobAction
) -> None:
    job_id = world.job()
    world.clock.advance(10 * MINUTE_MS)
    world.change("PATCH", f"jobs/{job_id}", {"param": "takes nothing away"})
    world.clock.advance(1000)
    world.change(method, f"jobs/{job_id}{path}", body, why="enough")
    found = world.why(job_id, FIRST)
    assert (found["cause"], found["facts"]["action"]) == ("changed_before_planned", action)
    assert (found["facts"]["by"], found["facts"]["why"]) == ("tests", "enough")
    assert "nodes keep no record" in found["missing"][0]


def test_a_change_at_the_very_due_time_comes_after_it(world: World) -> None:
    job_id = world.job()
    world.clock.advance(MINUTE_MS)
    world.change("POST", f"jobs/{job_id}/stop")
    assert world.why(job_id, FIRST)["cause"] == "changed_before_planned"
    world.clock.advance(MINUTE_MS)
    assert world.why(job_id, FIRST + 1)["cause"] == "job_stopped"


def test_a_time_without_milliseconds_stands_for_its_second(world: World) -> None:
    job_id = world.job(anchor_ms=FIRST + 345)
    for at_ms, due_ms in ((FIRST, FIRST + 345), (FIRST + 345, FIRST + 345), (FIRST + 344, None)):
        assert world.why(job_id, at_ms)["due_ms"] == due_ms


def test_runs_were_deleted_by_retention(world: World) -> None:
    job_id = world.job(retention_days=5)
    world.plan_at(NOW + 10 * MINUTE_MS)
    with world.db.write() as conn:
        conn.execute(delete(tables.run_history))
        conn.execute(delete(tables.open_run))
    world.clock.advance(6 * DAY_MS)
    found = world.why(job_id, FIRST)
    assert (found["kind"], found["facts"]["kept_from_ms"]) == ("unknown", world.clock.now_ms() - 5 * DAY_MS)
    assert "deleted by retention" in found["missing"][0]
    # without rows, and young enough to have one
    job_id = world.job(name="other", retention_days=30, anchor_ms=NOW)
    world.rewrite(job_id, next_fire_ms=world.clock.now_ms() + HOUR_MS)
    at_ms = world.clock.now_ms() + MINUTE_MS
    world.clock.advance(2 * MINUTE_MS)
    found = world.why(job_id, at_ms)
    assert (found["kind"], found["missing"][0].startswith("what became of it")) == ("unknown", True)


def test_who_stopped_a_job_on_a_node_of_an_older_xwheel_is_not_kept(world: World) -> None:
    job_id = world.job()
    known = world.load(job_id)
    found_so = JobVersion(
        job_id=job_id, revision=known.revision + 1, at_ms=NOW + 1000, actor_kind="unknown", actor="",
        action=str(JobAction.FOUND), reason="", glue_version=0, definition={**definition_of(known), "enabled": False},
    )  # fmt: skip
    world.db.transaction(lambda conn: job_versions.insert_versions(conn, [found_so]))
    world.rewrite(job_id, enabled=False, next_fire_ms=None, revision=known.revision + 1)
    world.clock.advance(HOUR_MS)
    found = world.why(job_id, FIRST)
    assert (found["cause"], len(found["missing"])) == ("job_stopped", 1)
    world.change("POST", f"jobs/{job_id}/start")
    assert world.why(job_id, FIRST)["cause"] == "job_stopped"
    # what was due before that change, and not planned then
    with world.db.write() as conn:
        moved = tables.job_version.update().where(tables.job_version.c.revision == known.revision + 1)
        conn.execute(moved.values(at_ms=FIRST + 1000))
    found = world.why(job_id, FIRST)
    assert (found["cause"], found["facts"]["action"]) == ("changed_before_planned", "found")
    assert "somebody whose name is not kept" in found["sentence"]


def test_versions_of_then_were_deleted(world: World) -> None:
    job_id = world.job()
    world.clock.advance(HOUR_MS)
    world.change("PATCH", f"jobs/{job_id}", {"schedule_conf": "90s"})
    world.db.transaction(lambda conn: job_versions.delete_until(conn, {job_id: 2}))
    found = world.why(job_id, FIRST)
    assert (found["kind"], found["facts"]["versions_from_ms"]) == ("unknown", NOW + HOUR_MS)
    assert "older versions of the job were deleted" in found["missing"][0]


def test_a_job_of_an_older_xwheel_has_its_row_alone(world: World) -> None:
    job_id = world.job()
    with world.db.write() as conn:
        conn.execute(delete(tables.job_version))
    world.rewrite(job_id, updated_ms=FIRST + 1)
    world.clock.advance(HOUR_MS)
    world.node.keep_lease()
    assert world.why(job_id, FIRST)["cause"] == "unknown"
    assert world.why(job_id, SECOND)["cause"] == "not_planned_node_behind"


def test_no_more_than_fifty_versions_are_searched_for_the_last_due_time(world: World) -> None:
    job_id = world.job(schedule_type="CRON", schedule_conf="0 0 12 * * ?")
    world.clock.advance(DAY_MS)
    for number in range(60):
        world.change("PATCH", f"jobs/{job_id}", {"param": str(number)})
        world.clock.advance(1000)
    found = world.why(job_id)
    assert (found["due_ms"], found["cause"]) == (None, "unknown")
    assert "were not searched" in found["missing"][0]
    # asked for by its time it is found whatever came after
    assert world.why(job_id, NOW + DAY_MS // 2)["due_ms"] == NOW + DAY_MS // 2


def test_others_that_were_due_then_are_told_too(world: World) -> None:
    job_id = world.job()
    world.row(job_id, RunState.SUCCEEDED, origin=Origin.API, origin_key=5)
    world.clock.advance(10 * MINUTE_MS)
    found = world.why(job_id, FIRST)
    assert found["kind"] == "no_run"
    assert "another origin (api)" in found["evidence"][-1]["says"]
