"""SQLite files that cannot be used, as the command line tells of them."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pymysql
import pytest
from sqlalchemy.exc import OperationalError

from tests.support.paths import ROOT
from tests.support.refusals import COMMANDS, Refusals, without_log
from tests.support.small_disk import unshare
from xwheel.cli import main
from xwheel.storage.database.engine import Database

EVERY_COMMAND = pytest.mark.parametrize("command", COMMANDS, ids=" ".join)


@pytest.fixture
def xwheel(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Refusals:
    return Refusals(monkeypatch, capsys)


@EVERY_COMMAND
def test_a_missing_folder_is_named(xwheel: Refusals, tmp_path: Path, command: tuple[str, ...]) -> None:
    line = xwheel.line(main.EXIT_REFUSED, *command, database=f"sqlite:///{tmp_path}/nowhere/x.db")
    assert f"make the folder {tmp_path}/nowhere first" in line
    assert list(tmp_path.iterdir()) == []


def test_a_folder_is_no_file_and_a_file_no_folder(xwheel: Refusals, tmp_path: Path) -> None:
    assert "it is a folder" in xwheel.line(main.EXIT_REFUSED, "server", database=f"sqlite:///{tmp_path}")
    (tmp_path / "file").touch()
    line = xwheel.line(main.EXIT_REFUSED, "server", database=f"sqlite:///{tmp_path}/file/x.db")
    assert f"{tmp_path}/file is no folder" in line


@EVERY_COMMAND
def test_a_file_of_something_else_is_left_alone(xwheel: Refusals, tmp_path: Path, command: tuple[str, ...]) -> None:
    path = tmp_path / "letter.db"
    path.write_bytes(b"Dear Ada, " * 1000)
    line = xwheel.line(main.EXIT_REFUSED, *command, database=f"sqlite:///{path}")
    assert "is no SQLite database" in line
    assert path.read_bytes() == b"Dear Ada, " * 1000


def test_a_damaged_file_is_told(xwheel: Refusals, sqlite_db: Database) -> None:
    sqlite_db.close()
    assert sqlite_db.path is not None
    path = Path(sqlite_db.path)
    content = bytearray(path.read_bytes())
    content[4096:] = b"\x7f" * (len(content) - 4096)
    path.write_bytes(content)
    assert "is damaged" in xwheel.line(main.EXIT_REFUSED, "server", database=f"sqlite:///{path}")


def on_small_disk(folder: Path, script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a script of Python next to a disk of one megabyte; its first argument is the disk's folder."""
    command = unshare(str(folder), 1, [sys.executable, "-c", script, str(folder), *arguments])
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)


def test_a_disk_that_can_only_be_read_is_told(tmp_path: Path, sqlite_db: Database) -> None:
    script = (
        "import shutil, subprocess, sys\n"
        "folder, database = sys.argv[1:]\n"
        "shutil.copy(database, folder + '/x.db')\n"
        "subprocess.run(['mount', '-o', 'remount,ro', folder], check=True)\n"
        "for words in (['server', '--database', f'sqlite:///{folder}/x.db'],\n"
        "              ['db', 'upgrade', '--database', f'sqlite:///{folder}/new.db']):\n"
        "    print(subprocess.run([sys.executable, '-m', 'xwheel', *words]).returncode)\n"
    )
    folder = tmp_path / "disk"
    folder.mkdir()
    done = on_small_disk(folder, script, str(sqlite_db.path))
    reason = f"cannot be opened: this user may not write to the folder {folder}"
    assert without_log(done.stderr).splitlines() == [
        f"xwheel: the file {folder}/{name}.db {reason}" for name in ("x", "new")
    ]
    assert done.stdout.split() == [str(main.EXIT_REFUSED)] * 2


def test_a_file_that_can_only_be_read_is_told(xwheel: Refusals, sqlite_db: Database) -> None:
    url = f"sqlite:///file:{sqlite_db.path}?mode=ro&uri=true"
    for command in (("server",), ("db", "check"), ("token", "create", "ops")):
        line = xwheel.line(main.EXIT_REFUSED, *command, database=url)
        assert "is read-only: this user must be able to write to it and its folder" in line


def test_a_file_that_another_process_locks_is_worth_another_try(
    xwheel: Refusals, sqlite_db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("xwheel.storage.database.engine.BUSY_TIMEOUT_S", 0)
    other = sqlite3.connect(str(sqlite_db.path), isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    line = xwheel.line(main.EXIT_UNREACHABLE, "server", database=f"sqlite:///{sqlite_db.path}")
    assert "is locked by another process" in line
    other.close()
    xwheel.passes("db", "check", database=f"sqlite:///{sqlite_db.path}")


def test_a_full_disk_is_told(tmp_path: Path) -> None:
    script = (
        "import os, sys\n"
        "with open(sys.argv[1] + '/rest', 'wb', 0) as rest:\n"
        "    rest.write(bytes(1 << 20))\n"
        "os.truncate(sys.argv[1] + '/rest', os.path.getsize(sys.argv[1] + '/rest') - (100 << 10))\n"
        "command = ['xwheel', 'db', 'upgrade', '--database', f'sqlite:///{sys.argv[1]}/x.db']\n"
        "os.execv(sys.executable, [sys.executable, '-m', *command])\n"
    )
    done = on_small_disk(tmp_path, script)
    assert done.returncode == main.EXIT_REFUSED, done.stderr
    assert "the disk of the database" in done.stderr
    assert "is full" in done.stderr
    assert without_log(done.stderr).count("\n") == 1


def test_a_failure_that_no_command_foresaw_is_told_too(xwheel: Refusals, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OperationalError("SELECT", {}, pymysql.err.OperationalError(1114, "The table 'x' is full"))

    monkeypatch.setattr("xwheel.storage.database.startup.open_database", fail)
    line = xwheel.line(main.EXIT_REFUSED, "token", "list", database="sqlite:///x.db")
    assert "is full (The table 'x' is full): make room" in line


def test_a_real_process_says_one_line(tmp_path: Path) -> None:
    database = f"mysql+pymysql://ada:open@sesame@127.0.0.1/{tmp_path.name}"
    done = subprocess.run(
        [sys.executable, "-m", "xwheel", "server"],
        capture_output=True, text=True, timeout=100, check=False, cwd=ROOT,
        env={**os.environ, "XWHEEL_DATABASE__URL": database},
    )  # fmt: skip
    assert done.returncode == main.EXIT_CONFIG
    assert done.stdout == ""
    assert without_log(done.stderr) == (
        "xwheel: database.url: write %40 for each @ in the user or the password, and %2F for /\n"
    )
