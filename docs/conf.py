"""How the pages become a site: ``make docs``."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from typing import Any

import xwheel

project = "xwheel"
copyright = "the xwheel authors"  # noqa: A001 - Sphinx's name for it
release = version = xwheel.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
html_theme = "furo"
html_title = f"xwheel {version}"
# pages link to headings, down to the fourth level
myst_heading_anchors = 4

autodoc_member_order = "bysource"
autodoc_typehints_format = "short"

nitpicky = True
# no page here: other projects' names, and those that only type hints mention
nitpick_ignore_regex = [
    ("py:.*", rf"({'|'.join(sys.stdlib_module_names)}|msgspec|pydantic|typer)\..*"),
    ("py:.*", r"xwheel\.(?!(executor|plugin|cron|ring|errors)\.\w+$).+"),
    ("py:.*", r"xwheel_(alarms|run_logs)\..+"),
    ("py:.*", r"xwheel_devtools\.(?!testing\.\w+$).+"),
    ("py:.*", r"[A-Z]|[A-Z]+_?[A-Z]+|Ts|Config|Path"),
]


def keep_colons(_app: Any, what: str, _name: str, _item: Any, _options: Any, lines: list[str]) -> None:
    """Keep what stands before a property's first colon from being read as its type, by a comment before it."""
    if what in {"attribute", "data", "property"}:
        lines[:0] = ["..", ""]


def setup(app: Any) -> None:
    """Add what this site needs besides, and write the pages that are made of the code; Sphinx calls it."""
    runpy.run_path(str(Path(__file__).parent / "generated.py"))["write_all"]()
    app.connect("autodoc-process-docstring", keep_colons, priority=0)
