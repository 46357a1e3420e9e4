"""Which implementation ``xwheel.ring`` takes, in a fresh interpreter each."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

ASK = "from xwheel.ring import COMPILED, TimeRing; print(COMPILED, TimeRing.__module__)"
HIDE = "import sys; sys.modules['xwheel._ring'] = None; "


def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("XWHEEL_")}
    return subprocess.run(
        [sys.executable, "-c", code], env=kept | environment, capture_output=True, text=True, check=False
    )


@pytest.mark.processes
def test_the_compiled_ring_is_taken_if_it_is_there():
    assert run(ASK).stdout.split() == ["True", "xwheel._ring"]


@pytest.mark.processes
def test_the_twin_can_be_forced():
    assert run(ASK, XWHEEL_NO_EXTENSIONS="1").stdout.split() == ["False", "xwheel._ring_py"]


@pytest.mark.processes
def test_the_twin_stands_in():
    assert run(HIDE + ASK).stdout.split() == ["False", "xwheel._ring_py"]


@pytest.mark.processes
def test_a_missing_extension_can_be_an_error():
    assert "ModuleNotFoundError" in run(HIDE + ASK, XWHEEL_REQUIRE_EXTENSIONS="1").stderr


@pytest.mark.parametrize("name", ["TimeRing", "PoolSelector"])
def test_both_have_the_same_methods(name):
    from xwheel import _ring, _ring_py

    compiled, twin = (
        {attribute for attribute in vars(getattr(module, name)) if not attribute.startswith("_")}
        for module in (_ring, _ring_py)
    )
    assert compiled == twin
