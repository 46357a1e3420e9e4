"""What many nodes on one database would do, by the measured costs of their parts: a simulation, nothing is started.

Time goes in steps of a few milliseconds. A node has one core, as an interpreter has; the database has ``--cores``.
Each fire passes four stages: claimed a few seconds ahead, fenced and sent ahead as the node does, accepted once it is
due, and ended. In a step a node hands each stage what waits for it as one batch, as far as its core, the largest batch
and the database's cores allow; what does not fit waits. The disk and the network add to the lateness, and limit
nothing. Half of the due times lie on whole seconds, half are spread over them.

``--check`` first measures one node, an executor and PostgreSQL on this machine (``benchmarks.pipeline``), lets the
simulation do the same on as many cores, and prints how far both are apart: that is how much to trust the rest.
"""

from __future__ import annotations

import math
import os
import random
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from benchmarks._report import Report

STEP_MS = 5
WARM_MS = 5000
LARGEST = 500
FIRES = 10_000
TINY = 1e-9
DAY_S = 86_400
RATES = (1_000, 5_000, 16_667, 33_333)
CLUSTERS = (1, 2, 4, 16, 64)


@dataclass(frozen=True, slots=True)
class Stage:
    """What a stage takes of a fire, and of a transaction whatever its size, in microseconds of CPU."""

    node_us: float
    server_us: float
    begins_ms: int = 0  # before a fire is due
    node_each_us: float = 210
    server_each_us: float = 100


STAGES = {
    "claim": Stage(15, 31, begins_ms=5000),
    "fence": Stage(12, 20, begins_ms=300),
    "accept": Stage(10, 6),
    "outcome": Stage(18, 14),
}
"""Of docs/explanation/performance.md, PostgreSQL: 71 us of the server and 55 of the node for a fire. The server's are
by statement; how the node's are divided is a guess, their sum is not. A transaction takes what a question of the pulse
takes, whatever its size."""

LAST_FIRST = tuple(reversed(STAGES))
FOLLOWS = dict(pairwise(STAGES))

EXECUTOR_US = 41
BEAT_US = 740  # a node, for a beat over HTTP: 123 ms/s for 5,000 executors that beat every 30 s
BEAT_S = 30
IDLE_NODE = 0.008  # of a core
IDLE_STATEMENTS = 9.3  # a second
OF_A_MILLION = 1.36  # what a claim among a million jobs takes, next to one among a thousand
ROW_BYTES = 472  # of a run in a PostgreSQL database, indexes included, by the first day of an hours' run
JOURNAL_BYTES = 100
CONNECTIONS = 17  # of a node to its database, with database.pool_size = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """A cluster and what it has to do."""

    nodes: int
    rate: float
    cores: float = 16
    shared: bool = False  # nodes, executor and server share ``cores``, as on one machine
    executors: int = 10_000
    jobs: int = 1_000_000
    flush_ms: float = 1.0
    round_trip_ms: float = 0.5
    costs: Mapping[str, Stage] = field(default_factory=lambda: STAGES)


@dataclass(slots=True)
class Node:
    """What waits in a node for each stage: how many fires, by when they were due."""

    lines: dict[str, deque[tuple[int, float]]] = field(default_factory=lambda: {name: deque() for name in STAGES})


@dataclass(frozen=True, slots=True)
class Seen:
    """What a run of the simulation showed."""

    ended: float  # fires a second
    late_ms: Sequence[float]  # from due to accepted: median and 99th percentile
    server: float  # of all of its cores
    node: float  # of one core, the mean of all nodes
    waiting_s: float  # what is left over at the end, in seconds of the rate


def simulate(shape: Shape, seconds: int = 30, seed: int = 1) -> Seen:
    """Let a cluster fire at an even rate, and return what it did in the seconds after the first five."""
    dice = random.Random(seed)
    nodes = [Node() for _ in range(shape.nodes)]
    late: list[tuple[float, float]] = []
    ended = server_us = node_us = 0.0
    for at_ms in range(0, WARM_MS + seconds * 1000, STEP_MS):
        counts = at_ms >= WARM_MS
        _arrive(nodes, shape, at_ms)
        left = shape.cores * STEP_MS * 1000
        dice.shuffle(nodes)
        for node in nodes:
            own = STEP_MS * 1000 * (1 - IDLE_NODE) - BEAT_US * shape.executors / shape.nodes / BEAT_S * STEP_MS / 1000
            for name in LAST_FIRST:  # else new fires would keep those that began from ending
                done, of_node, of_server = _work(node, name, at_ms, own, left, shape)
                own -= of_node
                left -= of_server
                server_us += of_server * counts
                if name == "accept" and counts:
                    late += [(at_ms - due_ms + shape.flush_ms + shape.round_trip_ms, many) for due_ms, many in done]
                if name == "outcome" and counts:
                    ended += sum(many for _, many in done)
            node_us += (STEP_MS * 1000 - own) * counts
    whole_us = seconds * 1_000_000
    ended_ms = WARM_MS + seconds * 1000
    waiting = sum(many for node in nodes for line in node.lines.values() for due_ms, many in line if due_ms < ended_ms)
    return Seen(
        ended=ended / seconds,
        late_ms=[_percentile(late, share) for share in (0.5, 0.99)],
        server=server_us / whole_us / shape.cores,
        node=node_us / whole_us / shape.nodes,
        waiting_s=waiting / shape.rate,
    )


def _arrive(nodes: Sequence[Node], shape: Shape, at_ms: int) -> None:
    """Give each node the fires that it may claim now: an even share."""
    due_ms = at_ms + shape.costs["claim"].begins_ms
    share = shape.rate / shape.nodes / 2
    many = share * STEP_MS / 1000 + share * (due_ms % 1000 == 0)
    for node in nodes:
        node.lines["claim"].append((due_ms, many))


def _work(
    node: Node, name: str, at_ms: int, own_us: float, left_us: float, shape: Shape
) -> tuple[list[tuple[int, float]], float, float]:
    """Do one batch of a stage; return what it did, and what that took of the node's core and of the server's."""
    stage, line = shape.costs[name], node.lines[name]
    server_us = stage.server_us * (_of_jobs(shape.jobs) if name == "claim" else 1)
    ends_ms = at_ms + stage.begins_ms
    if not line or line[0][0] > ends_ms:
        return [], 0.0, 0.0
    beside_us = (stage.node_us + EXECUTOR_US * (name == "accept")) * shape.shared
    of_own = (own_us - stage.node_each_us) / stage.node_us
    of_server = (left_us - stage.server_each_us) / (server_us + beside_us)
    room = min(LARGEST, of_own, of_server)
    done: list[tuple[int, float]] = []
    taken = 0.0
    while line and line[0][0] <= ends_ms and room - taken > TINY:
        due_ms, many = line.popleft()
        now = min(many, room - taken)
        done.append((due_ms, now))
        taken += now
        if now < many:
            line.appendleft((due_ms, many - now))
    if name in FOLLOWS:
        node.lines[FOLLOWS[name]].extend(done)
    # where a step has less than one fire, its transaction is shared with the steps around it
    part = min(1.0, taken)
    of_node = stage.node_us * taken + stage.node_each_us * part
    return done, of_node, (server_us + beside_us) * taken + stage.server_each_us * part


def _of_jobs(jobs: int) -> float:
    """Return what a claim takes among so many jobs, next to one among a thousand: it grows with the index's depth."""
    return 1 + (OF_A_MILLION - 1) * max(0.0, math.log10(jobs / 1000) / 3)


def _percentile(late: Sequence[tuple[float, float]], share: float) -> float:
    """Return the lateness that a share of all fires stays under."""
    above = (1 - share) * sum(many for _, many in late)
    for late_ms, many in sorted(late, reverse=True):
        above -= many
        if above <= 0:
            return late_ms
    return math.nan


def capacity(shape: Shape) -> float:
    """Return how many fires a second a cluster brings to their end if it has more than it can do."""
    at_once = {name: replace(stage, begins_ms=0) for name, stage in shape.costs.items()}
    return simulate(replace(shape, rate=1_000_000.0, costs=at_once), seconds=10).ended


def check(report: Report) -> None:
    """Compare the simulation with one node, an executor and PostgreSQL on this machine, by what these took of it."""
    from benchmarks._site import site
    from benchmarks.pipeline import measure_flat_out

    cores = os.cpu_count() or 1
    real, simulated = [], []
    with site(backend="postgresql") as place:
        measure_flat_out(place, FIRES)  # warm
        for _ in range(report.args.repeats):
            _, rate, used_us = measure_flat_out(place, FIRES)
            here = Shape(nodes=1, rate=1.0, cores=cores, shared=True, executors=1, jobs=FIRES)
            real.append(rate)
            simulated.append(capacity(replace(here, costs=_costs(used_us))))
    report.figure("measured, one node, all due at once", real, "1/s")
    report.figure("simulated with what that took", simulated, "1/s")
    report.ratio("simulated / measured", simulated, real)


def _costs(used_us: Mapping[str, float]) -> Mapping[str, Stage]:
    """Return the stages with what a fire took of each process."""
    node = used_us["node"] / sum(stage.node_us for stage in STAGES.values())
    server = used_us["server"] / sum(stage.server_us for stage in STAGES.values())
    more = (used_us["executor"] - EXECUTOR_US) / len(STAGES)
    return {
        name: replace(stage, node_us=stage.node_us * node, server_us=stage.server_us * server + more)
        for name, stage in STAGES.items()
    }


def show(shape: Shape, seconds: int, clusters: Sequence[int], rates: Sequence[float]) -> None:
    """Print a table of clusters and rates, and what the disk, the network and the server's settings have to bear."""
    print(f"{shape.executors:,} executors, {shape.jobs:,} jobs, a database of {shape.cores:g} cores")
    print(f"{'nodes':>6}{'fires/s':>10}{'ended/s':>10}{'p50 ms':>9}{'p99 ms':>9}{'server':>8}{'node':>7}  left over")
    for nodes in clusters:
        for rate in rates:
            seen = simulate(replace(shape, nodes=nodes, rate=rate), seconds)
            p50, p99 = seen.late_ms
            print(
                f"{nodes:6}{rate:10,.0f}{seen.ended:10,.0f}{p50:9,.0f}{p99:9,.0f}{seen.server:8.0%}{seen.node:7.0%}"
                f"  {seen.waiting_s:.1f} s of fires"
            )
        print(f"{nodes:6}{'most':>10}{capacity(replace(shape, nodes=nodes)):10,.0f}")
    for rate in rates:
        print(
            f"{rate:,.0f} fires/s: {rate * ROW_BYTES * DAY_S / 1e9:,.0f} GB of history a day, "
            f"{rate * JOURNAL_BYTES * DAY_S / 1e9:,.0f} GB of journals a day on all executors, "
            f"{rate * EXECUTOR_US / 1e6:.1f} cores of executors"
        )
    for nodes in clusters:
        print(
            f"{nodes} nodes: at most {nodes * CONNECTIONS:,} connections to the database, "
            f"{nodes * IDLE_STATEMENTS:,.0f} statements a second that only look"
        )


def main(argv: list[str] | None = None) -> None:
    """Print what the simulation says."""
    report = Report(__doc__.splitlines()[0], repeats=3)
    add = report.parser.add_argument
    add("--cores", type=float, default=16, help="of the database's server")
    add("--executors", type=int, default=10_000)
    add("--jobs", type=int, default=1_000_000)
    add("--nodes", type=int, nargs="+", default=CLUSTERS)
    add("--rates", type=float, nargs="+", default=RATES, help="fires a second")
    add("--seconds", type=int, default=20, help="how long each is simulated")
    add("--check", action="store_true", help="compare with what one node does on this machine")
    args = report.parse(argv)
    if args.check:
        check(report)
    else:
        shape = Shape(nodes=1, rate=1.0, cores=args.cores, executors=args.executors, jobs=args.jobs)
        show(shape, args.seconds, args.nodes, args.rates)
    report.finish()


if __name__ == "__main__":
    main()
