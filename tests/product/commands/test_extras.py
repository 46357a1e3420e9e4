"""A command whose library is not installed says what to install."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.test_extras import assert_hint


@pytest.mark.processes
def test_sealing_without_its_library() -> None:
    what = "sealing secrets needs cryptography, which is not installed"
    assert_hint("secret key x", "cryptography", "server", what)
    assert not Path("x").exists()
