"""Aliyun's SendSms against a server that checks signatures with code written from the provider's document.

The document: "Request syntax and signature method V3" of the Alibaba Cloud SDK, whose worked example is the first test.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qs

import pytest
from conftest import NUMBER, SECRET, alarm_of, register
from xwheel_alarms import AlarmRetryLater
from xwheel_devtools.testing import WebRequest, WebServer, web_reply

from xwheel_alarm_sms import SmsChannel, SmsError

TAKEN = {"Code": "OK", "Message": "OK", "BizId": "9006^0", "RequestId": "F655A8D5"}
UNRESERVED = set(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~")


def percent(text: str) -> str:
    return "".join(chr(byte) if byte in UNRESERVED else f"%{byte:02X}" for byte in text.encode())


def signature_of(method: str, target: str, headers: Mapping[str, str], body: bytes, names: str, secret: str) -> str:
    """Return the signature that the document asks for."""
    path, _, query = target.partition("?")
    pairs = sorted((name, values[0]) for name, values in parse_qs(query, keep_blank_values=True).items())
    lower = {name.lower(): value.strip() for name, value in headers.items()}
    canonical = [
        method,
        path,
        "&".join(f"{percent(name)}={percent(value)}" for name, value in pairs),
        *(f"{name}:{lower[name]}" for name in names.split(";")),
        "",
        names,
        hashlib.new("sha256", body).hexdigest(),
    ]
    hashed = hashlib.new("sha256", "\n".join(canonical).encode()).hexdigest()
    return hmac.digest(secret.encode(), b"ACS3-HMAC-SHA256\n" + hashed.encode(), "sha256").hex()


def test_the_checking_code_agrees_with_the_documents_example() -> None:
    headers = {
        "host": "ecs.cn-shanghai.aliyuncs.com",
        "x-acs-action": "RunInstances",
        "x-acs-content-sha256": "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        "x-acs-date": "2023-10-26T10:22:32Z",
        "x-acs-signature-nonce": "3156853299f313e23d1673dc12e1703d",
        "x-acs-version": "2014-05-26",
    }
    target = "/?ImageId=win2019_1809_x64_dtc_zh-cn_40G_alibase_20230811.vhd&RegionId=cn-shanghai"
    found = signature_of("POST", target, headers, b"", ";".join(sorted(headers)), "YourAccessKeySecret")
    assert found == "06563a9e1b43f5dfe96b81484da74bceab24a1d853912eee15083a6f0f3283c0"


class Provider:
    """Answers as the service does: it refuses what is not signed by the account."""

    def __init__(self, answer: Any = TAKEN, status: int = 200) -> None:
        self.answer, self.status = answer, status
        self.nonces: list[str] = []

    def __call__(self, handler: Any, seen: WebRequest) -> None:
        found = re.fullmatch(
            r"ACS3-HMAC-SHA256 Credential=LTAItest,SignedHeaders=([a-z0-9;-]+),Signature=([0-9a-f]{64})",
            seen.headers.get("Authorization", ""),
        )
        lower = {name.lower(): value for name, value in seen.headers.items()}
        must = {"host", *(name for name in lower if name.startswith("x-acs-"))}
        if (
            found is None
            or not must <= set(found[1].split(";"))
            or lower["x-acs-content-sha256"] != hashlib.sha256(seen.body).hexdigest()
            or abs(datetime.now(UTC) - datetime.fromisoformat(lower["x-acs-date"])) > timedelta(minutes=15)
            or signature_of(seen.method, seen.path, seen.headers, seen.body, found[1], SECRET) != found[2]
        ):
            web_reply(400, {"Code": "SignatureDoesNotMatch", "Message": "no"})(handler, seen)
            return
        self.nonces.append(lower["x-acs-signature-nonce"])
        web_reply(self.status, self.answer)(handler, seen)


def channel_to(web: WebServer, secret: str = SECRET, **options: Any) -> SmsChannel:
    aliyun = {
        "access_key_id": "LTAItest",
        "access_key_secret": secret,
        "sign_name": "示例 & Co",
        "template_code": "SMS_123456",
        "params": {"what": "{title}", "kind": "{kind}", "nothing": "{job}"},
        "endpoint": web.url,
    }
    return register(egress=web.egress, aliyun=aliyun | options, timeout_s=60)[0]


def query_of(seen: WebRequest) -> dict[str, str]:
    found = parse_qs(seen.path.partition("?")[2], keep_blank_values=True, strict_parsing=True)
    return {name: value for name, (value,) in found.items()}


def test_a_message_is_signed_and_taken(web: WebServer) -> None:
    web.reply = provider = Provider()
    answer = channel_to(web).send(alarm_of(receivers=["+8613900001111", NUMBER], job=None))
    assert answer == f"sent to +8613900001111: OK, BizId 9006^0; sent to {NUMBER}: OK, BizId 9006^0"
    first, second = web.requests
    lower = {name.lower(): value for name, value in first.headers.items()}
    assert (first.method, lower["x-acs-action"], lower["x-acs-version"]) == ("POST", "SendSms", "2017-05-25")
    query = query_of(first)
    params = json.loads(query.pop("TemplateParam"))
    assert params == {"what": "nightly report failed", "kind": "failed", "nothing": "-"}
    assert query == {"OutId": "7", "PhoneNumbers": "13900001111", "SignName": "示例 & Co", "TemplateCode": "SMS_123456"}
    assert query_of(second)["PhoneNumbers"] == "4915112345678"
    assert len(set(provider.nonces)) == 2


def test_another_secret_is_refused(web: WebServer) -> None:
    web.reply = Provider()
    with pytest.raises(SmsError, match="Aliyun answered 400 SignatureDoesNotMatch: no$") as caught:
        channel_to(web, secret="other").send(alarm_of())
    assert "other" not in str(caught.value)


@pytest.mark.parametrize(
    "title", ["a+b c*d~e/f?g=h&i%20", "任务 \U0001f514 é", "$(id) `x` \" ' \\ {what} <b>", "\x00\r\n\x7f"]
)
def test_any_title_arrives_as_it_was_signed(web: WebServer, title: str) -> None:
    web.reply = Provider()
    channel_to(web, params={"what": "{title}"}).send(alarm_of(title=title))
    expected = " ".join(title.translate({0: " ", 127: " "}).split())
    assert json.loads(query_of(web.requests[0])["TemplateParam"]) == {"what": expected or "-"}


def test_variables_are_one_line_of_limited_length(web: WebServer) -> None:
    web.reply = Provider()
    channel_to(web, params={"a": "{title}", "b": "x {text}"}, max_param_length=10).send(
        alarm_of(title="任" * 50, text="one\ntwo\tthree")
    )
    assert json.loads(query_of(web.requests[0])["TemplateParam"]) == {"a": "任" * 10, "b": "x one two "}


def test_a_template_without_variables_gets_none(web: WebServer) -> None:
    web.reply = Provider()
    channel_to(web, params={}).send(alarm_of())
    assert "TemplateParam" not in query_of(web.requests[0])


@pytest.mark.parametrize(
    ("status", "answer", "words", "later"),
    [
        (200, {"Code": "isv.MOBILE_NUMBER_ILLEGAL", "Message": "bad"}, "200 isv.MOBILE_NUMBER_ILLEGAL: bad", False),
        (200, {"Code": "isv.BUSINESS_LIMIT_CONTROL", "Message": "day"}, "200 isv.BUSINESS_LIMIT_CONTROL: day", True),
        (400, {"Code": "Throttling.User", "Message": "slow"}, "400 Throttling.User: slow", True),
        (503, {"Code": "ServiceUnavailable", "Message": "x"}, "503 ServiceUnavailable: x", True),
        (404, {"Code": "InvalidAccessKeyId.NotFound", "Message": "no"}, "404 InvalidAccessKeyId.NotFound: no", False),
        (500, b"<html>", "500 <html>", False),
        (503, b"<html>", "503 <html>", True),
        (200, ["OK"], '200 ["OK"]', False),
        (500, TAKEN, "500 OK: OK", False),
    ],
)
def test_a_refusal_is_reported_with_the_providers_code(
    web: WebServer, status: int, answer: Any, words: str, later: bool
) -> None:
    web.reply = Provider(answer, status)
    with pytest.raises(AlarmRetryLater if later else SmsError) as caught:
        channel_to(web).send(alarm_of())
    assert str(caught.value) == f"not sent to {NUMBER}: Aliyun answered {words}"
    if isinstance(caught.value, AlarmRetryLater):
        assert caught.value.after_s == 60


def test_the_usual_endpoint_signs_its_bare_host() -> None:
    web_options = {"access_key_id": "a", "access_key_secret": SECRET, "sign_name": "s", "template_code": "t"}
    for endpoint, host in {
        "https://dysmsapi.aliyuncs.com": "dysmsapi.aliyuncs.com",
        "https://dysmsapi.aliyuncs.com:443": "dysmsapi.aliyuncs.com",
        "http://dysmsapi.aliyuncs.com:443": "dysmsapi.aliyuncs.com:443",
    }.items():
        (channel,) = register(aliyun=web_options | {"endpoint": endpoint})
        call = channel._provider.call({}, NUMBER)
        assert call.url.startswith(f"{endpoint}/?OutId=&PhoneNumbers=4915112345678&")
        names, found = re.findall(r"SignedHeaders=(.*),Signature=(.*)", call.headers["Authorization"])[0]
        target = call.url.removeprefix(endpoint)
        assert found == signature_of("POST", target, {**call.headers, "host": host}, b"", names, SECRET)
