"""The walk through a package's life on a real cluster: upload, start, a lost node, pause, a new version, roll back."""

from __future__ import annotations

import time
from pathlib import Path

from site_of_cluster import ClusterSite, now_ms, source
from tests.support.zookeeper import Servers
from wheels import make_wheel
from xwheel.testing import wait_until

SLACK_S = 3.0


def test_the_walk(tmp_path: Path, server: Servers, root: str) -> None:
    """CLU-7, OPS-1, OPS-3, OPS-5, ENV-2: the whole walk with real processes."""
    with ClusterSite(tmp_path, server, root) as site:
        site.add("anna", "bert")
        first = site.upload(make_wheel(tmp_path, "acme", "1.0", source("one")))
        job_id = site.jobs()["tick"]

        # start, and see it run on the node that has it
        row = site.operate(job_id, "Start")
        assert (row["result"], row["reason"]) == ("Success", "")
        name = wait_until(lambda: site.where(job_id))
        run = site.wait_for_run(job_id, 0, state="succeeded")
        assert run["address"] == site.address(name)
        assert run["message"] == "one"

        # the node is killed: it runs on the other one
        other = {"anna": "bert", "bert": "anna"}[name]
        killed_ms = now_ms()
        began = site.kill(name)
        wait_until(lambda: site.where(job_id) == other)
        assert time.monotonic() - began < 3.0 + SLACK_S + 2
        run = site.wait_for_run(job_id, killed_ms, state="succeeded", address=site.address(other))

        # pause: nothing more runs
        row = site.operate(job_id, "Pause")
        assert (row["result"], row["reason"]) == ("Success", "")
        assert site.where(job_id) == ""
        paused_ms = now_ms()

        # a new version; the job goes on with the old one until it is told otherwise
        second = site.upload(make_wheel(tmp_path, "acme", "1.1", source("two")))
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

        # of each second there is one run, and none ran twice
        runs = site.runs(job_id)
        assert len({run["due_ms"] for run in runs}) == len(runs)
        assert {run["state"] for run in runs} <= {
            "succeeded",
            "lost",
            "refused",
            "failed",
            "running",
            "planned",
            "dispatching",
        }
