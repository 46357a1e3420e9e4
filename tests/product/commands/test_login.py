"""Finding U8: no token is copied by hand; a login gets one, keeps it for this user alone, and sends it to one node."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from xwheel_devtools.testing.web import WebServer, web_reply

from tests.integration.test_cli_apply import Shell, xwheel
from xwheel.cli import main
from xwheel.cli.connection import logins_file
from xwheel.private_files import write_text

__all__ = ["xwheel"]  # the fixture of the neighbour

Say = Callable[[str], None]


@pytest.fixture
def url(xwheel: Shell, monkeypatch: pytest.MonkeyPatch) -> str:
    """A node whose settings stand in the environment, as in its own folder; nothing else names it or a token."""
    client = xwheel.node()
    found = client.base_url
    monkeypatch.delenv("XWHEEL_URL")
    monkeypatch.delenv("XWHEEL_TOKEN")
    monkeypatch.setenv("XWHEEL_API__PORT", found.rpartition(":")[2])
    monkeypatch.setenv("XWHEEL_DATABASE__URL", xwheel.database)
    return found


@pytest.fixture
def say(monkeypatch: pytest.MonkeyPatch) -> Say:
    return lambda line: monkeypatch.setattr("sys.stdin", io.StringIO(f"{line}\n"))


def tokens(xwheel: Shell) -> dict[str, str]:
    """Return the logins' tokens by URL."""
    return {url: one["token"] for url, one in json.loads(logins_file().read_bytes())["nodes"].items()}


def test_u8_a_login_on_the_nodes_machine_needs_no_token(xwheel: Shell, url: str) -> None:
    status, out, err = xwheel("login")
    assert (status, err) == (0, "")
    assert out.startswith(f"commands talk to {url} with the token login-")
    assert xwheel("group", "create", "orders")[0] == 0
    assert xwheel("group", "list", "--json")[0] == 0
    (token,) = tokens(xwheel).values()
    assert token not in out
    # the next login ends the token of the one before, so that they do not pile up
    assert xwheel("login")[0] == 0
    assert len(json.loads(xwheel("token", "list", "--json")[1])) == 2


def test_u8_the_file_is_for_this_user_alone(xwheel: Shell, url: str) -> None:
    old = os.umask(0)
    try:
        assert xwheel("login")[0] == 0
    finally:
        os.umask(old)
    path = logins_file()
    assert [item.stat().st_mode & 0o777 for item in (path, path.parent)] == [0o600, 0o700]
    assert [item.name for item in path.parent.iterdir()] == [path.name]
    path.chmod(0o644)
    status, _, err = xwheel("group", "list")
    assert (status, f"chmod 600 {path}" in err) == (main.EXIT_CONFIG, True)


def test_u8_a_token_goes_only_where_it_is_from(xwheel: Shell, url: str, say: Say) -> None:
    assert xwheel("login")[0] == 0
    with WebServer(web_reply(200, {"paused_since_ms": None, "items": [], "next": None})) as other:
        status, _, err = xwheel("group", "list", "--url", other.url)
        assert (status, other.requests) == (main.EXIT_CONFIG, [])
        assert f"a management token for {other.url} is needed" in err
        assert f"there are logins for {url}" in err
        say("its-own-token")
        assert xwheel("login", "--url", f"{other.url}/")[0] == 0
        assert xwheel("group", "list")[0] == 0  # the latest login counts
        assert {item.headers["Authorization"] for item in other.requests} == {"Bearer its-own-token"}
        count = len(other.requests)
        assert xwheel("group", "list", "--url", url)[0] == 0
        assert len(other.requests) == count


def test_u8_what_does_not_work_is_not_kept(xwheel: Shell, url: str, say: Say) -> None:
    say("a-wrong-one")
    status, out, err = xwheel("login", "--url", url)
    assert (status, out, logins_file().exists()) == (main.EXIT_FAILED, "", False)
    assert f"{url} does not know this token" in err
    with WebServer(web_reply(200, {"code": 500})) as executor_api:
        say("a-wrong-one")
        status, _, err = xwheel("login", "--url", executor_api.url)
    assert (status, "has no management API" in err) == (main.EXIT_CONFIG, True)
    say("")
    assert "holds no token" in xwheel("login", "--url", url)[2]
    assert not logins_file().exists()


def test_u8_a_node_with_another_database_is_told_apart(
    xwheel: Shell, url: str, new_database: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("xwheel_commands.login.SOON_S", 0)
    status, _, err = xwheel("login", "--database", new_database())
    assert (status, "it uses another one; name its settings" in err) == (main.EXIT_CONFIG, True)
    assert not logins_file().exists()


def test_u8_a_folder_without_a_node_is_said_and_stays_empty(
    xwheel: Shell, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    monkeypatch.chdir(empty)
    monkeypatch.delenv("XWHEEL_DATABASE__URL")
    status, _, err = xwheel("login")
    assert (status, f"there is no {empty / 'xwheel.db'}" in err) == (main.EXIT_CONFIG, True)
    status, _, err = xwheel("login", ".")
    assert (status, "no embedded scheduler has started in ." in err) == (main.EXIT_CONFIG, True)
    assert list(empty.iterdir()) == []


def test_u8_logins_are_listed_and_forgotten(xwheel: Shell, url: str, tmp_path: Path, say: Say) -> None:
    assert xwheel("login")[0] == 0
    with WebServer(web_reply(200, {"paused_since_ms": None})) as other:
        file = tmp_path / "token"
        write_text(file, "another-token\n")
        assert xwheel("login", "--url", other.url, "--token-file", str(file))[0] == 0
        listed = json.loads(xwheel("login", "--list", "--json")[1])
        assert [(item["url"], item["latest"], item["token_file"]) for item in listed] == [
            (url, False, ""), (other.url, True, str(file)),
        ]  # fmt: skip
        assert tokens(xwheel)[other.url] == ""  # the file goes on having it
        assert json.loads(xwheel("logout", "--json")[1])["latest"] == url
    status, out, _ = xwheel("logout")
    assert (status, "'xwheel token delete login-" in out) == (0, True)
    assert xwheel("logout")[0] == main.EXIT_CONFIG
    status, _, err = xwheel("group", "list")
    assert (status, "'xwheel login'" in err) == (main.EXIT_CONFIG, True)


def test_u8_what_counts_before_the_login_is_said(xwheel: Shell, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XWHEEL_TOKEN", "another-one")
    status, _, err = xwheel("login")
    assert (status, err.count("warning"), "unset XWHEEL_TOKEN" in err) == (0, 1, True)
    assert "does not know this token" in xwheel("group", "list", "--url", url)[2]


def test_u8_a_broken_file_is_named(xwheel: Shell, url: str) -> None:
    assert xwheel("login")[0] == 0
    logins_file().write_text('{"nodes": 7}')
    status, _, err = xwheel("group", "list")
    assert (status, "is not what 'xwheel login' wrote" in err) == (main.EXIT_CONFIG, True)
