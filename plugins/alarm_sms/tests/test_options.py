"""The plugin's options, numbers, and what the core sees of it."""

from __future__ import annotations

from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest
from conftest import SECRET, register
from hypothesis import given
from hypothesis import strategies as st
from xwheel import Config
from xwheel.plugin import ConfigError

import xwheel_alarm_sms
from xwheel_alarm_sms import xwheel_register_alarms
from xwheel_alarm_sms.numbers import parse_number
from xwheel_alarm_sms.throttle import MAX_NUMBERS, Throttle

URL = {"url": "https://sms.example.com/send"}
ALIYUN = {"access_key_id": "a", "access_key_secret": SECRET, "sign_name": "s", "template_code": "t"}


def test_the_entry_point_registers_a_channel_where_options_are_given() -> None:
    (entry,) = {entry for entry in entry_points(group="xwheel") if entry.name == "alarm_sms"}
    assert entry.load() is xwheel_alarm_sms
    assert list(xwheel_register_alarms(Config())) == []
    for options in ({"gateway": URL}, {"aliyun": ALIYUN}):
        (channel,) = register(**options)
        assert channel.name == "sms"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"per_number": 1}, "alarm_sms: give one of the tables gateway and aliyun"),
        ({"gateway": URL, "aliyun": ALIYUN}, "alarm_sms: give one of the tables gateway and aliyun"),
        ({"gatewayy": URL}, "plugins.options.alarm_sms.gatewayy is not an option; did you mean gateway"),
        ({"gateway": {}}, "plugins.options.alarm_sms.gateway.url is missing"),
        ({"gateway": URL | {"bdy": {}}}, "alarm_sms.gateway.bdy is not an option; did you mean body"),
        ({"gateway": URL | {"method": "DELETE"}}, "gateway.method: must be 'GET', 'POST' or 'PUT'"),
        ({"gateway": {"url": "ftp://x.example.com"}}, "alarm_sms.gateway: the URL must begin with http"),
        ({"gateway": {"url": "http://10.0.0.1/"}}, "alarm_sms.gateway: .*private; egress.allow_networks"),
        ({"gateway": {"url": "http://x.example.com:8080/"}}, "alarm_sms.gateway: .*egress.allow_ports"),
        ({"gateway": {"url": "https://x.example.com/{nr}"}}, r"gateway.url: \{nr\} is no placeholder"),
        ({"gateway": URL | {"query": {"a": "{job.id}"}}}, r"gateway.query: \{job.id\} is no placeholder"),
        ({"gateway": URL | {"body": {"a": [{"b": "{x}"}]}}}, r"gateway.body: \{x\} is no placeholder"),
        ({"gateway": URL | {"body": {"a": [[[[[["x"]]]]]]}}}, "gateway.body: may be 5 tables and lists deep"),
        (
            {"gateway": URL | {"headers": {"A": "{title}"}}},
            r"headers: \{title\} may not stand in a header; \{digits\},",
        ),
        ({"gateway": URL | {"headers": {"Host": "x"}}}, "alarm_sms.gateway: the header Host is set by the client"),
        ({"gateway": URL | {"headers": {"A": "x\ny"}}}, "alarm_sms.gateway: the header A must be one line"),
        ({"gateway": URL | {"headers": {"A b": "x"}}}, "gateway.headers: a name of a header"),
        ({"gateway": URL | {"method": "GET", "body": {"a": "b"}}}, "gateway: method GET has no body"),
        ({"gateway": URL | {"body_type": "form", "body": {"a": 1}}}, "gateway: body of a form may hold texts only"),
        ({"gateway": URL | {"success_field": "a"}}, "gateway: success_field and success_values belong together"),
        ({"gateway": URL | {"body": {"k": "{secret}"}}}, r"gateway: \{secret\} is used, but neither secret nor"),
        ({"gateway": URL | {"secret_file": "/nowhere"}}, "secret_file: cannot read /nowhere"),
        ({"gateway": URL, "receivers": ["12"]}, "alarm_sms.receivers: must be a number such as"),
        ({"gateway": URL, "text": "{number}"}, r"alarm_sms.text: \{number\} is no placeholder"),
        ({"gateway": URL, "per_number": 0}, "alarm_sms.per_number: must be greater than or equal to 1"),
        ({"gateway": URL, "timeout_s": "5"}, "alarm_sms.timeout_s: must be a valid number"),
        ({"aliyun": {"access_key_id": "a"}}, "alarm_sms.aliyun.sign_name is missing"),
        ({"aliyun": ALIYUN | {"params": {"a": "{secret}"}}}, r"aliyun.params: \{secret\} has no place in a message"),
        ({"aliyun": ALIYUN | {"access_key_secret": None}}, "aliyun: access_key_secret or .*_file is missing"),
        ({"aliyun": ALIYUN | {"access_key_secret_file": "/x"}}, "aliyun: give access_key_secret or .*, not both"),
        ({"aliyun": ALIYUN | {"params": {"a": 1}}}, "aliyun.params.a: must be a text"),
        ({"aliyun": ALIYUN | {"endpoint": "https://x/y"}}, "aliyun.endpoint: "),
        ({"aliyun": ALIYUN | {"endpoint": "https://127.0.0.1"}}, "alarm_sms.aliyun: .*egress.allow_networks"),
    ],
)
def test_an_option_that_cannot_be_stops_the_start(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        register(**options)
    assert SECRET not in str(caught.value)


def test_secrets_may_come_from_files_and_are_never_shown(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_text(f"{SECRET}\n")
    without = {name: value for name, value in ALIYUN.items() if name != "access_key_secret"}
    for options in (
        {
            "gateway": {
                "url": f"https://sms.example.com/{SECRET}",
                "query": {"key": SECRET},
                "headers": {"X-Key": SECRET},
                "body": {"key": SECRET},
                "secret_file": str(path),
            }
        },
        {"aliyun": without | {"access_key_secret_file": str(path)}},
    ):
        (channel,) = register(**options)
        call = channel._provider.call({}, "+4915112345678")
        found = channel._options
        assert SECRET not in f"{channel!r} {found!r} {found} {found.model_dump(mode='json')} {call!r}"
        inner = found.gateway or found.aliyun
        held = getattr(inner, "secret", None) or getattr(inner, "access_key_secret", None)
        assert held is not None
        assert held.get_secret_value() == SECRET


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("+4915112345678", "+4915112345678"),
        (" +49 (151) 123-456.78 ", "+4915112345678"),
        ("13900001111", "13900001111"),
        ("110", "110"),
    ],
)
def test_numbers(text: str, found: str) -> None:
    assert parse_number(text) == found


@pytest.mark.parametrize(
    "text", ["", "+", "12", "+0123456789", "+123456", "1" * 16, "+1" * 3, "12a45", "١٢٣٤٥", "+49151\n1234567"]
)
def test_what_is_no_number(text: str) -> None:
    with pytest.raises(ValueError, match="must be a number"):
        parse_number(text)


@given(st.text(alphabet=st.sampled_from("+0123456789 -().\n,;&=x１")))
def test_an_accepted_number_is_a_plus_and_digits(text: str) -> None:
    try:
        found = parse_number(text)
    except ValueError as error:
        refused = error
    else:
        assert set(found.removeprefix("+")) <= set("0123456789")
        assert 3 <= len(found) <= 16
        return
    assert str(refused).startswith("must be a number")


def test_the_throttle_remembers_a_bounded_number_of_numbers() -> None:
    throttle = Throttle(1, 60, lambda: 0.0)
    for number in range(MAX_NUMBERS + 1):
        throttle.note(str(number))
    assert not throttle.is_full("0")
    assert throttle.is_full("1")
