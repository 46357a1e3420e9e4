"""The management API with the resources of installed plugins, for its routes and their document: it serves no call."""

from __future__ import annotations

import dataclasses
import re
from types import SimpleNamespace
from typing import Any

from xwheel_openapi.document import operations
from xwheel_openapi.pages import Documents

from xwheel.api.app import build_management_app
from xwheel.config import Config
from xwheel.config.sections import ApiSection
from xwheel.plugin.discovery import load_plugins
from xwheel.plugin.registries import Registry

PLUGINS = load_plugins(Config())
CHAPTERS = {first: words for item in PLUGINS.resources.values() for first, words in item.chapters.items()}


def _bare_app() -> Any:
    parts: Any = SimpleNamespace(
        config=ApiSection(),
        db=None,
        clock=None,
        lease=None,
        health=None,
        access=SimpleNamespace(tokens=None),
        audit=None,
        logs=None,
        job_writer=None,
        plugins=dataclasses.replace(
            load_plugins(Config()),
            pages=Registry("set of pages", {}, {}),
            routes=Registry("set of routes", {}, {}),
        ),
    )
    return build_management_app(parts)


APP = _bare_app()
_SITE: Any = SimpleNamespace(resources=lambda: APP.routes, registered=PLUGINS.registered)
DOCUMENT = Documents(_SITE).document
OPERATIONS = list(operations(APP.routes))
NEEDS = {re.sub(r":\w+}", "}", path).removeprefix("/api/v1"): needs for path, needs in APP.needs.items()}
"""Path below the prefix, to method, to what it needs."""
