"""An executor with the plugin."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from xwheel import Config
from xwheel_devtools.testing import ExecutorSite

ALL = ["GLUE_SHELL", "GLUE_PYTHON", "GLUE_PYTHON2", "GLUE_NODEJS", "GLUE_PHP", "GLUE_POWERSHELL"]


@pytest.fixture
def make_site(tmp_path: Path) -> Iterator[Callable[..., ExecutorSite]]:
    with ExitStack() as made:

        def make(options: dict[str, Any] | None = None, allowed: list[str] | None = None) -> ExecutorSite:
            config = Config(plugins={"options": {"glue_script": options or {}}})  # type: ignore[arg-type]
            site = ExecutorSite(tmp_path / "data", config, "GLUE_SHELL", allowed=ALL if allowed is None else allowed)
            return made.enter_context(site)

        yield make


@pytest.fixture
def site(make_site: Callable[..., ExecutorSite]) -> ExecutorSite:
    return make_site()
