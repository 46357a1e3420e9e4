"""The list of what runs on servers names tests that are there: of one that is not, pytest runs none at all."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.backends import LAST_FAILED, PLACES, places_for
from tests.support.paths import ROOT


@pytest.mark.parametrize("place", [None, "tests/product/console/test_reader.py::test_gone"])
def test_each_place_is_there(place: str | None) -> None:
    missing = [item for item in ([place] if place else PLACES) if not _is_there(item)]
    assert missing == ([place] if place else [])


def test_what_failed_there_is_run_again(tmp_path: Path) -> None:
    """The judge's way: a test failed, and places name tests of files in which none did."""
    (tmp_path / "test_some.py").write_text("def test_one(): assert 0\n")
    (tmp_path / "test_other.py").write_text("def test_two(): pass\n")
    places = [f"{tmp_path / 'test_some.py'}::test_one", f"{tmp_path / 'test_other.py'}::test_two"]

    def run(*words: str) -> str:
        command = [sys.executable, "-m", "pytest", "-q", "-c", os.devnull, "-o", f"cache_dir={tmp_path / 'cache'}"]
        done = subprocess.run([*command, *words], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
        return done.stdout + done.stderr

    assert "1 failed, 1 passed" in run(*places)
    assert "not found" in run(LAST_FAILED, *places)  # why whole files are collected then
    assert "1 failed" in run(LAST_FAILED, *{place.partition("::")[0] for place in places})
    assert places_for([]) == PLACES
    assert not [place for place in places_for([LAST_FAILED]) if "::" in place]


def _is_there(place: str) -> bool:
    file, _, name = place.partition("[")[0].partition("::")
    path = ROOT / file
    return path.exists() and (not name or bool(re.search(rf"^def {name}\(", path.read_text("utf-8"), re.MULTILINE)))
