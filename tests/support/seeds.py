"""Random cases: all of them on SQLite, a few on each server, where the same statements take many times longer."""

from __future__ import annotations

import pytest
from _pytest.mark import ParameterSet


def seeds(count: int, *, on_servers: int) -> list[ParameterSet]:
    """Return the seeds of a test that asks for a database, for ``pytest.mark.parametrize``."""
    return [
        pytest.param(number, marks=[pytest.mark.more_seeds] if number >= on_servers else [])
        for number in range(count)
    ]
