"""Kill the process at every statement between an outcome and the row that says that it was told: nothing is lost."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from xwheel_alarms import Alarm
from xwheel_alarms.records import AlarmState, AttemptState

from tests.product.alarms.support import AlarmNode, alarms_of, attempts_of, rule, send, settle
from tests.support.crashes import Snapshot, bury_nodes, die_at
from tests.support.rows import NOW
from tests.support.waiting import wait_until
from xwheel.clock import ManualClock
from xwheel.model import Run, RunState
from xwheel.storage.database.engine import Database

FEWEST = {"sqlite": 20, "mysql": 8, "postgresql": 8}  # a server has fewer points


class Letterbox:
    """A channel whose letters outlive the node."""

    name = "pager"

    def __init__(self, path: Path) -> None:
        self.path = path

    def send(self, alarm: Alarm) -> str:
        with self.path.open("a") as file:
            file.write(f"{alarm.id}\n")
        return "posted"

    def letters(self) -> Counter[int]:
        return Counter(map(int, self.path.read_text().split())) if self.path.exists() else Counter()


def prepare(db: Database) -> list[Run]:
    """Send one run of a job whose failures raise alarms."""
    node = AlarmNode(db, ManualClock(NOW), channels=[Letterbox(Path())])
    node.group()
    rule(node, "failed", recovery=False, window_s=600)
    sent = send(node, node.job(enabled=False))
    node.scheduler.core.lease.release()
    return sent


def test_an_alarm_is_told_whatever_dies(new_database: Callable[[], str], tmp_path: Path) -> None:
    db = Database(new_database())
    sent = prepare(db)
    prepared, number = Snapshot(db), 1
    while strike_and_check(db, prepared, sent, Letterbox(tmp_path / f"{number}.letters"), number):
        number += 1
    assert number > FEWEST[db.backend], "the scenario must pass through outcome, alarm, send and attempt"
    db.close()


def strike_and_check(db: Database, prepared: Snapshot, sent: list[Run], box: Letterbox, number: int) -> bool:
    """Kill one process at a point and let the next one finish the work; False once no process was killed."""

    def scenario(child: Database, switch: Callable[[bool], None]) -> None:
        switch(False)
        node = AlarmNode(child, ManualClock(NOW + 1000), channels=[box])
        switch(True)
        node.finish(sent, RunState.FAILED)
        node.alarms.step(node.clock.now_ms())
        wait_until(lambda: bool(node.alarms.service.channels.ended()))
        node.alarms.step(node.clock.now_ms())

    prepared.restore(db)
    db.close()  # the child shares no connection
    if not die_at(db.engine.url.render_as_string(hide_password=False), number, scenario):
        return False
    bury_nodes(db)
    successor = AlarmNode(db, ManualClock(NOW + 2000), channels=[box])
    # the executor delivers what the dead node may or may not have written down, and once more
    for _ in range(2):
        successor.finish(sent, RunState.FAILED)
    settle(successor)
    (alarm,) = alarms_of(successor)
    (attempt,) = attempts_of(successor)
    assert (alarm.run_id, alarm.state) == (sent[0].id, AlarmState.TOLD)
    assert (attempt.alarm_id, attempt.state, attempt.answer) == (alarm.id, AttemptState.SENT, "posted")
    assert set(box.letters()) == {alarm.id}
    assert box.letters()[alarm.id] in (1, 2), "told once, and after a crash perhaps once more"
    successor.alarms.service.channels.close()
    # a process with other threads must not fork
    wait_until(lambda: not any(thread.name.startswith("xwheel-alarm-") for thread in threading.enumerate()))
    successor.scheduler.core.lease.release()  # the next child needs the lock on the file
    return True
