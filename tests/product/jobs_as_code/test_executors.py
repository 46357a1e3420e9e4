"""Jobs declared in code, with a node and two executors in processes of their own: drift, conflict, releases, typos."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from xwheel_devtools.testing import NodeProcess, wait_until
from xwheel_devtools.testing.processes import XwheelProcess

from tests.support.paths import ROOT
from xwheel.errors import ConflictError, NotFoundError, WireError
from xwheel.wire.http.rest import RestClient

pytestmark = pytest.mark.processes

GONE_S = 4
CODE = """
from xwheel.executor import job

@job("report", cron={cron!r}, timezone="Asia/Shanghai", retries=3{more})
def report() -> str:
    return "reported by {word}"

@job("bare")
def bare() -> str:
    return "bare by {word}"
"""
CLEAN = """
@job("clean", every="1h")
def clean() -> None: ...
"""


class Cluster:
    """A node, a group with its token, and executors of builds that tests write."""

    def __init__(self, folder: Path, node: NodeProcess) -> None:
        self.folder = folder
        self.node = node
        self.group_id = self.node.call("POST", "groups", {"app_name": "shop"})["id"]
        made = self.node.call("POST", "tokens", {"name": "shop-sync", "group_id": self.group_id})
        self.token_file = folder / "shop.token"
        self.token_file.write_text(made["token"])
        self.token_file.chmod(0o600)
        self.running: list[XwheelProcess] = []
        # a node takes a new token within a second
        wait_until(lambda: self._is_known(made["token"]), 30)

    def _is_known(self, token: str) -> bool:
        sign = {"app_name": "shop", "release": "0", "digest": "0" * 64, "instance": "none"}
        try:
            RestClient(self.node.url, token).call("POST", "/api/v1/declarations/sync", sign)
        except WireError:  # refused, or throttled
            return False
        return True

    def build(self, name: str, *, cron: str = "0 0 2 * * ?", more: str = "", extra: str = "") -> Path:
        """Write the application's module of a build; return its folder."""
        folder = self.folder / name
        folder.mkdir()
        (folder / "shopjobs.py").write_text(CODE.format(cron=cron, more=more, word=name) + extra)
        return folder

    def start(self, folder: Path, release: str, **settings: str) -> XwheelProcess:
        """Start an executor of a build."""
        made = XwheelProcess(
            folder,
            "executor",
            "shopjobs",
            XWHEEL_EXECUTOR__APP_NAME="shop",
            XWHEEL_EXECUTOR__ADMIN_ADDRESSES=json.dumps([self.node.executor_url]),
            XWHEEL_EXECUTOR__ACCESS_TOKEN=self.node.executor_token,
            XWHEEL_EXECUTOR__PORT="0",
            XWHEEL_EXECUTOR__DATA_DIR=str(folder / "data"),
            XWHEEL_EXECUTOR__BEAT_S="0.5",
            XWHEEL_EXECUTOR__LEAVE_S="0",
            XWHEEL_EXECUTOR__RELEASE=release,
            XWHEEL_EXECUTOR__SYNC_JOBS="true",
            XWHEEL_EXECUTOR__SYNC_ADDRESSES=json.dumps([self.node.url]),
            XWHEEL_EXECUTOR__SYNC_TOKEN_FILE=str(self.token_file),
            XWHEEL_EXECUTOR__SYNC_S="0.5",
            **{"PYTHONPATH": str(ROOT), **settings},
        )
        self.running.append(made)
        return made

    def sync(self, folder: Path, release: str, *options: str) -> subprocess.CompletedProcess[str]:
        """Run ``xwheel sync`` in a build, with the group's token."""
        return subprocess.run(
            [
                sys.executable, "-m", "xwheel", "sync", "shopjobs", "--group", "shop", "--release", release,
                "--url", self.node.url, "--token-file", str(self.token_file), *options,
            ],
            cwd=folder, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=60,
            check=False,
        )  # fmt: skip

    def job(self, name: str) -> dict[str, Any] | None:
        found = self.node.call("GET", f"jobs?group_id={self.group_id}&name={name}")["items"]
        return found[0] if found else None

    def wait_for(self, name: str, **fields: Any) -> dict[str, Any]:
        """Wait until a job has these values."""

        def arrived() -> dict[str, Any] | None:
            job = self.job(name)
            return job if job and all(job[field] == value for field, value in fields.items()) else None

        return wait_until(arrived, 60)

    def builds(self) -> dict[str, tuple[str, int]]:
        """Where each live digest's release stands, and how many executors have it."""
        items = self.node.call("GET", "declarations")["items"]
        return {
            build["release"] + ":" + build["digest"]: (build["standing"], build["executors"])
            for item in items
            for build in item["builds"]
        }

    def runs_by(self, job_id: int) -> str:
        return str(self.node.wait_for_run(self.node.start_run(job_id))["message"])


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with NodeProcess(tmp_path / "node", XWHEEL_TRIGGER__DEAD_AFTER_S=str(GONE_S)) as node:
        made = Cluster(tmp_path, node)
        try:
            yield made
        finally:
            for process in made.running:
                process.stop()


def test_drift_is_corrected_once_by_two_executors_and_released_fields_are_a_persons(cluster: Cluster) -> None:
    build = cluster.build("one", extra=CLEAN)
    mine = {"group_id": cluster.group_id, "name": "report", "handler": "old", "param": "a person's"}
    cluster.node.call("POST", "jobs", mine)
    found = cluster.sync(build, "1.0", "--check")
    assert found.returncode == 5, found.stderr
    assert '    handler: "old" -> "report"' in found.stdout
    assert "+ create shop/clean" in found.stdout
    assert cluster.job("clean") is None

    # two executors of the same build, at the same time
    second = cluster.folder / "two"
    second.mkdir()
    (second / "shopjobs.py").write_bytes((build / "shopjobs.py").read_bytes())
    executors = [cluster.start(build, "1.0"), cluster.start(second, "1.0")]
    for executor in executors:
        executor.find("(release 1.0 owns the jobs)")
    job = cluster.wait_for("report", schedule_conf="0 0 2 * * ?", max_retries=3)
    assert (job["handler"], job["param"], job["timezone"]) == ("report", "a person's", "Asia/Shanghai")
    assert cluster.wait_for("clean", enabled=True)["schedule_type"] == "FIX_RATE"
    assert cluster.job("bare") is None
    wait_until(lambda: list(cluster.builds().values()) == [("owns", 2)], 30)
    assert cluster.runs_by(job["id"]) == "reported by one"
    assert (cluster.sync(build, "1.0", "--check").returncode, cluster.job("report")) == (0, job)

    # a person's edit is refused, with the way out; released, it outlives a restart of the application
    with pytest.raises(ConflictError, match=r"release 1\.0 .*shopjobs:report.*xwheel job release"):
        cluster.node.call("PATCH", f"jobs/{job['id']}", {"schedule_conf": "0 0 3 * * ?"})
    released = subprocess.run(
        [sys.executable, "-m", "xwheel", "job", "release", "shop/report", "--field", "schedule_conf"],
        env={**os.environ, "XWHEEL_URL": cluster.node.url, "XWHEEL_TOKEN": cluster.node.token},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert released.returncode == 0, released.stderr
    cluster.node.call("PATCH", f"jobs/{job['id']}", {"schedule_conf": "0 0 3 * * ?"})
    for executor in executors:
        executor.stop()
    cluster.start(build, "1.0").find("(release 1.0 owns the jobs)")
    after = cluster.wait_for("report", schedule_conf="0 0 3 * * ?")
    assert after["declared"]["released"] == ["schedule_conf", "schedule_type"]


def test_the_same_release_with_other_jobs_is_a_conflict_and_nothing_flaps(cluster: Cluster) -> None:
    one = cluster.build("one")
    other = cluster.build("other", cron="0 0 5 * * ?")
    first = cluster.start(one, "1.0")
    first.find("(release 1.0 owns the jobs)")
    job = cluster.wait_for("report", schedule_conf="0 0 2 * * ?")
    second = cluster.start(other, "1.0")
    second.find("(declares other jobs than this build)")
    first.find("(declare other jobs than this build)")
    assert sorted(cluster.builds().values()) == [("conflicts", 1), ("owns", 1)]
    assert cluster.node.call("GET", "overview")["declaration_conflicts"] == 1
    shown = cluster.job("report")
    assert shown is not None
    assert shown["declared"]["is_in_conflict"]
    assert shown["revision"] == job["revision"]
    refused = cluster.sync(other, "1.0")
    assert (refused.returncode, "declares other jobs under the same release" in refused.stderr) == (1, True)
    # the second one serves its handlers all the same; once the first is gone for long enough, it takes over
    first.stop()
    cluster.wait_for("report", schedule_conf="0 0 5 * * ?")
    assert cluster.node.call("GET", "overview")["declaration_conflicts"] == 0
    assert cluster.runs_by(job["id"]) == "reported by other"


@pytest.mark.long
def test_the_higher_release_owns_and_the_lower_one_takes_over_when_it_is_gone(cluster: Cluster) -> None:
    old = cluster.build("old")
    new = cluster.build("new", cron="0 0 4 * * ?", extra=CLEAN)
    cluster.start(old, "1.9").find("(release 1.9 owns the jobs)")
    before = cluster.wait_for("report", schedule_conf="0 0 2 * * ?")
    # a command speaks for no executor
    early = cluster.sync(new, "1.10")
    assert (early.returncode, "executors of release 1.10 with executor.sync_jobs" in early.stderr) == (1, True)
    assert cluster.job("report") == before
    # a pipeline may check what it is about to roll out
    ahead = cluster.sync(new, "1.10", "--dry-run")
    assert (ahead.returncode, "~ update shop/report" in ahead.stdout) == (0, True), ahead.stderr
    assert "has live executors, and so owns the jobs" in ahead.stderr
    upgraded = cluster.start(new, "1.10")
    upgraded.find("(release 1.10 owns the jobs)")
    cluster.wait_for("report", schedule_conf="0 0 4 * * ?")
    clean = cluster.wait_for("clean", enabled=True)
    # an executor of the old release starts again meanwhile, as in a rolling upgrade
    straggler = cluster.folder / "straggler"
    straggler.mkdir()
    (straggler / "shopjobs.py").write_bytes((old / "shopjobs.py").read_bytes())
    cluster.start(straggler, "1.9").find(r"(release 1.9 waits: release 1.10)")
    assert cluster.job("report")["schedule_conf"] == "0 0 4 * * ?"  # type: ignore[index]
    # it crashes: the old release takes over, stops what it does not declare, and deletes nothing
    os.kill(upgraded.pid, 9)
    cluster.wait_for("report", schedule_conf="0 0 2 * * ?")
    assert cluster.wait_for("clean", enabled=False)["id"] == clean["id"]
    assert cluster.job("clean")["declared"]["is_retired"]  # type: ignore[index]
    # and back again, with the job that had been stopped for it
    cluster.start(new, "1.10").find("(release 1.10 owns the jobs)")
    assert cluster.wait_for("clean", enabled=True)["id"] == clean["id"]


def test_a_typo_is_named_harms_no_other_job_and_stops_no_handler(cluster: Cluster) -> None:
    good = cluster.build("good", extra=CLEAN)
    cluster.start(good, "1.0").find("(release 1.0 owns the jobs)")
    before = cluster.wait_for("report", max_retries=3)
    typo = cluster.build("typo", more=", tymeout_s=5", extra=CLEAN.replace('"1h"', '"2h"'))
    bad_cron = cluster.build("cron", cron="0 0 25 * * ?")
    words = "job 'report' (shopjobs:report): tymeout_s: is no field of jobs; did you mean timeout_s?"
    failed = cluster.sync(typo, "2.0")
    assert (failed.returncode, words in failed.stderr) == (2, True), failed.stderr
    refused = cluster.sync(bad_cron, "2.0")
    assert (refused.returncode, "job 'report' (shopjobs:report): cron: " in refused.stderr) == (2, True)
    assert cluster.job("report") == before

    executor = cluster.start(typo, "2.0")
    executor.find("(release 2.0 owns the jobs)")
    assert words in executor.output.read_text()
    cluster.wait_for("clean", schedule_conf="2h")
    job = cluster.job("report")
    assert job is not None
    assert (job["schedule_conf"], job["enabled"]) == (before["schedule_conf"], True)
    assert "shopjobs:report: tymeout_s: is no field of jobs" in job["declared"]["problem"]
    cluster.running[0].stop()
    bare = cluster.node.call("POST", "jobs", {"group_id": cluster.group_id, "name": "b", "handler": "bare"})
    wait_until(lambda: len(cluster.node.call("GET", f"groups/{cluster.group_id}/executors")["items"]) == 1, 30)
    assert cluster.runs_by(bare["id"]) == "bare by typo"
    assert cluster.runs_by(job["id"]) == "reported by typo"


def test_an_executor_says_what_is_missing_to_sync(cluster: Cluster) -> None:
    build = cluster.build("one")
    for settings, words in (
        ({"XWHEEL_EXECUTOR__RELEASE": ""}, "executor.release is missing"),
        ({"XWHEEL_EXECUTOR__SYNC_ADDRESSES": "[]"}, "executor.sync_addresses is missing"),
        ({"XWHEEL_EXECUTOR__SYNC_TOKEN": cluster.node.executor_token}, "which opens no jobs"),
    ):
        process = XwheelProcess(
            build,
            "executor",
            "shopjobs",
            **{
                "XWHEEL_EXECUTOR__APP_NAME": "shop",
                "XWHEEL_EXECUTOR__ADMIN_ADDRESSES": json.dumps([cluster.node.executor_url]),
                "XWHEEL_EXECUTOR__ACCESS_TOKEN": cluster.node.executor_token,
                "XWHEEL_EXECUTOR__RELEASE": "1.0",
                "XWHEEL_EXECUTOR__SYNC_JOBS": "true",
                "XWHEEL_EXECUTOR__SYNC_ADDRESSES": json.dumps([cluster.node.url]),
                "XWHEEL_EXECUTOR__SYNC_TOKEN_FILE": str(cluster.token_file),
                **settings,
            },
        )
        with pytest.raises(AssertionError, match="it ended with status 2") as ended:
            process.find("(will not come)")
        assert words in str(ended.value)
    # a token for everything is too much for an executor
    cluster.token_file.write_text(cluster.node.token)
    executor = cluster.start(cluster.build("two"), "1.0")
    executor.find("(an executor syncs with a token of its group, not with one for everything)")
    with pytest.raises(NotFoundError):
        cluster.node.call("GET", "jobs/1")
