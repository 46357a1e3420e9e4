"""Plugins for processes that tests start: this suite's own environment has none."""

from __future__ import annotations

import shutil
import sys
from functools import partial
from pathlib import Path

from tests.interop.builds import build_once, call, digest

ROOT = Path(__file__).parent.parent.parent
CACHE = ROOT / ".cache" / "plugins"
"""Where plugins are installed; not in git."""


def plugin_home(name: str) -> Path:
    """Return a folder that holds one plugin of ``plugins/`` as installed: put it on a process's ``PYTHONPATH``.

    What it depends on must be there with the core's own dependencies.
    """
    source = ROOT / "plugins" / name
    files = [source / "pyproject.toml", *source.glob("xwheel_*/**/*.py")]
    return build_once(CACHE / f"{name}-{digest(files)}", partial(_install, source))


def _install(source: Path, folder: Path) -> None:
    # a build writes into its source folder, where it could meet another one
    copy = folder / "source"
    shutil.copytree(source, copy, ignore=shutil.ignore_patterns(".*", "*.egg-info", "build", "tests"))
    pip_install([str(copy)], "--no-deps", "--no-compile", "--target", str(folder))
    shutil.rmtree(copy)


def pip_install(what: list[str], *options: str) -> None:
    """Install without a network: what is built is built with this environment's own tools."""
    offline = ["--quiet", "--no-index", "--no-build-isolation", "--disable-pip-version-check"]
    call([sys.executable, "-m", "pip", "install", *offline, *options, *what], ROOT, PYTHONWARNINGS="ignore")
