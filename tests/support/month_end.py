"""Run a command two minutes before a month ends: ``python -m tests.support.month_end COMMAND...``.

The month ends in a zone where days do not begin when they do in UTC, and the locale is plain: what a test takes for
granted of the hour, the day, the zone or the language of the machine does not hold there.
"""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo

from tests.faults.injectors.clocks import WallClock

ZONE: Final = "Asia/Kolkata"
BEFORE: Final = timedelta(minutes=2)


def until_month_end(now: datetime) -> timedelta:
    """Return how far the clock has to be put forward at an instant."""
    later = now.astimezone(ZoneInfo(ZONE)) + BEFORE
    first = (later.replace(day=1) + timedelta(days=31)).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    return first - BEFORE - now


def main(command: list[str]) -> int:
    """Return the command's exit status."""
    with WallClock(until_month_end(datetime.now(UTC)) // timedelta(milliseconds=1)) as clock:
        environment = {**os.environ, **clock.environment, "TZ": ZONE, "LC_ALL": "C"}
        return subprocess.run(command, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
