"""Clusters for each test; how long examples take is no claim of any."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import settings
from sites import Cells

# examples may be slow on a busy machine
settings.register_profile("xwheel", deadline=None)
settings.load_profile("xwheel")
# these want a browser: 'make console' runs them where Playwright is
collect_ignore = [] if find_spec("playwright") else ["pages"]


@pytest.fixture
def cells(tmp_path: Path) -> Iterator[Cells]:
    with ExitStack() as stack:
        yield Cells(tmp_path, stack)
