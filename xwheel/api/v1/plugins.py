"""Plugins: what is installed, what it registers, with which options, and its state on this node."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import falcon
import msgspec

from xwheel.api.http.resource import Resource, reply, view_of
from xwheel.api.schema.derived import fields_of
from xwheel.model.access import Permission, current_actor
from xwheel.plugin.contracts import PartHealth, ReportsHealth
from xwheel.plugin.discovery import PluginOrigin, Plugins
from xwheel.plugin.resources import Operation
from xwheel.plugin.validation import reported_health
from xwheel.scheduler.listeners import RunFeed

HANGING_MS: Final = 60_000  # a listener that takes longer for one call counts as hanging


@fields_of(PartHealth, "ok queued failures hanging")
class PluginHealth(msgspec.Struct, frozen=True, kw_only=True):
    """How an alarm channel, a run listener or the log store that is used fares on this node.

    ``failures`` are those in a row for a channel and a store, and all since the start for a listener. ``hanging``
    counts calls that did not come back in time. ``dropped`` are changes that a listener was too slow for.
    """

    dropped: int
    last_ms: int | None
    last_answer: str


class RegisteredView(msgspec.Struct, frozen=True, kw_only=True):
    """Something that can be chosen by name; ``health`` is null for what only answers when it is asked."""

    kind: str
    name: str
    health: PluginHealth | None


@fields_of(PluginOrigin, "name distribution version")
class PluginView(msgspec.Struct, frozen=True, kw_only=True):
    """An installed plugin; one that is disabled or broken registers nothing.

    ``options`` are empty but for admins of all groups. Texts among them are masked unless the plugin declares them
    public.

    ``error`` says why a broken one, without which ``plugins.tolerate`` let the node start, is not loaded; else it is
    empty. A tolerated one that is not installed is not listed here, but in ``missing_plugins`` of the node's health.
    """

    module: str
    enabled: bool
    error: str
    registers: list[RegisteredView]
    options: dict[str, object]


class PluginsView(msgspec.Struct, frozen=True, kw_only=True):
    """All installed plugins by name, and the node that says so: others may have other ones."""

    items: list[PluginView]


class PluginsResource(Resource):
    """``/plugins``."""

    plugins: Plugins
    listeners: RunFeed

    @Operation({200: PluginsView})
    def on_get(self, _req: falcon.Request, resp: falcon.Response) -> None:
        """List the plugins of this node by name."""
        health, sees_options = self._health(), current_actor().grants.allows(Permission.ADMIN, None)
        items = [{**info.shown(health), **({} if sees_options else {"options": {}})} for info in self.plugins.installed]
        reply(resp, msgspec.convert({"items": items}, PluginsView))

    def _health(self) -> Mapping[tuple[str, str], PluginHealth]:
        found = {
            (item.kind, item.name): view_of(PluginHealth, item, dropped=0)
            for plugin in self.plugins.offering(ReportsHealth)
            for item in reported_health(plugin)
        }
        for listener in self.listeners.health():
            is_hanging = listener.busy_ms > HANGING_MS
            found["run listener", listener.name] = view_of(
                PluginHealth,
                listener,
                ok=not is_hanging,
                hanging=int(is_hanging),
                last_ms=None,
                last_answer=listener.last_error,
            )
        return found
