"""Fires per second and lateness of ``xwheel server --processes N`` for several N, each next to one process.

Nodes, executor and database share the machine's cores: a second process pays where there are cores for it. Thousands of
jobs of all partitions are due at once, as in ``benchmarks.pipeline``; then many on the same full second, as in
``benchmarks.burst``.
"""

from __future__ import annotations

import signal

from benchmarks._report import Report
from benchmarks._site import Site, site, until
from benchmarks.burst import APART_S, measure
from benchmarks.pipeline import measure_flat_out, percentile
from xwheel.errors import XwheelError
from xwheel.storage import leases

BURSTS = 3


def share(place: Site, processes: int) -> None:
    """Wait until each process holds partitions."""

    def check() -> None:
        with place.db.read() as conn:
            owners = {row.owner for row in leases.list_leases(conn)}
        if None in owners or len(owners) != processes:
            raise XwheelError(f"{len(owners)} nodes hold partitions")

    until(check, 60)


def main() -> None:
    """Measure one process and N of them in turn."""
    report = Report(__doc__ or "", repeats=3)
    option = report.parser.add_argument
    option("--processes", type=int, nargs="*", default=(2, 4), help="how many, each compared with one")
    option("--fires", type=int, default=12_000, help="jobs due at once")
    option("--burst", type=int, default=500, help="jobs due on the same second")
    option("--backend", choices=("mariadb", "postgresql"), default="postgresql", help="kind of database")
    args = report.parse()
    signal.signal(signal.SIGTERM, lambda *_: (_ for _ in ()).throw(KeyboardInterrupt()))
    rates: dict[int, list[float]] = {}
    late: dict[int, list[float]] = {}
    for _ in range(args.repeats):
        for count in (1, *args.processes):
            with site(backend=args.backend, processes=count) as place:
                share(place, count)
                measure_flat_out(place, args.fires // 4)  # what comes first connects and compiles
                rates.setdefault(count, []).append(measure_flat_out(place, args.fires)[1])
                bursts = measure(place, [0] * args.burst, APART_S, BURSTS)
                late.setdefault(count, []).extend(percentile(one, 0.99) for one in bursts)
    for count in (1, *args.processes):
        report.figure(f"{count} processes, final", rates[count], "fires/s")
        report.figure(f"{count} processes, burst of {args.burst}, due to start, p99", late[count], "ms")
    for count in args.processes:
        slow, fast = ([1 / rate for rate in rates[number]] for number in (1, count))
        report.ratio(f"{count} processes / one", slow, fast)
    report.finish()


if __name__ == "__main__":
    main()
