"""A node whose clock stands still, with the channels ``pager`` and ``sms`` and one executor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import pytest
from xwheel_alarms import Alarm
from xwheel_alarms.channels import AlarmChannels, Sent
from xwheel_alarms.records import AlarmAttempt
from xwheel_alarms.service import Alarms

from tests.component.api.conftest import LIMIT, Api
from tests.product.alarms.support import AlarmNode, Recorder
from tests.product.api import product_api
from tests.support.rows import NOW
from xwheel.clock import Clock, ManualClock
from xwheel.config import build_config
from xwheel.plugin import PartHealth, PluginSite, ResourceRoute
from xwheel.storage.database.engine import Database


@pytest.fixture
def pager() -> Recorder:
    return Recorder()


@pytest.fixture
def node(db: Database, pager: Recorder) -> AlarmNode:
    made = AlarmNode(db, ManualClock(NOW), channels=[pager, Recorder("sms")])
    made.group()
    made.register("http://127.0.0.1:9001")
    return made


class Channels(AlarmChannels):
    """The alarm channels ``mail``, which answers, and ``silent``, which does not."""

    def __init__(self, clock: Clock) -> None:
        plugins: dict[str, Any] = {"mail": None, "silent": None}
        super().__init__(plugins, clock, lambda: None, lambda _: True, queue_size=1, timeout_s=1)
        self.sent: list[tuple[str, Sequence[str]]] = []
        self.told: list[PartHealth] = []
        self.failure: Exception | None = None

    def test(self, attempt: AlarmAttempt, alarm: Alarm) -> Sent:
        if self.failure is not None:
            raise self.failure
        self.sent.append((attempt.channel, alarm.receivers))
        good = attempt.channel == "mail"
        return Sent(attempt, good, "250 queued" if good else "TimeoutError: no answer in 5 s", NOW, 12)

    def health(self) -> list[PartHealth]:
        return self.told


class ApiAlarms(Alarms):
    """Our alarms, with channels that say what a test wants."""

    def resources(self, site: PluginSite) -> Sequence[ResourceRoute]:
        found = super().resources(site)
        self.sending = self.service.channels = Channels(site.clock)
        self.service.manager._channels = self.sending
        return found


@dataclass
class AlarmApi(Api):
    """Both applications with alarms."""

    channels: Channels


def make_alarm_api(db: Database, settings: dict[str, Any]) -> AlarmApi:
    alarms = ApiAlarms(build_config({"api": settings}))
    made = product_api(db, settings, alarm=alarms)
    return AlarmApi(**{item.name: getattr(made, item.name) for item in fields(made)}, channels=alarms.sending)


@pytest.fixture
def api(db: Database, request: pytest.FixtureRequest) -> AlarmApi:
    return make_alarm_api(db, getattr(request.module, "API_SETTINGS", {"max_body_bytes": LIMIT}))
