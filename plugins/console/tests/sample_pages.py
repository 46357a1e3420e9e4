"""A plugin with a page, a tile and actions, as somebody else would write it; tests switch it on."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from xwheel.plugin import Pages, hookimpl


class Sample:
    name = "sample"
    folder = str(Path(__file__).parent / "sample")
    at_root = False
    module = "sample.js"


@hookimpl
def xwheel_register_pages() -> Iterable[Pages]:
    return [Sample()]
