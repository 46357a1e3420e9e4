"""A running node tells alarms while one channel hangs and another raises, and ends in time nevertheless."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from xwheel_alarms import AlarmChannel
from xwheel_alarms.records import AlarmKind, AlarmTarget, AttemptState
from xwheel_alarms.rules import AlarmManager
from xwheel_alarms.service import Alarms
from xwheel_alarms.storage.lists import AlarmFilter

from tests.product.alarms.support import Recorder, Stuck
from tests.support.rows import job_values
from tests.support.waiting import wait_until
from xwheel.config import build_config
from xwheel.node.node import Node
from xwheel.plugin import hookimpl
from xwheel.storage import executors

RUNS = 10


class Channels:
    """A plugin with channels."""

    def __init__(self, *channels: AlarmChannel) -> None:
        self._channels = channels

    @hookimpl
    def xwheel_register_alarms(self) -> Iterable[AlarmChannel]:
        return self._channels


def sent_through(rules: AlarmManager, channel: str) -> int:
    found = rules.list_attempts(AlarmFilter(), limit=1000)
    return sum(item.channel == channel and item.state is AttemptState.SENT for item in found)


def test_a_running_node_tells_what_it_must(tmp_path: Path) -> None:
    stuck, bad, good = Stuck(), Recorder("bad", lambda _: ValueError("no")), Recorder("good")
    settings = {"database": {"url": f"sqlite:///{tmp_path / 'node.db'}"}, "api": {"port": 0, "executor_port": 0}}
    node = Node(build_config(settings), lambda _: None, {"some": Channels(stuck, bad, good)})
    db, scheduler = node.scheduler.core.db, node.scheduler
    node.start()
    try:
        (alarms,) = scheduler.core.plugins.offering(Alarms)
        rules = alarms.service.manager
        targets = tuple(AlarmTarget(channel=item.name) for item in (stuck, bad, good))
        rules.create({"kinds": (AlarmKind.REFUSED,), "targets": targets, "window_s": 0})
        db.transaction(lambda conn: executors.insert_group(conn, app_name="empty", title="", now_ms=1))
        job = scheduler.management.jobs.create(job_values(group_id=1, schedule_type="NONE", schedule_conf=""))
        for _ in range(RUNS):
            scheduler.management.run_now.run(job.id)
        wait_until(lambda: len(good.told) == RUNS and len(bad.told) >= RUNS)
        assert {alarm.reason for alarm in good.told} == {"no_executor"}
        assert rules.test_send("good").state is AttemptState.SENT
        wait_until(lambda: sent_through(rules, "good") == RUNS + 1)
    finally:
        node.stop()  # the channel that still hangs does not hold it up
    assert stuck.calls == 1
    assert sent_through(rules, "stuck") == 0
    stuck.gate.set()
