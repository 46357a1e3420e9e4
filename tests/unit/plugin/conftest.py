"""Plugins of strangers, as distributions and as files."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Install = Callable[..., None]
PutFile = Callable[..., Path]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Put a distribution with one module and one entry point on the path."""

    def put(source: str, entry: str = "acme", requires: str = "") -> None:
        folder = tmp_path / entry
        info = folder / f"acme_{entry}-1.2.dist-info"
        info.mkdir(parents=True)
        needs = f"Requires-Dist: {requires}\n" if requires else ""
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: acme-{entry}\nVersion: 1.2\n{needs}")
        (info / "entry_points.txt").write_text(f"[xwheel]\n{entry} = acme_module_{entry}\n")
        (folder / f"acme_module_{entry}.py").write_text(source)
        monkeypatch.syspath_prepend(str(folder))
        monkeypatch.delitem(sys.modules, f"acme_module_{entry}", raising=False)

    return put


@pytest.fixture
def put_file(tmp_path: Path) -> PutFile:
    """Put a plugin of one file into a folder, and return the folder."""

    def put(name: str, source: str) -> Path:
        folder = tmp_path / "plugins"
        folder.mkdir(mode=0o755, exist_ok=True)
        path = folder / name
        path.write_text(source)
        path.chmod(0o644)
        return folder

    return put
