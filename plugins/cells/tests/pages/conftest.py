"""Two clusters, the page of one in real Chromium; most of it is what the console's own tests use."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from sites import Cells
from xwheel_devtools.testing import NodeSite, web_reply

sys.path.append(str(Path(__file__).resolve().parents[4]))

from tests.support.console_site import console_tests

_console = console_tests()
browser = _console.browser
contexts = _console.contexts
open_page = _console.open_page
watch = _console.watch

MARKUP = "<img src=x onerror=\"globalThis.harmed = 'yes'\">"


class FrontSite(_console.Site):  # type: ignore[misc]
    """The cluster through which another one and a broken one are read.

    Attributes:
        north: The other cluster.
    """

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        cells = Cells(folder, stack)
        self.north: NodeSite = cells.cluster(settings={"upkeep": {"report_interval_s": 1}})
        self.broken = cells.server(web_reply(503))
        table = {name: cells.options_of(cell) for name, cell in (("north", self.north), ("broken", self.broken))}
        settings = {"upkeep": {"report_interval_s": 1}}
        options = {"cells": {"cell": table, "timeout_ms": 15_000}}
        super().__init__(folder / "front", "cells", options=options, settings=settings)

    def job_of_north(self, name: str, **fields: Any) -> int:
        """Make a job in the other cluster; return its id."""
        group_id = self.north.call("GET", "groups")["items"][0]["id"]
        known = {"group_id": group_id, "name": name, "handler": "hello"}
        return int(self.north.call("POST", "jobs", {**known, **fields})["id"])


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FrontSite]:
    with ExitStack() as stack:
        found = FrontSite(tmp_path_factory.mktemp("site"), stack)
        stack.callback(found.node.close)
        yield found
