"""What plugins bring for browsers: their files, and which of them add to the console."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

import falcon

from xwheel import __version__
from xwheel.api.http.resource import Resource, reply
from xwheel.api.http.static import StaticFiles
from xwheel.api.schema.views import ManifestView, PageModuleView
from xwheel.errors import PluginError
from xwheel.plugin.discovery import Plugins
from xwheel.plugin.pages import Pages, find_files
from xwheel.plugin.resources import Operation

BELOW: Final = "plugins"
_BELOW: Final = re.compile(rf"/{BELOW}/(?P<name>[a-z][a-z0-9-]*)/(?P<path>.*)")

Sink = Callable[..., None]


class Manifest(Resource):
    """``/api/v1/console/manifest``."""

    plugins: Plugins

    @Operation({200: ManifestView})
    def on_get(self, _req: falcon.Request, resp: falcon.Response) -> None:
        """List the modules of plugins that add to the console."""
        modules = [
            PageModuleView(name=name, module=f"{BELOW}/{name}/{item.module}")
            for name, item in sorted(self.plugins.pages.items())
            if item.module and not item.at_root
        ]
        reply(resp, ManifestView(version=__version__, items=modules))


def page_sinks(pages: Mapping[str, Pages]) -> dict[str, Sink]:
    """Return what answers for files of plugins, by the prefix of its paths; of two prefixes the last counts.

    Raises:
        PluginError: Two plugins want to be the console.
    """
    roots = sorted(name for name, item in pages.items() if item.at_root)
    if len(roots) > 1:
        raise PluginError(
            f"the pages {roots[0]} and {roots[1]} both want to be served at /: disable one of the plugins"
        )
    files = {name: StaticFiles(find_files(item)) for name, item in pages.items()}

    def below(req: falcon.Request, resp: falcon.Response, **_: str) -> None:
        found = _BELOW.fullmatch(req.path)
        if found is None or found["name"] not in files:
            raise falcon.HTTPRouteNotFound
        files[found["name"]].answer(req, resp, found["path"])

    def root(req: falcon.Request, resp: falcon.Response, **_: str) -> None:
        files[roots[0]].answer(req, resp, req.path.removeprefix("/"))

    sinks: dict[str, Sink] = {"/": root} if roots else {}
    if files:
        sinks[rf"/{BELOW}(/|\Z)"] = below
    return sinks
