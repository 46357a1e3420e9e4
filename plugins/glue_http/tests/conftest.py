"""An executor with the plugin, and a server that jobs call."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from xwheel import Config
from xwheel_devtools.testing import ExecutorSite, WebServer

# examples may be slow on a busy machine; how long they take is no claim of any test
settings.register_profile("xwheel", deadline=None)
settings.load_profile("xwheel")


class Site(ExecutorSite):
    """An executor that may call ``web``."""

    def __init__(
        self, folder: Path, web: WebServer, options: dict[str, Any], egress: dict[str, Any], **more: Any
    ) -> None:
        self.web = web
        sections: dict[str, Any] = {"egress": {**web.egress, **egress}, "plugins": {"options": {"glue_http": options}}}
        super().__init__(folder, Config(**sections), "GLUE_HTTP", **more)

    def start(self, source: Mapping[str, Any] | str, run_id: int = 1, **fields: Any) -> Any:
        return super().start(source if isinstance(source, str) else json.dumps(source), run_id, **fields)


@pytest.fixture
def make_site(tmp_path: Path) -> Iterator[Callable[..., Site]]:
    with ExitStack() as made:

        def make(options: dict[str, Any] | None = None, egress: dict[str, Any] | None = None, **more: Any) -> Site:
            web = WebServer()
            site = Site(tmp_path / f"data{web.port}", web, options or {}, egress or {}, **more)
            # calls that wait end before the executor does
            made.callback(site.close)
            made.callback(web.close)
            return site

        yield make


@pytest.fixture
def site(make_site: Callable[..., Site]) -> Site:
    return make_site()
