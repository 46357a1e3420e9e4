"""Finding U14: while ``make run`` prepares the environment, it says what it does."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.narrate import AGAIN_S, is_news, narrate
from tests.support.paths import ROOT

CHILD = """
import sys
print("Collecting   sqlalchemy")
print("  Attempting uninstall: setuptools\\n      Successfully uninstalled setuptools-65.5.0", flush=True)
open(sys.argv[1]).read()
print("the end of it", flush=True)
sys.exit(int(sys.argv[2]))
"""


@pytest.mark.processes
@pytest.mark.parametrize("status", [0, 3])
def test_u14_a_line_says_what_goes_on_while_a_command_is_silent(tmp_path: Path, status: int) -> None:
    door = tmp_path / "door"
    os.mkfifo(door)
    said: list[str] = []

    def say(line: str) -> None:
        if "sqlalchemy" in line and not any("sqlalchemy" in before for before in said):
            door.write_text("")  # it goes on only when somebody was told what it does
        said.append(line)

    command = [sys.executable, "-c", CHILD, str(door), str(status)]
    assert narrate(command, say, every_s=0.05) == status
    assert any(re.fullmatch(r"  \d+ s: Collecting sqlalchemy", line) for line in said)
    assert not any("uninstall" in line for line in said if "the end" not in line)
    # what a command says is a wall of text: it is shown whole only if something is wrong
    assert any("setuptools-65.5.0\nthe end of it" in line for line in said) == bool(status)


def test_u18_a_step_is_said_once_and_again_only_after_long() -> None:
    assert is_news("Building the wheel", "", 5)
    assert not is_news("Building the wheel", "Building the wheel", 5)
    assert is_news("Building the wheel", "Building the wheel", AGAIN_S)
    assert is_news("Installing collected packages", "Building the wheel", 5)


def test_u14_make_run_tells_of_each_step_that_takes_long() -> None:
    done = subprocess.run(
        ["make", "--dry-run", "--always-make", "run", "VENV=build/no-such-folder"],
        cwd=ROOT,
        env={name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))},
        capture_output=True,
        text=True,
        check=True,
    )
    lines = done.stdout.splitlines()
    assert "once" in lines[0]
    assert lines[0].startswith("echo ")
    installs = [line for line in lines if " pip install " in line or " -m venv " in line]
    assert len(installs) == 3  # the environment, what builds, the node
    assert all("tests/support/narrate.py" in line for line in installs)
    # U18: what a node with its console needs, and no more
    assert "'.[server]' --editable plugins/accounts" in installs[-1]
