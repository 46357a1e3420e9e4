"""Alarm channels that post to webhooks: dingtalk, wecom, feishu, slack, telegram, and webhook for anything else.

A kind is a channel once a robot of it stands in the options. Everything goes through the egress policy.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from xwheel.plugin import hookimpl
from xwheel_alarms.settings import AlarmSection
from xwheel_egress import EgressClient, EgressPolicy

from xwheel_alarm_webhook.channel import WebhookChannel
from xwheel_alarm_webhook.options import read_options
from xwheel_alarm_webhook.robots import Robot

if TYPE_CHECKING:
    from xwheel import Config

__all__ = ["Robot", "WebhookChannel", "xwheel_register_alarms"]


@hookimpl
def xwheel_register_alarms(config: Config) -> Iterable[WebhookChannel]:
    """Register a channel for each kind that has robots."""
    client = EgressClient(EgressPolicy.from_config(config))
    options = read_options(config, client)
    # what takes longer counts as failed, though it may still arrive
    timeout_s = min(options.timeout_s, 0.9 * config.section("alarm", AlarmSection).send_timeout_s)
    return [
        WebhookChannel(kind, robots, client, timeout_s=timeout_s) for kind, robots in options.robots().items() if robots
    ]
