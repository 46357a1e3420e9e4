"""A new project of jobs, and the wheel that comes of it."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from xwheel.plugin import FieldError, XwheelError

BUILD_S: Final = 600
LINES: Final = 40
_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,49}")

PROJECT: Final = """\
[build-system]
requires = ["setuptools>=77"]
build-backend = "setuptools.build_meta"

[project]
name = "{name}"
version = "0.1.0"
description = "Jobs of {name}"
requires-python = ">=3.11"
dependencies = []

[tool.setuptools]
packages = ["{name}"]
"""
JOBS: Final = '''\
"""Functions with @schedule are jobs; nodes run them in an environment of this package alone."""

from xwheel_package import JobParameter, schedule


@schedule(cron="0 0 2 * * ?", time_zone="UTC")
def nightly(parameter: JobParameter) -> str:
    """Run each night at two; what is printed is in the run's log, what is returned is its message."""
    rows = int(parameter.get("rows", 10))
    print(f"reading {rows} rows")
    return f"{rows} rows"
'''
TEST: Final = """\
from xwheel_package import JobParameter

from {name}.jobs import nightly


def test_nightly_says_how_many_rows_it_read():
    assert nightly(JobParameter({{"rows": 3}})) == "3 rows"
    assert nightly(JobParameter({{}})) == "10 rows"
"""


def make_project(folder: Path) -> list[Path]:
    """Write a project into a new folder, and return its files.

    Raises:
        FieldError: The folder's name is no name of a package, or it is there already.
    """
    name = folder.name
    if not _NAME.fullmatch(name):
        raise FieldError("NAME", "must be 1 to 50 small letters, digits and underscores, a letter first")
    if folder.exists():
        raise FieldError("NAME", f"{folder} is there already")
    files = {
        "pyproject.toml": PROJECT.format(name=name),
        f"{name}/__init__.py": "",
        f"{name}/jobs.py": JOBS,
        "tests/test_jobs.py": TEST.format(name=name),
    }
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, "utf-8")
    return [folder / path for path in files]


def build_wheel(folder: Path, into: Path, *, is_isolated: bool = True) -> Path:
    """Build a project's wheel with pip, and return it.

    Args:
        folder: The project.
        into: Where the wheel is put.
        is_isolated: Let pip fetch what builds it; without, that is taken from this Python's environment.

    Raises:
        FieldError: There is no project.
        XwheelError: pip failed; the text is the end of what it said.
    """
    if not (folder / "pyproject.toml").is_file():
        raise FieldError("PATH", f"{folder} has no pyproject.toml: 'xwheel package new' makes a project")
    into.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="xwheel-build-") as made:
        command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", made, str(folder)]
        command += [] if is_isolated else ["--no-build-isolation"]
        try:
            done = subprocess.run(  # noqa: S603 -- pip, with a folder that the caller named
                command, capture_output=True, text=True, errors="replace", timeout=BUILD_S, check=False
            )
        except subprocess.TimeoutExpired:
            raise XwheelError(f"pip did not build {folder} within {BUILD_S} s") from None
        wheels = sorted(Path(made).glob("*.whl"))
        if done.returncode or len(wheels) != 1:
            said = "\n".join((done.stdout + done.stderr).splitlines()[-LINES:])
            raise XwheelError(f"pip cannot build {folder}:\n{said}")
        return Path(shutil.move(wheels[0], into / wheels[0].name))
