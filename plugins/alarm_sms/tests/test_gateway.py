"""Messages through a gateway, and gateways that refuse, hang, close and redirect."""

from __future__ import annotations

import socket
from typing import Any, cast
from urllib.parse import parse_qsl, urlsplit

import pytest
from conftest import NUMBER, SECRET, alarm_of, register
from hypothesis import given
from hypothesis import strategies as st
from xwheel_alarms import AlarmKind, AlarmRetryLater
from xwheel_devtools.testing import WebRequest, WebServer, check_alarm_channel, web_reply
from xwheel_egress import Answer, EgressClient, EgressError

from xwheel_alarm_sms import SmsChannel, SmsError
from xwheel_alarm_sms.gateway import Gateway
from xwheel_alarm_sms.options import GatewayOptions

OTHER = "+861390000000"


def channel_to(web: WebServer, path: str = "/send", **options: Any) -> SmsChannel:
    outer = {name: options.pop(name) for name in list(options) if name not in GatewayOptions.model_fields}
    gateway = {"url": web.url + path, "body": {"to": "{number}", "text": "{message}"}} | options
    return register(egress=web.egress, gateway=gateway, **({"timeout_s": 60} | outer))[0]


def test_a_message_goes_as_json(web: WebServer) -> None:
    web.reply = web_reply(202, {"id": "m-1"})
    channel = channel_to(
        web,
        headers={"Authorization": "Bearer {secret}", "X-Alarm": "{id}"},
        body={"to": ["{number}"], "content": {"text": "{message}", "urgent": True, "n": 3}, "ref": "{id}/{digits}"},
        secret=SECRET,
    )
    assert channel.send(alarm_of()) == f'sent to {NUMBER}: 202 {{"id": "m-1"}}'
    (seen,) = web.requests
    assert (seen.method, seen.path) == ("POST", "/send")
    assert seen.headers["Content-Type"] == "application/json"
    assert seen.headers["Authorization"] == f"Bearer {SECRET}"
    assert seen.headers["X-Alarm"] == "7"
    assert seen.document == {
        "to": [NUMBER],
        "content": {"text": "xwheel: nightly report failed", "urgent": True, "n": 3},
        "ref": "7/4915112345678",
    }


def test_a_message_goes_as_a_form(web: WebServer) -> None:
    channel = channel_to(web, method="PUT", body_type="form", body={"to": "{number}", "text": "{message} & co"})
    channel.send(alarm_of(title="a=b&to=+1"))
    (seen,) = web.requests
    assert seen.method == "PUT"
    assert seen.headers["Content-Type"] == "application/x-www-form-urlencoded"
    assert parse_qsl(seen.body.decode()) == [("to", NUMBER), ("text", "xwheel: a=b&to=+1 & co")]


def test_a_message_goes_in_the_url(web: WebServer) -> None:
    channel = channel_to(
        web,
        path="/{secret}/send?v=1",
        method="GET",
        body={},
        query={"to": "{digits}", "text": "{message}", "key": "{secret}"},
        secret=SECRET,
    )
    channel.send(alarm_of(title="50% & more?to=#1"))
    (seen,) = web.requests
    parts = urlsplit(seen.path)
    assert (seen.method, parts.path) == ("GET", "/s3cret%2Fcanary%2B/send")
    assert parse_qsl(parts.query) == [
        ("v", "1"),
        ("to", "4915112345678"),
        ("text", "xwheel: 50% & more?to=#1"),
        ("key", SECRET),
    ]


def test_shell_marks_and_quotes_arrive_as_they_were_written(web: WebServer) -> None:
    name = "$(touch /tmp/x) `id` ; | & > \" ' \\ {message} {number} %s ${HOME} 任务 \U0001f514"
    channel_to(web).send(alarm_of(title=name))
    assert web.requests[0].document == {"to": NUMBER, "text": f"xwheel: {name}"}


def test_what_is_too_long_is_cut_and_control_characters_are_blanks(web: WebServer) -> None:
    channel = channel_to(web, body={"text": "{message}", "all": "{text}"}, max_length=30)
    channel.send(alarm_of(title="a\x00b\rc\x1b[31m\n" + "ä" * 100, text="x" * 100))
    document = web.requests[0].document
    assert document == {"text": "xwheel: a b c [31m\n" + "ä" * 8 + "...", "all": "x" * 27 + "..."}


TEXTS = st.text() | st.sampled_from(["{secret}", "{number}", '","to":"+1', "&to=1", "{message.__class__}"])


(PLAIN,) = register(gateway={"url": "http://sms.example.com"})


@given(TEXTS, TEXTS)
def test_no_alarm_changes_the_form_of_a_request(title: str, text: str) -> None:
    options = GatewayOptions.model_validate(
        {
            "url": "http://sms.example.com/{kind}?a={title}",
            "query": {"q": "{text}"},
            "headers": {"X-Id": "{id}"},
            "body": {"to": "{number}", "text": "{title}{text}"},
        }
    )
    values = PLAIN._values(alarm_of(title=title, text=text))
    call = Gateway(options).call(values, NUMBER)
    parts = urlsplit(call.url)
    assert call.url.isascii()
    assert (parts.netloc, parts.path, parts.fragment) == ("sms.example.com", "/failed", "")
    assert parse_qsl(parts.query, keep_blank_values=True) == [("a", values["title"]), ("q", values["text"])]
    assert call.headers == {"X-Id": "7", "Content-Type": "application/json"}
    seen = WebRequest(method="", path="", headers={}, body=call.body or b"")
    assert seen.document == {"to": NUMBER, "text": values["title"] + values["text"]}


@pytest.mark.parametrize(
    ("status", "body", "success", "taken"),
    [
        (200, b"whatever", {}, True),
        (299, b"", {}, True),
        (300, b"", {}, False),
        (400, b"bad number", {}, False),
        (500, b"<h1>oops</h1>", {}, False),
        (200, b"", {"success_status": [202]}, False),
        (202, b"", {"success_status": [202]}, True),
        (200, {"code": 0}, {"success_field": "code", "success_values": ["0"]}, True),
        (200, {"code": "0"}, {"success_field": "code", "success_values": ["0", "OK"]}, True),
        (200, {"code": 1}, {"success_field": "code", "success_values": ["0"]}, False),
        (200, {"ok": True}, {"success_field": "ok", "success_values": ["true"]}, True),
        (200, {"d": [{"s": "q"}]}, {"success_field": "d.0.s", "success_values": ["q"]}, True),
        (200, {"d": []}, {"success_field": "d.0.s", "success_values": ["q"]}, False),
        (200, {}, {"success_field": "code", "success_values": ["null"]}, False),
        (200, b"no json", {"success_field": "code", "success_values": ["0"]}, False),
        (200, b"[" * 5000, {"success_field": "code", "success_values": ["0"]}, False),
    ],
)
def test_the_answer_is_judged(web: WebServer, status: int, body: Any, success: dict[str, Any], taken: bool) -> None:
    web.reply = web_reply(status, body)
    channel = channel_to(web, **success)
    if taken:
        assert channel.send(alarm_of()).startswith(f"sent to {NUMBER}: {status}")
    else:
        with pytest.raises(SmsError, match=rf"^not sent to \+4915112345678: the gateway answered {status}"):
            channel.send(alarm_of())


@pytest.mark.parametrize(
    ("status", "headers", "after_s"),
    [(429, {}, 60), (429, {"Retry-After": "7"}, 7), (503, {"Retry-After": "9999"}, 3600)],
)
def test_a_busy_gateway_is_asked_later(web: WebServer, status: int, headers: dict[str, str], after_s: float) -> None:
    web.reply = web_reply(status, b"busy", headers)
    with pytest.raises(AlarmRetryLater, match=f"the gateway answered {status} busy") as caught:
        channel_to(web).send(alarm_of())
    assert caught.value.after_s == after_s


class Slow:
    """Stands in for the client: a call to one number takes all the time that it may, the others a second."""

    def __init__(self) -> None:
        self.now = 0.0
        self.given: list[float] = []

    def request(self, method: str, url: str, *, timeout_s: float, body: bytes, **more: Any) -> Answer:
        self.given.append(timeout_s)
        if OTHER.encode() in body:
            self.now += timeout_s
            raise EgressError("no answer")
        self.now += 1
        return Answer(origin="", status=200, headers={}, body=b"ok", truncated=False)


def test_a_number_on_which_the_gateway_hangs_leaves_time_for_the_others() -> None:
    (made,) = register(gateway={"url": "http://sms.example.com", "body": {"to": "{number}"}}, timeout_s=12)
    slow = Slow()
    channel = SmsChannel(made._options, cast(EgressClient, slow), monotonic=lambda: slow.now)
    with pytest.raises(SmsError) as caught:
        channel.send(alarm_of(receivers=[OTHER, "111", "222", "333"]))
    assert str(caught.value) == (
        f"not sent to {OTHER}: no answer; sent to 111: 200 ok; sent to 222: 200 ok; sent to 333: 200 ok"
    )
    assert slow.given == [3, 3, 4, 7]


def test_a_gateway_that_hangs_meets_the_time_limit(web: WebServer) -> None:
    web.reply = web.hang
    with pytest.raises(SmsError, match=r"^not sent to \+4915112345678: "):
        channel_to(web, timeout_s=1).send(alarm_of())


def test_the_time_of_all_numbers_together_is_bounded(web: WebServer) -> None:
    web.reply = web.hang
    numbers = [f"+49151123456{n}" for n in range(10, 40)]
    with pytest.raises(SmsError, match="no time left of 1 s"):
        channel_to(web, timeout_s=1).send(alarm_of(receivers=numbers))
    assert len(web.requests) < len(numbers)


def test_a_gateway_that_closes_or_is_not_there_is_an_error(web: WebServer) -> None:
    web.reply = lambda handler, seen: None
    with pytest.raises(SmsError, match=r"^not sent to \+4915112345678: "):
        channel_to(web, url=web.url + "/" + SECRET).send(alarm_of())
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        egress = {"allow_networks": ["127.0.0.1"], "allow_ports": [port]}
        (channel,) = register(egress=egress, gateway={"url": f"http://127.0.0.1:{port}/{SECRET}"})
        with pytest.raises(SmsError, match=r"^not sent to \+4915112345678: ") as caught:
            channel.send(alarm_of())
        assert SECRET not in str(caught.value)


def test_a_redirect_is_not_followed(web: WebServer) -> None:
    with WebServer() as inner:
        web.reply = web_reply(302, b"", {"Location": f"{inner.url}/latest/meta-data"})
        with pytest.raises(SmsError, match="the gateway answered 302"):
            channel_to(web).send(alarm_of())
        assert inner.requests == []


def test_a_gateway_inside_is_refused_unless_allowed(web: WebServer) -> None:
    (channel,) = register(egress={"allow_ports": [web.port]}, gateway={"url": f"http://localhost:{web.port}/{SECRET}"})
    with pytest.raises(SmsError, match="egress.allow_networks") as caught:
        channel.send(alarm_of())
    assert SECRET not in str(caught.value)
    assert web.requests == []


def test_a_secret_that_the_gateway_repeats_is_masked(web: WebServer) -> None:
    web.reply = web_reply(200, f"{SECRET} s3cret%2Fcanary%2B".encode())
    channel = channel_to(web, headers={"X-Key": "{secret}"}, secret=SECRET)
    assert channel.send(alarm_of()) == f"sent to {NUMBER}: 200 *** ***"
    web.reply = web_reply(401, f"unknown key {SECRET}".encode())
    with pytest.raises(SmsError) as caught:
        channel.send(alarm_of())
    assert "canary" not in str(caught.value)


def test_a_large_answer_is_cut(web: WebServer) -> None:
    web.reply = web_reply(200, b"a" * 1_000_000)
    assert len(channel_to(web).send(alarm_of())) < 1000


def test_one_failed_number_is_tried_again_without_the_others(web: WebServer) -> None:
    refused = {OTHER}

    def reply(handler: Any, seen: WebRequest) -> None:
        web_reply(400 if seen.document["to"] in refused else 200, b"x")(handler, seen)

    web.reply = reply
    channel = channel_to(web)
    alarm = alarm_of(receivers=[OTHER, NUMBER, "+49 (151) 123-45678", "nobody"])
    with pytest.raises(SmsError) as caught:
        channel.send(alarm)
    assert str(caught.value).startswith("not sent to 'nobody': must be a number")
    assert f"not sent to {OTHER}: the gateway answered 400 x; sent to {NUMBER}: 200 x" in str(caught.value)
    refused.clear()
    assert channel.send(alarm_of(receivers=[OTHER, NUMBER])) == f"sent to {OTHER}: 200 x"
    assert [seen.document["to"] for seen in web.requests] == [OTHER, NUMBER, OTHER]


def test_a_test_is_sent_to_all_receivers_each_time(web: WebServer) -> None:
    channel = channel_to(web)
    for _ in range(2):
        with pytest.raises(SmsError):
            channel.send(alarm_of(kind=AlarmKind.TEST, receivers=[NUMBER, "nobody"]))
    assert len(web.requests) == 2


def test_a_number_gets_so_many_messages_in_a_window(web: WebServer) -> None:
    now = [1000.0]
    (made,) = register(
        egress=web.egress, gateway={"url": web.url, "body": {"to": "{number}"}}, per_number=2, window_s=60
    )
    channel = SmsChannel(made._options, made._client, monotonic=lambda: now[0])
    for number in range(2):
        assert channel.send(alarm_of(id=number)).startswith("sent to")
        now[0] += 10
    held = f"held back: {NUMBER} had 2 in 60 s"
    assert channel.send(alarm_of(id=2)) == held
    assert channel.send(alarm_of(id=3, receivers=[OTHER, NUMBER])) == f"{held}; sent to {OTHER}: 200 ok"
    now[0] += 40
    assert channel.send(alarm_of(id=4)) == f"sent to {NUMBER}: 200 ok"
    assert channel.send(alarm_of(id=5)) == held
    assert len(web.requests) == 4


def test_a_message_that_was_not_taken_does_not_count(web: WebServer) -> None:
    channel = channel_to(web, per_number=1)
    web.reply = web_reply(500)
    for _ in range(3):
        with pytest.raises(SmsError):
            channel.send(alarm_of())
    web.reply = web_reply(200)
    assert channel.send(alarm_of()).startswith("sent to")
    assert channel.send(alarm_of()).startswith("held back")


def test_an_alarm_without_receivers_is_an_error(web: WebServer) -> None:
    with pytest.raises(SmsError, match="no receivers: .*plugins.options.alarm_sms.receivers"):
        channel_to(web).send(alarm_of(receivers=()))
    with pytest.raises(SmsError, match="51 receivers are more than 50"):
        channel_to(web).send(alarm_of(receivers=[f"+49151{n:07}" for n in range(51)]))
    assert web.requests == []


def test_the_contract_of_channels_holds(web: WebServer) -> None:
    check_alarm_channel(channel_to(web, receivers=[NUMBER], per_number=1000))
    assert web.requests
