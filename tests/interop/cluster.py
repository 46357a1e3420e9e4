"""A real ``xwheel server`` with real peers around it."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

from tests.interop.peers import Peer, PeerProcess, Place, die_with_parent
from tests.support.ports import free_port
from xwheel.errors import XwheelError
from xwheel.wire.http.rest import RestClient

DEADLINE_S = 60.0
"""How long anything may take that is not bound to a peer's own period."""

PERIOD_S = 120.0
"""How long to wait for something that a peer does every 20 or 30 seconds."""

STOP_S = 60
T = TypeVar("T")


class Cluster:
    """A node on SQLite that can be stopped and started again at the same place, and executors of its groups.

    Args:
        folder: For its database and the folders of executors.
        settings: Added to its environment, such as ``XWHEEL_…`` variables.
    """

    def __init__(self, folder: Path, settings: Mapping[str, str] | None = None) -> None:
        self.folder = folder
        self.port, self.executor_port = free_port(), free_port()
        self.token = secrets.token_hex(16)
        self.admin_url = f"http://127.0.0.1:{self.executor_port}/xxl-job-admin"
        self.processes: list[PeerProcess] = []
        self._settings = {
            "XWHEEL_API__PORT": str(self.port),
            "XWHEEL_API__EXECUTOR_PORT": str(self.executor_port),
            "XWHEEL_API__EXECUTOR_TOKEN": self.token,
            **(settings or {}),
        }
        self._node: subprocess.Popen[bytes] | None = None
        self._token = ""

    # -- the node -------------------------------------------------------------------------------------------

    def start_node(self) -> None:
        """Start the node and wait until it answers."""
        with (self.folder / "node.log").open("ab") as log:
            self._node = subprocess.Popen(
                [sys.executable, "-m", "xwheel", "server"],
                cwd=self.folder,
                env={**os.environ, "PYTHONUNBUFFERED": "1", **self._settings},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=die_with_parent,  # noqa: PLW1509 - by the main thread only
            )
        if not self._token:
            words = "management token"
            self._token = self.wait(
                lambda: next((line.split()[-1] for line in self._lines() if words in line), ""), words
            )
        self.wait(lambda: self.call("GET", "/groups"), "the node's first answer")

    def stop_node(self) -> None:
        """Ask the node to drain and end, which it must do well."""
        if self._node is not None:
            node, self._node = self._node, None
            node.terminate()
            assert node.wait(STOP_S) == 0, self.tails()

    def call(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """Call the management API; ``path`` comes after ``/api/v1``."""
        client = RestClient(f"http://127.0.0.1:{self.port}", self._token)
        return client.call(method, f"/api/v1{path}", body)

    def group(self, app_name: str) -> int:
        """Create an executor group and return its id."""
        return int(self.call("POST", "/groups", {"app_name": app_name, "title": app_name})["id"])

    def job(self, group_id: int, handler: str, **fields: Any) -> int:
        """Create a job that fires only when told to, and return its id."""
        body = {"group_id": group_id, "name": f"{handler or 'script'} {uuid4().hex[:8]}", "handler": handler, **fields}
        return int(self.call("POST", "/jobs", body)["id"])

    def run(self, job_id: int, param: str, address: str | None = None) -> int:
        """Run a job once with a parameter of its own, and return the run's id."""
        body = {"param": param, "address": address}
        return int(self.call("POST", f"/jobs/{job_id}/run", body)["id"])

    def look(self, run_id: int) -> dict[str, Any]:
        """Return a run as it stands."""
        return dict(self.call("GET", f"/runs/{run_id}"))

    def runs(self, **query: Any) -> list[dict[str, Any]]:
        """Return runs, first planned first; ``query`` as in ``GET /runs``."""
        words = "&".join(f"{name}={value}" for name, value in {"limit": 1000, **query}.items())
        return list(reversed(self.call("GET", f"/runs?{words}")["items"]))

    def log(self, run_id: int, from_line: int = 1) -> dict[str, Any]:
        """Return a piece of a run's log."""
        return dict(self.call("GET", f"/runs/{run_id}/log?from_line={from_line}"))

    def executors(self, group_id: int) -> dict[str, dict[str, Any]]:
        """Return the live executors of a group by address."""
        items = self.call("GET", f"/groups/{group_id}/executors")["items"]
        return {item["address"]: dict(item) for item in items}

    # -- waiting --------------------------------------------------------------------------------------------

    def wait(self, done: Callable[[], T], what: str, deadline_s: float = DEADLINE_S) -> T:
        """Poll until something is true and return it; errors of a node that is not there yet are passed over."""
        end = time.monotonic() + deadline_s
        while True:
            problem = ""
            try:
                found = done()
            except XwheelError as error:
                problem = str(error)
            else:
                if found:
                    return found
            status = None if self._node is None else self._node.poll()
            if status is not None:
                raise AssertionError(f"{what}: the node ended with {status}\n{self.tails()}")
            if time.monotonic() > end:
                raise AssertionError(f"{what}: not within {deadline_s} s {problem}")
            time.sleep(0.05)

    def ended(self, run_id: int, deadline_s: float = DEADLINE_S) -> dict[str, Any]:
        """Wait until a run is final and return it."""

        def look() -> dict[str, Any] | None:
            run = self.look(run_id)
            return run if run["finished_ms"] else None

        found = self.wait(look, f"end of run {run_id}", deadline_s)
        assert found is not None
        return found

    def accepted(self, run_id: int) -> dict[str, Any]:
        """Wait until an executor took a run and return it."""

        def look() -> dict[str, Any] | None:
            run = self.look(run_id)
            return run if run["state"] == "running" or run["finished_ms"] else None

        found = self.wait(look, f"acceptance of run {run_id}")
        assert found is not None
        return found

    # -- executors ------------------------------------------------------------------------------------------

    def start(self, peer: Peer, app_name: str, **changes: Any) -> PeerProcess:
        """Start an executor of a group; it may take a while until it registers."""
        port = free_port()
        folder = self.folder / f"{peer.name}-{port}"
        folder.mkdir()
        values = {"app_name": app_name, "admin_url": self.admin_url, "token": self.token, **changes}
        process = peer.start(Place(port=port, folder=folder, **values))
        self.processes.append(process)
        return process

    def registered(self, group_id: int, *processes: PeerProcess) -> None:
        """Wait until these executors are live."""
        wanted = {process.address for process in processes}

        def look() -> bool:
            for process in processes:
                assert process.process.poll() is None, f"an executor ended:\n{process.tail()}"
            return wanted <= self.executors(group_id).keys()

        self.wait(look, f"registration of {sorted(wanted)}", PERIOD_S)

    def tails(self) -> str:
        """Return the end of what node and executors wrote, for messages."""
        node = "\n".join(["--- node ---", *self._lines()[-60:]])
        return "\n".join([node, *(process.tail() for process in self.processes)])

    def close(self) -> None:
        """End everything."""
        for process in self.processes:
            process.kill()
        if self._node is not None and self._node.poll() is None:
            self.stop_node()

    def _lines(self) -> list[str]:
        path = self.folder / "node.log"
        return path.read_text(errors="replace").splitlines() if path.exists() else []


@contextmanager
def cluster(folder: Path, settings: Mapping[str, str] | None = None) -> Iterator[Cluster]:
    """Run a node for a while; executors that are left over are killed in the end."""
    made = Cluster(folder, settings)
    try:
        made.start_node()
        yield made
    finally:
        made.close()
