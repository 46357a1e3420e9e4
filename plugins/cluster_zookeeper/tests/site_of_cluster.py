"""A real cluster: a scheduler with the package store, package nodes as processes, ZooKeeper between them."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, Self

import requests
from tests.support.zookeeper import Servers
from wheels import make_wheel
from xwheel_devtools.testing import NodeProcess, XwheelProcess, wait_until

from xwheel_cluster_zookeeper.backend import Disconnected
from xwheel_cluster_zookeeper.model import ClusterState, Mode
from xwheel_cluster_zookeeper.paths import Paths
from xwheel_cluster_zookeeper.zookeeper import ZooKeeperBackend

SESSION_S = 3.0

JOBS = """
import os, time
from pathlib import Path
from xwheel_package import schedule

@schedule(cron="* * * * * ?")
def tick():
    # outlives the run, unlike its log: what began twice is there twice
    with open("LEDGER", "a") as ledger:
        print(os.environ["XWHEEL_RUN_ID"], file=ledger)
    print("tick of VERSION in", os.getpid())
    return "VERSION"

def sleep():
    print("begun", flush=True)
    time.sleep(60)

@schedule()
def once():
    sleep()

@schedule()
def again():
    sleep()
"""


def source(version: str, ledger: Path) -> Mapping[str, str]:
    """Return the files of a package of this version, whose job ``tick`` writes the ids of its runs into a file."""
    return {"acme/__init__.py": "", "acme/jobs.py": JOBS.replace("VERSION", version).replace("LEDGER", str(ledger))}


class PackageNode(XwheelProcess):
    """``xwheel node``."""

    def __init__(self, cluster: ClusterSite, name: str, **options: Any) -> None:
        self.name = name
        folder = cluster.folder / name
        folder.mkdir()
        (folder / "xwheel.toml").write_text(
            f"""
[executor]
app_name = "package-nodes"
admin_addresses = ["{cluster.scheduler.executor_url}"]
access_token = "{cluster.scheduler.executor_token}"
data_dir = "{folder / "data"}"
port = 0
allowed_glue_types = ["PACKAGE"]
stop_timeout_s = 10

[plugins.options.job_package.node]
directory = "{cluster.folder / "packages"}"

{cluster.options}
[plugins.options.cluster_zookeeper.node]
name = "{name}"
"""
            + "".join(f"{key} = {value}\n" for key, value in options.items())
        )
        super().__init__(folder, "node", XWHEEL_CONFIG=str(folder / "xwheel.toml"))

    def signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def freeze(self) -> None:
        self.signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self.signal(signal.SIGCONT)


class ClusterSite:
    """A scheduler, nodes, and a member that looks on.

    Attributes:
        scheduler: The scheduler's process.
        nodes: The package nodes by name.
        watcher: A connection that only reads.
    """

    def __init__(
        self, folder: Path, servers: Servers, root: str, *, mode: str = "master-slave", session_s: float = SESSION_S
    ) -> None:
        self.folder = folder
        self.options = (
            f'[plugins.options.cluster_zookeeper]\nhosts = "{servers.hosts}"\nroot = "{root}"\nmode = "{mode}"\n'
            f"session_s = {session_s}\nreconcile_s = 2\noperation_timeout_s = 20\n"
        )
        self._stack = ExitStack()
        self.nodes: dict[str, PackageNode] = {}
        home = folder / "scheduler"
        home.mkdir()
        settings = home / "xwheel.toml"
        settings.write_text(f'[plugins.options.job_package.store]\ndirectory = "{folder / "store"}"\n\n{self.options}')
        self.scheduler = self._stack.enter_context(NodeProcess(home, XWHEEL_CONFIG=str(settings)))
        self.group_id = self.call("POST", "groups", {"app_name": "package-nodes", "title": "Packages"})["id"]
        paths = Paths(root, Mode.STANDBY if mode == "standby" else Mode.MASTER_SLAVE)
        self.watcher = ZooKeeperBackend(servers.hosts, paths, session_s=session_s)
        self._stack.enter_context(closing(self.watcher))
        assert self.watcher.open(20)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for node in self.nodes.values():
            node.thaw()
        self._stack.close()

    # -- nodes

    def add(self, *names: str, **options: Any) -> None:
        """Start nodes, and wait until the cluster and the scheduler know them."""
        for name in names:
            self.start(name, **options)
        wait_until(lambda: {node.node_id for node in self.state.nodes.values()} >= set(names))
        wait_until(lambda: len(self.executors()) >= len(self.nodes))

    def start(self, name: str, **options: Any) -> PackageNode:
        """Start a node."""
        found = self.nodes[name] = self._stack.enter_context(PackageNode(self, name, **options))
        return found

    def kill(self, name: str) -> None:
        """End a node as a power cut would."""
        self.nodes.pop(name).kill()

    @property
    def state(self) -> ClusterState:
        """What stands in ZooKeeper; while the ensemble elects, the tests' own connection is away for a moment."""

        def read() -> ClusterState | None:
            try:
                return self.watcher.read()
            except Disconnected:
                return None

        return wait_until(read)

    def master(self) -> str:
        """Return the name of the node that says it is master."""
        found = [node.node_id for node in self.state.nodes.values() if node.role == "Master"]
        return found[0] if len(found) == 1 else ""

    def where(self, job_id: int) -> str:
        """Return the name of the node that has said that it has the job."""
        state = self.state
        for stored in state.statuses.values():
            key = stored.value.key
            if key.startswith(f"{job_id}-") and key in state.owners:
                return state.owners[key].node_id
        return ""

    # -- the scheduler

    @property
    def ledger(self) -> Path:
        """Where runs of ``tick`` write their ids."""
        return self.folder / "ledger"

    def begun(self) -> list[int]:
        """Return the ids of runs of ``tick``, in the order in which they began."""
        return [int(line) for line in self.ledger.read_text().split()] if self.ledger.exists() else []

    def publish(self, version: str, text: str) -> dict[str, Any]:
        """Upload a version of the package whose jobs say a text."""
        return self.upload(make_wheel(self.folder, "acme", version, source(text, self.ledger)))

    def call(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        return self.scheduler.call(method, path, body)

    def executors(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.call("GET", f"groups/{self.group_id}/executors")["items"]
        return found

    def upload(self, path: Path) -> dict[str, Any]:
        """Upload a package; return what the store says of it."""
        answer = requests.post(
            f"{self.scheduler.url}/api/v1/packages",
            params={"file": path.name},
            data=path.read_bytes(),
            headers={"Authorization": f"Bearer {self.scheduler.token}"},
            timeout=60,
        )
        assert answer.status_code == 201, answer.text
        found: dict[str, Any] = answer.json()
        return found

    def jobs(self) -> dict[str, int]:
        """Return ids of the jobs of packages by name."""
        return {item["name"]: item["job_id"] for item in self.call("GET", "packages/jobs")["items"]}

    def operate(self, job_id: int, operation: str, **changes: Any) -> dict[str, Any]:
        """Do something with a job, and wait until it is done; return its row of the log."""
        self.call("POST", f"packages/jobs/{job_id}/operations", {"operation": operation, **changes})

        def ended() -> Any:
            (row, *_) = self.call("GET", f"packages/jobs/{job_id}/operations")["items"]
            return row if row["ended_ms"] is not None else None

        row: dict[str, Any] = wait_until(ended)
        return row

    def cluster(self) -> dict[str, Any]:
        """Return what the scheduler says of the cluster."""
        found: dict[str, Any] = self.call("GET", "package-cluster")
        return found

    def runs(self, job_id: int, **filters: Any) -> list[dict[str, Any]]:
        """Return a job's runs, the newest first."""
        query = "".join(f"&{name}={value}" for name, value in filters.items())
        found: list[dict[str, Any]] = self.call("GET", f"runs?job_id={job_id}&limit=200{query}")["items"]
        return found

    def wait_for_run(self, job_id: int, after_ms: int, **wanted: Any) -> dict[str, Any]:
        """Wait for a run that was due later and is as it is wanted."""

        def found() -> Any:
            for run in self.runs(job_id):
                if run["due_ms"] > after_ms and all(run[name] == value for name, value in wanted.items()):
                    return run
            return None

        run: dict[str, Any] = wait_until(found)
        return run

    def address(self, name: str) -> str:
        """Return where a node's executor is."""
        return next(node.address for node in self.state.nodes.values() if node.node_id == name)


def now_ms() -> int:
    return time.time_ns() // 1_000_000
