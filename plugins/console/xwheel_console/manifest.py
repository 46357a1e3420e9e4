"""``GET /api/v1/console/manifest``: which plugins add to the console."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import falcon
from msgspec import Struct
from xwheel import __version__
from xwheel.api.http.resource import reply
from xwheel.api.http.static import BELOW
from xwheel.plugin import CALLER, Operation, Pages, PluginSite, ResourceRoute


class PageModuleView(Struct, frozen=True, kw_only=True):
    """An ES module that adds pages, tiles or actions to the console; ``module`` is below the console's address."""

    name: str
    module: str


class ManifestView(Struct, frozen=True, kw_only=True):
    """What plugins add to the console, and the version of the node."""

    version: str
    items: list[PageModuleView]


class ConsoleResources:
    """What the console asks of itself."""

    name = "console"
    chapters: Mapping[str, str] = MappingProxyType({})

    def resources(self, site: PluginSite) -> Sequence[ResourceRoute]:
        """Return ``/console/manifest``."""
        return [ResourceRoute("/console/manifest", Manifest(site), {"GET": CALLER})]


class Manifest:
    """``/console/manifest``."""

    def __init__(self, site: PluginSite) -> None:
        self._site = site

    @Operation({200: ManifestView})
    def on_get(self, _req: falcon.Request, resp: falcon.Response) -> None:
        """List the modules of plugins that add to the console."""
        pages: Mapping[str, Pages] = self._site.registered("xwheel_register_pages")
        modules = [
            PageModuleView(name=name, module=f"{BELOW}/{name}/{item.module}")
            for name, item in sorted(pages.items())
            if item.module and not item.at_root
        ]
        reply(resp, ManifestView(version=__version__, items=modules))
