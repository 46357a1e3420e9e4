"""The demonstration tells the truth: it survives the node's death, and it fails when a single count is off."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
import requests
from xwheel_devtools.quickstart.run import EXECUTIONS_FILE, PLAN_FILE
from xwheel_devtools.quickstart.verify import verify
from xwheel_devtools.verify.records import FindingKind, Verdict

from xwheel.model import Origin, RunState
from xwheel.storage import runs
from xwheel.storage.database.engine import Database

pytestmark = pytest.mark.long
SECONDS = 10
RATE = 40


@dataclass(frozen=True)
class Finished:
    folder: Path
    status: int
    summary: dict[str, Any]
    errors: str


def start(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "xwheel", "quickstart", "--data-dir", str(folder), *arguments]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("XWHEEL_")}
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


def child_of(parent: int, word: str) -> int | None:
    """Return the process id of a child whose command line holds a word."""
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
            if int(fields[1]) == parent and word in (entry / "cmdline").read_text().split("\0"):
                return int(entry.name)
        except (OSError, IndexError):
            continue
    return None


def wait_for(process: subprocess.Popen[str], check: Any, limit_s: float = 120) -> Any:
    """Poll until something is true of a process that lives; return it."""
    deadline = time.monotonic() + limit_s
    while not (found := check()):
        if process.poll() is not None:
            output, errors = process.communicate()
            pytest.fail(f"it ended with {process.returncode}\n{output}\n{errors}")
        assert time.monotonic() < deadline, "it took too long"
        time.sleep(0.02)
    return found


def has_lines(path: Path, count: int) -> bool:
    return path.exists() and path.read_bytes().count(b"\n") >= count


def kill_node(process: subprocess.Popen[str], folder: Path, lines: int) -> None:
    """Kill a demonstration's node once handlers ran so often and all jobs are made, for which it needs the node."""
    wait_for(process, lambda: has_lines(folder / EXECUTIONS_FILE, lines) and (folder / PLAN_FILE).exists())
    os.kill(wait_for(process, lambda: child_of(process.pid, "server")), signal.SIGKILL)


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """A busy demonstration whose node is killed twice while runs are on their way."""
    folder = tmp_path_factory.mktemp("quickstart")
    process = start(folder, "--seconds", str(SECONDS), "--rate", str(RATE), "--json")
    for lines in (RATE, 4 * RATE):
        kill_node(process, folder, lines)
    output, errors = process.communicate(timeout=150)
    return Finished(folder, process.returncode, json.loads(output.splitlines()[-1]), errors)


def test_no_fire_is_lost_or_doubled_when_the_node_is_killed(killed: Finished) -> None:
    assert killed.summary["restarts"] == {"node": 2, "executor": 0}
    assert killed.summary["mismatches"] == []
    assert killed.status == 0, killed.errors
    assert killed.summary["expected"] == killed.summary["rows"] == killed.summary["executions"]
    assert killed.summary["expected"] > RATE * SECONDS


def check(folder: Path) -> Verdict:
    db = Database(f"sqlite:///{folder / 'xwheel.db'}")
    try:
        return verify(db, json.loads((folder / PLAN_FILE).read_text()), folder / EXECUTIONS_FILE)
    finally:
        db.close()


@pytest.fixture
def copy(killed: Finished, tmp_path: Path) -> Path:
    folder = tmp_path / "copy"
    shutil.copytree(killed.folder, folder)
    assert check(folder).ok
    return folder


def test_a_deleted_row_is_noticed(copy: Path) -> None:
    db = Database(f"sqlite:///{copy / 'xwheel.db'}")
    with db.write() as conn:
        conn.exec_driver_sql(
            "DELETE FROM run_history WHERE id = (SELECT max(id) FROM run_history WHERE state = 'succeeded')"
        )
    db.close()

    assert {item.kind for item in check(copy).findings} >= {FindingKind.EXECUTED_ANYWAY}


def test_a_doubled_row_is_noticed(copy: Path) -> None:
    db = Database(f"sqlite:///{copy / 'xwheel.db'}")
    with db.write() as conn:
        # a retry of a run that a kill cut short has no due time of its own to be doubled
        first = next(
            run
            for run in runs.list_runs(conn, limit=1000)
            if run.origin is Origin.SCHEDULE and run.state is RunState.SUCCEEDED
        )
        runs.insert_runs(conn, [msgspec.structs.replace(first, id=2**52, origin_key=-(2**52))])
    db.close()

    assert {item.kind for item in check(copy).findings} >= {FindingKind.TWICE_PLANNED, FindingKind.NOT_EXECUTED}


def test_a_dropped_execution_is_noticed(copy: Path) -> None:
    path = copy / EXECUTIONS_FILE
    path.write_text("".join(path.read_text().splitlines(keepends=True)[1:]))

    assert [item.kind for item in check(copy).findings] == [FindingKind.NOT_EXECUTED]


def test_a_doubled_execution_is_noticed(copy: Path) -> None:
    path = copy / EXECUTIONS_FILE
    path.write_text(path.read_text() + path.read_text().splitlines(keepends=True)[0])

    (double,) = check(copy).findings
    assert (double.kind, "was executed 2 times" in double.text) == (FindingKind.DOUBLE, True)


def test_secrets_are_shown_once_and_stay_private(killed: Finished) -> None:
    for word in ("management token", "executor token"):
        assert killed.errors.count(word) == 1
    assert len(re.findall(r"^first fire +\d\d:\d\d:\d\d UTC, \d+\.\d s after the start$", killed.errors, re.M)) == 1
    assert (killed.folder / "xwheel.toml").stat().st_mode & 0o077 == 0
    token = next(line.split()[2] for line in killed.errors.splitlines() if line.startswith("executor token"))
    for log in ("node.log", "executor.log"):
        assert token not in (killed.folder / log).read_text()


def test_u19_a_signal_drains_and_ends_with_0_and_a_count(tmp_path: Path) -> None:
    process = start(tmp_path / "data")
    try:
        wait_for(process, lambda: has_lines(tmp_path / "data" / EXECUTIONS_FILE, 3))
        process.terminate()
        output, errors = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 0, errors
    assert "exit statuses" not in output
    counted = re.search(r"^run rows (\d+) +executions (\d+) .*\nno fire ran twice$", output, re.MULTILINE)
    assert counted, output
    assert int(counted[1]) >= int(counted[2]) >= 3
    db = Database(f"sqlite:///{tmp_path / 'data' / 'xwheel.db'}")
    with db.read() as conn:
        states = {run.state for run in runs.list_runs(conn, limit=1000)}
    db.close()
    assert not states & {RunState.DISPATCHING, RunState.RUNNING}


def printed_link(process: subprocess.Popen[str]) -> tuple[str, str]:
    """Return the address and the link's secret that the demonstration prints, once its node answers."""
    assert process.stdout is not None
    for line in process.stdout:
        if found := re.match(r"console +(http://127\.0\.0\.1:\d+)/#/login\?link=([\w-]{43})( |$)", line):
            wait_for(process, partial(is_ready, found[1]))
            return found[1], found[2]
    raise AssertionError(process.communicate())


def is_ready(url: str) -> bool:
    try:
        return requests.get(f"{url}/readyz", timeout=5).ok
    except requests.ConnectionError:
        return False


def test_the_printed_link_signs_in_once_and_each_start_prints_another(tmp_path: Path) -> None:
    known = set()
    for _ in range(2):
        process = start(tmp_path / "data")
        try:
            url, secret = printed_link(process)
            session, target = requests.Session(), f"{url}/api/v1/session"
            answer = session.post(target, json={"link": secret}, timeout=30)
            assert answer.status_code == 201, answer.text
            seen = session.get(target, timeout=30).json()
            assert (seen["name"], seen["role"], seen["must_change"]) == ("admin", "admin", False)
            assert session.get(f"{url}/api/v1/jobs", timeout=30).ok
            page = requests.get(f"{url}/", timeout=30)
            assert (page.status_code, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
            assert requests.post(target, json={"link": secret}, timeout=30).status_code == 401
            for log in ("node.log", "executor.log"):
                assert secret not in (tmp_path / "data" / log).read_text()
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=60)
        finally:
            process.kill()
        known.add(secret)
    assert len(known) == 2
