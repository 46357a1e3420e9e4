"""Operations that wait for the nodes of a cluster, and what a crash leaves half done."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
from archives import wheel
from test_store import TWO, Store, core_job, nightly_of, operate
from xwheel.plugin import (
    FieldError,
    Permission,
    PluginSite,
    Route,
    RouteCall,
    RouteReply,
    RouteScope,
    WorksAlong,
    hookimpl,
)
from xwheel_devtools.testing import NodeSite, wait_until

from xwheel_job_package import set_distribution
from xwheel_job_package.operations import JobOperations
from xwheel_job_package.outbox import Outbox
from xwheel_job_package.routes import PackageRoutes
from xwheel_job_package.service import PackageService
from xwheel_job_package.store_options import StoreOptions


class Cluster:
    """Counts what it is told."""

    job_fields = {"route_strategy": "RANDOM"}  # noqa: RUF012

    def __init__(self) -> None:
        self.woken = 0
        self.reason = ""
        self.known: dict[int, dict[str, str]] = {}

    def wake(self) -> None:
        self.woken += 1

    def waiting_reason(self) -> str:
        return self.reason

    def describe(self, job_id: int) -> dict[str, str] | None:
        return self.known.get(job_id)


class Settling:
    """Routes that call what a cluster calls."""

    name = "settling"
    known: ClassVar[list[JobOperations]] = []
    sites: ClassVar[list[PluginSite]] = []

    def routes(self, site: PluginSite) -> Sequence[Route]:
        operations = JobOperations(site)
        Settling.known[:] = [operations]
        Settling.sites[:] = [site]
        service = PackageService(StoreOptions(directory="/nowhere"), site)

        def answer(call: RouteCall) -> RouteReply:
            name = call.path["name"]
            owner: Any = next(item for item in (operations, Outbox(site), service) if hasattr(item, name))
            return RouteReply(value={"found": getattr(owner, name)(**call.json())})

        return [
            Route(
                method="POST",
                path="/{name}",
                answer=answer,
                summary="Call.",
                permission=Permission.ADMIN,
                scope=RouteScope.ALL,
            )
        ]


class SettlingPlugin:
    @hookimpl
    def xwheel_register_routes(self) -> list[Settling]:
        return [Settling()]


@pytest.fixture(scope="module")
def module_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    folder = tmp_path_factory.mktemp("store")
    options = {"job_package": {"store": {"directory": str(folder / "packages")}}}
    with NodeSite(folder / "node", "job_package", SettlingPlugin(), options=options, executors=0) as node:
        node.call("POST", "groups", {"app_name": "package-nodes", "title": "Packages"})
        yield Store(folder / "packages", node)


@pytest.fixture
def store(module_store: Store) -> Iterator[Store]:
    yield module_store
    for item in call(module_store, "waiting"):
        settle(module_store, item["id"], "Failed", "superseded")
    for item in module_store.ask("GET", "")[1]["items"]:
        wait_until(lambda: module_store.ask("DELETE", f"/{item['id']}?force=true")[0] == 200)  # noqa: B023


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    made = Cluster()
    set_distribution(made)
    yield made
    set_distribution(None)


@pytest.fixture
def job_id(store: Store, tmp_path: Path, cluster: Cluster) -> int:
    return nightly_of(store.upload(wheel(tmp_path, TWO))[1])


def call(store: Store, name: str, **fields: Any) -> Any:
    return store.node.call("POST", f"settling/{name}", fields)["found"]


def settle(store: Store, operation_id: int, result: str, reason: str = "", error: str = "") -> Any:
    return call(store, "settle", operation_id=operation_id, result=result, reason=reason, error=error)


def log(store: Store, job_id: int) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = store.ask("GET", f"/jobs/{job_id}/operations")[1]["items"]
    return items


def database(store: Store) -> sqlite3.Connection:
    return sqlite3.connect(store.folder.parent / "node" / "node.db", isolation_level=None)


def test_an_operation_waits_until_nodes_have_done_it(store: Store, job_id: int, cluster: Cluster) -> None:
    """OPS-1: with a cluster the answer is 202 and Waiting, and the operation is closed when it is settled."""
    found = operate(store, job_id, "Start", 202)
    assert (found["result"], found["reason"], found["state"], found["version"]) == ("Waiting", "", "Startup", 2)
    assert cluster.woken == 1
    (waiting,) = call(store, "waiting")
    assert (waiting["job_id"], waiting["operation"], waiting["version"]) == (job_id, "Start", 2)
    assert waiting["ended_ms"] is None
    assert settle(store, waiting["id"], "Success")
    (done,) = log(store, job_id)
    assert (done["result"], done["reason"]) == ("Success", "")
    assert done["ended_ms"] >= done["begun_ms"]
    assert call(store, "waiting") == []


def test_an_operation_is_closed_once(store: Store, job_id: int) -> None:
    """LOG-3: who settles an operation that is closed changes nothing and is told so."""
    operate(store, job_id, "Start", 202)
    (waiting,) = call(store, "waiting")
    done: list[bool] = []
    (operations,) = Settling.known

    def close() -> None:
        done.append(operations.settle(waiting["id"], "Success", "", ""))

    threads = [threading.Thread(target=close) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(done) == [False, False, False, True]
    before = log(store, job_id)
    assert not settle(store, waiting["id"], "Failed", "sdk_mismatch", "late")
    assert not settle(store, 10**6, "Success")
    assert log(store, job_id) == before
    assert core_job(store, job_id)["enabled"] is True


def test_a_cluster_that_cannot_be_reached(store: Store, job_id: int, cluster: Cluster) -> None:
    """OPS-12: the answer is 202 with Waiting(queued), and the operation stays in the table."""
    cluster.reason = "queued"
    found = operate(store, job_id, "Start", 202)
    assert (found["result"], found["reason"]) == ("Waiting", "queued")
    (waiting,) = call(store, "waiting")
    assert waiting["reason"] == "queued"
    call(store, "progress", number=waiting["id"], reason="no_eligible_node")
    assert log(store, job_id)[0]["reason"] == "no_eligible_node"


def test_a_start_that_failed_for_good(store: Store, job_id: int) -> None:
    """OPS-7: the job's state is what it was, and the scheduler fires it no more; it can be started again."""
    operate(store, job_id, "Start", 202)
    (waiting,) = call(store, "waiting")
    assert core_job(store, job_id)["enabled"] is True
    assert settle(store, waiting["id"], "Failed", "sdk_mismatch", "protocol 1, not 2")
    job = store.ask("GET", f"/jobs/{job_id}")[1]
    assert (job["state"], job["version"], core_job(store, job_id)["enabled"]) == ("Shutdown", 2, False)
    (failed,) = log(store, job_id)
    assert (failed["result"], failed["reason"], failed["error"]) == ("Failed", "sdk_mismatch", "protocol 1, not 2")
    assert operate(store, job_id, "Start", 202)["version"] == 3


def test_a_restart_that_failed_leaves_the_job_started(store: Store, job_id: int) -> None:
    """OPS-7: a job that was started stays so, and another Restart is not taken for one with nothing to do."""
    operate(store, job_id, "Start", 202)
    settle(store, call(store, "waiting")[0]["id"], "Success")
    assert operate(store, job_id, "Restart")["reason"] == "resumed"
    operate(store, job_id, "Restart", 202, cron="0 0 5 * * ?")
    settle(store, call(store, "waiting")[0]["id"], "Failed", "sdk_mismatch", "")
    job = store.ask("GET", f"/jobs/{job_id}")[1]
    assert (job["state"], core_job(store, job_id)["enabled"]) == ("Startup", True)
    assert operate(store, job_id, "Restart", 202)["version"] == 4


def test_a_newer_operation_stays_when_an_older_fails(store: Store, job_id: int) -> None:
    """OPS-8: the failure of an operation that was superseded puts nothing back."""
    operate(store, job_id, "Start", 202)
    operate(store, job_id, "Restart", 202, cron="0 0 5 * * ?")
    first, second = call(store, "waiting")
    revision = core_job(store, job_id)["revision"]
    assert settle(store, first["id"], "Failed", "sdk_mismatch", "")
    assert core_job(store, job_id)["revision"] == revision  # not even for a moment
    job = store.ask("GET", f"/jobs/{job_id}")[1]
    assert (job["state"], job["version"], core_job(store, job_id)["enabled"]) == ("Startup", 3, True)
    assert settle(store, second["id"], "Success")


def test_a_job_that_cannot_be_started_is_left_as_it_was(
    store: Store, job_id: int, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """OPS-3: where the start is refused after the change was made, the change is undone, and nothing was accepted."""
    (site,) = Settling.sites
    before = core_job(store, job_id)

    def refuse(*_: object, **__: object) -> None:
        raise FieldError("body", "not now")

    with monkeypatch.context() as patched:
        patched.setattr(type(site.jobs), "start", refuse)
        operate(store, job_id, "Restart", 422, cron="0 0 5 * * ?")
    after = core_job(store, job_id)
    names = ("schedule_type", "schedule_conf", "misfire_policy", "timezone", "enabled")
    assert {name: after[name] for name in names} == {name: before[name] for name in names}
    job = store.ask("GET", f"/jobs/{job_id}")[1]
    assert (job["cron"], job["state"], job["version"]) == ("0 0 1 * * ?", "Shutdown", 1)
    assert [(row["result"], row["reason"]) for row in log(store, job_id)] == [("Failed", "refused")]
    assert cluster.woken == 0


def test_no_answer_in_time(store: Store, job_id: int) -> None:
    """OPS-11: a timeout leaves what is wanted; a late answer is added to the log once and changes no state."""
    operate(store, job_id, "Start", 202)
    (waiting,) = call(store, "waiting")
    assert not call(store, "note_late", operation_id=waiting["id"], text="Success")
    assert settle(store, waiting["id"], "Failed", "timeout", "no node answered in 60 s")
    assert (store.ask("GET", f"/jobs/{job_id}")[1]["state"], core_job(store, job_id)["enabled"]) == ("Startup", True)
    ended = log(store, job_id)[0]["ended_ms"]
    assert call(store, "note_late", operation_id=waiting["id"], text="Success")
    assert not call(store, "note_late", operation_id=waiting["id"], text="Success")
    (row,) = log(store, job_id)
    assert (row["result"], row["ended_ms"]) == ("Failed", ended)
    assert row["error"] == "no node answered in 60 s; answered later: Success"


def test_what_is_refused_never_waits(store: Store, job_id: int, cluster: Cluster) -> None:
    """OPS-9: with a cluster too, a bad cron is refused before anything is brought to nodes."""
    wrong = operate(store, job_id, "Start", 422, cron="61 * * * * ?")
    assert wrong["reason"] == "bad_cron"
    assert call(store, "waiting") == []
    assert cluster.woken == 0
    assert store.ask("GET", f"/jobs/{job_id}")[1]["version"] == 1


def test_a_job_says_which_node_has_it(store: Store, job_id: int, cluster: Cluster) -> None:
    assert "cluster" not in store.ask("GET", f"/jobs/{job_id}")[1]
    cluster.known[job_id] = {"node": "n1"}
    assert store.ask("GET", f"/jobs/{job_id}")[1]["cluster"] == {"node": "n1"}


def test_new_jobs_are_routed_as_the_cluster_says(store: Store, job_id: int) -> None:
    assert core_job(store, job_id)["route_strategy"] == "RANDOM"


def test_jobs_of_an_upload_that_was_cut_off(store: Store, tmp_path: Path) -> None:
    """PKG-12: what a crash left out of an upload's jobs is made when somebody calls who may."""
    _, found = store.upload(wheel(tmp_path, TWO))
    gone, kept = (job["job_id"] for job in found["jobs"])
    with closing(database(store)) as conn:
        conn.execute("DELETE FROM job_package_job WHERE job_id = ?", (gone,))
        conn.execute("UPDATE job_package_file SET uploaded_ms = uploaded_ms - 100000")
    store.node.call("DELETE", f"jobs/{gone}")
    call(store, "make_missing_jobs")
    jobs = store.ask("GET", "/jobs")[1]["items"]
    assert sorted(job["name"] for job in jobs) == ["by_hand", "nightly"]
    assert kept in {job["job_id"] for job in jobs}
    assert gone not in {job["job_id"] for job in jobs}


def test_the_node_tidies_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """PKG-12: files, jobs and operations that a crash left are seen to by each node, once a minute."""
    done: list[str] = []
    for owner, name in (
        (PackageService, "sweep_once"),
        (PackageService, "make_missing_jobs"),
        (JobOperations, "resume"),
    ):
        monkeypatch.setattr(owner, name, lambda _, name=name: done.append(name))
    made = PackageRoutes(StoreOptions(directory=str(tmp_path)))
    assert isinstance(made, WorksAlong)
    made.routes(SimpleNamespace())  # type: ignore[arg-type]
    assert made.step(1) == 60_000
    assert done == ["sweep_once", "make_missing_jobs", "resume"]
    made.end()


def test_an_operation_that_was_cut_off(store: Store, tmp_path: Path) -> None:
    """OPS-3: an operation that a crash cut off between the change and the start of the job is done to its end."""
    job_id = nightly_of(store.upload(wheel(tmp_path, TWO))[1])
    before = json.dumps(
        {
            "cron": "0 0 1 * * ?",
            "misfire": "DoNothing",
            "time_zone": "",
            "package_id": 1,
            "state": "Shutdown",
            "version": 1,
        }
    )
    after = before.replace("0 0 1", "0 0 7").replace("Shutdown", "Startup").replace(": 1}", ": 2}")
    with closing(database(store)) as conn:
        conn.execute(
            "UPDATE job_package_job SET cron = '0 0 7 * * ?', state = 'Startup', version = 2 WHERE job_id = ?",
            (job_id,),
        )
        conn.execute(
            "INSERT INTO job_package_operation (job_id, operation, result, reason, error, actor, before, after,"
            " begun_ms) VALUES (?, 'Restart', 'Waiting', 'begun', '', 'first', ?, ?, 1)",
            (job_id, before, after),
        )
    call(store, "resume")
    job = core_job(store, job_id)
    assert (job["schedule_conf"], job["enabled"]) == ("0 0 7 * * ?", True)
    (row,) = log(store, job_id)
    assert (row["result"], row["reason"]) == ("Success", "")
