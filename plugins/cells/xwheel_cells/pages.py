"""What the cells add to the console: a page with all of them."""

from __future__ import annotations

from pathlib import Path


class CellPages:
    """The files in ``static``."""

    name = "cells"
    folder = str(Path(__file__).parent / "static")
    at_root = False
    module = "cells.js"
