"""Fixtures of pytest for authors of plugins and handlers.

A test suite asks for them by name, in its ``conftest.py``: ``pytest_plugins = ["xwheel_devtools.testing.fixtures"]``.
They are no entry point of pytest: that would import xwheel in each run of each suite of every application that has an
executor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from xwheel_devtools.testing.node_site import NodeSite


@pytest.fixture
def xwheel_node(tmp_path: Path) -> Iterator[Callable[..., NodeSite]]:
    """Start nodes with executors, plugins and captured alarms; what it is called with goes to ``NodeSite``.

    They are stopped when the test ends.
    """
    with ExitStack() as stack:
        count = 0

        def start(*plugins: object, **more: Any) -> NodeSite:
            nonlocal count
            count += 1
            return stack.enter_context(NodeSite(tmp_path / f"node-{count}", *plugins, **more))

        yield start
