"""``xwheel token``: on the configured database, whether a node runs or not."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.support.databases import upgrade
from xwheel.cli import main
from xwheel.storage import executors
from xwheel.storage.access import tokens
from xwheel.storage.database.engine import Database
from xwheel.storage.schema import migrate


class Shell:
    """Runs the command in this process, on a database of its own."""

    def __init__(self, url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self.url = url
        self._monkeypatch = monkeypatch
        self._capsys = capsys

    def __call__(self, *words: str) -> tuple[int, str, str]:
        """Return exit status, standard output and standard error."""
        self._monkeypatch.setattr(sys, "argv", ["xwheel", "token", *words, "--database", self.url])
        with pytest.raises(SystemExit) as caught:
            main.main()
        out, err = self._capsys.readouterr()
        return int(caught.value.code or 0), out, err

    def known(self) -> list[tokens.KnownToken]:
        db = Database(self.url)
        with db.read() as conn:
            found = list(tokens.list_tokens(conn))
        db.close()
        return found


@pytest.fixture
def xwheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    url = f"sqlite:///{tmp_path / 'x.db'}"
    db = Database(url)
    upgrade(db)
    db.transaction(lambda conn: executors.insert_group(conn, app_name="orders", title="", now_ms=1))
    db.close()
    return Shell(url, monkeypatch, capsys)


def test_a_token_is_made_and_only_its_digest_is_kept(xwheel: Shell) -> None:
    status, out, err = xwheel("create", "ops")
    assert (status, err) == (0, "")
    assert out.startswith("token ops for everything (shown once): ")
    secret = out.split()[-1]
    (known,) = xwheel.known()
    assert (known.name, known.digest, known.group_id) == ("ops", tokens.digest_token(secret), None)
    assert secret.encode() not in Path(xwheel.url.removeprefix("sqlite:///")).read_bytes()


def test_a_group_token_names_its_group(xwheel: Shell) -> None:
    status, out, _ = xwheel("create", "orders-1", "--group", "orders", "--json")
    made = json.loads(out)
    assert status == 0
    assert {key: made[key] for key in ("name", "group_id", "app_name")} == {
        "name": "orders-1",
        "group_id": 1,
        "app_name": "orders",
    }
    assert tokens.digest_token(made["token"]) == xwheel.known()[0].digest
    assert xwheel("list")[1].split()[-4:] == ["jobs", "of", "group", "orders"]
    (row,) = json.loads(xwheel("list", "--json")[1])
    assert row == {key: value for key, value in made.items() if key != "token"}


@pytest.mark.parametrize(
    ("words", "status", "part"),
    [
        (("create", "two words"), 2, "name: must be text of 1 to 64 characters"),
        (("create", "x" * 65), 2, "name: must be text of 1 to 64 characters"),
        (("create", "orders-1", "--group", "nobody"), 2, "--group: there is no executor group 'nobody'"),
        (("create", "orders-1", "--group", ""), 2, "--group: there is no executor group ''"),
        (("create", "ops"), 1, "a token with the name ops exists already"),
        (("delete", "ops"), 1, "token ops is the last one for the management API"),
        (("delete", "other"), 1, "token other does not exist"),
    ],
)
def test_what_is_refused_is_one_line(xwheel: Shell, words: tuple[str, ...], status: int, part: str) -> None:
    assert xwheel("create", "ops")[0] == 0
    before = xwheel.known()
    found, out, err = xwheel(*words)
    assert (found, out) == (status, "")
    assert part in err
    assert err.count("\n") == 1
    assert xwheel.known() == before


def test_a_token_is_rotated_by_making_the_next_one_first(xwheel: Shell) -> None:
    for words in (("create", "old"), ("create", "new"), ("delete", "old")):
        assert xwheel(*words)[0] == 0
    assert [token.name for token in xwheel.known()] == ["new"]


def test_a_missing_schema_is_named_and_none_is_made(
    xwheel: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    xwheel.url = f"sqlite:///{tmp_path / 'other.db'}"
    status, _, err = xwheel("create", "ops")
    assert status == 4
    assert "xwheel db upgrade" in err


def test_a_schema_without_the_tables_of_plugins_is_named(xwheel: Shell, tmp_path: Path) -> None:
    xwheel.url = f"sqlite:///{tmp_path / 'core.db'}"
    db = Database(xwheel.url)
    migrate.upgrade(db)  # as the core alone does
    db.close()
    status, _, err = xwheel("create", "ops")
    assert status == 4
    assert "the database lacks 2 migrations of its tables" in err
    assert "xwheel db upgrade" in err


@pytest.mark.parametrize("width", [40, 60, 132])
def test_u5_the_list_fits_the_terminal(xwheel: Shell, monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    name = "n" * 64
    for words in ((name,), ("short", "--group", "orders")):
        assert xwheel("create", *words)[0] == 0
    monkeypatch.setattr("xwheel_commands.table.is_terminal", lambda: True)
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("NO_COLOR", "1")
    assert all(len(line) <= width for line in xwheel("list")[1].splitlines())
    assert name in xwheel("list", "--wide")[1]
