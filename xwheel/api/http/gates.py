"""Gates of plugins: asked who calls, where a call shows what they look at; one that fails lets no one in."""

from __future__ import annotations

import logging
from typing import Final

import falcon

from xwheel.api.http.client import TrustedProxies
from xwheel.errors import AuthError, BusyError, ForbiddenError, PluginError, StorageError
from xwheel.model.access import Actor
from xwheel.plugin.gates import CallHead, Gate, IdentifiesCallers, checked_actor
from xwheel.plugin.registries import Registry
from xwheel.plugin.routes import PluginSite
from xwheel.plugin.validation import guarded
from xwheel.runtime.foreign import HangingError, PluginThreads

logger = logging.getLogger(__name__)

SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})
ALLOWED: Final = (AuthError, ForbiddenError, StorageError, BusyError)
"""What a gate may raise; anything else is a failure of its own."""


class PluginGates:
    """The gates of all plugins, in one process, asked in the order of their names; any thread may ask.

    One that ``plugins.trusted`` does not name is asked on ``threads``: what hangs there holds no thread of a listener
    for longer than a call of a plugin may take.

    Raises PluginError, which names the gate, if one cannot be opened.
    """

    def __init__(
        self, gates: Registry[Gate], site: PluginSite, proxies: TrustedProxies, threads: PluginThreads
    ) -> None:
        self._proxies, self._threads, self._trusted = proxies, threads, gates.trusted
        self._opened = [(gate, _open(gate, site)) for _, gate in sorted(gates.items())]

    def identify(self, req: falcon.Request, address: str) -> tuple[Actor | None, str]:
        """Return who calls from an address, as the first gate says that knows it, and why not if one failed.

        Raises what a gate refuses the call with, and BusyError if a gate does not come back.
        """
        failed = ""
        for gate, check in self._opened:
            named = any(req.get_header(name) is not None for name in gate.headers)
            if not named and not any(req.get_cookie_values(name) for name in gate.cookies):
                continue
            head = self._proxies.head_of(req, gate.cookies)
            try:
                found = self._ask(gate.name, check, head, address)
            except HangingError as error:
                raise BusyError(f"gate {gate.name} does not say who calls: ask again in a moment") from error
            except PluginError as error:
                logger.error("no one is let in by it: %s", error)
                failed = f"gate {gate.name}: the plugin failed to say who calls; the log of the node has the details"
                continue
            if found is not None:
                return found, ""
        return None, failed

    def _ask(self, name: str, check: IdentifiesCallers, head: CallHead, address: str) -> Actor | None:
        what = f"gate {name}"

        def ask() -> Actor | None:
            return checked_actor(name, guarded(what, lambda: check.identify(head), allowed=ALLOWED), address)

        return ask() if name in self._trusted else self._threads.call(what, lambda _: ask())


def _open(gate: Gate, site: PluginSite) -> IdentifiesCallers:
    found = guarded(f"gate {gate.name}", lambda: gate.open(site), allowed=PluginError)
    if not isinstance(found, IdentifiesCallers):
        raise PluginError(f"gate {gate.name}: open() must return what identifies callers")
    return found
