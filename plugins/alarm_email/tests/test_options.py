"""The plugin's options, and what the core sees of it."""

from __future__ import annotations

from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest
from conftest import PASSWORD, register
from xwheel import Config
from xwheel.plugin import ConfigError

import xwheel_alarm_email
from xwheel_alarm_email import xwheel_register_alarms

GOOD: dict[str, Any] = {"host": "mail.example.com", "sender": "x@example.com"}


def test_the_entry_point_registers_a_channel_where_options_are_given() -> None:
    (entry,) = {entry for entry in entry_points(group="xwheel") if entry.name == "alarm_email"}
    assert entry.load() is xwheel_alarm_email
    assert list(xwheel_register_alarms(Config())) == []
    (channel,) = register(**GOOD)
    assert channel.name == "email"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"host": "h"}, "plugins.options.alarm_email.sender is missing"),
        ({"sender": "a@b.c"}, "plugins.options.alarm_email.host is missing"),
        (GOOD | {"hots": "h"}, "plugins.options.alarm_email.hots is not an option; did you mean host"),
        (GOOD | {"port": "25"}, "plugins.options.alarm_email.port: must be a whole number"),
        (GOOD | {"port": 0}, "plugins.options.alarm_email.port: must be greater than or equal to 1"),
        (GOOD | {"security": "ssl"}, "plugins.options.alarm_email.security: must be 'tls', 'starttls' or 'plain'"),
        (GOOD | {"sender": "nobody"}, "plugins.options.alarm_email.sender: must be an address"),
        (GOOD | {"receivers": "a@b.c"}, "plugins.options.alarm_email.receivers: must be a list"),
        (GOOD | {"receivers": ["a@b.c", "x"]}, "plugins.options.alarm_email.receivers: must be an address"),
        (GOOD | {"subject": "{job.name}"}, r"alarm_email.subject: \{job.name\} is no placeholder; .*known: id, kind"),
        (GOOD | {"html": "{titl}"}, r"alarm_email.html: \{titl\} is no placeholder; did you mean \{title\}\?"),
        (GOOD | {"sender_name": "a\nb"}, "alarm_email.sender_name: "),
        (GOOD | {"host": "a b"}, "alarm_email.host: "),
        (GOOD | {"timeout_s": 61}, "alarm_email.timeout_s: must be less than or equal to 60"),
        (GOOD | {"username": "u"}, "alarm_email: username and password .* belong together"),
        (GOOD | {"password": PASSWORD}, "alarm_email: username and password .* belong together"),
        (
            GOOD | {"username": "u", "password": PASSWORD, "security": "plain"},
            "alarm_email: security 'plain' would show the password",
        ),
        (GOOD | {"password": 5}, "alarm_email.password: must be a text"),
        (GOOD | {"ca_file": "/nowhere/ca.pem"}, "ca_file: /nowhere/ca.pem must be a file of PEM .*: No such file"),
        (GOOD | {"username": "u", "password_file": "/nowhere"}, "password_file: cannot read /nowhere: No such file"),
    ],
)
def test_an_option_that_cannot_be_stops_the_start(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        register(**options)
    assert PASSWORD not in str(caught.value)


def test_a_file_without_certificates_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "ca.pem"
    path.write_text("nothing")
    with pytest.raises(ConfigError, match="must be a file of PEM certificates"):
        register(**GOOD, ca_file=str(path))


def test_the_password_may_come_from_a_file_and_is_never_shown(tmp_path: Path) -> None:
    path = tmp_path / "password"
    path.write_text(f"{PASSWORD}\n")
    (channel,) = register(**GOOD, username="u", password_file=str(path))
    options = channel._options
    assert options.password is not None
    assert options.password.get_secret_value() == PASSWORD
    assert PASSWORD not in f"{options!r} {options} {channel!r} {vars(channel)}"
    with pytest.raises(ConfigError, match="give password or password_file, not both"):
        register(**GOOD, username="u", password=PASSWORD, password_file=str(path))


@pytest.mark.parametrize(("security", "port"), [("tls", 465), ("starttls", 587), ("plain", 25)])
def test_ports_follow_the_security(security: str, port: int) -> None:
    (channel,) = register(**GOOD, security=security)
    assert channel._options.port_number == port
    (channel,) = register(**GOOD, security=security, port=2525)
    assert channel._options.port_number == 2525
