"""An environment as a stranger's: the core as a wheel, what it declares to need, pip, and nothing else."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement

from tests.support.paths import ROOT

CORE = ("pyproject.toml", "setup.py", "README.md", "LICENSE", "xwheel")
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


class FreshEnvironment:
    """A virtual environment without a network: libraries are links to this process's own.

    Args:
        folder: Where to make it.

    Attributes:
        variables: For processes in it; ``PATH`` begins with its programs.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PIP_"))}
        self.variables = {**kept, **OFFLINE, "PATH": f"{folder / 'bin'}:{os.environ['PATH']}"}
        (site,) = folder.glob("lib/python*/site-packages")
        for name in _needed({"xwheel", "pip", "setuptools"}) - {"xwheel"}:
            _link(name, site)
        pip = folder / "bin" / "pip"
        pip.write_text('#!/bin/sh\nexec "$(dirname "$0")/python" -m pip "$@"\n')
        pip.chmod(0o755)

    def install_core(self, work: Path) -> None:
        """Build the core's wheel of a copy of the sources, since a build writes into them, and install it."""
        copy = work / "core"
        copy.mkdir(parents=True)
        for name in CORE:
            if (ROOT / name).is_dir():
                shutil.copytree(
                    ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__", "*.so", "*.cpp")
                )
            else:
                shutil.copy(ROOT / name, copy)
        self.run("pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(work), str(copy))
        # without --no-deps: pip checks that what the wheel declares to need is here
        self.run("pip", "install", "--quiet", *map(str, work.glob("*.whl")))

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


def _needed(names: Iterable[str]) -> set[str]:
    """Return these distributions and all that they need, as they declare it."""
    todo = [(name, "") for name in names]
    found: set[tuple[str, str]] = set()
    while todo:
        name, extra = item = todo.pop()
        if item in found:
            continue
        found.add(item)
        for line in metadata.requires(name) or ():
            wanted = Requirement(line)
            if wanted.marker is None or wanted.marker.evaluate({"extra": extra}):
                todo += [(wanted.name, inner) for inner in ("", *wanted.extras)]
    return {name for name, _ in found}


def _link(name: str, site: Path) -> None:
    """Link the top level of a distribution into another environment."""
    distribution = metadata.distribution(name)
    for top in {file.parts[0] for file in distribution.files or ()} - {"..", "__pycache__"}:
        target = Path(str(distribution.locate_file(top)))
        if not (site / top).exists():
            (site / top).symlink_to(target)
