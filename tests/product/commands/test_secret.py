"""``xwheel secret``: on the configured database, whether a node runs or not."""

from __future__ import annotations

import json
import stat
import sys
from pathlib import Path

import pytest

from tests.support.databases import upgrade
from xwheel.cli import main
from xwheel.runtime.sealing import read_keys
from xwheel.storage import executors
from xwheel.storage.access import executor_secrets
from xwheel.storage.access.executor_secrets import StoredSecret
from xwheel.storage.database.engine import Database


class Shell:
    """Runs the command in this process, on a database of its own, with a key file once there is one."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self.url = f"sqlite:///{folder / 'x.db'}"
        self.key_file = folder / "key"
        self.config = folder / "xwheel.toml"
        self._monkeypatch = monkeypatch
        self._capsys = capsys
        self.configure()

    def configure(self, *lines: str) -> None:
        self.config.write_text("\n".join([f'[database]\nurl = "{self.url}"', *lines]) + "\n")

    def use_key(self) -> None:
        self.configure(f'[security]\nkey_file = "{self.key_file}"')

    def __call__(self, *words: str) -> tuple[int, str, str]:
        """Return exit status, standard output and standard error."""
        plain = words[0] == "key"
        options = [] if plain else ["--config", str(self.config)]
        self._monkeypatch.setattr(sys, "argv", ["xwheel", "secret", *words, *options])
        with pytest.raises(SystemExit) as caught:
            main.main()
        out, err = self._capsys.readouterr()
        return int(caught.value.code or 0), out, err

    def known(self) -> list[StoredSecret]:
        db = Database(self.url)
        with db.read() as conn:
            found = executor_secrets.list_secrets(conn)
        db.close()
        return found


@pytest.fixture
def xwheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    shell = Shell(tmp_path, monkeypatch, capsys)
    db = Database(shell.url)
    upgrade(db)
    db.transaction(lambda conn: executors.insert_group(conn, app_name="orders", title="", now_ms=1))
    db.close()
    return shell


def test_a_secret_without_a_key_is_kept_plain_with_a_warning(xwheel: Shell) -> None:
    status, out, err = xwheel("create", "orders-1", "--group", "orders")
    assert status == 0
    assert out.startswith("secret orders-1 for the executors of group orders (shown once): ")
    assert "unencrypted" in err
    (stored,) = xwheel.known()
    assert stored.sealed == f"plain:{out.split()[-1]}"
    assert "not encrypted" in xwheel("list")[1]


def test_a_key_is_made_for_this_user_alone_and_seals_what_was_plain(xwheel: Shell) -> None:
    secret = xwheel("create", "orders-1", "--group", "orders")[1].split()[-1]
    status, out, _ = xwheel("key", str(xwheel.key_file))
    assert status == 0
    assert stat.S_IMODE(xwheel.key_file.stat().st_mode) == 0o600
    assert xwheel.key_file.read_text().strip() not in out
    assert xwheel("key", str(xwheel.key_file))[0] != 0  # it would be lost
    xwheel.use_key()
    assert xwheel("seal")[:2] == (0, "1 executor secrets are encrypted\n")
    (stored,) = xwheel.known()
    assert secret not in stored.sealed
    assert read_keys(xwheel.key_file).open(stored.sealed) == secret
    shown = json.loads(xwheel("list", "--json")[1])
    assert [(item["name"], item["encrypted"], item["expires_ms"]) for item in shown] == [("orders-1", True, None)]
    assert secret not in xwheel("list")[1]


def test_a_node_without_the_key_makes_no_secret(xwheel: Shell) -> None:
    xwheel("key", str(xwheel.key_file))
    xwheel.use_key()
    xwheel("create", "orders-1", "--group", "orders")
    xwheel.configure()
    status, out, err = xwheel("create", "orders-2", "--group", "orders")
    assert (status != 0, out) == (True, "")
    assert "security.key_file" in err
    assert len(xwheel.known()) == 1


def test_a_secret_is_rotated_retired_and_deleted(xwheel: Shell) -> None:
    xwheel("create", "orders-1", "--group", "orders")
    made = json.loads(xwheel("rotate", "orders-1", "orders-2", "--in", "2h", "--json")[1])
    first, second = xwheel.known()
    assert (made["name"], made["app_name"], made["expires_ms"]) == ("orders-2", "orders", None)
    assert first.expires_ms is not None
    assert abs(first.expires_ms - second.created_ms - 7_200_000) < 600_000
    # what ends sooner anyway is not kept longer
    xwheel("rotate", "orders-1", "orders-3", "--in", "30d")
    assert xwheel.known()[0].expires_ms == first.expires_ms
    assert "without an end" in xwheel("retire", "orders-1", "--in", "never")[1]
    assert "ended" in xwheel("retire", "orders-1", "--in", "0")[1]
    assert xwheel("delete", "orders-1")[:2] == (0, "secret orders-1 is deleted\n")
    assert [item.name for item in xwheel.known()] == ["orders-2", "orders-3"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["create", "-x", "--group", "orders"], ""),
        (["create", "x", "--group", "nowhere"], "no executor group 'nowhere'"),
        (["create", "x"], "--group"),
        (["create", "bad name", "--group", "orders"], "name"),
        (["retire", "none"], "none"),
        (["delete", "none"], "none"),
        (["rotate", "none", "x"], "none"),
        (["retire", "none", "--in", "soon"], "--in"),
        (["retire", "none", "--in", "366d"], "--in"),
        (["seal"], "security.key_file"),
    ],
)
def test_what_cannot_be_done_is_said(xwheel: Shell, words: list[str], said: str) -> None:
    status, out, err = xwheel(*words)
    assert status != 0
    assert out == ""
    assert said in err
    assert xwheel.known() == []


def test_u8_a_secret_goes_to_a_file_of_this_user_and_none_is_overwritten(xwheel: Shell, tmp_path: Path) -> None:
    file = tmp_path / "token"
    status, out, _ = xwheel("create", "one", "--group", "orders", "--to-file", str(file))
    assert (status, out) == (0, f"secret one for the executors of group orders is in {file}\n")
    first = file.read_text()
    assert (len(first), stat.S_IMODE(file.stat().st_mode)) == (44, 0o600)
    status, _, err = xwheel("create", "two", "--group", "orders", "--to-file", str(file))
    assert (status, "is there already, and nothing is overwritten" in err) == (main.EXIT_CONFIG, True)
    assert xwheel("create", "one", "--group", "orders", "--to-file", str(tmp_path / "b"))[0] == main.EXIT_FAILED
    assert xwheel("create", "two", "--group", "orders", "--to-file", str(tmp_path / "no" / "b"))[0] == main.EXIT_CONFIG
    assert [item.name for item in xwheel.known()] == ["one"]
    # an executor's file gets the next one in place of the one before
    assert xwheel("rotate", "one", "two", "--to-file", str(file), "--json")[0] == 0
    assert file.read_text() != first
    assert {item.name for item in tmp_path.iterdir()} & {"b", "no"} == set()
    assert not [item for item in tmp_path.iterdir() if item.name.startswith("token.")]


@pytest.mark.parametrize("width", [40, 60, 132])
def test_u5_the_list_fits_the_terminal_and_says_what_has_ended(
    xwheel: Shell, monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    assert xwheel("create", "n" * 64, "--group", "orders")[0] == 0
    assert xwheel("create", "old", "--group", "orders")[0] == 0
    assert xwheel("retire", "old", "--in", "0")[0] == 0
    monkeypatch.setattr("xwheel_commands.table.is_terminal", lambda: True)
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("NO_COLOR", "1")
    lines = xwheel("list")[1].splitlines()
    assert all(len(line) <= width for line in lines)
    (row,) = [line for line in lines if line.startswith("old ")]
    assert "ended" in row
