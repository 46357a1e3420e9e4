"""A node and an executor, processes of their own in a temporary folder, for the benchmarks that need whole ones."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from xwheel_devtools.quickstart.processes import Child

from benchmarks.handlers import COUNT_FILE, START, STARTS
from tests.support.databases import server_database, upgrade
from tests.support.servers import RUNNING
from xwheel.errors import XwheelError
from xwheel.runtime.ports import free_port
from xwheel.storage.access import tokens
from xwheel.storage.database.engine import Database
from xwheel.wire.http.rest import RestClient

GROUP = "bench"
TICKS_PER_S = os.sysconf("SC_CLK_TCK")

T = TypeVar("T")


@dataclass(slots=True)
class Site:
    """A running node with one executor.

    Attributes:
        executor_token: What executors and schedulers show each other.
    """

    folder: Path
    port: int
    executor_port: int
    token: str
    executor_token: str
    db: Database
    node: Child
    executor: Child | Foreign
    client: RestClient = field(init=False)
    group_id: int = 0
    address: str = ""

    def __post_init__(self) -> None:
        self.client = RestClient(f"http://127.0.0.1:{self.port}", self.token)

    def cpu_s(self) -> dict[str, float]:
        """Return the processor seconds that node and executor have used."""
        return {child.name: cpu_s(child.pid) for child in (self.node, self.executor)}

    def server_s(self) -> float:
        """Return the processor seconds that PostgreSQL has used, but for those of our own connection; 0 for others."""
        if self.db.backend != "postgresql":
            return 0.0
        with self.db.read() as conn:
            ours = conn.exec_driver_sql("SELECT pg_backend_pid()").scalar_one()
        return family_s(RUNNING[self.db.engine.url.port or 0].pid) - cpu_s(ours)

    def executed(self) -> int:
        """Return how many runs the executor's handlers have begun."""
        return int.from_bytes((self.folder / "count").read_bytes(), "little")

    def started_us(self) -> dict[int, int]:
        """Return when the handlers of runs by id started, in microseconds, of those that note it."""
        return dict(START.iter_unpack((self.folder / STARTS).read_bytes()))

    def start_node(self) -> None:
        """Start the node and wait until it answers and knows the executor, if there is one."""
        self.node.start()
        until(lambda: self.client.call("GET", "/api/v1/groups"))
        if self.address:
            self.wait_for_executor()

    def stop_node(self) -> None:
        """Stop the node; its port is free afterwards."""
        if self.node.stop(30):
            raise SystemExit(f"the node did not end well:\n{self.node.tail()}")

    def wait_for_executor(self) -> None:
        """Wait until the node counts the executor as live."""
        path = f"/api/v1/groups/{self.group_id}/executors"
        self.address = until(lambda: self.client.call("GET", path)["items"][0])["address"]


class Foreign:
    """``benchmarks.foreign`` as a child, with the face of :class:`Child`."""

    name = "executor"

    def __init__(self, orders: dict[str, object]) -> None:
        self._orders = orders
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        return self._process.pid if self._process else 0

    def start(self) -> None:
        command = [sys.executable, "-m", "benchmarks.foreign"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(self._orders).encode() + b"\n")
        self._process.stdin.flush()

    def stop(self, timeout_s: float) -> int:
        if self._process is None:
            return 0
        self._process.terminate()
        return self._process.wait(timeout_s)

    def tail(self) -> str:
        return ""


@contextmanager
def database(backend: str, folder: Path) -> Iterator[str]:
    """Give the URL of a database at this version's schema, as durable as its server makes it by itself."""
    if backend != "sqlite":
        with server_database(backend, durable=True) as url:
            yield url
        return
    url = f"sqlite:///{folder / 'xwheel.db'}"
    db = Database(url)
    upgrade(db)
    db.close()
    yield url


@contextmanager
def site(
    *,
    with_executor: bool = True,
    prepare: Callable[[Database], object] | None = None,
    backend: str = "sqlite",
    is_foreign: bool = False,
    reroute: Callable[[str], str] = lambda url: url,
    more_ports: Sequence[int] = (),
    handlers: str = "benchmarks.handlers",
    settings: Mapping[str, Mapping[str, object]] | None = None,
    first: str = "",
    processes: int = 1,
) -> Iterator[Site]:
    """Start a node, and an executor unless told otherwise; end them afterwards.

    Args:
        with_executor: Whether there is one.
        prepare: Fills the node's database before it starts.
        backend: ``sqlite``, ``mariadb`` or ``postgresql``; a server is started for it.
        is_foreign: The executor knows ``/run`` only.
        reroute: Gives the URL under which the node reaches the database.
        more_ports: Where further nodes listen for the executor.
        handlers: Module with the executor's handlers.
        settings: Sections besides those that every site has, or in place of one.
        first: What the node's interpreter runs before anything else.
        processes: How many there are of the node.
    """
    with tempfile.TemporaryDirectory(prefix="xwheel-bench-") as name, database(backend, Path(name)) as url:
        made = _lay(
            Path(name),
            url,
            reroute(url),
            more_ports,
            handlers,
            settings or {},
            is_foreign=is_foreign,
            processes=processes,
        )
        if first:
            (made.folder / "first").mkdir()
            (made.folder / "first" / "sitecustomize.py").write_text(first)
        if prepare is not None:
            prepare(made.db)
        try:
            made.start_node()
            body = {"app_name": GROUP, "title": GROUP}
            made.group_id = made.client.call("POST", "/api/v1/groups", body)["id"]
            if with_executor:
                made.executor.start()
                made.wait_for_executor()
            yield made
        finally:
            statuses = [child.stop(30) for child in (made.executor, made.node)]
            made.db.close()
            if any(statuses):
                print(made.node.tail(), made.executor.tail(), sep="\n")
                raise SystemExit(f"executor and node ended with {statuses}")


def _lay(
    folder: Path,
    url: str,
    node_url: str,
    more_ports: Sequence[int],
    handlers: str,
    settings: Mapping[str, Mapping[str, object]],
    *,
    is_foreign: bool,
    processes: int,
) -> Site:
    port, executor_port = free_port(), free_port()
    token, executor_token = secrets.token_hex(16), secrets.token_hex(16)
    db = Database(url)
    db.transaction(lambda conn: tokens.replace_token(conn, GROUP, token, 0))
    (folder / "count").write_bytes(bytes(8))
    config = {
        "database": {"url": node_url},
        "api": {"port": port, "executor_port": executor_port, "executor_token": executor_token},
        "executor": {
            "app_name": GROUP,
            "admin_addresses": [f"http://127.0.0.1:{number}" for number in (executor_port, *more_ports)],
            "access_token": executor_token,
            "port": 0,
            "data_dir": str(folder / "executor"),
            "queue_limit": 1_000_000,
            "waiting_limit": 1_000_000,
            "beat_s": 5,
        },
        **settings,
    }
    lines = [
        f"[{section}]\n" + "\n".join(f"{key} = {json.dumps(value)}" for key, value in values.items())
        for section, values in config.items()
    ]
    (folder / "xwheel.toml").write_text("\n".join(lines))
    environment = {"XWHEEL_CONFIG": str(folder / "xwheel.toml"), COUNT_FILE: str(folder / "count")}
    paths = os.pathsep.join([str(folder / "first"), *filter(None, [os.environ.get("PYTHONPATH")])])
    more = ["--processes", str(processes)] if processes > 1 else []
    node = Child("node", ["server", *more], folder / "node.log", {**environment, "PYTHONPATH": paths})
    executor: Child | Foreign = Child("executor", ["executor", handlers], folder / "executor.log", environment)
    if is_foreign:
        orders = {"port": executor_port, "token": executor_token, "app_name": GROUP}
        executor = Foreign({**orders, "count_file": str(folder / "count")})
    return Site(folder, port, executor_port, token, executor_token, db, node, executor)


def until(call: Callable[[], T], limit_s: float = 30) -> T:
    """Repeat a call until it works; return its result."""
    deadline = time.monotonic() + limit_s
    while True:
        try:
            return call()
        except (XwheelError, IndexError):
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def cpu_s(pid: int) -> float:
    """Return the processor seconds a process has used; 0 for one that is gone."""
    return _times_s(pid)[0]


def family_s(pid: int) -> float:
    """Return the processor seconds of a process and its children, those that have ended included."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return sum(_times_s(pid)) + sum(cpu_s(int(child)) for child in children)


def _times_s(pid: int) -> tuple[float, float]:
    """Return the processor seconds of a process, and those of its children that have ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except FileNotFoundError:
        return 0.0, 0.0
    user, system, ended_user, ended_system = (int(field) / TICKS_PER_S for field in fields[11:15])
    return user + system, ended_user + ended_system
