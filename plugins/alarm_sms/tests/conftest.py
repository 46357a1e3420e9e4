"""A server in place of a gateway, and alarms."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from xwheel import Config
from xwheel_devtools.testing import WebServer, sample_alarm

from xwheel_alarm_sms import SmsChannel, xwheel_register_alarms

SECRET = "s3cret/canary+"
NUMBER = "+4915112345678"

# examples may be slow on a busy machine; how long they take is no claim of any test
settings.register_profile("xwheel", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("xwheel")

alarm_of = partial(sample_alarm, receivers=(NUMBER,))


def register(*, egress: Mapping[str, Any] | None = None, **options: Any) -> list[SmsChannel]:
    sections: dict[str, Any] = {"plugins": {"options": {"alarm_sms": options}}, "egress": dict(egress or {})}
    return list(xwheel_register_alarms(Config(**sections)))


@pytest.fixture
def web() -> Iterator[WebServer]:
    with WebServer() as server:
        yield server
