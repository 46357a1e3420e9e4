"""Run tests of the standard library's asyncio with event loops that keep their timers on the wheel.

Usage: ``python -m tests.support.asyncio_suite SUITE [LEFT-OUT …]``; says how many loops were made, and ends as unittest
does.
"""

from __future__ import annotations

import asyncio
import importlib
import sys
import unittest
from asyncio import base_events, unix_events
from collections.abc import Iterator
from typing import Any

from xwheel.timer import WheelTimerMixin

loops = 0


class CountedLoop(WheelTimerMixin):
    """A loop that is counted."""

    def __init__(self, *args: Any, **named: Any) -> None:
        global loops  # noqa: PLW0603 - the tests make the loops
        super().__init__(*args, **named)
        loops += 1


class WheelLoop(CountedLoop, asyncio.SelectorEventLoop):
    """What ``asyncio.new_event_loop`` gives here."""


def patch() -> None:
    """Put the wheel under each loop that the tests make, those with a simulated clock too."""
    utils: Any = importlib.import_module("test.test_asyncio.utils")
    utils.TestLoop = type("TestLoop", (utils.TestLoop, CountedLoop), {})
    places: Any = (base_events, asyncio, unix_events)
    places[0].BaseEventLoop = CountedLoop
    places[1].SelectorEventLoop = places[2].SelectorEventLoop = WheelLoop
    places[2]._UnixDefaultEventLoopPolicy._loop_factory = WheelLoop


def each_test(suite: unittest.TestSuite) -> Iterator[unittest.TestCase]:
    """Yield the tests of a suite."""
    for item in suite:
        if isinstance(item, unittest.TestSuite):
            yield from each_test(item)
        else:
            yield item


def main(name: str, *left_out: str) -> int:
    """Run a suite; return the exit code."""
    patch()
    found = unittest.defaultTestLoader.loadTestsFromName(f"test.test_asyncio.{name}")
    tests = [test for test in each_test(found) if not test.id().endswith(left_out)]
    result = unittest.TextTestRunner(verbosity=2).run(unittest.TestSuite(tests))
    print(f"{loops} loops had a wheel")
    return not result.wasSuccessful()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
