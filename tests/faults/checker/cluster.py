"""Nodes, executors and their database as processes, and what the tables and the handlers' files say about them."""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from sqlalchemy import make_url, select

from tests.faults.checker.load import EXECUTORS, load_jobs
from tests.faults.checker.names import FILE_VARIABLE, NAME_VARIABLE
from tests.faults.checker.verdict import Execution, Job, Row
from tests.support import servers
from tests.support.databases import BACKENDS, CleanDatabases
from tests.support.executors import ROOT
from tests.support.ports import free_port
from xwheel.errors import XwheelError
from xwheel.storage import tokens
from xwheel.storage.database import startup
from xwheel.storage.database.engine import Database
from xwheel.storage.schema import tables
from xwheel.wire.http.rest import RestClient

APP_NAME: Final = "checked"
NODES: Final = ("a", "b")
PARTITIONS: Final = 64
WAIT_S: Final = 90
END_S: Final = 60
ROW_COLUMNS: Final = [tables.run.c[name] for name in Row.__dataclass_fields__]


class Cluster:
    """Nodes ``a`` and ``b``, two executors that know both, and a database. Use it as a context: all of it ends then.

    Nodes and executors have default settings: nothing but addresses, tokens and folders is set.

    Args:
        url: The database, empty and at this version's schema.
        folder: Gets logs, pid files and the handlers' files.
        is_one_machine: Nodes find each other's locks, by which a node is known at once to have ended. Else each has
            a runtime folder of its own, as if it ran on another machine.
        command: The program that nodes and executors are.
    """

    def __init__(
        self,
        url: str,
        folder: Path,
        *,
        is_one_machine: bool = False,
        command: Sequence[str] = (sys.executable, "-m", "xwheel"),
    ) -> None:
        self.folder = folder
        self.db = Database(url)
        self._url = url
        self._is_one_machine = is_one_machine
        self._command = command
        self._ids: dict[str, int] = {}
        self._token, self._executor_token = secrets.token_urlsafe(32), secrets.token_urlsafe(32)
        # of both nodes, whether they run or not: executors must know them beforehand
        self._ports = {name: (free_port(), free_port()) for name in NODES}
        self._children: dict[str, subprocess.Popen[bytes]] = {}
        self._clients: dict[str, RestClient] = {}
        folder.mkdir(parents=True, exist_ok=True)
        self.db.transaction(lambda conn: tokens.replace_token(conn, "checker", self._token, _now_ms()))

    def __enter__(self) -> Cluster:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for name in list(self._children):
            self.end(name, signal.SIGKILL)
        self.db.close()

    # processes

    def start_node(self, name: str) -> None:
        """Start a node; it does not hold a lease yet."""
        port, executor_port = self._ports[name]
        arguments = [
            "server",
            "--database",
            self._url,
            "--port",
            str(port),
            "--executor-port",
            str(executor_port),
        ]
        runtime = self.folder / ("machine" if self._is_one_machine else f"machine-{name}")
        runtime.mkdir(mode=0o700, exist_ok=True)
        settings = {"XWHEEL_API__EXECUTOR_TOKEN": self._executor_token, "XDG_RUNTIME_DIR": str(runtime)}
        self._start(name, arguments, settings)

    def start_executors(self) -> None:
        """Start the executors, and wait until a node knows them."""
        for number in range(EXECUTORS):
            name = f"executor{number}"
            admins = [f"http://127.0.0.1:{ports[1]}" for ports in self._ports.values()]
            settings = {
                "XWHEEL_EXECUTOR__APP_NAME": APP_NAME,
                "XWHEEL_EXECUTOR__ADMIN_ADDRESSES": json.dumps(admins),
                "XWHEEL_EXECUTOR__ACCESS_TOKEN": self._executor_token,
                "XWHEEL_EXECUTOR__PORT": str(free_port()),
                FILE_VARIABLE: str(self.folder / f"{name}.executions"),
                NAME_VARIABLE: name,
            }
            self._start(name, ["executor", "tests.faults.checker.handlers"], settings)
        path = f"/api/v1/groups/{self._group_id()}/executors"
        self.wait("executors", lambda: len(self.call("GET", path)["items"]) == EXECUTORS)

    def _start(self, name: str, arguments: Sequence[str], settings: Mapping[str, str]) -> None:
        place = self.folder / name  # a node's own: what it keeps there is there when it starts again
        place.mkdir(exist_ok=True)
        with (self.folder / f"{name}.log").open("ab") as log:
            child = subprocess.Popen(
                [*self._command, *arguments],
                cwd=place,
                env={**os.environ, "PYTHONPATH": str(ROOT), **settings},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        self._children[name] = child
        (self.folder / f"{name}.pid").write_text(str(child.pid))

    def end(self, name: str, number: signal.Signals = signal.SIGTERM) -> int:
        """Send a process a signal and wait for its end; return its status."""
        child = self._children.pop(name)
        child.send_signal(number)
        try:
            status = child.wait(END_S)
        except subprocess.TimeoutExpired:
            child.kill()
            status = child.wait()
        (self.folder / f"{name}.pid").unlink()
        return status

    def end_all(self) -> dict[str, int]:
        """Let executors, then nodes drain; return their statuses."""
        names = sorted(self._children, key=lambda name: name in NODES)
        return {name: self.end(name) for name in names}

    def stop_database(self) -> None:
        """Stop the database server."""
        servers.stop(servers.RUNNING[self._server_port()])

    def start_database(self) -> None:
        """Start it again on its data."""
        servers.start_again(self._server_port())

    def _server_port(self) -> int:
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

    # the management API

    def call(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """Ask a node that runs."""
        name = next(name for name in NODES if name in self._children)
        return self._client(name).call(method, path, body)

    def _client(self, name: str) -> RestClient:
        if name not in self._clients:
            self._clients[name] = RestClient(f"http://127.0.0.1:{self._ports[name][0]}", self._token)
        return self._clients[name]

    def _group_id(self) -> int:
        known = {group["app_name"]: group["id"] for group in self.call("GET", "/api/v1/groups")["items"]}
        if APP_NAME not in known:
            body = {"app_name": APP_NAME, "title": "Checked"}
            known[APP_NAME] = self.call("POST", "/api/v1/groups", body)["id"]
        return int(known[APP_NAME])

    @property
    def ids(self) -> list[int]:
        """The ids of the jobs."""
        return list(self._ids.values())

    def create(self, rate: int, start_ms: int, end_ms: int) -> bool:
        """Create jobs and let them fire; policy, threshold and all else that is not named have their defaults.

        Returns:
            Whether they were there before they had to fire; if not, they are gone again.
        """
        group_id, ids, wanted = self._group_id(), dict[str, int](), load_jobs(rate, start_ms, end_ms)
        for number, item in enumerate(wanted):
            body = {
                "group_id": group_id,
                "name": item.name,
                "handler": "notes",
                "start_ms": start_ms,
                "end_ms": end_ms,
                "anchor_ms": start_ms,
                "route_strategy": ("FIRST", "ROUND")[number % 2],
                **item.fields,
            }
            ids[item.name] = self.call("POST", "/api/v1/jobs", body)["id"]
        for item in wanted:
            if item.child:
                children = {"children": [{"child_id": ids[item.child]}]}
                self.call("PUT", f"/api/v1/jobs/{ids[item.name]}/children", children)
        # a job that never fires by itself cannot be started
        firing = [ids[item.name] for item in wanted if item.due or item.delay_ms]
        answer = self.call("POST", "/api/v1/jobs/bulk/start", {"ids": firing})
        if _now_ms() >= start_ms:
            self.call("POST", "/api/v1/jobs/bulk/delete", {"ids": list(ids.values())})
            return False
        problems = [item["problem"] for item in answer["items"] if item["problem"]]
        if problems:
            raise RuntimeError(f"jobs do not start: {problems}")
        self._ids = ids
        return True

    def stop_jobs(self) -> None:
        """Let no job fire any more."""
        self.call("POST", "/api/v1/jobs/bulk/stop", {"ids": self.ids})

    def calls_for(self, rate: int, start_ms: int, end_ms: int) -> dict[int, Job]:
        """Return what the jobs call for between their start and an instant, by id."""
        return {
            self._ids[item.name]: Job(
                name=item.name,
                due=item.due,
                delay_ms=item.delay_ms,
                first_ms=start_ms + item.delay_ms if item.delay_ms else 0,
                end_ms=end_ms,
                shards=item.shards,
                failures=item.failures,
                child=self._ids.get(item.child, 0),
            )
            for item in load_jobs(rate, start_ms, end_ms)
        }

    # what is there

    def shares(self) -> list[int]:
        """Return how many partitions each holder has, the largest share first."""
        with self.db.read() as conn:
            owners = conn.execute(select(tables.partition_lease.c.owner)).scalars().all()
        return sorted(Counter(owner for owner in owners if owner).values(), reverse=True)

    def are_ready(self) -> bool:
        """Return whether all nodes that run say that they are ready: each holds leases and reaches the database."""
        running = [self._client(name) for name in NODES if name in self._children]
        return all(client.call("GET", "/readyz") is not None for client in running)

    def is_open(self, until_ms: int | None = None) -> bool:
        """Return whether a run is open, or a job has a fire ahead; of those planned for an instant or earlier."""
        run, job = tables.run, tables.job
        runs = select(run.c.id).where(run.c.state.in_(["planned", "dispatching", "running"])).limit(1)
        ahead = select(job.c.id).where(job.c.next_fire_ms.is_not(None), job.c.deleted_ms.is_(None)).limit(1)
        if until_ms is not None:
            runs, ahead = (
                runs.where(run.c.planned_ms <= until_ms),
                ahead.where(job.c.next_fire_ms <= until_ms),
            )
        with self.db.read() as conn:
            return conn.execute(runs).first() is not None or conn.execute(ahead).first() is not None

    def rows(self) -> list[Row]:
        """Return all run rows of the jobs."""
        query = select(*ROW_COLUMNS).where(tables.run.c.job_id.in_(self.ids))
        with self.db.read() as conn:
            return [Row(**row._mapping) for row in conn.execute(query)]

    def executions(self) -> list[Execution]:
        """Return what the handlers of the jobs wrote down."""
        lines = (path.read_text().splitlines() for path in sorted(self.folder.glob("*.executions")))
        found = (Execution(**json.loads(line)) for group in lines for line in group)
        # jobs that were made too late may have fired before they were gone again
        ids = set(self.ids)
        return [item for item in found if item.job_id in ids]


@contextmanager
def databases(backend: str, folder: Path) -> Iterator[Callable[[], str]]:
    """Give a function that gives the URL of an empty database at this version's schema; each call empties it."""
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
    with BACKENDS[backend]() as base:
        clean = CleanDatabases(base, backend)
        try:
            yield lambda: clean.url(0)
        finally:
            clean.close()


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
