"""The management API described: its OpenAPI document, and a page for people.

Each responder carries an ``Operation``: what it takes and answers. ``document`` collects them, adds what no type says
from ``words``, and returns the OpenAPI document as plain values; ``pages`` serves it, and the page.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from xwheel.plugin import PUBLIC, PluginSite, ResourceRoute, Resources, hookimpl


class ApiDescription:
    """The document, its page and the page's style."""

    name = "openapi"
    chapters: Mapping[str, str] = {}

    def resources(self, site: PluginSite) -> Sequence[ResourceRoute]:
        """Return what shows the resources of the site."""
        # other processes, such as executors, have no use for what it imports
        from xwheel_openapi.pages import Documents, OpenApiDocument, ReferencePage, ReferenceStyle

        documents, public = Documents(site), {"GET": PUBLIC}
        return [
            ResourceRoute("/openapi.json", OpenApiDocument(documents), public),
            ResourceRoute("/docs", ReferencePage(documents), public, at_root=True),
            ResourceRoute("/docs/reference.css", ReferenceStyle(documents), public, at_root=True),
        ]


@hookimpl
def xwheel_register_resources() -> Iterable[Resources]:
    """Return the description of the API."""
    return [ApiDescription()]
