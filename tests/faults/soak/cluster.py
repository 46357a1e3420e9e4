"""Nodes, executors and their database as processes, with a proxy between any two of them."""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from sqlalchemy import make_url, select
from xwheel_devtools.verify.check import HANDLERS, executor_settings
from xwheel_devtools.verify.site import Site

from tests.faults.injectors.disks import SmallDisk
from tests.faults.injectors.proxy import Proxy
from tests.support import servers
from tests.support.databases import BACKENDS, CleanDatabases
from tests.support.executors import ROOT
from tests.support.galera import Galera
from tests.support.pair import Pair
from tests.support.patroni import Patroni
from tests.support.ports import free_port
from xwheel.errors import XwheelError
from xwheel.storage.access import tokens
from xwheel.storage.database import address, startup
from xwheel.storage.database.engine import Database
from xwheel.storage.schema import tables
from xwheel.wire.http.rest import RestClient

PARTITIONS: Final = 64
WAIT_S: Final = 90
END_S: Final = 60
CALL_S: Final = 5
PAIR: Final = "postgresql-pair"
PAIRS: Final[Mapping[str, type[Pair]]] = {PAIR: Pair, "postgresql-patroni": Patroni}
"""Databases that are a PostgreSQL primary with a standby that takes over: told to, or by itself."""
GALERA: Final = "mariadb-galera"
"""A database of three MariaDB members, each of which takes writes; each node prefers another one."""

EXECUTOR_NAMES: Final = ("executor0", "executor1", "limited")


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How a cluster is made.

    Attributes:
        nodes: Names of all nodes that may ever run: executors must know them beforehand.
        settings: Added to the environment of nodes and executors.
        command: What stands before ``server …`` and ``executor …``.
        environments: Added to the environment of single processes, by name.
        disks: What single processes stand next to, by name: a disk for their folder.
        is_proxied: Everybody calls everybody through a proxy.
        is_one_machine: Nodes find each other's locks, by which a node is known at once to have ended. Else each has
            a runtime folder of its own, as if it ran on another machine.
    """

    nodes: Sequence[str] = ("a", "b")
    settings: Mapping[str, str] = field(default_factory=dict)
    command: Sequence[str] = (sys.executable, "-m", "xwheel")
    environments: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    disks: Mapping[str, SmallDisk] = field(default_factory=dict)
    is_proxied: bool = False
    is_one_machine: bool = False


class Cluster:
    """Nodes, the executors of a load, and a database. Use it as a context: all of it ends then.

    Thread-safety: processes are started and ended by one thread at a time.

    Attributes:
        url: The database, past every proxy.
        proxies: What stands before a node's API, an executor or the database, by ``who:whom``.
        wanted: Names of the processes that should be running.

    Args:
        url: The database, empty and at this version's schema.
        folder: Gets logs, pid files and the handlers' files.
        seen_url: The same database for this process, where it is another name; nodes may stand next to a disk.
    """

    def __init__(self, url: str, folder: Path, plan: Plan, *, seen_url: str = "") -> None:
        self.folder = folder
        self.plan = plan
        self.url = seen_url or url
        self.db = Database(self.url)
        self.proxies: dict[str, Proxy] = {}
        self.wanted: set[str] = set()
        self._url = url
        self._token, self._executor_token = secrets.token_urlsafe(32), secrets.token_urlsafe(32)
        self._ports = {name: (free_port(), free_port()) for name in plan.nodes}
        self._executor_ports = {name: free_port() for name in EXECUTOR_NAMES}
        self._children: dict[str, subprocess.Popen[bytes]] = {}
        self._guard = threading.RLock()
        self._stack = ExitStack()
        folder.mkdir(parents=True, exist_ok=True)
        self.db.transaction(lambda conn: tokens.replace_token(conn, "checker", self._token, _now_ms()))
        self.site = Site(self._clients)

    def __enter__(self) -> Cluster:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for name in list(self._children):
            self.end(name, signal.SIGKILL)
        self._stack.close()
        self.db.close()

    def _clients(self) -> list[RestClient]:
        """Return clients of all nodes, past every proxy."""
        return [
            RestClient(f"http://127.0.0.1:{port}", self._token, timeout_s=CALL_S) for port, _ in self._ports.values()
        ]

    def _between(self, who: str, whom: str, port: int) -> int:
        """Return the port by which one process calls another."""
        if not self.plan.is_proxied:
            return port
        key = f"{who}:{whom}"
        if key not in self.proxies:
            self.proxies[key] = self._stack.enter_context(Proxy("127.0.0.1", port))
        return self.proxies[key].port

    # processes

    def start_node(self, name: str) -> None:
        """Start a node; it does not hold a lease yet."""
        port, executor_port = self._ports[name]
        url = address.parse(self._url)
        if url.port:
            url = url.set(port=self._between(name, "database", url.port))
        elif listed := list(address.servers_of(url)):
            if url.get_backend_name() == "mysql":
                number = list(self._ports).index(name) % len(listed)
                listed = listed[number:] + listed[:number]
            ports = [
                self._between(name, f"database{f'-{number}' if number > 1 else ''}", port)
                for number, (_, port) in enumerate(listed, 1)
            ]
            url = url.update_query_dict({"host": [f"127.0.0.1:{port}" for port in ports]})
        shown = url.render_as_string(hide_password=False)
        arguments = ["server", "--database", shown, "--port", str(port), "--executor-port", str(executor_port)]
        runtime = self.folder / ("machine" if self.plan.is_one_machine else f"machine-{name}")
        runtime.mkdir(mode=0o700, exist_ok=True)
        settings = {"XWHEEL_API__EXECUTOR_TOKEN": self._executor_token, "XDG_RUNTIME_DIR": str(runtime)}
        self._start(name, arguments, settings)

    def start_executor(self, name: str) -> None:
        """Start an executor, on the journal that it has."""
        port = self._executor_ports[name]
        admins = [f"http://127.0.0.1:{self._between(name, node, ports[1])}" for node, ports in self._ports.items()]
        settings = {
            **executor_settings(self.folder)[name],
            "XWHEEL_EXECUTOR__ADMIN_ADDRESSES": json.dumps(admins),
            "XWHEEL_EXECUTOR__ACCESS_TOKEN": self._executor_token,
            "XWHEEL_EXECUTOR__PORT": str(port),
            "XWHEEL_EXECUTOR__ADDRESS": f"http://127.0.0.1:{self._between('nodes', name, port)}",
        }
        self._start(name, ["executor", HANDLERS], settings)

    def start(self, name: str) -> None:
        """Start a node or an executor, if it does not run."""
        with self._guard:
            self.wanted.add(name)
            if not self.runs(name):
                (self.start_node if name in self._ports else self.start_executor)(name)

    def _start(self, name: str, arguments: Sequence[str], settings: Mapping[str, str]) -> None:
        place = self.folder / name  # a node's own: what it keeps there is there when it starts again
        place.mkdir(exist_ok=True)
        words = [*self.plan.command, *arguments]
        if name in self.plan.disks:
            words = self.plan.disks[name].command(words, cwd=place)
        own = self.plan.environments.get(name, {})
        paths = [str(ROOT), own.get("PYTHONPATH", "")]
        environment = {**os.environ, **self.plan.settings, **own, **settings}
        with (self.folder / f"{name}.log").open("ab") as log:
            child = subprocess.Popen(
                words,
                cwd=place,
                env={**environment, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        self._children[name] = child
        (self.folder / f"{name}.pid").write_text(str(child.pid))

    def runs(self, name: str) -> bool:
        """Return whether a process was started and has not ended."""
        child = self._children.get(name)
        return child is not None and child.poll() is None

    def send(self, name: str, number: signal.Signals) -> None:
        """Send a process a signal, if it runs."""
        with self._guard:
            if self.runs(name):
                self._children[name].send_signal(number)

    def end(self, name: str, number: signal.Signals = signal.SIGTERM) -> int:
        """Send a process a signal and wait for its end; return its status."""
        with self._guard:
            self.wanted.discard(name)
            child = self._children.pop(name)
            child.send_signal(number)
            try:
                status = child.wait(END_S)
            except subprocess.TimeoutExpired:
                child.kill()
                status = child.wait()
            (self.folder / f"{name}.pid").unlink(missing_ok=True)
            return status

    def end_if_running(self, name: str, number: signal.Signals = signal.SIGTERM) -> None:
        """Do the same to a process that may have ended; one that is frozen goes on, so that it can end."""
        with self._guard:
            if self.runs(name):
                self._children[name].send_signal(signal.SIGCONT)
                self.end(name, number)

    def end_all(self) -> dict[str, int]:
        """Let executors, then nodes drain; return their statuses."""
        names = sorted(self._children, key=lambda name: name in self._ports)
        return {name: self.end(name) for name in names}

    def stop_database(self) -> None:
        """Stop the database server."""
        servers.stop(servers.RUNNING[self.server_port])

    def start_database(self) -> None:
        """Start it again on its data."""
        servers.start_again(self.server_port)

    @property
    def server_url(self) -> str:
        """The database for its administrator, past every proxy."""
        return self.url

    @property
    def server_port(self) -> int:
        """The port of the database server, past every proxy; 0 if there is none."""
        return make_url(self._url).port or 0

    def wait(self, what: str, done: Callable[[], Any], limit_s: float = WAIT_S) -> Any:
        """Poll until something is true; return it."""
        end = time.monotonic() + limit_s
        while True:
            error: Exception | None = None
            try:
                if found := done():
                    return found
            except (XwheelError, OSError) as failure:
                error = failure
            dead = {name: child.poll() for name, child in self._children.items() if child.poll() is not None}
            if dead or time.monotonic() > end:
                reason = f"processes ended: {dead}" if dead else f"not within {limit_s} s ({error})"
                raise RuntimeError(f"{what}: {reason}; logs are in {self.folder}")
            time.sleep(0.05)

    # what is there

    def shares(self) -> list[int]:
        """Return how many partitions each holder has, the largest share first."""
        with self.db.read() as conn:
            owners = conn.execute(select(tables.partition_lease.c.owner)).scalars().all()
        return sorted(Counter(owner for owner in owners if owner).values(), reverse=True)

    def are_ready(self) -> bool:
        """Return whether all nodes that run say that they are ready: each holds leases and reaches the database."""
        clients = dict(zip(self._ports, self._clients(), strict=True))
        return all(client.call("GET", "/readyz") is not None for name, client in clients.items() if self.runs(name))

    def is_open(self, until_ms: int) -> bool:
        """Return whether a run is open, or a job has a fire ahead, of those planned for an instant or earlier."""
        run, job = tables.open_run.c, tables.job.c
        runs = select(run.id).where(run.planned_ms <= until_ms).limit(1)
        ahead = select(job.id).where(job.next_fire_ms <= until_ms, job.deleted_ms.is_(None)).limit(1)
        with self.db.read() as conn:
            return conn.execute(runs).first() is not None or conn.execute(ahead).first() is not None


@contextmanager
def databases(backend: str, folder: Path, environment: Mapping[str, str] | None = None) -> Iterator[Callable[[], str]]:
    """Give a function that gives the URL of an empty database at this version's schema; each call empties it.

    Args:
        environment: Variables of the server's own.
    """
    if backend == "sqlite":
        made = 0

        def fresh() -> str:
            nonlocal made
            made += 1
            url = f"sqlite:///{folder / f'xwheel{made}.db'}"
            startup.upgrade(url)
            return url

        yield fresh
        return
    with ExitStack() as stack:
        if backend == GALERA:
            backend, base = "mariadb", stack.enter_context(Galera(environment)).url
        elif backend in PAIRS:
            backend, base = "postgresql", stack.enter_context(PAIRS[backend](environment)).url
        else:
            base = stack.enter_context(BACKENDS[backend](environment=environment))
        clean = CleanDatabases(base, backend)
        try:
            yield lambda: clean.url(0)
        finally:
            clean.close()


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
