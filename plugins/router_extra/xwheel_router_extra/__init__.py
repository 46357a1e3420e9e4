"""Routers besides the built-in ones; ``README.md`` describes each."""

from __future__ import annotations

from xwheel.plugin import PluginOptions, Router, hookimpl, read_options

from xwheel_router_extra.asking import Busyover, Failover
from xwheel_router_extra.counting import LeastFrequentlyUsed, LeastRecentlyUsed
from xwheel_router_extra.hashing import ConsistentHash
from xwheel_router_extra.labels import Labels
from xwheel_router_extra.loads import LeastLoaded, Weighted
from xwheel_router_extra.sticky import Sticky

TYPE_CHECKING = False
if TYPE_CHECKING:
    from xwheel import Config

__all__ = ["xwheel_register_routers"]


@hookimpl
def xwheel_register_routers(config: Config) -> list[Router]:
    """Register the routers; the plugin has no options."""
    read_options(config, "router_extra", PluginOptions)
    return [
        ConsistentHash(),
        LeastFrequentlyUsed(),
        LeastRecentlyUsed(),
        Failover(),
        Busyover(),
        LeastLoaded(),
        Weighted(),
        Sticky(),
        Labels("LABELS", asks=False),
        Labels("LABELS_ASKING", asks=True),
    ]
