"""What each provider gets, and how its answers are judged; signatures are checked against the documents."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from conftest import KEY, channel_of
from xwheel_alarms import AlarmRetryLater
from xwheel_devtools.testing import WebServer, check_alarm_channel, sample_alarm, web_reply

from xwheel_alarm_webhook.robots import SendError

SECRET = "SEC0123456789abcdef"
MESSAGE = sample_alarm().text
GOOD: dict[str, bytes] = {
    "dingtalk": b'{"errcode":0,"errmsg":"ok"}',
    "wecom": b'{"errcode":0,"errmsg":"ok"}',
    "feishu": b'{"code":0,"msg":"success","data":{}}',
    "slack": b"ok",
    "telegram": b'{"ok":true,"result":{"message_id":42}}',
    "webhook": b"thanks",
}
KINDS = sorted(GOOD)


def robot(kind: str, provider: WebServer, **more: Any) -> dict[str, Any]:
    """Return a robot's options at a provider."""
    if kind == "telegram":
        return {"token": f"123456:{KEY}", "chat": "-1001", "server": provider.url, **more}
    path = {
        "dingtalk": f"/robot/send?access_token={KEY}",
        "wecom": f"/cgi-bin/webhook/send?key={KEY}",
        "feishu": f"/open-apis/bot/v2/hook/{KEY}",
        "slack": f"/services/T0/B0/{KEY}",
        "webhook": f"/hook?key={KEY}",
    }[kind]
    return {"url": provider.url + path, **more}


def send(kind: str, provider: WebServer, alarm: Any = None, **more: Any) -> Any:
    """Send an alarm, and return the JSON that arrived."""
    provider.reply = web_reply(200, GOOD[kind])
    channel_of(kind, {"ops": robot(kind, provider, **more)}, provider.port).send(alarm or sample_alarm())
    return json.loads(provider.requests[-1].body)


@pytest.mark.parametrize("kind", KINDS)
def test_the_answer_of_success_is_returned_without_the_key(kind: str, provider: WebServer) -> None:
    provider.reply = web_reply(200, GOOD[kind])
    channel = channel_of(kind, {"ops": robot(kind, provider)}, provider.port)
    told = channel.send(sample_alarm())
    assert told.startswith("ops: HTTP 200")
    assert KEY not in told
    (seen,) = provider.requests
    assert seen.method == "POST"
    assert KEY in seen.path
    assert seen.headers["Content-Type"].startswith("application/json")


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_keeps_to_the_contract(kind: str, provider: WebServer) -> None:
    provider.reply = web_reply(200, GOOD[kind])
    check_alarm_channel(channel_of(kind, {"ops": robot(kind, provider)}, provider.port), receivers=["ops"])


def test_dingtalk_is_signed_as_its_document_says(provider: WebServer) -> None:
    """sign = urlencode(base64(hmac_sha256(key=secret, text=timestamp + newline + secret))), milliseconds."""
    before_ms = time.time_ns() // 1_000_000
    body = send("dingtalk", provider, secret=SECRET)
    query = parse_qs(urlsplit(provider.requests[-1].path).query)
    assert query["access_token"] == [KEY]
    (stamp,) = query["timestamp"]
    assert before_ms <= int(stamp) <= time.time_ns() // 1_000_000
    block = hmac.new(SECRET.encode("ascii"), digestmod="sha256")
    block.update(stamp.encode("ascii") + b"\n" + SECRET.encode("ascii"))
    assert base64.b64decode(query["sign"][0]) == block.digest()
    assert "+" not in urlsplit(provider.requests[-1].path).query
    assert body == {
        "msgtype": "text",
        "text": {"content": MESSAGE},
        "at": {"atMobiles": [], "atUserIds": [], "isAtAll": False},
    }
    for _ in range(24):  # every second signature has a plus, which would be read as a space
        send("dingtalk", provider, secret=SECRET)
        assert "+" not in urlsplit(provider.requests[-1].path).query
    send("dingtalk", provider)
    assert provider.requests[-1].path == f"/robot/send?access_token={KEY}"


def test_feishu_is_signed_as_its_document_says(provider: WebServer) -> None:
    """sign = base64(hmac_sha256(key=timestamp + newline + secret, text=nothing)), seconds; both in the body."""
    before_s = int(time.time())
    body = send("feishu", provider, secret=SECRET)
    stamp = body.pop("timestamp")
    assert before_s <= int(stamp) <= int(time.time())
    expected = hmac.digest(f"{stamp}\n{SECRET}".encode("ascii"), b"", hashlib.sha256)
    assert base64.b64decode(body.pop("sign")) == expected
    assert body == {"msg_type": "text", "content": {"text": MESSAGE}}
    assert send("feishu", provider) == body


def test_the_other_kinds_get_what_their_documents_say(provider: WebServer) -> None:
    assert send("wecom", provider) == {
        "msgtype": "text",
        "text": {"content": MESSAGE, "mentioned_list": [], "mentioned_mobile_list": []},
    }
    assert send("slack", provider) == {"text": MESSAGE}
    assert send("telegram", provider) == {
        "chat_id": -1001,
        "text": MESSAGE,
        "link_preview_options": {"is_disabled": True},
    }
    assert provider.requests[-1].path == f"/bot123456:{KEY}/sendMessage"
    assert send("telegram", provider, chat="@alarms")["chat_id"] == "@alarms"


def test_mentions_come_from_the_options_and_from_the_rule(provider: WebServer) -> None:
    alarm = sample_alarm(receivers=("@13800001111", "@li.lei", "@all", "ops"))
    body = send("dingtalk", provider, alarm, mention=["han"])
    assert body["at"] == {"atMobiles": ["13800001111"], "atUserIds": ["han", "li.lei"], "isAtAll": True}
    assert body["text"]["content"] == MESSAGE + " @han @13800001111 @li.lei"
    text = send("wecom", provider, alarm, mention=["han"])["text"]
    assert text["mentioned_list"] == ["han", "li.lei", "@all"]
    assert text["mentioned_mobile_list"] == ["13800001111"]
    body = send("feishu", provider, sample_alarm(receivers=("@ou_1", "@all")))
    assert body["content"]["text"] == f'{MESSAGE} <at user_id="ou_1"></at> <at user_id="all"></at>'
    assert send("slack", provider, sample_alarm(receivers=("@U1", "@here")))["text"] == f"{MESSAGE} <@U1> <!here>"
    assert send("telegram", provider, sample_alarm(receivers=("@lilei",)))["text"] == f"{MESSAGE} @lilei"


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "webhook"])
def test_u9_the_default_text_has_the_title_once(kind: str, provider: WebServer) -> None:
    alarm = sample_alarm()
    assert alarm.text.startswith(f"{alarm.title}\n")  # as those of nodes do
    assert json.dumps(send(kind, provider, alarm)).count(alarm.title) == 1


HOSTILE = '</at><at user_id="all"></at> <!channel> <@U1> $(reboot) `id`; "q" \\ {title} *b* &amp;\r\n\x00漢'


def test_the_texts_of_jobs_become_no_mentions_and_stay_as_they_are(provider: WebServer) -> None:
    alarm = sample_alarm(title=HOSTILE, text=f"{HOSTILE}\n")
    assert send("dingtalk", provider, alarm)["text"]["content"] == f"{HOSTILE}\n"
    assert send("dingtalk", provider, alarm)["at"]["isAtAll"] is False
    assert send("wecom", provider, alarm)["text"]["content"] == f"{HOSTILE}\n"
    assert send("telegram", provider, alarm)["text"] == f"{HOSTILE}\n"
    slack = send("slack", provider, alarm)["text"]
    assert "<" not in slack
    assert slack.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&") == f"{HOSTILE}\n"
    feishu = send("feishu", provider, alarm)["content"]["text"]
    assert "<at" not in feishu
    assert feishu.replace("< ", "<") == f"{HOSTILE}\n"
    assert send("webhook", provider, alarm)["title"] == HOSTILE


@pytest.mark.parametrize("unit", ["a", "漢", "😀", '"', "\x01", "\\", "<", "é"])
@pytest.mark.parametrize("kind", KINDS)
def test_long_texts_are_cut_to_what_the_provider_takes(kind: str, unit: str, provider: WebServer) -> None:
    alarm = sample_alarm(text=unit * 60_000)
    more = {} if kind == "webhook" else {"mention": ["13800001111"]}
    body = send(kind, provider, alarm, **more)
    raw = provider.requests[-1].body
    raw.decode("utf-8")
    match kind:
        case "dingtalk":
            text = body["text"]["content"].removesuffix(" @13800001111")
            assert 2500 < len(raw) <= 20_000
        case "feishu":
            text = body["content"]["text"].removesuffix(' <at user_id="13800001111"></at>')
            assert 2500 < len(raw) <= 20_000
        case "wecom":
            text = body["text"]["content"]
            assert 2040 <= len(text.encode()) <= 2048
        case "slack":
            text = body["text"].removesuffix(" <@13800001111>")
            assert len(text) < 20_000
        case "telegram":
            text = body["text"].removesuffix(" @13800001111")
            assert len(body["text"].encode("utf-16-le")) // 2 in {4095, 4096}
        case _:
            text = body["text"]
            assert 7990 <= len(text.encode()) <= 8000
    assert text.endswith("…")
    assert "\ufffd" not in text


BAD: list[tuple[str, int, bytes, str]] = [
    ("dingtalk", 200, b'{"errcode":310000,"errmsg":"sign not match"}', "errcode 310000: sign not match"),
    ("dingtalk", 200, b'{"errcode":false}', "errcode False"),
    ("wecom", 200, b'{"errcode":93000,"errmsg":"invalid webhook url"}', "errcode 93000: invalid webhook url"),
    ("feishu", 200, b'{"code":19021,"msg":"sign match fail"}', "code 19021: sign match fail"),
    ("feishu", 400, b'{"code":9499,"msg":"Bad Request"}', "HTTP 400 code 9499: Bad Request"),
    ("slack", 404, b"no_service", "HTTP 404 no_service"),
    ("slack", 200, b"<html>", "HTTP 200 <html>"),
    ("telegram", 400, b'{"ok":false,"error_code":400,"description":"chat not found"}', "400: chat not found"),
    ("telegram", 200, b'{"ok":1}', "HTTP 200 None: None"),
    ("webhook", 500, b"", "ops: HTTP 500"),
    ("webhook", 302, b"", "ops: HTTP 302"),
    ("dingtalk", 200, b"<html>login</html>", "not the answer of this kind of robot"),
    ("wecom", 200, b"[]", "not the answer of this kind of robot"),
    ("feishu", 500, b"", "HTTP 500: not the answer of this kind of robot"),
    ("telegram", 502, b"Bad Gateway", "HTTP 502 Bad Gateway: not the answer"),
    ("dingtalk", 200, b"[" * 50_000, "not the answer of this kind of robot"),
    ("wecom", 200, b'{"errcode":0,"errmsg":"' + b"x" * 200_000 + b'"}', "not the answer of this kind of robot"),
]


@pytest.mark.parametrize(("kind", "status", "body", "said"), BAD)
def test_the_providers_own_code_decides(kind: str, status: int, body: bytes, said: str, provider: WebServer) -> None:
    provider.reply = web_reply(status, body)
    with pytest.raises(SendError) as told:
        channel_of(kind, {"ops": robot(kind, provider)}, provider.port).send(sample_alarm())
    assert said in str(told.value)
    assert len(str(told.value)) < 400


LATER: list[tuple[str, int, bytes, dict[str, str], float]] = [
    ("dingtalk", 200, b'{"errcode":130101,"errmsg":"send too fast"}', {}, 600),
    ("dingtalk", 429, b"", {"Retry-After": "17"}, 17),
    ("wecom", 200, b'{"errcode":45009,"errmsg":"api freq out of limit"}', {}, 60),
    ("feishu", 200, b'{"code":11232,"msg":"frequency limited"}', {}, 60),
    ("feishu", 429, b'{"code":99991400}', {"Retry-After": "3"}, 3),
    ("slack", 429, b"rate_limited", {"Retry-After": "30"}, 30),
    (
        "telegram",
        429,
        b'{"ok":false,"error_code":429,"description":"Too Many Requests","parameters":{"retry_after":5}}',
        {},
        5,
    ),
    ("telegram", 429, b"{}", {"Retry-After": "9"}, 9),
    ("telegram", 429, b'{"parameters":{"retry_after":NaN}}', {}, 30),
    ("telegram", 429, b'{"parameters":{"retry_after":-1e999}}', {}, 0),
    ("webhook", 429, b"", {}, 30),
    ("webhook", 503, b"", {"Retry-After": "12"}, 12),
    ("webhook", 429, b"", {"Retry-After": "999999999"}, 86_400),
]


@pytest.mark.parametrize(("kind", "status", "body", "headers", "after_s"), LATER)
def test_an_alarm_waits_as_long_as_the_provider_says(
    kind: str, status: int, body: bytes, headers: dict[str, str], after_s: float, provider: WebServer
) -> None:
    provider.reply = web_reply(status, body, headers)
    with pytest.raises(AlarmRetryLater) as told:
        channel_of(kind, {"ops": robot(kind, provider)}, provider.port).send(sample_alarm())
    assert told.value.after_s == after_s


@pytest.mark.parametrize("kind", KINDS)
def test_a_key_that_the_other_side_repeats_is_not_kept(kind: str, provider: WebServer) -> None:
    echo = f"no such robot {KEY} {SECRET}".encode()
    if kind in {"dingtalk", "wecom"}:
        echo = json.dumps({"errcode": 1, "errmsg": echo.decode()}).encode()
    more: dict[str, Any] = {"secret": SECRET} if kind in {"dingtalk", "feishu"} else {}
    if kind == "webhook":
        more["headers"] = {"Authorization": f"Bearer {SECRET}"}
    provider.reply = web_reply(400, echo)
    channel = channel_of(kind, {"ops": robot(kind, provider, **more)}, provider.port)
    with pytest.raises(SendError) as told:
        channel.send(sample_alarm())
    assert KEY not in str(told.value)
    assert "no such robot ***" in str(told.value)
    assert SECRET not in str(told.value) or kind in {"wecom", "slack", "telegram"}
    assert KEY not in repr(channel) + repr(vars(channel)["_robots"])


def test_a_webhook_is_what_its_options_say(provider: WebServer) -> None:
    body = send("webhook", provider)
    assert body == {
        "id": 7,
        "kind": "failed",
        "time": "2026-01-01 00:00:01 UTC",
        "title": "nightly report failed",
        "text": sample_alarm().text,
        "reason": "disk is full",
        "count": 1,
        "job": "nightly report",
        "job_id": "1",
        "group": "shop",
        "run_id": "100",
    }
    form = {
        "url": provider.url,
        "method": "PUT",
        "content_type": "application/x-www-form-urlencoded",
        "body": "a={title}&b={text}&c=1",
        "headers": {"X-Key": KEY},
        "expect": "thanks",
    }
    channel = channel_of("webhook", {"ops": form}, provider.port)
    channel.send(sample_alarm(title="a&b=c +%"))
    seen = provider.requests[-1]
    assert seen.method == "PUT"
    assert seen.headers["X-Key"] == KEY
    assert parse_qs(seen.body.decode()) == {"a": ["a&b=c +%"], "b": [sample_alarm().text], "c": ["1"]}
    provider.reply = web_reply(200, b"no")
    with pytest.raises(SendError, match="HTTP 200 no: the answer does not hold what expect names"):
        channel.send(sample_alarm())
