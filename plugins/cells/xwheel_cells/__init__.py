"""Several clusters side by side, the cells, read through one of them.

``options`` says which there are, ``far`` asks another cluster over HTTP and ``own`` the node itself, ``fanout`` asks
many at once with one deadline. ``answers`` says what an answer must look like, ``merging`` makes one page of those of
all cells, and ``routes`` are the calls. Nothing is written anywhere.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from xwheel.plugin import has_node_libraries, hookimpl

if TYPE_CHECKING:
    from xwheel import Config
    from xwheel.plugin import Pages, Routes

__all__ = ["xwheel_register_pages", "xwheel_register_routes"]


@hookimpl
def xwheel_register_routes(config: Config) -> Iterable[Routes]:
    """Register the calls."""
    if not has_node_libraries():
        return []
    from xwheel_cells.options import read_options
    from xwheel_cells.routes import CellRoutes

    return [CellRoutes(read_options(config))]


@hookimpl
def xwheel_register_pages() -> Iterable[Pages]:
    """Register the console's page of all cells."""
    from xwheel_cells.pages import CellPages

    return [CellPages()]
