"""From due to the start of the handler: bursts on the full second, and as many fires spread over each second.

Node and executor are processes of their own; database and journal are synced. The handler notes when it starts, by the
clock of the machine, which is the node's too; due times are read from the run rows. All jobs of a burst are due on the
same full second, and again some seconds later. A percentile is one of a burst, or of a second of what is spread; what
is shown is the median of these, and the least and the most.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Sequence

from benchmarks._report import Report
from benchmarks._site import Site, site
from benchmarks.pipeline import _rows, _wait_until_closed, percentile
from xwheel.model import RunState

HANDLER = "note_start"
APART_S = 3
PARTS = ((0.5, "p50"), (0.99, "p99"))


def measure(place: Site, offsets_ms: Sequence[int], period_s: int, times: int) -> list[list[float]]:
    """Let a job fire so many milliseconds after the second, for each of ``offsets_ms``, every ``period_s``.

    Returns:
        For each time the sorted milliseconds from due to the start of the handler.
    """
    start_ms = (int(time.time()) + 3 + len(offsets_ms) // 30) * 1000
    end_ms = start_ms + times * period_s * 1000
    ids = {
        place.client.call(
            "POST",
            "/api/v1/jobs",
            {
                "group_id": place.group_id,
                "name": f"burst {number} at {start_ms}",
                "handler": HANDLER,
                "schedule_type": "FIX_RATE",
                "schedule_conf": f"{period_s}s",
                "anchor_ms": start_ms + offset_ms,
                "start_ms": start_ms,
                "end_ms": end_ms - 1,
                "misfire_policy": "fire_once",
                "enabled": True,
            },
        )["id"]
        for number, offset_ms in enumerate(offsets_ms)
    }
    assert time.time() * 1000 < start_ms, "the jobs were not there in time"
    time.sleep(start_ms / 1000 - time.time())
    _wait_until_closed(place.db, ids, len(ids) * times, times * period_s + 60)
    rows = _rows(place.db, ids)
    assert len(rows) == len(ids) * times
    assert all(run.state is RunState.SUCCEEDED for run in rows), {run.state for run in rows}
    started_us = place.started_us()
    late: list[list[float]] = [[] for _ in range(times)]
    for run in rows:
        late[(run.due_ms - start_ms) // (1000 * period_s)].append(started_us[run.id] / 1000 - run.due_ms)
    return [sorted(one) for one in late]


def main() -> None:
    """Measure bursts of each size, then what is spread."""
    report = Report(__doc__ or "", repeats=5)
    option = report.parser.add_argument
    option("--sizes", type=int, nargs="*", default=(200, 500, 1000), help="jobs that are due at once")
    option("--rates", type=int, nargs="*", default=(1000,), help="fires a second, spread evenly")
    option("--seconds", type=int, default=10, help="of what is spread")
    option("--backend", choices=("sqlite", "mariadb", "postgresql"), default="sqlite", help="kind of database")
    option("--foreign", action="store_true", help="an executor that knows /run only")
    args = report.parse()
    signal.signal(signal.SIGTERM, lambda *_: (_ for _ in ()).throw(KeyboardInterrupt()))
    with site(backend=args.backend, is_foreign=args.foreign) as place:
        measure(place, [0] * 20, 1, 2)  # what comes first connects, compiles and starts threads
        wanted = [(f"burst of {size}", [0] * size, APART_S, args.repeats) for size in args.sizes]
        for rate in args.rates:
            spread = [number * 1000 // rate for number in range(rate)]
            wanted.append((f"{rate}/s spread", spread, 1, args.seconds))
        for name, offsets_ms, period_s, times in wanted:
            found = measure(place, offsets_ms, period_s, times)
            for part, word in PARTS:
                report.figure(f"{name}, due to start, {word}", [percentile(one, part) for one in found], "ms")
    report.finish()


if __name__ == "__main__":
    main()
