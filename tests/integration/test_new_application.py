"""``xwheel new``: the project that it writes runs, its test passes, and nothing is overwritten."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.executors import wait_until

BIN = Path(sys.executable).parent
RUFF = BIN / "ruff"


def shell(command: str, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}", **variables}
    return subprocess.run(
        ["/bin/sh", "-ec", command],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.processes
def test_u8_the_next_steps_work_as_they_stand(tmp_path: Path) -> None:
    made = shell("xwheel new 'my jobs'", tmp_path)
    assert made.returncode == 0, made.stderr
    files, steps = made.stdout.split("next:\n")
    assert all((tmp_path / line).is_file() for line in files.splitlines())
    enter, run, test = [line.strip() for line in steps.splitlines()]

    tested = shell(f"{enter}\n{test} -q -p no:cacheprovider", tmp_path)
    assert tested.returncode == 0, tested.stdout + tested.stderr
    assert "2 passed" in tested.stdout

    log = tmp_path / "log"
    with log.open("wb") as file:
        process = subprocess.Popen(
            ["/bin/sh", "-ec", f"{enter}\nexec {run}"],
            cwd=tmp_path,
            env={**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}"},
            stdout=file,
            stderr=file,
        )
    try:
        wait_until(lambda: "leads; XWHEEL_URL=" in log.read_text())
        # what the README of the project says to call meanwhile
        variables = {"XDG_CONFIG_HOME": str(tmp_path / "home")}
        readme = (tmp_path / "my jobs" / "README.md").read_text()
        asked = [line for line in readme.splitlines() if line.startswith("xwheel ")]
        assert len(asked) == 3
        for command in asked:
            done = shell(command, tmp_path / "my jobs", **variables)
            assert done.returncode == 0, done.stdout + done.stderr
    finally:
        process.terminate()
        status = process.wait(60)
    assert status == 0, log.read_text()


@pytest.mark.processes
def test_nothing_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "jobs.py").write_text("mine")
    for name in ("there", "there/jobs.py"):
        refused = shell(f"xwheel new {name}", tmp_path)
        assert refused.returncode == 2
        assert "PATH: " in refused.stderr
        assert "name a new folder" in refused.stderr
    assert (tmp_path / "there" / "jobs.py").read_text() == "mine"
    assert [path.name for path in (tmp_path / "there").iterdir()] == ["jobs.py"]


@pytest.mark.processes
def test_the_project_is_tidy_and_an_empty_folder_will_do(tmp_path: Path) -> None:
    assert shell("xwheel new .", tmp_path).stdout.count("cd ") == 0
    for command in (["check", "--no-cache", "--isolated"], ["format", "--no-cache", "--isolated", "--check", "--diff"]):
        done = subprocess.run([RUFF, *command, "."], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
