"""Options of plugins are checked strictly; a mistake names its key and what is allowed, and shows no secret."""

from __future__ import annotations

from datetime import date
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import Field, SecretStr

from xwheel.config import build_config
from xwheel.errors import ConfigError
from xwheel.plugin import PluginOptions, read_options
from xwheel.plugin.options import MASK, shown_options


class Robot(PluginOptions):
    url: SecretStr
    key: SecretStr | None = None
    key_file: Path | None = None


class Signed(PluginOptions):
    required_secrets = ("key",)
    key: SecretStr | None = None
    key_file: Path | None = None


class Mail(PluginOptions):
    host: str
    port: int = Field(25, ge=1, le=65_535)
    timeout_s: float = 3
    tls: Literal["none", "starttls", "implicit"] = "implicit"
    receivers: tuple[str, ...] = ()
    ca_file: Path | None = None
    password: SecretStr | None = None
    password_file: Path | None = None
    robots: dict[str, Robot] = Field(default_factory=dict)
    signed: Signed | None = None


def read(**options: Any) -> Mail:
    config = build_config({"plugins": {"options": {"mail": options}}})
    return read_options(config, "mail", Mail)


def test_a_good_table_becomes_the_model() -> None:
    found = read(host="h", port=465, timeout_s=2, receivers=["a", "b"], ca_file="/ca.pem", robots={"ops": {"url": "u"}})
    assert (found.port, found.timeout_s, found.receivers) == (465, 2.0, ("a", "b"))
    assert found.ca_file == Path("/ca.pem")
    assert found.robots["ops"].url.get_secret_value() == "u"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "plugins.options.mail.host is missing"),
        ({"host": 5}, "plugins.options.mail.host: must be a text"),
        ({"host": "h", "port": "25"}, "mail.port: must be a whole number"),
        ({"host": "h", "port": True}, "mail.port: must be a whole number"),
        ({"host": "h", "port": 0}, "mail.port: must be greater than or equal to 1"),
        ({"host": "h", "timeout_s": float("nan")}, "mail.timeout_s: must be a finite number"),
        ({"host": "h", "tls": "ssl"}, "mail.tls: must be 'none', 'starttls' or 'implicit'"),
        ({"host": "h", "receivers": "a"}, "mail.receivers: must be a list"),
        ({"host": "h", "receivers": ["a", 5]}, "mail.receivers.1: must be a text"),
        ({"host": "h", "prot": 25}, "mail.prot is not an option; did you mean port? known: ca_file, host, "),
        ({"host": "h", "zebra": 25}, "mail.zebra is not an option; known: ca_file, host, "),
        ({"host": "h", "robots": {"ops": {}}}, "mail.robots.ops.url is missing"),
        ({"host": "h", "robots": {"ops": {"url": "u", "kye": "x"}}}, "ops.kye is not an option; did you mean key?"),
        ({"host": "h", "signed": {}}, "plugins.options.mail.signed: key or key_file is missing"),
        ({"host": "h", "robots": [1]}, "mail.robots: must be a table"),
        ({"host": date(2026, 1, 1)}, "plugins.options.mail may hold texts, numbers, "),
    ],
)  # fmt: skip
def test_a_wrong_option_is_named_with_what_is_allowed(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read(**options)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_every_mistake_is_named_at_once() -> None:
    with pytest.raises(ConfigError, match="host is missing; .*mail.port: "):
        read(port="x")


def test_a_secret_may_stand_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "pass {word}"
    path.write_text("hush hush\n")
    found = read(host="h", password_file=str(path), robots={"a": {"url": "u", "key_file": str(path)}})
    assert found.password is not None
    assert found.password.get_secret_value() == "hush hush"
    robot = found.robots["a"]
    assert robot.key is not None
    assert robot.key.get_secret_value() == "hush hush"
    assert "hush" not in repr(found)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "mail: password_file: cannot read .*: No such file or directory"),
        (b" \n", "must hold a secret of 1 to"),
        (b"\xff\xfe", "holds no UTF-8 text"),
        (b"x" * 70_000, "must hold a secret of 1 to 65536 bytes"),
    ],
)
def test_a_file_without_a_secret_is_refused(tmp_path: Path, content: bytes | None, words: str) -> None:
    path = tmp_path / "secret {braces}"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError, match=words):
        read(host="h", password_file=str(path))


def test_a_secret_is_given_once_and_never_shown(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_text("hush")
    with pytest.raises(ConfigError, match="robots.a: give key or key_file, not both") as caught:
        read(host="h", robots={"a": {"url": "u", "key": "hush", "key_file": str(path)}})
    assert "hush" not in str(caught.value)
    with pytest.raises(ConfigError) as caught:
        read(host="h", password=["hush"], robots={"a": {"url": {"hush": 1}}})
    assert "hush" not in str(caught.value)


class Mode(StrEnum):
    FAST = "fast"


class Place(PluginOptions):
    dsn: str = "db://user:hunter2@host"
    nodes: tuple[str, ...] = ("a",)
    public = ("nodes",)


class Foreign(PluginOptions):
    """A plugin of others, which calls its secrets as it likes."""

    public = ("title", "headers", "passphrase")

    url: str = "https://user:hunter2@host"
    private_key: str = "-----BEGIN"
    passphrase: str = "hunter2"
    given: SecretStr = SecretStr("hunter2")
    many: dict[str, list[str]] = Field(default_factory=lambda: {"a": ["hunter2"]})
    anything: Any = date(2026, 1, 1)
    title: str = "Shouts"
    headers: dict[str, str] = Field(default_factory=lambda: {"Authorization": "hunter2", "X-Kind": "a"})
    limit: int = 5
    share: float = 0.5
    on: bool = True
    nothing: str | None = None
    empty: str = ""
    mode: Mode = Mode.FAST
    index: Literal["none"] | str = "none"
    key_file: Path = Path("/etc/key")
    place: Place = Place()
    places: dict[str, Place] = Field(default_factory=lambda: {"x": Place()})


def test_s29_texts_are_hidden_unless_they_are_declared_public() -> None:
    """S29: ``url``, ``dsn``, ``private_key`` and ``passphrase`` of plugins of others were shown."""
    place = {"dsn": MASK, "nodes": ["a"]}
    assert shown_options(Foreign(), {}) == {
        **dict.fromkeys(("url", "private_key", "passphrase", "given", "anything"), MASK),
        "many": {"a": [MASK]},
        "title": "Shouts",
        "headers": {"Authorization": MASK, "X-Kind": "a"},
        "limit": 5,
        "share": 0.5,
        "on": True,
        "nothing": None,
        "empty": "",
        "mode": "fast",
        "index": "none",
        "key_file": "/etc/key",
        "place": place,
        "places": {"x": place},
    }
    assert shown_options(Foreign(index="https://user:hunter2@host"), {})["index"] == MASK
