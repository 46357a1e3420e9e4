"""Jobs a second next to River, Graphile Worker, pgqueuer and procrastinate, on one PostgreSQL server in turn.

The server is Debian's and durable: ``fsync`` and ``synchronous_commit`` are on and no table with jobs is unlogged,
which is checked. In each round every side gets as many jobs that do nothing, after a checkpoint. A peer is a program of
ours around its package, in ``benchmarks/queues``, with the settings that its documentation or its benchmark recommends
for throughput. It has a process and a database of its own in every round, and is warmed up by some hundred jobs. Its
time counts from the first insert, made in batches while its worker runs, until the database says that nothing is left.

xwheel goes its whole way, as in ``benchmarks.pipeline``; its time counts from the first run's row to the last outcome.
The sides do not do the same work:

- A peer calls a function in the process that took the job from the table. xwheel sends a run over HTTP to another
  process, whose journal is on disk before it answers, and which reports the outcome over HTTP.
- xwheel writes whom a run goes to before anything leaves, so that no crash repeats it. The peers work at least once.
- xwheel plans from a schedule and keeps each run as history. Graphile Worker deletes what is done, pgqueuer too, with
  two lines in a log; River and procrastinate keep the job's own row.
- A peer's insert is in its time and its worker's CPU. xwheel's jobs are there before they are due; their runs are
  inserted in its time.

Nothing is downloaded until this runs; then go, npm and pip fetch fixed versions into ``--cache``. A side that cannot be
had here is named with the reason, and the others go on.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg

from benchmarks._report import Report
from benchmarks._site import Site, cpu_s, site
from benchmarks.pipeline import measure_flat_out
from tests.interop.builds import build_once, call, digest

SOURCES = Path(__file__).parent / "queues"
WARM = 500
START_S = 60
SLOWEST = 20  # jobs a second of a peer that is waited for
RUNNER = "work"


@dataclass(frozen=True, slots=True)
class Round:
    """What a side did with its jobs: how many a second, and the CPU microseconds a job."""

    rate: float
    worker_us: float
    server_us: float
    insert_rate: float = 0.0


@dataclass(frozen=True, slots=True)
class Peer:
    """A package that works jobs from a table.

    Attributes:
        folder: Our program, and the files that fix its versions.
        build: Fetches and builds into an empty folder, given the cache.
        command: The program's command line, given the folder that was built.
    """

    name: str
    folder: str
    build: Callable[[Path, Path], None]
    command: Callable[[Path], Sequence[str]]

    def ready(self, cache: Path) -> Sequence[str]:
        """Return the command line; fetch and build before, unless the cache has it."""
        files = [path for path in (SOURCES / self.folder).iterdir() if path.is_file()]
        place = cache / f"{self.folder}-{digest(files)}"
        return self.command(build_once(place, lambda work: self.build(work, cache)))


def _build_go(folder: Path, cache: Path) -> None:
    words = {
        # -modcacherw: who deletes the cache needs no rights for that
        "GOFLAGS": "-mod=readonly -buildvcs=false -modcacherw",
        "GOTOOLCHAIN": "local",
        "CGO_ENABLED": "0",
        "GOMODCACHE": str(cache / "go" / "modules"),
        "GOCACHE": str(cache / "go" / "build"),
    }
    call(["go", "mod", "download"], SOURCES / "river", tries=3, **words)
    call(["go", "build", "-o", str(folder / RUNNER), "."], SOURCES / "river", **words)


def _build_node(folder: Path, cache: Path) -> None:
    for name in ("package.json", "package-lock.json", "main.mjs"):
        shutil.copy(SOURCES / "graphile_worker" / name, folder)
    words = ["--ignore-scripts", "--no-audit", "--no-fund", "--cache", str(cache / "npm")]
    call(["npm", "ci", *words], folder, tries=3)


def _python(name: str) -> Peer:
    def build(folder: Path, cache: Path) -> None:
        call([sys.executable, "-m", "venv", folder], folder.parent)
        words = ["--quiet", "--disable-pip-version-check", "--cache-dir", str(cache / "pip")]
        file = SOURCES / name / "requirements.txt"
        call(["bin/python", "-m", "pip", "install", *words, "--requirement", str(file)], folder, tries=3)

    return Peer(name, name, build, lambda folder: [str(folder / "bin" / "python"), str(SOURCES / name / "main.py")])


PEERS = (
    Peer("River", "river", _build_go, lambda folder: [str(folder / RUNNER)]),
    Peer("Graphile Worker", "graphile_worker", _build_node, lambda folder: ["node", str(folder / "main.mjs")]),
    _python("pgqueuer"),
    _python("procrastinate"),
)


def measure_xwheel(place: Site, jobs: int) -> Round:
    """Let the node and its executor fire."""
    _checkpoint(place)
    _, rate, used = measure_flat_out(place, jobs)
    return Round(rate, used["node"] + used["executor"], used["server"])


def measure_peer(place: Site, peer: Peer, command: Sequence[str], jobs: int) -> Round:
    """Run a peer's program in a database of its own."""
    name = f"{peer.folder}_{time.time_ns()}"
    with _database(place, name) as url, (place.folder / f"{name}.log").open("w+") as log:
        process = subprocess.Popen(
            [*command, str(jobs), str(min(WARM, jobs))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            env={**os.environ, "PEER_URL": url, "NODE_ENV": "production"},
            bufsize=0,
        )
        try:
            _line(process, START_S)
            _checkpoint(place)
            worker_s, server_s = cpu_s(process.pid), place.server_s()
            assert process.stdin is not None
            process.stdin.write(b"go\n")
            result = json.loads(_line(process, START_S + jobs / SLOWEST))
            worker_s, server_s = cpu_s(process.pid) - worker_s, place.server_s() - server_s
            assert result["done"] == jobs, result
            process.stdin.close()
            process.wait(START_S)
        except (OSError, ValueError, AssertionError, subprocess.TimeoutExpired) as error:
            log.seek(0)
            raise RuntimeError(f"{error}: {log.read()[-2000:]}") from error
        finally:
            process.kill()
            process.wait()
    us = 1e6 / jobs
    return Round(jobs / result["all_s"], us * worker_s, us * server_s, jobs / result["insert_s"])


def _line(process: subprocess.Popen[bytes], limit_s: float) -> bytes:
    """Return the next line of a program, which writes one at a time."""
    assert process.stdout is not None
    if not select.select([process.stdout], [], [], limit_s)[0]:
        raise TimeoutError(f"nothing within {limit_s:.0f} s")
    if not (line := process.stdout.readline()):
        raise ValueError(f"it ended with {process.wait(START_S)}")
    return line


def _checkpoint(place: Site) -> None:
    """What one side has written is not to be flushed in the time of the next."""
    with place.db.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as conn:
        conn.exec_driver_sql("CHECKPOINT")


@contextmanager
def _database(place: Site, name: str) -> Iterator[str]:
    """Give the URL of an empty database on the node's server, without SQLAlchemy's driver; check it at the end."""
    url = place.db.engine.url
    with place.db.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as conn:
        conn.exec_driver_sql(f"CREATE DATABASE {name}")
        try:
            own = url.set(drivername="postgresql", database=name)
            yield own.render_as_string(hide_password=False)
            _check(own.render_as_string(hide_password=False))
        finally:
            conn.exec_driver_sql(f"DROP DATABASE {name} WITH (FORCE)")


def _check(url: str) -> None:
    """Refuse the figures of a database that does not sync what it commits."""
    with psycopg.connect(url) as conn:
        for name in ("fsync", "synchronous_commit"):
            found = conn.execute(f"SHOW {name}").fetchone()
            if found != ("on",):
                raise RuntimeError(f"{name} is {found}")
        query = "SELECT relname FROM pg_class WHERE relkind = 'r' AND relpersistence = 'u'"
        unlogged = {name for (name,) in conn.execute(query)} - {"river_leader"}  # who leads, no job
        if unlogged:
            raise RuntimeError(f"unlogged tables: {unlogged}")


def _commands(chosen: Sequence[str], cache: Path) -> dict[str, Sequence[str]]:
    """Fetch and build what was chosen; say what cannot be had."""
    commands: dict[str, Sequence[str]] = {}
    for peer in PEERS:
        if peer.folder in chosen:
            try:
                commands[peer.name] = peer.ready(cache)
            except (OSError, AssertionError, subprocess.SubprocessError) as error:
                print(f"without {peer.name}: {error}", file=sys.stderr, flush=True)
    return commands


def rounds_in_turn(place: Site, commands: dict[str, Sequence[str]], jobs: int, repeats: int) -> dict[str, list[Round]]:
    """Let each side work once in every round; one that fails is named and left out."""
    peers = {peer.name: peer for peer in PEERS if peer.name in commands}
    done: dict[str, list[Round]] = {"xwheel": [], **{name: [] for name in peers}}
    measure_flat_out(place, min(WARM, jobs))
    for _ in range(repeats):
        done["xwheel"].append(measure_xwheel(place, jobs))
        place.stop_node()
        for name, peer in list(peers.items()):
            try:
                done[name].append(measure_peer(place, peer, commands[name], jobs))
            except (OSError, RuntimeError) as error:
                print(f"without {name}: {error}", file=sys.stderr, flush=True)
                del peers[name], done[name]
        place.start_node()
    return done


def main() -> None:
    """Measure all sides in turn."""
    report = Report(__doc__ or "", repeats=3)
    option = report.parser.add_argument
    names = [peer.folder for peer in PEERS]
    option("--jobs", type=int, default=20_000, help="of each side in a round")
    option("--cache", type=Path, help="keep there what is fetched and built; else it is fetched each time")
    option("--peers", nargs="*", choices=names, default=names)
    args = report.parse()
    signal.signal(signal.SIGTERM, lambda *_: (_ for _ in ()).throw(KeyboardInterrupt()))
    with contextlib.ExitStack() as stack:
        cache = args.cache or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="xwheel-peers-")))
        commands = _commands(args.peers, cache.absolute())
        place = stack.enter_context(site(backend="postgresql"))
        done = rounds_in_turn(place, commands, args.jobs, args.repeats)
    for name, rounds in done.items():
        report.figure(f"{name}, insert and work", [one.rate for one in rounds], "jobs/s")
        report.figure(f"{name}, CPU per job, worker", [one.worker_us for one in rounds], "us")
        report.figure(f"{name}, CPU per job, server", [one.server_us for one in rounds], "us")
    ours = done.pop("xwheel")
    for name, rounds in done.items():
        report.ratio(
            f"xwheel / {name}, jobs a second", [1 / one.rate for one in rounds], [1 / one.rate for one in ours]
        )
        pairs = [[one.server_us for one in rounds], [one.server_us for one in ours]]
        report.ratio(f"{name} / xwheel, CPU of the server", *pairs)
    print(f"load average {os.getloadavg()[0]:.1f}")
    report.finish()


if __name__ == "__main__":
    main()
