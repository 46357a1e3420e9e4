"""Measure what a fire costs the database for each shape that the table of runs could have, and what questions cost.

Run it with ``python -m benchmarks.run_shapes [--json] [--backends sqlite,mariadb,postgresql] [--history 0,1000000]``.
Servers sync; each figure is named ``backend.history.shape.batch[.accept].what``, of the shapes of
:data:`benchmarks._shapes.SHAPES`: CPU of the server's processes (of our own for SQLite) and bytes of its log for one
fire, and the time that a fire takes with nothing else going on.
"""

from __future__ import annotations

import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import make_url

from benchmarks._report import Report
from benchmarks._shapes import DAYS, SHAPES, TODAY, Life, Server, connect
from tests.support import servers
from tests.support.databases import create_database

FIRES = {500: 5000, 20: 600, 1: 60}
"""Rows in one transaction to fires of one sample."""

OPTIONS = {
    "postgresql": {"shared_buffers": "512MB", "max_wal_size": "8GB", "autovacuum": "off"},
    "mariadb": ["--innodb-buffer-pool-size=512M", "--innodb-log-file-size=512M"],
}
NAME = "xwheel_shapes"
OPEN = 2000
ASKED = 100
DELETED = 20_000

Samples = dict[str, list[float]]


@contextmanager
def opened(kind: str) -> Iterator[tuple[Server, int]]:
    """Give a connection to a database without tables, and the server's process, 0 for our own."""
    if kind == "sqlite":
        with tempfile.TemporaryDirectory() as folder:
            yield connect(kind, str(Path(folder) / "shapes.db")), 0
        return
    with getattr(servers, kind)(durable=True, options=OPTIONS[kind]) as base:
        create_database(base, kind, NAME)
        port = make_url(base).port
        assert port is not None
        yield connect(kind, base + NAME), servers.RUNNING[port].pid


def cpu_us(root: int) -> float:
    """Return what a process and its children have run so far, in microseconds; our own for 0."""
    if not root:
        return time.process_time() * 1e6
    wanted, total = {root}, 0
    parents: dict[int, int] = {}
    for place in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(place.name)] = int((place / "stat").read_text().rsplit(")", 1)[1].split()[1])
        except OSError:
            continue
    while more := {pid for pid, parent in parents.items() if parent in wanted} - wanted:
        wanted |= more
    for pid in wanted:
        for task in Path(f"/proc/{pid}/task").glob("*"):
            try:
                total += int((task / "schedstat").read_text().split()[0])
            except OSError:
                continue
    return total / 1000


class Bench:
    """One database with all shapes."""

    def __init__(self, server: Server, pid: int, history: int) -> None:
        self.server, self.pid, self.history = server, pid, history
        self.next_id = 1 + history
        self.samples: Samples = defaultdict(list)
        self.names = [name for name in SHAPES if server.kind != "sqlite" or not SHAPES[name].days]

    def build(self) -> None:
        for name in self.names:
            self.server.create(name, SHAPES[name], self.history)
        self.server.run("ANALYZE" if self.server.kind != "mariadb" else "SELECT 1")
        if self.server.kind == "postgresql":
            self.server.run("CHECKPOINT")
        for name in self.names:  # full pages after the checkpoint, plans and caches are paid for here
            self.fires(name, 500, 2000, accept=True)

    def fires(self, name: str, batch: int, count: int, *, accept: bool) -> tuple[float, float, float]:
        """Let runs go through all their stages; return CPU, log and time of one."""
        life, ids = Life(self.server, name), range(self.next_id, self.next_id + count)
        self.next_id += count
        self.server.settle()
        log, start, cpu = self.server.log_bytes(), time.perf_counter(), cpu_us(self.pid)
        for first in range(0, count, batch):
            part = list(ids[first : first + batch])
            life.plan(part)
            life.load(part)
            life.fence(part)
            if accept:
                life.accept(part)
            life.finish(part)
        taken = time.perf_counter() - start
        self.server.settle()
        return ((cpu_us(self.pid) - cpu) / count, (self.server.log_bytes() - log) / count, taken * 1e6 / count)

    def round(self) -> None:
        for batch, count in FIRES.items():
            for accept in (True, False):
                for name in self.names:
                    figures = self.fires(name, batch, count, accept=accept)
                    head = f"{self.server.kind}.{self.history}.{name}.{batch}{'.accept' if accept else ''}"
                    for what, value in zip(("cpu", "log", "wall"), figures, strict=True):
                        self.samples[f"{head}.{what}"].append(value)

    def vacuum(self) -> None:
        """Clean up dead rows, of a table of open runs and of all runs."""
        for name in self.names:
            table = Life(self.server, name).table
            cpu = cpu_us(self.pid)
            self.server.run(f"VACUUM {table}")
            self.samples[f"{self.server.kind}.{self.history}.{name}.vacuum"].append(cpu_us(self.pid) - cpu)

    def questions(self) -> None:
        """Ask what pages and checks ask, with some runs open."""
        for name in self.names:
            life, ids = Life(self.server, name), list(range(self.next_id, self.next_id + OPEN))
            self.next_id += OPEN
            life.plan(ids)
            life.fence(ids[::2])
            for what, ask in asked(self.server, life).items():
                ask(1)
                start, cpu = time.perf_counter(), cpu_us(self.pid)
                for number in range(ASKED):
                    ask(number)
                wall = (time.perf_counter() - start) * 1e6 / ASKED
                head = f"{self.server.kind}.{self.history}.{name}.ask.{what}"
                self.samples[f"{head}.cpu"].append((cpu_us(self.pid) - cpu) / ASKED)
                self.samples[f"{head}.wall"].append(wall)
            life.fence(ids[1::2])
            life.finish(ids)

    def drop(self) -> None:
        """Delete a part of what ended as retention does, and drop days."""
        server = self.server
        for name in [name for name in ("A", "C", *(n for n in self.names if SHAPES[n].days)) if name in self.names]:
            life = Life(server, name)
            log, start, cpu = server.log_bytes(), time.perf_counter(), cpu_us(self.pid)
            if SHAPES[name].days:
                number = 0 if SHAPES[name].days == "id" else DAYS - 1
                if server.kind == "postgresql":
                    server.run(f"DROP TABLE {life.history}_{number}")
                else:
                    server.run(f"ALTER TABLE {life.history} DROP PARTITION p{number}")
                rows = 1
            else:
                rows = min(DELETED, self.history) // 500 * 500
                for first in range(1, rows, 500):
                    delete(server, life.history, list(range(first, first + 500)))
                server.settle()
            head = f"{server.kind}.{self.history}.{name}.{'drop' if rows == 1 else 'delete'}"
            self.samples[f"{head}.wall"].append((time.perf_counter() - start) * 1e6 / rows)
            self.samples[f"{head}.cpu"].append((cpu_us(self.pid) - cpu) / rows)
            self.samples[f"{head}.log"].append((server.log_bytes() - log) / rows)


def delete(server: Server, table: str, ids: Sequence[int]) -> None:
    server.begin()
    where, values = server.among("root_id", ids)
    lock = "" if server.kind == "sqlite" else " FOR UPDATE"
    server.run(f"SELECT id, job_id, state, due_ms, finished_ms FROM {table} WHERE {where} ORDER BY id{lock}", values)
    assert server.delete(table, ids) == len(ids)
    server.commit()


def asked(server: Server, life: Life) -> dict[str, Callable[[int], object]]:
    """Return the questions, each of a number."""
    mark = "?" if server.kind == "sqlite" else "%s"
    tables = [life.history]
    if life.shape.is_split and not life.shape.is_early:
        tables = [life.table, life.history]

    def page(where: str, *values: int) -> list[object]:
        tail = "ORDER BY due_ms DESC, id DESC LIMIT 51"
        parts = [
            f"SELECT * FROM (SELECT id, due_ms FROM {table} WHERE {where} {tail}) AS p{number}"
            for number, table in enumerate(tables)
        ]
        return server.run(f"{' UNION ALL '.join(parts)} ORDER BY 2 DESC, 1 DESC LIMIT 51", values * len(tables))

    def by_id(number: int) -> None:
        run_id = 1 + number * 9973
        for table in tables:
            server.run(f"SELECT * FROM {table} WHERE id = {mark}", [run_id])

    def at(_number: int) -> None:
        query = f"SELECT id FROM {life.table} WHERE check_ms > 0 AND address = {mark}"
        assert len(server.run(query, ["http://127.0.0.1:9999"])) == OPEN // 2

    def due(_number: int) -> None:
        query = f"SELECT id FROM {life.table} WHERE check_ms <= {mark}"
        assert not server.run(query, [TODAY - 1])

    hour = 3_600_000
    return {
        "job": lambda number: page(f"job_id = {mark}", 1 + number),
        "group": lambda number: page(
            f"group_id = {mark} AND due_ms >= {mark} AND due_ms < {mark}",
            1 + number % 10, TODAY + number * hour // 10, TODAY + number * hour // 10 + hour,
        ),
        "all": lambda number: page(f"due_ms < {mark}", TODAY + 86_000_000 + number),
        "id": by_id,
        "address": at,
        "due": due,
    }  # fmt: skip


def measure(report: Report, kind: str, history: int) -> None:
    with opened(kind) as (server, pid):
        bench = Bench(server, pid, history)
        bench.build()
        for _ in range(report.args.repeats):
            bench.round()
        if kind == "postgresql":
            bench.vacuum()
        if history:
            for _ in range(report.args.repeats):
                bench.questions()
            bench.drop()
    for name, samples in bench.samples.items():
        report.figure(name, samples, "B" if name.endswith(".log") else "us")


def main() -> None:
    report = Report("What a fire costs the database, by the shape of the table of runs.", repeats=3)
    report.parser.add_argument("--backends", default="sqlite,mariadb,postgresql")
    report.parser.add_argument("--history", default="0,1000000")
    args = report.parse()
    for kind in args.backends.split(","):
        for history in args.history.split(","):
            measure(report, kind, int(history))
    report.finish()


if __name__ == "__main__":
    main()
