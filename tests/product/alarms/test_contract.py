"""Channels come through the hook that xwheel-alarms brings, and are checked at the door."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from xwheel.config import build_config
from xwheel.errors import PluginError
from xwheel.plugin import hookimpl
from xwheel.plugin.discovery import load_plugins

HOOK = "xwheel_register_alarms"


class Brings:
    """A plugin that registers one object as a channel."""

    def __init__(self, channel: object) -> None:
        self._channel = channel

    @hookimpl
    def xwheel_register_alarms(self) -> list[Any]:
        return [self._channel]


def send(alarm: object) -> str:
    return "sent"


def test_a_channel_is_found_and_listed_by_its_kind() -> None:
    plugins = load_plugins(build_config({}), {"acme": Brings(SimpleNamespace(name="pager", send=send))})
    assert plugins.registered(HOOK)["pager"].send(None) == "sent"
    assert plugins.registered(HOOK).kind == "alarm channel"
    (info,) = (info for info in plugins.installed if info.origin.name == "acme")
    assert info.registers == {"alarm channel": ["pager"]}


def test_a_channel_is_there_with_our_alarms_disabled() -> None:
    config = build_config({"plugins": {"disabled": ["alarm"]}})
    plugins = load_plugins(config, {"acme": Brings(SimpleNamespace(name="pager", send=send))})
    assert "pager" in plugins.registered(HOOK)


@pytest.mark.parametrize(
    ("channel", "words"),
    [
        (3, "of int is no alarm channel: name must be str, not missing"),
        (SimpleNamespace(name="pager"), r"is no alarm channel: the method send\(alarm\) is missing"),
        (SimpleNamespace(name="pager", send=lambda: ""), r"send\(\) cannot be called as send\(alarm\)"),
        (SimpleNamespace(name="my pager", send=send), "a alarm channel's name has 1 to 64 characters and no blanks"),
        (SimpleNamespace(name="p" * 65, send=send), "1 to 64 characters and no blanks"),
    ],
)
def test_what_is_no_channel_is_refused_at_the_door(channel: object, words: str) -> None:
    with pytest.raises(PluginError, match=words):
        load_plugins(build_config({}), {"acme": Brings(channel)})
