"""Receivers of an alarm, failures of some robots, and broken servers."""

from __future__ import annotations

from http.server import BaseHTTPRequestHandler
from types import SimpleNamespace
from typing import Any

import pytest
from conftest import KEY, channel_of, config_of
from hypothesis import given
from hypothesis import strategies as st
from xwheel import Config
from xwheel.plugin import ConfigError
from xwheel_alarms import AlarmRetryLater
from xwheel_devtools.testing import WebRequest, WebServer, load_plugin, sample_alarm, web_reply

from xwheel_alarm_webhook import xwheel_register_alarms
from xwheel_alarm_webhook.cutting import cut_bytes, cut_utf16
from xwheel_alarm_webhook.robots import SendError


def slack(*names: str, port: int) -> dict[str, Any]:
    return {name: {"url": f"http://127.0.0.1:{port}/{name}/{KEY}"} for name in names}


def paths(provider: WebServer) -> list[str]:
    return [seen.path.split("/")[1] for seen in provider.requests]


def test_receivers_name_the_robots(provider: WebServer) -> None:
    robots = slack("ops", "dev", port=provider.port)
    channel = channel_of("slack", robots, provider.port)
    assert channel.send(sample_alarm(receivers=("dev", "ops", "dev"))) == "dev: HTTP 200 ok; ops: HTTP 200 ok"
    assert paths(provider) == ["dev", "ops"]
    with pytest.raises(SendError, match="slack has several robots: name one of them as receiver: dev, ops"):
        channel.send(sample_alarm())
    with pytest.raises(SendError, match="slack has no robot 'odd'; there are dev, ops; ops: HTTP 200 ok"):
        channel.send(sample_alarm(id=8, receivers=("odd", "ops")))
    with pytest.raises(SendError, match="is no name to mention"):
        channel.send(sample_alarm(id=9, receivers=("ops", "@U1> <!channel")))
    assert b"channel" not in provider.requests[-1].body


def test_without_a_name_the_default_or_the_only_robot_gets_it(provider: WebServer) -> None:
    channel_of("slack", slack("ops", "default", port=provider.port), provider.port).send(sample_alarm())
    channel_of("slack", slack("ops", port=provider.port), provider.port).send(sample_alarm(receivers=("@U1",)))
    assert paths(provider) == ["default", "ops"]


def test_a_repetition_goes_only_to_those_that_failed(provider: WebServer) -> None:
    broken = {"dev"}

    def reply(handler: BaseHTTPRequestHandler, seen: WebRequest) -> None:
        bad = seen.path.split("/")[1] in broken
        web_reply(500 if bad else 200, b"down" if bad else b"ok")(handler, seen)

    provider.reply = reply
    channel = channel_of("slack", slack("dev", "ops", port=provider.port), provider.port)
    alarm = sample_alarm(receivers=("dev", "ops"))
    with pytest.raises(SendError, match=r"^dev: HTTP 500 down; ops: HTTP 200 ok$"):
        channel.send(alarm)
    broken.clear()
    assert channel.send(alarm) == "dev: HTTP 200 ok"
    assert paths(provider) == ["dev", "ops", "dev"]


def test_a_robot_that_asks_for_a_pause_delays_all_that_failed(provider: WebServer) -> None:
    def reply(handler: BaseHTTPRequestHandler, seen: WebRequest) -> None:
        if "dev" in seen.path:
            web_reply(429, b"slow down", {"Retry-After": "41"})(handler, seen)
        else:
            web_reply(500, b"down")(handler, seen)

    provider.reply = reply
    channel = channel_of("slack", slack("dev", "ops", port=provider.port), provider.port)
    with pytest.raises(AlarmRetryLater, match="dev: HTTP 429 slow down; ops: HTTP 500 down") as told:
        channel.send(sample_alarm(receivers=("dev", "ops")))
    assert told.value.after_s == 41


def test_the_longest_pause_counts(provider: WebServer) -> None:
    def reply(handler: BaseHTTPRequestHandler, seen: WebRequest) -> None:
        web_reply(429, b"", {"Retry-After": "41" if "dev" in seen.path else "7"})(handler, seen)

    provider.reply = reply
    channel = channel_of("slack", slack("dev", "ops", port=provider.port), provider.port)
    with pytest.raises(AlarmRetryLater) as told:
        channel.send(sample_alarm(receivers=("dev", "ops")))
    assert told.value.after_s == 41


def test_a_robot_that_hangs_takes_its_share_of_the_time_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xwheel_alarm_webhook.channel.time", SimpleNamespace(monotonic=lambda: 0.0))
    with WebServer() as hanging, WebServer() as good:
        hanging.reply = hanging.hang
        robots = {**slack("dev", port=hanging.port), **slack("ops", port=good.port)}
        channel = channel_of("slack", robots, hanging.port, good.port, timeout_s=6)
        words = r"^dev: http://127\.0\.0\.1:\d+: no complete answer within 3 s; ops: HTTP 200 ok$"
        with pytest.raises(SendError, match=words):
            channel.send(sample_alarm(receivers=("dev", "ops")))
        assert len(good.requests) == 1


def test_an_alarm_takes_no_longer_than_the_node_waits_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xwheel_alarm_webhook.channel.time", SimpleNamespace(monotonic=lambda: 0.0))
    with WebServer() as hanging:
        hanging.reply = hanging.hang
        config = config_of({"timeout_s": 60, "slack": slack("dev", port=hanging.port)}, hanging.port)
        config = Config(**{**dict(config), "alarm": {"send_timeout_s": 1}})
        (channel,) = xwheel_register_alarms(config)
        with pytest.raises(SendError, match=r"no complete answer within 0\.9 s$"):
            channel.send(sample_alarm(receivers=("dev",)))


def close(handler: BaseHTTPRequestHandler, seen: WebRequest) -> None:
    handler.connection.close()


def endless(handler: BaseHTTPRequestHandler, seen: WebRequest) -> None:
    handler.send_response(200)
    handler.end_headers()
    while True:
        handler.wfile.write(b"x" * 65536)


def test_a_server_that_closes_or_never_ends_is_a_failure_without_the_key(provider: WebServer) -> None:
    channel = channel_of("slack", slack("ops", port=provider.port), provider.port)
    for reply in (close, endless):
        provider.reply = reply
        with pytest.raises(SendError) as told:
            channel.send(sample_alarm())
        assert KEY not in str(told.value)
        assert len(str(told.value)) < 400


def test_a_redirect_is_not_followed(provider: WebServer) -> None:
    with WebServer() as inner:
        provider.reply = web_reply(302, b"", {"Location": f"http://127.0.0.1:{inner.port}/admin"})
        with pytest.raises(SendError, match="HTTP 302"):
            channel_of("slack", slack("ops", port=provider.port), provider.port, inner.port).send(sample_alarm())
        assert not inner.requests


def test_a_name_that_leads_inside_is_refused_when_it_is_called() -> None:
    with WebServer() as inner:
        robots = {"ops": {"url": f"http://localhost:{inner.port}/{KEY}"}}
        options = {"slack": robots}
        config = config_of(options, inner.port).model_copy(
            update={"egress": config_of({}, inner.port).egress.model_copy(update={"allow_networks": []})}
        )
        (channel,) = xwheel_register_alarms(config)
        with pytest.raises(SendError, match=r"egress\.allow_networks") as told:
            channel.send(sample_alarm())
        assert KEY not in str(told.value)
        assert not inner.requests


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"slak": {}}, "plugins.options.alarm_webhook.slak is not an option; did you mean slack?"),
        ({"slack": {"ops": {}}}, "plugins.options.alarm_webhook.slack.ops: url or url_file is missing"),
        ({"slack": {"a b": {"url": "https://a.example"}}}, "plugins.options.alarm_webhook.slack.a b: "),
        ({"slack": {"ops": {"url": 5}}}, "plugins.options.alarm_webhook.slack.ops.url: must be a text"),
        (
            {"slack": {"ops": {"url": f"ftp://a.example/{KEY}"}}},
            "plugins.options.alarm_webhook.slack.ops: the URL must begin with http:// or https://",
        ),
        (
            {"dingtalk": {"ops": {"url": f"https://169.254.169.254/{KEY}"}}},
            "plugins.options.alarm_webhook.dingtalk.ops: https://169.254.169.254: the address is a cloud's metadata",
        ),
        (
            {"slack": {"ops": {"url": "https://a.example", "text": "{tilte}"}}},
            "plugins.options.alarm_webhook.slack.ops.text: {tilte} is no placeholder; did you mean {title}?",
        ),
        (
            {"slack": {"ops": {"url": "https://a.example", "mention": ["<!here>"]}}},
            "plugins.options.alarm_webhook.slack.ops.mention.0: ",
        ),
        (
            {"telegram": {"ops": {"token": f"{KEY}/../x", "chat": "1"}}},
            "plugins.options.alarm_webhook.telegram.ops: token must be one of Telegram's",
        ),
        (
            {"telegram": {"ops": {"token": "1:a", "chat": "all of them"}}},
            "plugins.options.alarm_webhook.telegram.ops: chat must be a number, or @ and the channel's name",
        ),
        (
            {"webhook": {"ops": {"url": "https://a.example", "body": '{"a": {title}}'}}},
            "plugins.options.alarm_webhook.webhook.ops: body must be JSON",
        ),
        (
            {"webhook": {"ops": {"url": "https://a.example", "method": "TRACE"}}},
            "plugins.options.alarm_webhook.webhook.ops.method: must be 'POST', 'PUT', 'PATCH' or 'GET'",
        ),
        (
            {"webhook": {"ops": {"url": "https://a.example", "headers": {"Host": KEY}}}},
            "plugins.options.alarm_webhook.webhook.ops: the header Host is set by the client itself",
        ),
        ({"timeout_s": 0}, "plugins.options.alarm_webhook.timeout_s: must be greater than 0"),
    ],
)
def test_a_wrong_option_stops_the_start_and_is_named(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as told:
        xwheel_register_alarms(config_of(options))
    assert str(told.value).startswith(said)
    assert KEY not in str(told.value)


def test_keys_may_stand_in_files(provider: WebServer, tmp_path: Any) -> None:
    (tmp_path / "url").write_text(f"{provider.url}/{KEY}\n")
    channel_of("slack", {"ops": {"url_file": str(tmp_path / "url")}}, provider.port).send(sample_alarm())
    assert provider.requests[0].path == f"/{KEY}"


def test_a_node_finds_the_kinds_that_have_robots() -> None:
    plugins = load_plugin("alarm_webhook", {"slack": {"ops": {"url": "https://chat.example"}}})
    channels = set(plugins.registered("xwheel_register_alarms"))
    assert channels >= {"slack"}
    assert not channels & {"dingtalk", "wecom", "feishu", "telegram", "webhook"}


@given(st.text(), st.integers(0, 50))
def test_a_cut_text_is_whole_characters_and_not_too_long(text: str, limit: int) -> None:
    for cut, encoding, unit in ((cut_bytes, "utf-8", 1), (cut_utf16, "utf-16-le", 2)):
        found = cut(text, limit)
        least = 3 if unit == 1 else 1  # an ellipsis
        assert len(found.encode(encoding)) <= unit * max(limit, least)
        clean = text.encode(encoding, "replace").decode(encoding)
        assert clean.startswith(found.removesuffix("…"))
