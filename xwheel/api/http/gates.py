"""Gates of plugins: asked who calls, where a call shows what they look at; one that fails lets no one in."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

import falcon

from xwheel.api.http.client import TrustedProxies
from xwheel.errors import AuthError, BusyError, ForbiddenError, PluginError, StorageError
from xwheel.model.access import Actor
from xwheel.plugin.gates import Gate, IdentifiesCallers, checked_actor
from xwheel.plugin.routes import PluginSite
from xwheel.plugin.validation import guarded

logger = logging.getLogger(__name__)

SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})
ALLOWED: Final = (AuthError, ForbiddenError, StorageError, BusyError)
"""What a gate may raise; anything else is a failure of its own."""


class PluginGates:
    """The gates of all plugins, in one process, asked in the order of their names; any thread may ask.

    Raises PluginError, which names the gate, if one cannot be opened.
    """

    def __init__(self, gates: Mapping[str, Gate], site: PluginSite, proxies: TrustedProxies) -> None:
        self._proxies = proxies
        self._opened = [(gate, _open(gate, site)) for _, gate in sorted(gates.items())]

    def identify(self, req: falcon.Request, address: str) -> tuple[Actor | None, str]:
        """Return who calls from an address, as the first gate says that knows it, and why not if one failed.

        Raises what a gate refuses the call with.
        """
        failed = ""
        for gate, check in self._opened:
            named = any(req.get_header(name) is not None for name in gate.headers)
            if not named and not any(req.get_cookie_values(name) for name in gate.cookies):
                continue
            head = self._proxies.head_of(req, gate.cookies)
            try:
                said = guarded(f"gate {gate.name}", lambda: check.identify(head), allowed=ALLOWED)  # noqa: B023
                found = checked_actor(gate.name, said, address)
            except PluginError as error:
                logger.error("no one is let in by it: %s", error)
                failed = f"gate {gate.name}: the plugin failed to say who calls; the log of the node has the details"
                continue
            if found is not None:
                return found, ""
        return None, failed


def _open(gate: Gate, site: PluginSite) -> IdentifiesCallers:
    found = guarded(f"gate {gate.name}", lambda: gate.open(site), allowed=PluginError)
    if not isinstance(found, IdentifiesCallers):
        raise PluginError(f"gate {gate.name}: open() must return what identifies callers")
    return found
