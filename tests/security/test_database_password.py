"""Finding S11: the password of the database from a file or the environment, and a warning where others see it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from xwheel.config import Config, build_config, load_config
from xwheel.errors import ConfigError
from xwheel.storage.database.address import parse, with_password

URL = "mysql+pymysql://xwheel@127.0.0.1:1/xwheel"
PASSWORD = "p@ss/w%rd:1"


def config(**database: Any) -> Config:
    return build_config({"database": {"url": URL, **database}})


def test_s11_a_password_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "password"
    path.write_text(f"{PASSWORD}\r\nnot this\n")
    found = parse(with_password(config(password_file=path).database))
    assert (found.password, found.username, found.port) == (PASSWORD, "xwheel", 1)


def test_s11_a_password_from_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XWHEEL_DATABASE__URL", URL)
    monkeypatch.setenv("XWHEEL_DATABASE__PASSWORD", PASSWORD)
    monkeypatch.setenv("XWHEEL_DATABASE__PASSWORD_FILE", str(tmp_path / "missing"))
    found = load_config()
    assert parse(with_password(found.database)).password == PASSWORD
    assert PASSWORD not in repr(found)


@pytest.mark.parametrize("url", ["sqlite:///x.db", "mysql+pymysql://xwheel:own@127.0.0.1/xwheel"])
def test_s11_a_url_that_needs_none_stays_as_it_is(url: str) -> None:
    assert with_password(config(url=url, password=PASSWORD).database) == url


@pytest.mark.parametrize(("content", "words"), [(None, "cannot read"), (b"", "empty"), (b"\xff", "not UTF-8")])
def test_s11_a_file_that_does_not_do_is_named(tmp_path: Path, content: bytes | None, words: str) -> None:
    path = tmp_path / "password"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError, match=f"database.password_file: .*{words}"):
        with_password(config(password_file=path).database)


@pytest.mark.parametrize("words", [("server",), ("db", "check"), ("db", "upgrade"), ("token", "list")])
@pytest.mark.parametrize("password", ["", f":{'x' * 20}"])
def test_s11_a_password_on_the_command_line_is_warned_of(words: tuple[str, ...], password: str) -> None:
    url = URL.replace("xwheel@", f"xwheel{password}@") + "?connect_timeout=1"
    done = subprocess.run(
        [sys.executable, "-m", "xwheel", *words, "--database", url],
        capture_output=True,
        text=True,
        check=False,
        env={"XWHEEL_DATABASE__WAIT_S": "0", "PATH": "/usr/bin:/bin"},
    )
    assert done.returncode != 0
    assert done.stderr.count("XWHEEL_DATABASE__PASSWORD") == bool(password)
    assert "x" * 20 not in done.stderr
