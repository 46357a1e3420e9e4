"""Alarm channels for tests, and how to wait for what they do."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Sequence
from typing import Any

from xwheel_alarms import Alarm, AlarmChannel
from xwheel_alarms.records import AlarmAttempt, AlarmKind, AlarmRow, AlarmRule, AlarmTarget, AlarmWhen
from xwheel_alarms.service import Alarms
from xwheel_alarms.storage import lists
from xwheel_alarms.storage.lists import AlarmFilter

from tests.support.node import HandNode
from tests.support.waiting import wait_until
from xwheel.api.plugins.site import RouteSite
from xwheel.api.schema.health import HealthReport
from xwheel.clock import ManualClock
from xwheel.model import Job, Run, RunState
from xwheel.node.node import api_parts
from xwheel.plugin.discovery import Plugins
from xwheel.plugin.registries import Registry
from xwheel.storage.database.engine import Database

LONGEST_S = 60


class AlarmNode(HandNode):
    """A node with our alarms.

    Attributes:
        alarms: What the plugin registers.
    """

    def __init__(
        self, db: Database, clock: ManualClock, *, channels: Sequence[AlarmChannel] = (), **settings: Any
    ) -> None:
        self._channels = Registry("alarm channel", {item.name: item for item in channels}, {})
        super().__init__(db, clock, **settings)

    def installed(self, known: Plugins) -> Plugins:
        self.alarms = Alarms(self.config)
        found = {self.alarms.name: self.alarms}
        return dataclasses.replace(
            known,
            resources=Registry("set of resources", found, {}),
            others={**known.others, "xwheel_register_alarms": self._channels},
        )

    def begin(self) -> None:
        self.alarms.resources(RouteSite(api_parts(self.scheduler, HealthReport)))
        super().begin()


class Recorder:
    """A channel that keeps what it is told; ``fail`` says what to raise for an alarm, if anything."""

    def __init__(self, name: str = "pager", fail: Callable[[Alarm], Exception | None] | None = None) -> None:
        self.name = name
        self.told: list[Alarm] = []
        self._fail = fail or (lambda _: None)

    def send(self, alarm: Alarm) -> str | None:
        self.told.append(alarm)
        error = self._fail(alarm)
        if error is not None:
            raise error
        return f"took {alarm.id}"

    def kinds(self) -> list[str]:
        return [str(alarm.kind) for alarm in self.told]


class Stuck:
    """A channel that hangs until it is let go."""

    def __init__(self, name: str = "stuck") -> None:
        self.name = name
        self.gate = threading.Event()
        self.calls = 0

    def send(self, alarm: Alarm) -> str | None:
        del alarm
        self.calls += 1
        self.gate.wait(LONGEST_S)
        return "late"


def send(node: AlarmNode, job: Job) -> list[Run]:
    """Run a job by hand; its executors take it."""
    node.register("http://127.0.0.1:9001")  # it beats, however much time has passed
    node.scheduler.management.run_now.run(job.id)
    node.adopt()
    node.tick(20)
    return node.answer()


def run_once(node: AlarmNode, job: Job, state: RunState = RunState.FAILED) -> None:
    """Run a job by hand, and let it end in a state."""
    node.finish(send(node, job), state)


def settle(node: AlarmNode) -> None:
    """Step the loop until nothing is to be done at this moment, and every send that can end has ended."""
    senders = node.alarms.service.channels

    def idle() -> bool:
        node.alarms.step(node.clock.now_ms())
        return not senders.ended() and not any(senders.under_way(name) for name in senders.names)

    wait_until(idle)
    for _ in range(3):
        wait_until(idle)


def rule(node: AlarmNode, *kinds: str, channels: Sequence[str] = ("pager",), **values: Any) -> AlarmRule:
    """Make a rule; it tells each end, at once and each time, unless told otherwise."""
    targets = tuple(AlarmTarget(channel=name, receivers=("me",)) for name in channels)
    return node.alarms.service.manager.create(
        {
            "kinds": tuple(AlarmKind(kind) for kind in kinds or ("failed",)),
            "when": AlarmWhen.EACH,
            "window_s": 0,
            "targets": targets,
            **values,
        }
    )


def alarms_of(node: AlarmNode) -> list[AlarmRow]:
    """All alarms, oldest first."""
    with node.db.read() as conn:
        return lists.list_alarms(conn, AlarmFilter(), limit=10_000)[::-1]


def attempts_of(node: AlarmNode, alarm_id: int | None = None) -> list[AlarmAttempt]:
    """All attempts, or those of one alarm, oldest first."""
    with node.db.read() as conn:
        return lists.list_attempts(conn, AlarmFilter(alarm_id=alarm_id), limit=10_000)[::-1]
