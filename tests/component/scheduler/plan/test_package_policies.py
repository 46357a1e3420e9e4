"""What becomes of the fires that a job of a package missed: MIS-1 to MIS-5 and MIS-7 of its acceptance statements.

The policies are those that the plugin writes for ``None``, ``FireAndProceed``, ``DoNothing`` and ``IgnoreMisfires``.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import pairwise

import pytest

from tests.support.node import HandNode
from tests.support.rows import NOW
from xwheel.model import Job, MisfirePolicy, Run, RunState

ONCE, SKIP, ALL = MisfirePolicy.FIRE_ONCE, MisfirePolicy.SKIP, MisfirePolicy.FIRE_ALL
POLICIES = {"None": ONCE, "FireAndProceed": ONCE, "DoNothing": SKIP, "IgnoreMisfires": ALL}
GRID_MS = 10_000
COUNT = 20


def job(node: HandNode, policy: str, threshold_ms: int) -> Job:
    return node.job(
        schedule_type="CRON",
        schedule_conf="0/10 * * * * ?",
        timezone="UTC",
        misfire_policy=POLICIES[policy],
        misfire_threshold_ms=threshold_ms,
    )


def freeze(node: HandNode, of: Job, late_ms: int) -> list[Run]:
    """Let as many fires pass as are counted, then wake up so late; return what fires in the next second."""
    first_ms = of.next_fire_ms
    assert first_ms is not None
    node.clock.advance(first_ms + (COUNT - 1) * GRID_MS + late_ms - node.clock.now_ms())
    woken_ms = node.clock.now_ms()
    node.run_for(1000)
    return [run for run in node.runs(of.id) if run.due_ms <= woken_ms + 1000 and run.state is not RunState.SKIPPED]


@pytest.mark.parametrize(
    ("policy", "count"), [("None", 1), ("FireAndProceed", 1), ("DoNothing", 0), ("IgnoreMisfires", COUNT)]
)
def test_a_scheduler_that_stood_still_fires_by_the_policy(node: HandNode, policy: str, count: int) -> None:
    """MIS-1, MIS-2, MIS-3, MIS-4: 200 s of fires, all later than the threshold; then the grid goes on."""
    of = job(node, policy, 4000)
    fired = freeze(node, of, 5000)
    assert len(fired) == count
    assert all(run.reason == "misfire" for run in fired)
    before = {run.id for run in node.runs(of.id)}
    node.run_for(3 * GRID_MS)
    later = [run for run in node.runs(of.id) if run.id not in before or run.due_ms > NOW + COUNT * GRID_MS + 6000]
    regular = sorted({run.due_ms for run in later if run.state is not RunState.SKIPPED and run.reason != "misfire"})
    assert len(regular) >= 3
    assert all(due_ms % GRID_MS == 0 for due_ms in regular)
    assert {two - one for one, two in pairwise(regular)} == {GRID_MS}


@pytest.mark.parametrize("policy", POLICIES)
def test_a_delay_under_the_threshold_is_no_misfire(node: HandNode, policy: str) -> None:
    """MIS-5: each late fire happens once, at its own due time, whatever the policy."""
    of = job(node, policy, 300_000)
    fired = freeze(node, of, 5000)
    assert [run.due_ms for run in fired] == [(of.next_fire_ms or 0) + number * GRID_MS for number in range(COUNT)]
    assert {run.reason for run in fired} == {""}
    assert [run for run in node.runs(of.id) if run.state is RunState.SKIPPED] == []


@pytest.fixture(params=["Europe/Berlin", "America/New_York"])
def server_zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Let the process be in a zone whose clocks change."""
    with monkeypatch.context() as patch:
        patch.setenv("TZ", request.param)
        time.tzset()
        yield request.param
    time.tzset()


def test_fires_follow_the_zone_of_the_job(node: HandNode, server_zone: str) -> None:
    """MIS-7: at 08:30 of Shanghai each day, while the server's own clocks are put forward."""
    assert os.environ["TZ"] == server_zone
    begin = datetime(2024, 3, 8, 12, tzinfo=UTC)  # New York's change is on the 10th, Berlin's on the 31st
    node.clock.advance(int(begin.timestamp() * 1000) - node.clock.now_ms())
    node.keep_lease()
    of = node.job(schedule_type="CRON", schedule_conf="0 30 8 * * ?", timezone="Asia/Shanghai", misfire_policy=ONCE)
    times = []
    for _ in range(30):
        due_ms = node.load(of.id).next_fire_ms
        assert due_ms is not None
        times.append(datetime.fromtimestamp(due_ms / 1000, UTC))
        node.clock.advance(due_ms - node.clock.now_ms())
        node.keep_lease()
        node.plan()
    assert {(at.hour, at.minute) for at in times} == {(0, 30)}
    assert [(two - one).days for one, two in pairwise(times)] == [1] * 29
