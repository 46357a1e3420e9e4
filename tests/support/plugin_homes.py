"""Plugins for processes that tests start: this suite's own environment has none."""

from __future__ import annotations

import shutil
import sys
from functools import partial
from pathlib import Path
from zipfile import ZipFile

from tests.interop.builds import build_once, call, digest
from tests.support.paths import ROOT

CACHE = ROOT / ".cache" / "plugins"
"""Where plugins are installed; not in git."""


def plugin_home(name: str) -> Path:
    """Return a folder that holds one plugin of ``plugins/`` as installed: put it on a process's ``PYTHONPATH``.

    What it depends on must be there with the core's own dependencies.
    """
    source = ROOT / "plugins" / name
    files = [source / "pyproject.toml", *source.glob("xwheel_*/**/*.py")]
    return build_once(CACHE / f"{name}-{digest(files)}", partial(_install, source))


def lay_plugin(folder: Path, name: str, source: str, *, version: str = "1.0") -> None:
    """Write a distribution of one module into a folder, as if it were installed there, with its entry point."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.py").write_text(source)
    info = folder / f"{name}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name.replace('_', '-')}\nVersion: {version}\n")
    (info / "entry_points.txt").write_text(f"[xwheel]\n{name} = {name}\n")


def _install(source: Path, folder: Path) -> None:
    # a build writes into its source folder, where it could meet another one
    copy = folder / "source"
    shutil.copytree(source, copy, ignore=shutil.ignore_patterns(".*", "*.egg-info", "build", "tests", "__pycache__"))
    # what pip does with it, without pip: it takes three times as long, for some twenty plugins
    build = "from setuptools import build_meta; build_meta.build_wheel('.')"
    call([sys.executable, "-c", build], copy, PYTHONWARNINGS="ignore")
    (wheel,) = copy.glob("*.whl")
    with ZipFile(wheel) as files:
        files.extractall(folder)
    shutil.rmtree(copy)
