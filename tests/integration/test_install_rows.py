"""U21: every row of the README's table of installations, each in an empty environment, with wheels built as it says."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.paths import ROOT

pytestmark = [pytest.mark.nightly, pytest.mark.processes, pytest.mark.timeout(900)]

README = (ROOT / "README.md").read_text(encoding="utf-8").partition("## Install")[2].partition("## Write a job")[0]
BUILD = README.partition("```sh\n")[2].partition("```")[0]
ROWS = [line for line in README.splitlines() if line.startswith("| ") and "xwheel" in line]
NOT_OURS = {".git", ".venv", "build", "node_modules", "__pycache__"}


def wanted(row: str) -> list[str]:
    """Return what each installation of a row asks pip for; what is installed besides comes with a node."""
    found = re.findall(r"`(?:pip install )?'?(xwheel(?:\[[a-z,-]+\])?)'?`", row)
    return [f"xwheel[server] {one}" if "besides" in row else one for one in found]


CASES = [case for row in ROWS for case in wanted(row)]


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return where the README's commands built the wheels, in a copy of this checkout."""
    copy = tmp_path_factory.mktemp("wheels") / "checkout"
    shutil.copytree(ROOT, copy, ignore=lambda _, names: NOT_OURS.intersection(names))
    variables = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    run(copy, variables, "bash", "-euc", BUILD)
    return copy / "wheels"


def run(folder: Path, variables: dict[str, str], *words: str) -> str:
    done = subprocess.run(words, cwd=folder, env=variables, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, f"{words}: {done.stdout[-2000:]}{done.stderr[-4000:]}"
    return done.stdout


def test_u21_the_table_is_read() -> None:
    assert len(ROWS) >= 7
    assert all(wanted(row) for row in ROWS)


@pytest.mark.parametrize("case", CASES)
def test_u21_a_row_of_the_readme_installs_and_works(case: str, wheels: Path, tmp_path: Path) -> None:
    home = tmp_path / "venv"
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
    variables |= {"PIP_FIND_LINKS": str(wheels), "PATH": f"{home / 'bin'}:{os.environ['PATH']}"}
    run(tmp_path, variables, sys.executable, "-m", "venv", str(home))
    run(tmp_path, variables, "pip", "install", "--quiet", *case.split())
    run(tmp_path, variables, "pip", "check")
    run(tmp_path, variables, "python", "-c", "from xwheel.executor import Executor, job")
    if case == "xwheel":
        return
    assert run(tmp_path, variables, "xwheel", "--version").strip()
    commands = run(tmp_path, variables, "xwheel", "--help")
    if "core" not in case:
        assert "login" in commands
    if "cli" not in case:
        run(tmp_path, variables, "xwheel", "db", "upgrade", "--database", f"sqlite:///{tmp_path / 'x.db'}")
        if "core" not in case:
            run(tmp_path, variables, "xwheel", "quickstart", "--seconds", "5", "--data-dir", str(tmp_path / "data"))
