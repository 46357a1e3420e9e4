"""Every reason that a run can have is told as the cause of its due time: each member needs a scenario here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.product.why.world import DAY_MS, HOUR_MS, MINUTE_MS, World, child_row
from tests.support.rows import NOW
from xwheel.model import Origin, RunReason, RunState
from xwheel.scheduler.jobs.set_back import SETTLED_MS
from xwheel.scheduler.records import Fate, Outcome
from xwheel.storage.database.engine import Database

FIRST = NOW + MINUTE_MS
HOME = "http://127.0.0.1:9001"

Scenario = Callable[[World], tuple[int, int]]
"""Makes it happen; returns the job and the due time to ask for."""

SCENARIOS: dict[RunReason, Scenario] = {}


def happens(*reasons: RunReason) -> Callable[[Scenario], Scenario]:
    def note(scenario: Scenario) -> Scenario:
        SCENARIOS.update(dict.fromkeys(reasons, scenario))
        return scenario

    return note


@happens(RunReason.PLAIN)
def succeeds(world: World) -> tuple[int, int]:
    world.node.register(HOME)
    job_id = world.job()
    world.node.finish(world.fire_at(FIRST))
    return job_id, FIRST


@happens(RunReason.MISFIRE)
def misfires(world: World) -> tuple[int, int]:
    job_id = world.job(misfire_policy="skip", misfire_threshold_ms=1000)
    world.plan_at(NOW + 10 * MINUTE_MS)
    return job_id, FIRST + 3 * MINUTE_MS


@happens(RunReason.BLOCKED)
def blocked(world: World) -> tuple[int, int]:
    world.node.register(HOME)
    job_id = world.job(block_scope="cluster", block_strategy="DISCARD_LATER")
    world.fire_at(FIRST)
    world.fire_at(FIRST + MINUTE_MS)
    return job_id, FIRST + MINUTE_MS


@happens(RunReason.COVERED)
def covered(world: World) -> tuple[int, int]:
    world.node.register(HOME)
    job_id = world.job()
    (run,) = world.fire_at(FIRST)
    ends_with(world, run.id, RunState.KILLED, RunReason.COVERED)
    return job_id, FIRST


def planned(world: World, **fields: Any) -> int:
    job_id = world.job(**fields)
    world.plan_at(FIRST - 2000)
    return job_id


@happens(RunReason.EDITED)
def edited(world: World) -> tuple[int, int]:
    job_id = planned(world)
    world.change("PATCH", f"jobs/{job_id}", {"schedule_conf": "90s"}, why="less often")
    return job_id, FIRST


@happens(RunReason.STOPPED)
def stopped(world: World) -> tuple[int, int]:
    job_id = planned(world)
    world.change("POST", f"jobs/{job_id}/stop", why="broken")
    return job_id, FIRST


@happens(RunReason.DELETED)
def deleted(world: World) -> tuple[int, int]:
    job_id = planned(world)
    world.change("DELETE", f"jobs/{job_id}", why="not needed")
    return job_id, FIRST


@happens(RunReason.CALENDAR)
def changed_calendar(world: World) -> tuple[int, int]:
    world.api.calendar("free", dates=["2031-01-01"])
    world.node.scheduler.core.calendars.step(NOW)
    job_id = planned(world, calendar_exclude=["free"])
    world.api.calendar("free", dates=["2032-01-01"])
    return job_id, FIRST


@happens(RunReason.CLOCK)
def set_back(world: World) -> tuple[int, int]:
    job_id = planned(world)
    world.node.clock.step_wall(-86_400_000)
    world.node.keep_lease()
    world.node.clock.advance(SETTLED_MS)
    world.node.keep_lease()
    world.node.scheduler.management.set_back.step(world.node.clock.now_ms())
    world.node.clock.step_wall(86_400_000)
    return job_id, FIRST


@happens(RunReason.PAUSED)
def paused(world: World) -> tuple[int, int]:
    job_id = planned(world)
    world.change("PUT", "schedule/pause", why="the flood")
    return job_id, FIRST


@happens(RunReason.KILLED_BY_USER)
def killed_before(world: World) -> tuple[int, int]:
    job_id = planned(world)
    (run,) = world.node.runs(job_id)
    world.change("POST", f"runs/{run.id}/kill", why="not now")
    return job_id, FIRST


@happens(RunReason.LATE_OUTCOME)
def ends_after_all(world: World) -> tuple[int, int]:
    world.node.register(HOME)
    job_id = world.job(recover_lost=True)
    (run,) = world.fire_at(FIRST)
    world.node.finish([run], RunState.LOST)
    world.node.finish([run])
    (recovery,) = (other for other in world.node.runs(job_id) if other.origin is Origin.RECOVERY)
    return job_id, recovery.due_ms


@happens(RunReason.NO_EXECUTOR)
def has_no_executor(world: World) -> tuple[int, int]:
    job_id = world.job()
    world.fire_at(FIRST)
    return job_id, FIRST


@happens(RunReason.UNREACHABLE)
def unreachable(world: World) -> tuple[int, int]:
    return answered(world, Fate.REFUSED, reached=False)


@happens(RunReason.EXECUTOR_REFUSED)
def refused(world: World) -> tuple[int, int]:
    return answered(world, Fate.REFUSED, reached=True)


def answered(world: World, fate: Fate, *, reached: bool) -> tuple[int, int]:
    world.node.register(HOME)
    job_id = world.job()
    world.plan_at(FIRST - 1000)
    world.node.run_for(1100, step_ms=50)
    world.node.answer(fate, "no", reached=reached)
    return job_id, FIRST


def ends_with(world: World, run_id: int, state: RunState, reason: RunReason) -> None:
    outcome = Outcome(run_id=run_id, state=state, reason=reason, message="said the executor")
    world.node.scheduler.finishing.finisher.finish([outcome])


REPORTED = {
    RunReason.INSTANCE_GONE: RunState.LOST,
    RunReason.EXECUTOR_GONE: RunState.LOST,
    RunReason.UNKNOWN_THERE: RunState.LOST,
    RunReason.NO_REPORT: RunState.LOST,
    RunReason.DEADLINE: RunState.TIMED_OUT,
    RunReason.TIMED_OUT: RunState.TIMED_OUT,
    RunReason.KILLED: RunState.KILLED,
    RunReason.EXECUTOR_STOPPED: RunState.KILLED,
    RunReason.NOT_STARTED: RunState.FAILED,
    RunReason.INTERRUPTED: RunState.FAILED,
}
"""What is written of a run that an executor had."""

BEFORE_SENT = {
    RunReason.FAILED_OVER: RunState.REFUSED,
    RunReason.NO_ROUTE: RunState.REFUSED,
    RunReason.OVER_LIMIT: RunState.REFUSED,
    RunReason.NO_SOURCE: RunState.REFUSED,
    RunReason.NO_GLUE_TYPE: RunState.REFUSED,
    RunReason.WAITING_FOR_EXECUTOR: RunState.SKIPPED,
}
"""What is written of a run that no executor had."""


def written(reason: RunReason) -> Scenario:
    def scenario(world: World) -> tuple[int, int]:
        if reason in {RunReason.CHAIN_TOO_DEEP, RunReason.BAD_PARAM}:
            job_id = world.job(schedule_type="NONE", schedule_conf="", enabled=False)
            return job_id, child_row(world, job_id, reason).due_ms
        job_id = world.job()
        if reason in BEFORE_SENT:
            world.row(job_id, BEFORE_SENT[reason], reason, message="as the node says")
            return job_id, FIRST
        world.node.register(HOME)
        (run,) = world.fire_at(FIRST)
        ends_with(world, run.id, REPORTED[reason], reason)
        return job_id, FIRST

    return scenario


for item in (*REPORTED, *BEFORE_SENT, RunReason.CHAIN_TOO_DEEP, RunReason.BAD_PARAM):
    happens(item)(written(item))


@pytest.mark.parametrize("reason", list(RunReason), ids=lambda reason: reason.value or "plain")
def test_each_reason_of_a_run_is_named_as_the_cause(db: Database, reason: RunReason) -> None:
    assert reason in SCENARIOS, f"a scenario is needed in which a run ends with {reason.value!r}"
    world = World(db)
    job_id, at_ms = SCENARIOS[reason](world)
    world.clock.advance(HOUR_MS)
    found = world.why(job_id, at_ms)
    assert found["cause"] == (reason.value or "succeeded"), found
    assert reason.sentence in found["sentence"]
    assert found["runs"][0]["reason"] == reason.value
    assert {"run_history"} <= {row["table"] for row in found["evidence"]}
    world.clock.advance(DAY_MS - HOUR_MS)
    assert world.why(job_id, at_ms)["cause"] == found["cause"]


@pytest.mark.parametrize(
    ("scenario", "why", "action"),
    [
        (edited, "less often", "edit"),
        (stopped, "broken", "stop"),
        (deleted, "not needed", "delete"),
        (changed_calendar, "", "calendar"),
        (paused, "the flood", "pause"),
    ],
)
def test_a_cancelled_run_says_who_cancelled_it(db: Database, scenario: Scenario, why: str, action: str) -> None:
    world = World(db)
    job_id, at_ms = scenario(world)
    found = world.why(job_id, at_ms)
    assert found["kind"] == "cancelled"
    facts = found["facts"]
    assert (facts["by"], facts["by_kind"], facts["why"], facts["action"]) == ("tests", "token", why, action)
    assert "token tests" in found["sentence"]
    assert found["missing"] == []


def test_who_killed_a_run_stands_in_the_audit(db: Database) -> None:
    world = World(db)
    found = world.why(*killed_before(world))
    assert (found["facts"]["by"], found["facts"]["why"]) == ("tests", "not now")
    assert {"audit", "run_history"} == {row["table"] for row in found["evidence"]}
    assert found["missing"] == []
