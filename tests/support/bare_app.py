"""The management API with the resources of installed plugins, for its routes and their document: it serves no call."""

from __future__ import annotations

import dataclasses
import re
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

from xwheel_openapi.document import operations
from xwheel_openapi.pages import Documents

from xwheel.api.app import build_management_app
from xwheel.config import Config
from xwheel.plugin.discovery import load_plugins
from xwheel.plugin.registries import Registry

PLUGINS = load_plugins(Config())


def _bare_app() -> Any:
    none = Registry("set of pages", {}, {}), Registry("set of routes", {}, {})
    plugins = dataclasses.replace(load_plugins(Config()), pages=none[0], routes=none[1])
    return build_management_app(Mock(config=Config(), plugins=plugins))


APP = _bare_app()
_SITE: Any = SimpleNamespace(resources=lambda: APP.routes, registered=PLUGINS.registered)
DOCUMENT = Documents(_SITE).document
OPERATIONS = list(operations(APP.routes))
NEEDS = {re.sub(r":\w+}", "}", path).removeprefix("/api/v1"): needs for path, needs in APP.needs.items()}
"""Path below the prefix, to method, to what it needs."""
