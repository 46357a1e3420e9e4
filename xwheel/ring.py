"""The time ring: which run is due now, and which pool its send belongs in.

The compiled :mod:`xwheel._ring` is taken if it was built, else its Python twin; both behave the same. This is the
one module that reads the environment when it is imported, since the answer decides what is imported:
``XWHEEL_NO_EXTENSIONS=1`` takes the twin, ``XWHEEL_REQUIRE_EXTENSIONS=1`` makes a missing extension an error.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING or os.environ.get("XWHEEL_NO_EXTENSIONS") == "1":
    from xwheel._ring_py import FAST, SLOW, PoolSelector, TimeRing
else:
    try:
        from xwheel._ring import FAST, SLOW, PoolSelector, TimeRing
    except ImportError:
        if os.environ.get("XWHEEL_REQUIRE_EXTENSIONS") == "1":
            raise
        from xwheel._ring_py import FAST, SLOW, PoolSelector, TimeRing

COMPILED = TimeRing.__module__ == "xwheel._ring"

__all__ = ["COMPILED", "FAST", "SLOW", "PoolSelector", "TimeRing"]
