"""A running node tells alarms while one channel hangs and another raises, and ends in time nevertheless."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from tests.support import databases
from tests.support.alarms import Recorder, Stuck, wait_until
from tests.support.node import plugins
from tests.support.rows import job_values
from xwheel.alarms.rules import AlarmManager
from xwheel.config import build_config
from xwheel.model.alarms import AlarmKind, AlarmTarget, AttemptState
from xwheel.node.loops import Scheduler
from xwheel.node.pipeline import Core
from xwheel.plugin.registries import Registry
from xwheel.storage import executors
from xwheel.storage.alarms.lists import AlarmFilter
from xwheel.storage.database.engine import Database

RUNS = 10


def sent_through(rules: AlarmManager, channel: str) -> int:
    found = rules.list_attempts(AlarmFilter(), limit=1000)
    return sum(item.channel == channel and item.state is AttemptState.SENT for item in found)


def test_a_running_node_tells_what_it_must(tmp_path: Path) -> None:
    stuck, bad, good = Stuck(), Recorder("bad", lambda _: ValueError("no")), Recorder("good")
    channels = Registry("alarm channel", {item.name: item for item in (stuck, bad, good)}, {})
    installed = dataclasses.replace(plugins(), alarm_channels=channels)
    db = Database(f"sqlite:///{tmp_path / 'node.db'}")
    databases.upgrade(db)
    node = Scheduler(Core(build_config({}), db, installed, "x" * 32))
    node.start()
    try:
        rules = node.finishing.alarms.manager
        targets = tuple(AlarmTarget(channel=item.name) for item in (stuck, bad, good))
        rules.create({"kinds": (AlarmKind.REFUSED,), "targets": targets, "window_s": 0})
        db.transaction(lambda conn: executors.insert_group(conn, app_name="empty", title="", now_ms=1))
        job = node.management.jobs.create(job_values(group_id=1, schedule_type="NONE", schedule_conf=""))
        for _ in range(RUNS):
            node.management.run_now.run(job.id)
        wait_until(lambda: len(good.told) == RUNS and len(bad.told) >= RUNS)
        assert {alarm.reason for alarm in good.told} == {"no_executor"}
        assert rules.test_send("good").state is AttemptState.SENT
        wait_until(lambda: sent_through(rules, "good") == RUNS + 1)
    finally:
        node.stop()  # the channel that still hangs does not hold it up
    assert stuck.calls == 1
    assert sent_through(rules, "stuck") == 0
    stuck.gate.set()
    db.close()
