"""The management API with the resources of installed plugins, for its routes and their document: it serves no call."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from xwheel.api.app import build_management_app
from xwheel.api.openapi.document import Described, DescribedRoute, build_document, operations
from xwheel.api.openapi.words import TAGS
from xwheel.config import Config
from xwheel.config.sections import AccountsSection, ApiSection
from xwheel.plugin import Resources
from xwheel.plugin.discovery import load_plugins
from xwheel.plugin.registries import Registry


def bare_app(resources: Registry[Resources]) -> Any:
    """Return the application with these resources of plugins."""
    access = SimpleNamespace(tokens=None, sessions=None, config=AccountsSection())
    parts: Any = SimpleNamespace(
        config=ApiSection(),
        db=None,
        clock=None,
        health=None,
        access=access,
        refusals=None,
        job_writer=None,
        plugins=SimpleNamespace(pages={}, routes=Registry("set of routes", {}, {}), resources=resources),
    )
    return build_management_app(parts)


def described(app: Any, resources: Registry[Resources]) -> tuple[dict[str, Any], Sequence[Described]]:
    """Return the document of an application, and its operations."""
    routes = [DescribedRoute(*route, app.needs[route[0]]) for route in app.routes]
    chapters = {part: words for item in resources.values() for part, words in item.chapters.items()}
    return build_document(routes, {**chapters, **TAGS}), list(operations(routes))


_RESOURCES = load_plugins(Config()).resources
APP = bare_app(_RESOURCES)
DOCUMENT, OPERATIONS = described(APP, _RESOURCES)
