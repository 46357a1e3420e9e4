"""Fires per second of two nodes against one, with a database that is near and with one that is a network away.

A proxy adds some milliseconds to each round trip between the nodes and their database; without it they reach the
server directly. Thousands of jobs of all partitions are due at once, as in ``benchmarks.pipeline``; one node fires
them, then two that hold half of the partitions each, in turn. Nodes, executor and server share the machine's cores:
the ratio without the delay says how much of that is left for a second node.
"""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from dataclasses import dataclass, field

from xwheel_devtools.quickstart.processes import Child

from benchmarks._report import Report
from benchmarks._site import Site, cpu_s, site, until
from benchmarks.pipeline import measure_flat_out
from tests.faults.injectors.proxy import Proxy, Toward, before
from tests.support.databases import BACKENDS
from xwheel.errors import XwheelError
from xwheel.model import PARTITIONS
from xwheel.runtime.ports import free_port
from xwheel.storage import leases
from xwheel.wire.http.rest import RestClient

GOAL = 1.6
SETTLE_S = 60


class Second:
    """A second node on the same database, which the executor knows too.

    Args:
        place: The first one's.
        executor_port: Where it takes the executor's calls.
    """

    def __init__(self, place: Site, executor_port: int) -> None:
        self._place = place
        port = free_port()
        environment = {
            "XWHEEL_CONFIG": str(place.folder / "xwheel.toml"),
            "XWHEEL_API__PORT": str(port),
            "XWHEEL_API__EXECUTOR_PORT": str(executor_port),
        }
        self.child = Child("second node", ["server"], place.folder / "second.log", environment)
        self._client = RestClient(f"http://127.0.0.1:{port}", place.token)

    def join(self) -> None:
        """Start it and wait until both hold half and it knows the executor."""
        self.child.start()
        path = f"/api/v1/groups/{self._place.group_id}/executors"
        until(lambda: self._client.call("GET", path)["items"][0])
        until(lambda: self._check([PARTITIONS // 2] * 2), SETTLE_S)

    def leave(self) -> None:
        """Stop it; the first one holds everything afterwards."""
        if self.child.stop(30):
            raise SystemExit(f"the second node did not end well:\n{self.child.tail()}")
        until(lambda: self._check([PARTITIONS]), SETTLE_S)

    def _check(self, sizes: list[int]) -> None:
        with self._place.db.read() as conn:
            owners = [row.owner for row in leases.list_leases(conn)]
        found = [owners.count(name) for name in set(owners)]
        if found != sizes:
            raise XwheelError(f"the nodes hold {found} partitions")


@contextlib.contextmanager
def two_nodes(backend: str, delay_ms: float) -> Iterator[tuple[Site, Second]]:
    """Lay out a site whose nodes reach their database through a proxy, if there is a delay; the second is not there."""
    second_port = free_port()
    with contextlib.ExitStack() as stack:

        def reroute(url: str) -> str:
            if not delay_ms:
                return url
            through, proxy = stack.enter_context(before(url))
            delay(proxy, delay_ms)
            return through

        place = stack.enter_context(site(backend=backend, reroute=reroute, more_ports=[second_port]))
        second = Second(place, second_port)
        stack.callback(second.child.stop, 30)
        yield place, second


def delay(proxy: Proxy, ms: float) -> None:
    """Let each answer of the database come this much later."""
    proxy.delay(ms, Toward.CLIENT)


@dataclass(slots=True)
class Rounds:
    """What some nodes did in each round: fires a second, and the CPU microseconds a fire of all nodes."""

    rates: list[float] = field(default_factory=list)
    used: list[float] = field(default_factory=list)

    def add(self, place: Site, second: Second, fires: int) -> None:
        """Fire once more."""
        before_s = cpu_s(second.child.pid)
        _, final, cpu = measure_flat_out(place, fires)
        self.rates.append(final)
        self.used.append(cpu["node"] + 1e6 * (cpu_s(second.child.pid) - before_s) / fires)


def measure(report: Report, backend: str, delay_ms: float, fires: int, goal: float | None) -> None:
    """Measure one node and two in turn, and put that into the table."""
    alone, together = Rounds(), Rounds()
    with two_nodes(backend, delay_ms) as (place, second):
        measure_flat_out(place, fires)  # what comes first compiles and connects
        for _ in range(report.args.repeats):
            alone.add(place, second, fires)
            second.join()
            measure_flat_out(place, fires // 4)  # the first one is warm too
            together.add(place, second, fires)
            second.leave()
    where = f"{backend}, {delay_ms:g} ms" if delay_ms else f"{backend}, direct"
    for name, some in (("one node", alone), ("two nodes", together)):
        report.figure(f"{where}, {name}, final", some.rates, "fires/s")
        report.figure(f"{where}, {name}, CPU per fire, nodes", some.used, "us")
    slow, fast = ([1 / rate for rate in some.rates] for some in (alone, together))
    report.ratio(f"{where}, two nodes / one", slow, fast, goal=goal)


def main() -> None:
    """Measure with the delay, then without the proxy."""
    report = Report(__doc__ or "", repeats=3)
    option = report.parser.add_argument
    option("--backend", action="append", choices=sorted(BACKENDS), help="again for more; default: both")
    option("--fires", type=int, default=8000, help="jobs due at once")
    option("--delay", type=float, default=5, help="milliseconds that the proxy adds to each round trip")
    args = report.parse()
    signal.signal(signal.SIGTERM, lambda *_: (_ for _ in ()).throw(KeyboardInterrupt()))
    for backend in args.backend or sorted(BACKENDS):
        measure(report, backend, args.delay, args.fires, GOAL)
        measure(report, backend, 0, args.fires, None)
    report.finish()


if __name__ == "__main__":
    main()
