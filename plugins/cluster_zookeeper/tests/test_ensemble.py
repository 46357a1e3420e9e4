"""An ensemble of three loses its leader, then its quorum, and comes back; jobs go on, and nothing runs twice."""

from __future__ import annotations

from pathlib import Path

from conftest import needed
from site_of_cluster import ClusterSite, now_ms
from tests.support.zookeeper import zookeeper
from xwheel_devtools.testing import wait_until

from xwheel_cluster_zookeeper.backend import Link

SESSION_S = 8.0
"""Long enough for an election next to other tests."""

MOST_ATTEMPTS = 16


def test_an_ensemble_loses_its_leader_and_its_quorum(tmp_path: Path, root: str) -> None:
    """CLU-9, CON-5: the scheduler says the truth throughout."""
    needed()
    with zookeeper(3) as servers, ClusterSite(tmp_path, servers, root, session_s=SESSION_S) as site:
        site.add("anna", "bert")
        site.publish("1.0", "one")
        job_id = site.jobs()["tick"]
        assert site.operate(job_id, "Start")["result"] == "Success"
        site.wait_for_run(job_id, 0, state="succeeded")
        before = {node.node_id: node.path for node in site.state.nodes.values()}
        has = site.where(job_id)

        # the leader is killed: the same sessions, the same node has the job
        leader = servers.leader()
        leader.kill()
        site.wait_for_run(job_id, now_ms(), state="succeeded")
        wait_until(lambda: site.watcher.connection().link is Link.CONNECTED)
        assert {node.node_id: node.path for node in site.state.nodes.values()} == before
        assert site.where(job_id) == has
        wait_until(lambda: site.cluster()["is_reachable"])

        # a second one is killed: no quorum for longer than a session
        second = next(member for member in servers.members if member is not leader and member.mode())
        second.kill()
        wait_until(lambda: not site.cluster()["is_reachable"])
        shown = site.cluster()
        assert {item["node_id"] for item in shown["nodes"]} == {"anna", "bert"}
        first_age = shown["age_ms"]
        site.wait_for_run(job_id, now_ms(), state="refused")
        refused = site.runs(job_id, state="refused")[0]
        assert "ZooKeeper has not answered this node" in refused["message"]
        wait_until(lambda: site.cluster()["age_ms"] > max(first_age, 1000 * (SESSION_S + 1)))

        # it comes back: the same sessions, and the job goes on where it was
        leader.start()
        second.start()
        wait_until(lambda: site.cluster()["is_reachable"])
        site.wait_for_run(job_id, now_ms(), state="succeeded")
        assert {node.node_id: node.path for node in site.state.nodes.values()} == before
        assert site.where(job_id) == has
        wait_until(lambda: site.cluster()["age_ms"] < 5000)
        begun = site.begun()
        assert len(set(begun)) == len(begun)
        succeeded = {run["id"] for run in site.runs(job_id, state="succeeded")}
        assert succeeded <= set(begun)

        # R25: no fire was refused for good: one waited, those after it are skips, and it ran in the end
        wait_until(lambda: _roots(site, job_id, "refused") <= _roots(site, job_id, "succeeded"))
        runs = site.runs(job_id)
        refused = [run for run in runs if run["state"] == "refused"]
        assert {run["reason"] for run in refused} == {"failed_over"}
        assert {run["reason"] for run in runs if run["state"] == "skipped"} <= {"waiting_for_executor"}
        assert len(refused) <= 2 * MOST_ATTEMPTS


def _roots(site: ClusterSite, job_id: int, state: str) -> set[int]:
    return {run["root_id"] for run in site.runs(job_id) if run["state"] == state}
