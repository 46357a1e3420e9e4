"""Finding S4: what a node, an executor and the quickstart write is for their own account alone, whatever the umask."""

from __future__ import annotations

import json
import logging
import os
import sqlite3
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from xwheel_devtools.quickstart.run import EXECUTIONS_FILE

from tests.integration.test_quickstart import has_lines, wait_for
from xwheel import private_files
from xwheel.clock import ManualClock
from xwheel.errors import ConfigError
from xwheel.executor.journal import Journal
from xwheel.executor.logs.run_log import RunLogs
from xwheel.scheduler.cluster.node_locks import NodeLocks
from xwheel.storage.database.engine import Database

MODES = {"folder": 0o700, "file": 0o600, "socket": 0o600}

# becomes another user and says what it could list or read
TRY_ALL = """
import json, os, sys
os.setgroups([])
os.setresgid(65534, 65534, 65534)
os.setresuid(65534, 65534, 65534)
got = []
for path in json.loads(sys.stdin.read()):
    try:
        if os.path.isdir(path):
            os.listdir(path)
        else:
            os.close(os.open(path, os.O_RDONLY))
    except OSError:
        continue
    got.append(path)
print(json.dumps(got))
"""


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user may pass through, with a file that every user may read."""
    with tempfile.TemporaryDirectory(prefix="xwheel-modes-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        (folder / "control").write_text("for all")
        (folder / "control").chmod(0o644)
        yield folder


@pytest.fixture(params=[0o000, 0o022, 0o077], ids=lambda mask: f"umask-{mask:03o}")
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def all_below(folder: Path) -> list[Path]:
    return [Path(where, name) for where, folders, files in os.walk(folder) for name in (*folders, *files)]


def open_ones(paths: Sequence[Path]) -> dict[str, str]:
    """Return what has another mode than it should, with its mode; what vanishes meanwhile has none."""
    found = {}
    for path in paths:
        try:
            mode = path.lstat().st_mode
        except FileNotFoundError:
            continue
        kind = "folder" if stat.S_ISDIR(mode) else "socket" if stat.S_ISSOCK(mode) else "file"
        if stat.S_IMODE(mode) != MODES[kind]:
            found[str(path)] = f"{stat.S_IMODE(mode):04o}"
    return found


def readable_for_others(paths: Sequence[Path]) -> list[str]:
    """Return what another user could list or read; needs root."""
    done = subprocess.run(
        [sys.executable, "-I", "-c", TRY_ALL],
        input=json.dumps([str(path) for path in paths]),
        capture_output=True,
        text=True,
        check=True,
    )
    found: list[str] = json.loads(done.stdout)
    return found


def check_private(folder: Path) -> None:
    paths = [folder, *all_below(folder)]
    assert open_ones(paths) == {}
    if os.geteuid() == 0:
        control = folder.parent / "control"
        assert readable_for_others([control, *paths]) == [str(control)]


@pytest.mark.long
@pytest.mark.parametrize(
    "umask",
    [0o000, pytest.param(0o022, marks=pytest.mark.nightly), pytest.param(0o077, marks=pytest.mark.nightly)],
    indirect=True,
)
def test_s4_nobody_else_reads_what_the_quickstart_wrote(open_folder: Path, umask: int) -> None:
    """Done-when 5: one node, one executor, all their files, while they run and after their end."""
    folder = open_folder / "made" / "here"
    command = [sys.executable, "-m", "xwheel", "quickstart", "--data-dir", str(folder), "--seconds", "5"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("XWHEEL_")}
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**environment, "TMPDIR": str(open_folder)},
        umask=umask,
    )
    try:
        wait_for(process, lambda: has_lines(folder / EXECUTIONS_FILE, 1))
        names = {path.name for path in all_below(folder)}
        assert {"xwheel.db-wal", "xwheel.db.lock", "journal.db-shm", "journal.lock", "node.log"} <= names
        check_private(folder.parent)
        output, errors = process.communicate(timeout=120)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0, output + errors
    assert any(path.suffix == ".log" and path.parent.parent.name == "logs" for path in all_below(folder))
    check_private(folder.parent)


def test_s4_a_database_and_what_lies_beside_it(open_folder: Path, umask: int) -> None:
    del umask
    folder = open_folder / "data"
    private_files.make_folder(folder)
    db = Database(f"sqlite:///{folder / 'xwheel.db'}")
    with db.write() as conn:
        conn.exec_driver_sql("CREATE TABLE secret (value TEXT)")
    assert {path.name for path in all_below(folder)} == {"xwheel.db", "xwheel.db-wal", "xwheel.db-shm"}
    check_private(folder)
    db.close()


def test_s4_a_journal_and_run_logs(open_folder: Path, umask: int) -> None:
    del umask
    folder = open_folder / "data" / "executor"
    clock = ManualClock()
    journal = Journal(folder, clock)
    logs = RunLogs(folder / "logs", clock)
    log = logs.open(7, clock.now_ms())
    log.line("secret")
    log.close()
    assert {"journal.db", "journal.db-wal", "journal.lock", "journal.reserve", "7.log"} <= {
        path.name for path in all_below(folder)
    }
    check_private(folder.parent)
    logs.close()
    journal.close()


def test_s4_the_locks_of_nodes(open_folder: Path, umask: int) -> None:
    del umask
    locks = NodeLocks(open_folder / "run" / "xwheel", "this-boot")
    locks.hold("0123456789abcdef")
    assert len(all_below(open_folder / "run")) == 2
    check_private(open_folder / "run")
    locks.release()


def test_s4_the_file_with_the_ports(open_folder: Path, umask: int) -> None:
    del umask
    path = open_folder / "ports.json"
    private_files.replace_text(path, "{}")
    assert open_ones([path]) == {}


def test_s4_what_an_older_version_left_is_tightened(open_folder: Path) -> None:
    before = os.umask(0)
    try:
        folder = open_folder / "executor"
        day = folder / "logs" / "2026-01-01"
        day.mkdir(parents=True)
        for name in ("journal.lock", "journal.reserve", "logs/2026-01-01/1.log"):
            (folder / name).touch()
        for path in (folder / "journal.db", open_folder / "xwheel.db"):
            connection = sqlite3.connect(path)
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("CREATE TABLE old (value TEXT)")
            connection.commit()
            # a crash leaves these behind
            for suffix in ("-wal", "-shm"):
                path.with_name(path.name + suffix).touch()
            connection.close()
    finally:
        os.umask(before)
    clock = ManualClock()
    journal, logs = Journal(folder, clock), RunLogs(folder / "logs", clock)
    db = Database(f"sqlite:///{open_folder / 'xwheel.db'}")
    with db.write() as conn:
        conn.exec_driver_sql("CREATE TABLE new (value TEXT)")
    assert open_ones([folder, *all_below(folder), *open_folder.glob("xwheel.db*")]) == {}
    db.close()
    logs.close()
    journal.close()


def test_s4_a_folder_that_holds_other_things_is_left_and_named(
    open_folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """An executor in an application's own folder: its files are private, the application's are its own matter."""
    (open_folder / "app.py").touch()
    with caplog.at_level(logging.WARNING):
        Journal(open_folder, ManualClock()).close()
    assert stat.S_IMODE(open_folder.stat().st_mode) == 0o755
    assert open_ones([path for path in all_below(open_folder) if path.name.startswith("journal")]) == {}
    assert f"chmod 700 {open_folder}" in caplog.text


def test_s4_no_lock_of_sqlite_is_lost_by_making_its_file_private(tmp_path: Path) -> None:
    """Closing any descriptor of a file gives up all of the process's locks on it, so the file is not opened."""
    path = tmp_path / "xwheel.db"
    first = Database(f"sqlite:///{path}")
    code = "import sqlite3, sys; sqlite3.connect(sys.argv[1], timeout=0).execute('BEGIN IMMEDIATE')"
    with first.write() as conn:
        conn.exec_driver_sql("CREATE TABLE one (value TEXT)")
        second = Database(f"sqlite:///{path}")
        with second.read() as other:
            other.exec_driver_sql("SELECT 1").all()
        second.close()
        done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, check=False)
        assert b"locked" in done.stderr
    first.close()


@pytest.mark.parametrize(("mode", "is_open"), [(0o600, False), (0o640, False), (0o644, True), (0o602, True)])
def test_s4_a_start_names_files_that_others_can_read(
    open_folder: Path, caplog: pytest.LogCaptureFixture, mode: int, is_open: bool
) -> None:
    path = open_folder / "xwheel.toml"
    path.touch()
    path.chmod(mode)
    with caplog.at_level(logging.WARNING):
        private_files.warn_if_open("the settings", path)
    assert len(caplog.records) == int(is_open)
    assert not is_open or f"chmod 600 {path}" in caplog.text
    caplog.clear()
    open_folder.chmod(0o700)  # no one gets as far as the file
    private_files.warn_if_open("the settings", path)
    private_files.warn_if_open("the settings", open_folder / "missing")
    assert not caplog.records


@pytest.mark.parametrize("command", ["server", "executor"])
def test_s4_the_commands_warn_of_their_settings(open_folder: Path, command: str) -> None:
    path = open_folder / "xwheel.toml"
    path.write_text('[database]\nurl = "sqlite:///:memory:"\n[executor]\napp_name = ""\n')
    path.chmod(0o644)
    arguments = [command, "--config", str(path)]
    done = subprocess.run([sys.executable, "-m", "xwheel", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.count(f"chmod 600 {path}") == 1


def test_s4_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="file"):
        private_files.make_folder(tmp_path / "file" / "below")
    with pytest.raises(ConfigError):
        Database("sqlite:///")
