"""The check of wheels finds what is missing, differs or does not belong there."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from zipfile import ZipFile

from tests.support.paths import ROOT
from tests.support.wheel_files import faults_of

PAGE = "xwheel_console/static/app.js"
REST = {"xwheel_console-0.1.0.dist-info/entry_points.txt": "[xwheel]"}


def a_wheel(folder: Path, more: Mapping[str, str], *, without: str = "") -> Path:
    home, wheel = ROOT / "plugins" / "console", folder / "xwheel_console-0.1.0-py3-none-any.whl"
    with ZipFile(wheel, "w") as archive:
        for path in (home / "xwheel_console").rglob("*"):
            name = str(path.relative_to(home))
            if path.is_file() and "__pycache__" not in name and name not in {without, *more}:
                archive.write(path, name)
        for name, text in more.items():
            archive.writestr(name, text)
    return wheel


def test_a_wheel_holds_each_file_as_it_stands_and_no_other(tmp_path: Path) -> None:
    assert faults_of(a_wheel(tmp_path, REST)) == []
    assert faults_of(a_wheel(tmp_path, REST, without=PAGE)) == [f"{PAGE} is missing"]
    assert faults_of(a_wheel(tmp_path, {**REST, PAGE: "old"})) == [f"{PAGE} differs"]
    assert faults_of(a_wheel(tmp_path, {**REST, "tests/x.py": ""})) == ["tests/x.py does not belong there"]
    assert faults_of(a_wheel(tmp_path, {})) == ["there are no entry points"]


def test_a_wheel_of_the_core_is_compiled(tmp_path: Path) -> None:
    wheel = tmp_path / "xwheel-0.1.0-py3-none-any.whl"
    with ZipFile(wheel, "w") as archive:
        archive.writestr("xwheel/_timer.abi3.so", "")
    faults = faults_of(wheel)
    assert "xwheel/_ring is not compiled" in faults
    assert "xwheel/_timer is not compiled" not in faults
    assert "xwheel/__init__.py is missing" in faults
