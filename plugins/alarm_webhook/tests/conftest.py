"""A server in place of a provider, and options that may call it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import settings
from xwheel import Config
from xwheel_devtools.testing import WebServer

from xwheel_alarm_webhook import WebhookChannel, xwheel_register_alarms

# examples may be slow on a busy machine; how long they take is no claim of any test
settings.register_profile("xwheel", deadline=None)
settings.load_profile("xwheel")

KEY = "k3y-of-the-robot"


@pytest.fixture
def provider() -> Iterator[WebServer]:
    with WebServer() as found:
        yield found


def config_of(options: dict[str, Any], *ports: int) -> Config:
    """Return settings with the plugin's options, which may call ports of 127.0.0.1."""
    egress = {"allow_networks": ["127.0.0.1"], "allow_ports": [443, *ports]}
    return Config(egress=egress, plugins={"options": {"alarm_webhook": options}})  # type: ignore[arg-type]


def channel_of(kind: str, robots: dict[str, Any], *ports: int, timeout_s: float = 60) -> WebhookChannel:
    """Return the channel of a kind, made as a node makes it."""
    (channel,) = xwheel_register_alarms(config_of({"timeout_s": timeout_s, kind: robots}, *ports))
    assert channel.name == kind
    return channel
