"""Where people find the pages of a node, and how they sign in: said when it starts."""

from __future__ import annotations

import logging
from typing import Final

from xwheel.errors import XwheelError
from xwheel.plugin.discovery import Plugins
from xwheel.plugin.gates import LinksIn
from xwheel.plugin.routes import RecordsDeeds
from xwheel.plugin.validation import guarded
from xwheel.storage.database.engine import Database

logger = logging.getLogger(__name__)

ONCE: Final = "signs in once, for ten minutes"


def has_console(plugins: Plugins) -> bool:
    """Return whether a plugin serves pages at ``/``."""
    return any(pages.at_root for pages in plugins.pages.values())


def ways_in(plugins: Plugins) -> str:
    """Return how people sign in, as gates of plugins say."""
    found = [gate.way_in for _, gate in sorted(plugins.gates.items()) if isinstance(gate, LinksIn)]
    return "; or ".join(found) or "with a management token"


def link_in(plugins: Plugins, db: Database, record: RecordsDeeds) -> str | None:
    """Return the path of a page that signs in once somebody who may do everything; None if no gate makes one now."""
    for name, gate in sorted(plugins.gates.items()):
        if not isinstance(gate, LinksIn):
            continue
        try:
            path = guarded(f"gate {name}", lambda: gate.link_for_admin(db, record), allowed=XwheelError)  # noqa: B023
        except XwheelError as error:
            logger.warning("no link that signs in could be made: %s", error)
            continue
        if path:
            return str(path)
    return None
