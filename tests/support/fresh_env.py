"""An empty environment: the core as a wheel, what it and its extras declare to need, pip, and nothing else."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement

from tests.support.paths import ROOT

SOURCES = ("pyproject.toml", "setup.py", "README.md", "LICENSE", "xwheel")
OFFLINE = {
    "PIP_NO_INDEX": "1",
    "PIP_NO_BUILD_ISOLATION": "false",  # pip's odd spelling of "do not isolate"
    "PIP_NO_CACHE_DIR": "1",
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    # the Python twin of the ring does: compiling the other one takes longer than all the rest
    "XWHEEL_NO_EXTENSIONS": "1",
    "PYTHONWARNINGS": "ignore",
}
BUILD_S = 240
TOOLS = frozenset({"pip", "setuptools"})
ALONE = (("xwheel", ""), ("xwheel", "core-server"))
"""The core by itself: distributions with an extra."""

SUITE = (
    *("cronsim", "holidays", "hypothesis", "psycopg", "psycopg-binary", "pymysql"),
    *("pytest", "pytest-timeout", "pytest-xdist", "trustme"),
)
"""What its tests use besides."""


class FreshEnvironment:
    """A virtual environment without a network: libraries are links to this process's own.

    Args:
        folder: Where to make it.
        extras: Of xwheel; libraries of others are not there.

    Attributes:
        variables: For processes in it; ``PATH`` begins with its programs.
    """

    def __init__(self, folder: Path, *extras: str) -> None:
        self.folder = folder
        self._extras = f"[{','.join(extras)}]" if extras else ""
        site = _make(folder)
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PIP_"))}
        self.variables = {**kept, **OFFLINE, "PATH": f"{folder / 'bin'}:{os.environ['PATH']}"}
        wanted = [("xwheel", extra) for extra in ("", *extras)] + [(name, "") for name in TOOLS]
        for name in _needed(wanted) - {"xwheel"}:
            _link(name, site)
        pip = folder / "bin" / "pip"
        pip.write_text('#!/bin/sh\nexec "$(dirname "$0")/python" -m pip "$@"\n')
        pip.chmod(0o755)

    def install_core(self, work: Path) -> None:
        """Build the core's wheel of a copy of the sources, since a build writes into them, and install it."""
        copy = work / "core"
        copy.mkdir(parents=True)
        for name in SOURCES:
            if (ROOT / name).is_dir():
                shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__", "*.so", "*.cpp"))
            else:
                shutil.copy(ROOT / name, copy)
        self.run("pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(work), str(copy))
        # without --no-deps: pip checks that what the wheel declares to need is here
        (wheel,) = work.glob("*.whl")
        self.run("pip", "install", "--quiet", f"{wheel}{self._extras}")

    def distributions(self) -> set[str]:
        """Return the names of what is installed, without pip and setuptools."""
        return {item["name"] for item in json.loads(self.run("pip", "list", "--format=json"))} - TOOLS

    def run(self, *command: str) -> str:
        """Run a program in it, which must succeed, and return what it printed."""
        done = subprocess.run(
            command,
            env=self.variables,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=BUILD_S,
            check=False,
        )
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout


def make_core_alone(folder: Path, *tools: str) -> Path:
    """Make an environment of the core as it stands in this checkout, with what it needs by itself; return its Python.

    Args:
        folder: Where to make it.
        tools: Distributions that are to be there, too.
    """
    site = _make(folder)
    for name in _needed([*ALONE, *((name, "") for name in tools)]):
        _link(name, site)
    return folder / "bin" / "python"


def _make(folder: Path) -> Path:
    """Make an empty environment; return where its libraries go."""
    subprocess.run([sys.executable, "-m", "venv", "--clear", "--without-pip", folder], check=True)
    (site,) = folder.glob("lib/python*/site-packages")
    return site


def _needed(wanted: Iterable[tuple[str, str]]) -> set[str]:
    """Return distributions, each given with an extra, and all that they need, as they declare it."""
    todo = list(wanted)
    found: set[tuple[str, str]] = set()
    while todo:
        name, extra = item = todo.pop()
        if item in found:
            continue
        found.add(item)
        for line in metadata.requires(name) or ():
            needed = Requirement(line)
            if needed.marker is None or needed.marker.evaluate({"extra": extra}):
                todo += [(needed.name, inner) for inner in ("", *needed.extras)]
    return {name for name, _ in found}


def _link(name: str, site: Path) -> None:
    """Link the top level of a distribution into another environment."""
    distribution = metadata.distribution(name)
    for top in {file.parts[0] for file in distribution.files or ()} - {"..", "__pycache__"}:
        target = Path(str(distribution.locate_file(top)))
        if not (site / top).exists():
            (site / top).symlink_to(target)


if __name__ == "__main__":  # for 'make core'
    make_core_alone(Path(sys.argv[1]), *SUITE)
