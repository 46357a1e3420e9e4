"""The walk through a package's life on a real cluster: upload, start, a lost node, pause, a new version, roll back."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from site_of_cluster import ClusterSite, now_ms
from tests.support.zookeeper import Servers
from xwheel_devtools.testing import wait_until


def test_the_walk(tmp_path: Path, server: Servers, root: str) -> None:
    """CLU-7, OPS-1, OPS-3, OPS-5, ENV-2: the whole walk with real processes."""
    with ClusterSite(tmp_path, server, root) as site:
        site.add("anna", "bert")
        first = site.publish("1.0", "one")
        job_id = site.jobs()["tick"]

        # start, and see it run on the node that has it
        row = site.operate(job_id, "Start")
        assert (row["result"], row["reason"]) == ("Success", "")
        name = wait_until(lambda: site.where(job_id))
        run = site.wait_for_run(job_id, 0, state="succeeded")
        assert run["address"] == site.address(name)
        assert run["message"] == "one"
        check_row(site, job_id, run)

        # the node is killed: it runs on the other one
        other = {"anna": "bert", "bert": "anna"}[name]
        killed_ms = now_ms()
        site.kill(name)
        wait_until(lambda: site.where(job_id) == other)
        run = site.wait_for_run(job_id, killed_ms, state="succeeded", address=site.address(other))

        # pause: nothing more runs
        row = site.operate(job_id, "Pause")
        assert (row["result"], row["reason"]) == ("Success", "")
        assert site.where(job_id) == ""
        paused_ms = now_ms()

        # a new version; the job goes on with the old one until it is told otherwise
        second = site.publish("1.1", "two")
        row = site.operate(job_id, "Start")
        run = site.wait_for_run(job_id, paused_ms, state="succeeded")
        assert run["message"] == "one"
        between = [run for run in site.runs(job_id) if paused_ms + 1000 < run["due_ms"] < row["begun_ms"]]
        assert between == []

        # restart with it, then roll back
        row = site.operate(job_id, "Restart", package_id=second["id"])
        assert row["result"] == "Success"
        assert site.wait_for_run(job_id, row["ended_ms"], state="succeeded")["message"] == "two"
        row = site.operate(job_id, "Restart", package_id=first["id"])
        assert site.wait_for_run(job_id, row["ended_ms"], state="succeeded")["message"] == "one"

        # of each second there is one run at most, and none began twice; those of a pause were cancelled
        runs = [run for run in site.runs(job_id) if run["state"] != "cancelled"]
        assert len({(run["due_ms"], run["attempt"]) for run in runs}) == len(runs)
        assert len({run["due_ms"] for run in runs}) == sum(run["attempt"] == 1 for run in runs)
        # what was sent to the dead node went on to the other, and what was due while no node had the job waited for one
        assert {run["reason"] for run in runs if run["state"] == "refused"} <= {"failed_over"}
        assert {run["reason"] for run in runs if run["state"] == "skipped"} <= {"waiting_for_executor"}
        assert len(set(site.begun())) == len(site.begun())
        assert sum(run["state"] == "succeeded" for run in runs) > 4


def check_row(site: ClusterSite, job_id: int, run: dict[str, Any]) -> None:
    """LOG-1, DASH-1: a row as all runs have, in the same list; the figures of the dashboard count job and nodes."""
    assert (run["job_id"], run["origin"], run["attempt"], run["result_code"]) == (job_id, "schedule", 1, 200)
    assert run["due_ms"] <= run["accepted_ms"] <= run["finished_ms"]
    assert run["dispatched_ms"] <= run["accepted_ms"]  # it may be made ready some time before it is due
    assert run["id"] in {item["id"] for item in site.call("GET", "runs?limit=200")["items"]}
    # which version that was, and which file, as its job's source said then
    (newest, *_) = site.call("GET", f"jobs/{job_id}/glue")["items"]
    source = json.loads(site.call("GET", f"jobs/{job_id}/glue/{newest['number']}")["source"])
    (package,) = site.call("GET", "packages")["items"]
    assert (source["version"], source["sha256"]) == (package["version"], package["sha256"])
    overview = site.call("GET", "overview")
    assert (overview["jobs"], overview["executors"]) == (len(site.jobs()), 2)
    assert {node["role"] for node in site.cluster()["nodes"]} == {"Master", "Slave"}


def test_a_run_on_a_node_that_is_killed_is_lost_at_once_and_repeated_only_if_it_may_be(
    tmp_path: Path, server: Servers, root: str
) -> None:
    """CLU-7: because its node is gone; the job is on another node, where the next run goes."""
    with ClusterSite(tmp_path, server, root) as site:
        site.add("anna")
        site.publish("1.0", "one")
        once, again = site.jobs()["once"], site.jobs()["again"]
        site.call("PATCH", f"jobs/{again}", {"recover_lost": True})
        runs = {}
        for job_id in (once, again):
            assert site.operate(job_id, "Start", cron="0 0 0 1 1 ?")["result"] == "Success"
            runs[job_id] = site.call("POST", f"packages/jobs/{job_id}/run", {})["id"]
        for run_id in runs.values():
            wait_until(lambda run_id=run_id: site.call("GET", f"runs/{run_id}")["state"] == "running")
        site.add("bert")
        address = site.address("anna")
        site.kill("anna")
        for run_id in runs.values():
            wait_until(lambda run_id=run_id: site.call("GET", f"runs/{run_id}")["state"] == "lost")
        site.scheduler.find(f"(the package node at {re.escape(address)} is gone: its executor is asked about its runs)")
        for job_id in (once, again):
            wait_until(lambda job_id=job_id: site.where(job_id) == "bert")
        found = site.wait_for_run(again, 0, state="running")
        assert found["address"] == site.address("bert")
        assert found["id"] != runs[again]
        assert [run["id"] for run in site.runs(once)] == [runs[once]]
