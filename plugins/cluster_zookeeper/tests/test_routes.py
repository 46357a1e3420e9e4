"""The cluster's calls on a real scheduler node; the store is in memory and can be cut off."""

from __future__ import annotations

import http.client
import json
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from world import World
from xwheel.plugin import Routes, WorksAlong, hookimpl
from xwheel_devtools.testing import NodeSite, check_routes, wait_until

from xwheel_cluster_zookeeper.memory import MemoryBackend
from xwheel_cluster_zookeeper.mirror import Mirror
from xwheel_cluster_zookeeper.router import Assigned
from xwheel_cluster_zookeeper.routes import ClusterRoutes
from xwheel_cluster_zookeeper.view import ClusterView

sys.path.append(str(Path(__file__).resolve().parents[2] / "job_package" / "tests"))

from archives import wheel

JOBS = {
    "acme/__init__.py": "",
    "acme/jobs.py": (
        "from xwheel_package import schedule\n\n"
        "@schedule(cron='0 0 1 * * ?')\ndef nightly():\n    pass\n\n"
        "@schedule(cron='0 0 2 * * ?')\ndef early():\n    pass\n"
    ),
}


SECRET = "a-secret-that-all-executors-share"
SETTINGS = {"api": {"port": 0, "executor_port": 0, "executor_token": SECRET}}


class Plugin:
    """The plugin on a store in memory."""

    def __init__(self) -> None:
        self.world = World()
        self.backend = MemoryBackend(self.world.store)
        self._view = ClusterView()

    @hookimpl
    def xwheel_register_routers(self) -> list[Assigned]:
        return [Assigned(self._view)]

    @hookimpl
    def xwheel_register_routes(self) -> list[ClusterRoutes]:
        return [ClusterRoutes(lambda: Mirror(self.backend, self._view))]


class Place:
    """A scheduler node with a store of packages and two package nodes."""

    def __init__(self, folder: Path, node: NodeSite, plugin: Plugin) -> None:
        self.folder = folder
        self.node = node
        self.plugin = plugin
        self.world = plugin.world

    def ask(self, method: str, path: str, body: bytes = b"{}", token: str = "") -> tuple[int, Any]:
        with closing(http.client.HTTPConnection(self.node.url.removeprefix("http://"), timeout=30)) as conn:
            headers = {"Authorization": f"Bearer {token or self.node.token}"}
            conn.request(method, f"/api/v1/{path}", None if method == "GET" else body, headers)
            answer = conn.getresponse()
            return answer.status, json.loads(answer.read() or b"null")

    def register(self, address: str) -> None:
        """Register an executor of the group, as executors do."""
        base = self.node.executor_url.removeprefix("http://")
        body = {"registryGroup": "EXECUTOR", "registryKey": "package-nodes", "registryValue": address}
        with closing(http.client.HTTPConnection(base, timeout=30)) as conn:
            headers = {"XXL-JOB-ACCESS-TOKEN": SECRET, "Content-Type": "application/json"}
            conn.request("POST", "/api/registry", json.dumps(body), headers)
            assert json.loads(conn.getresponse().read())["code"] == 200

    def cluster(self) -> Any:
        status, found = self.ask("GET", "package-cluster")
        assert status == 200
        return found

    def log(self, job_id: int) -> list[tuple[str, str]]:
        items = self.ask("GET", f"packages/jobs/{job_id}/operations")[1]["items"]
        return [(item["result"], item["reason"]) for item in items]

    def wait_for(self, job_id: int, result: str) -> None:
        def is_there() -> bool:
            self.world.run(1)
            return self.log(job_id)[0][0] == result

        wait_until(is_there)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("place")
    options = {"job_package": {"store": {"directory": str(folder / "packages")}}}
    plugin = Plugin()
    with NodeSite(folder / "node", "job_package", plugin, options=options, executors=0, settings=SETTINGS) as node:
        node.call("POST", "groups", {"app_name": "package-nodes", "title": "Packages"})
        plugin.world.add("a", "b", app_name="package-nodes")
        plugin.world.run()
        yield Place(folder, node, plugin)


@pytest.fixture(scope="module")
def jobs(place: Place) -> list[int]:
    """Jobs of a package that was uploaded while the cluster is there."""
    wait_until(lambda: place.cluster()["is_reachable"])
    path = wheel(place.folder, JOBS)
    status, found = place.ask("POST", f"packages?file={path.name}", path.read_bytes())
    assert status == 201
    return sorted(int(job["job_id"]) for job in found["jobs"])


def test_the_contracts_hold() -> None:
    plugin = Plugin()
    (made,) = plugin.xwheel_register_routes()
    assert isinstance(made, Routes)
    assert isinstance(made, WorksAlong)
    check_routes(made)
    made.end()


def test_an_operation_goes_to_a_node_and_back(place: Place, jobs: list[int]) -> None:
    """OPS-1: 202 with Waiting; within 5 s the job says which node has it, and the operation is closed."""
    first = jobs[0]
    made = place.node.call("GET", f"jobs/{first}")
    assert (made["route_strategy"], made["wait_for_executor_s"]) == ("ASSIGNED", 60)
    status, found = place.ask("POST", f"packages/jobs/{first}/operations", b'{"operation": "Start"}')
    assert (status, found["result"]) == (202, "Waiting")
    place.wait_for(first, "Success")
    cluster = place.ask("GET", f"packages/jobs/{first}")[1]["cluster"]
    assert (cluster["state"], cluster["result"]) == ("Startup", "Success")
    assert cluster["node_id"] in {"a", "b"}
    loads = {item["node_id"]: item["jobs"] for item in place.cluster()["nodes"]}
    assert loads[cluster["node_id"]] == 1


def test_a_run_without_the_nodes_executor_says_why(place: Place, jobs: list[int]) -> None:
    """CLU-17: the run of a job whose node no executor stands for waits, and is refused with the router's words."""
    place.register("http://127.0.0.1:9")
    place.node.call("PATCH", f"jobs/{jobs[0]}", {"wait_for_executor_s": 2})
    run = place.node.call("POST", f"packages/jobs/{jobs[0]}/run", {})
    found = place.node.wait_for_run(run["id"])
    assert (found["state"], found["reason"]) == ("refused", "no_route")
    assert "no executor of the group has registered as http://127.0.0.1/" in found["message"]
    assert "and none came in the 2." in found["message"]


def test_loads_are_made_even_when_it_is_asked_for(place: Place, jobs: list[int]) -> None:
    """CLU-16: 202 with the number of jobs that move."""
    status, found = place.ask("POST", "package-cluster/rebalance")
    assert (status, found) == (202, {"jobs": 0})


def test_a_node_is_drained_and_resumed(place: Place, jobs: list[int]) -> None:
    """P12: its jobs go to the other node; asked for again nothing changes; who did it is recorded."""
    began = place.ask("GET", f"packages/jobs/{jobs[0]}")[1]["cluster"]["node_id"]
    other = {"a": "b", "b": "a"}[began]
    body = json.dumps({"node_id": began}).encode()

    def shown() -> dict[str, Any]:
        return {item["node_id"]: item for item in place.cluster()["nodes"]}

    def is_at(name: str) -> bool:
        place.world.run(1)
        return bool(place.ask("GET", f"packages/jobs/{jobs[0]}")[1]["cluster"]["node_id"] == name)

    for _ in range(2):
        assert place.ask("POST", "package-cluster/drain", body) == (202, {"node_id": began})
        wait_until(lambda: is_at(other))
    assert shown()[began]["drained_ms"] > 0
    assert shown()[began]["drained_by"]
    assert shown()[other]["drained_ms"] is None
    for _ in range(2):
        assert place.ask("POST", "package-cluster/resume", body) == (202, {"node_id": began})
        wait_until(lambda: shown()[began]["drained_ms"] is None)
    actions = [item["action"] for item in place.node.call("GET", "audit?limit=20")["items"]]
    assert {"package_cluster.drain", "package_cluster.resume"} <= set(actions)


@pytest.mark.parametrize("what", ["drain", "resume"])
def test_only_known_nodes_are_drained(place: Place, what: str) -> None:
    status, refused = place.ask("POST", f"package-cluster/{what}", b'{"node_id": "nobody"}')
    assert status == 404, refused
    for body in (b"{}", b'{"node_id": 1}', b'{"node_id": ""}', json.dumps({"node_id": "x" * 256}).encode()):
        status, refused = place.ask("POST", f"package-cluster/{what}", body)
        assert (status, refused["field"]) == (422, "node_id"), refused


def test_who_only_looks_moves_nothing(place: Place) -> None:
    """CON-1: a viewer sees the cluster and may not move jobs."""
    token = place.node.call("POST", "tokens", {"name": "viewer", "role": "viewer"})["token"]
    assert place.ask("GET", "package-cluster", token=token)[0] == 200
    for what in ("rebalance", "drain", "resume"):
        assert place.ask("POST", f"package-cluster/{what}", b'{"node_id": "a"}', token=token)[0] == 403


def test_with_the_store_down_calls_answer_at_once(place: Place, jobs: list[int]) -> None:
    """CON-5: the cluster as it was known within 1 s; OPS-12: an operation 202 with queued, done when it is back."""
    place.plugin.backend.suspend()
    second = jobs[1]
    found = place.cluster()
    assert (found["is_reachable"], len(found["nodes"])) == (False, 2)
    status, answer = place.ask("POST", f"packages/jobs/{second}/operations", b'{"operation": "Start"}')
    assert (status, answer["result"], answer["reason"]) == (202, "Waiting", "queued")
    status, refused = place.ask("POST", "package-cluster/rebalance")
    assert (status, refused["reason"]) == (503, "store_unreachable")
    for what in ("drain", "resume"):
        status, refused = place.ask("POST", f"package-cluster/{what}", b'{"node_id": "a"}')
        assert (status, refused["reason"]) == (503, "store_unreachable")
    wait_until(lambda: place.cluster()["age_ms"] > 300)
    assert place.log(second) == [("Waiting", "queued")]
    place.plugin.backend.resume()
    place.wait_for(second, "Success")
    assert place.log(second) == [("Success", "")]


def test_a_viewer_of_another_group_sees_its_own_cluster_alone(place: Place) -> None:
    """S15: nodes, loads and the master are those of the groups that one may read."""
    others = place.node.call("POST", "groups", {"app_name": "others", "title": "Others"})["id"]
    mine = place.node.call("GET", "groups?app_name=package-nodes")["items"][0]["id"]
    place.world.add("of-others", app_name="others")
    wait_until(lambda: (place.world.run(1), len(place.cluster()["nodes"]) == 3)[1])

    def seen(group_id: int, name: str) -> Any:
        grants = [{"group_id": group_id, "role": "viewer"}]
        token = place.node.call("POST", "tokens", {"name": name, "groups": grants})["token"]
        return place.ask("GET", "package-cluster", token=token)[1]

    found = seen(others, "sees-others")
    assert [item["node_id"] for item in found["nodes"]] == ["of-others"]
    assert (found["master"], found["jobs"]["started"]) == ("", 0)
    assert {item["node_id"] for item in seen(mine, "sees-mine")["nodes"]} == {"a", "b"}
    place.world.kill("of-others")
