"""The package store on a node: uploads, downloads, deletes and operations, by the reference's statements."""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from archives import wheel
from xwheel_devtools.testing import NodeSite, check_routes, check_tables, wait_until

from xwheel_job_package.routes import PackageRoutes
from xwheel_job_package.store_options import StoreOptions
from xwheel_job_package.tables import PackageTables

SECRET = "a-secret-that-all-executors-share"
TOKEN_HEADER = "XXL-JOB-ACCESS-TOKEN"
TWO = {
    "acme/__init__.py": "",
    "acme/jobs.py": (
        "from xwheel_package import schedule\n\n"
        "@schedule(cron='0 0 1 * * ?', misfire='DoNothing')\ndef nightly():\n    pass\n\n"
        "@schedule()\ndef by_hand():\n    pass\n"
    ),
}


class Store:
    """A node with a store, and calls of it."""

    def __init__(self, folder: Path, node: NodeSite) -> None:
        self.folder = folder
        self.node = node

    def call(
        self, method: str, path: str, body: bytes | None = None, *, token: str = "", at: str = "", **headers: str
    ) -> tuple[int, bytes]:
        """Return the status and content of an answer."""
        base = (at or self.node.url).removeprefix("http://")
        with closing(http.client.HTTPConnection(base, timeout=60)) as conn:
            given = {"Authorization": f"Bearer {token or self.node.token}"} if not at else {}
            with suppress(BrokenPipeError, ConnectionResetError):  # refused by its head
                conn.request(method, f"/api/v1/packages{path}", body, {**given, **headers})
            answer = conn.getresponse()
            return answer.status, answer.read()

    def ask(self, method: str, path: str, body: Any = None, **more: Any) -> tuple[int, Any]:
        status, content = self.call(method, path, None if body is None else json.dumps(body).encode(), **more)
        return status, json.loads(content) if content else None

    def upload(self, path: Path, query: str = "", **more: Any) -> tuple[int, Any]:
        status, content = self.call("POST", f"?file={path.name}{query}", path.read_bytes(), **more)
        return status, json.loads(content)

    def files(self) -> list[str]:
        return sorted(str(path.relative_to(self.folder)) for path in self.folder.rglob("*") if path.is_file())


@pytest.fixture(scope="module")
def module_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    folder = tmp_path_factory.mktemp("store")
    options = {"job_package": {"store": {"directory": str(folder / "packages"), "max_upload_mb": 6}}}
    settings = {"api": {"port": 0, "executor_port": 0, "executor_token": SECRET}}
    with NodeSite(folder / "node", "job_package", options=options, executors=0, settings=settings) as node:
        node.call("POST", "groups", {"app_name": "package-nodes", "title": "Packages"})
        yield Store(folder / "packages", node)


@pytest.fixture
def store(module_store: Store) -> Iterator[Store]:
    yield module_store
    for item in module_store.ask("GET", "")[1]["items"]:
        wait_until(lambda: module_store.ask("DELETE", f"/{item['id']}?force=true")[0] == 200)  # noqa: B023


def test_the_contracts_hold() -> None:
    check_tables(PackageTables())
    check_routes(PackageRoutes(StoreOptions(directory="/nowhere")))


def test_a_package_becomes_jobs(store: Store, tmp_path: Path) -> None:
    """PKG-1: a wheel with two decorated functions is stored as it is, and both are jobs with their crons."""
    path = wheel(tmp_path, TWO)
    status, found = store.upload(path)
    assert (status, found["state"], found["project"], found["version"]) == (201, "stored", "acme-jobs", "1.2.0")
    shown = {job["name"]: (job["state"], job["cron"], job["misfire"]) for job in found["jobs"]}
    assert shown == {"nightly": ("Shutdown", "0 0 1 * * ?", "DoNothing"), "by_hand": ("Shutdown", "", "None")}
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    (kept,) = store.files()
    assert found["sha256"] == digest == hashlib.sha256((store.folder / kept).read_bytes()).hexdigest()
    job = store.node.call("GET", f"jobs/{nightly_of(found)}")
    assert (job["glue_type"], job["enabled"], job["misfire_policy"]) == ("PACKAGE", False, "skip")


def test_packages_that_are_wrong_leave_nothing(store: Store, tmp_path: Path) -> None:
    """PKG-2: what is no archive, or differs from its record, is refused with a reason, and nothing is kept."""
    broken = tmp_path / "acme_jobs-9-py3-none-any.whl"
    broken.write_bytes(b"no archive")
    forged = wheel(tmp_path, TWO, record={"acme/jobs.py": "acme/jobs.py,sha256=AAAA,5"})
    for path, reason in ((broken, "bad_archive"), (forged, "bad_wheel_record")):
        status, found = store.upload(path)
        assert (status, found["reason"]) == (422, reason)
    assert store.files() == []
    assert store.ask("GET", "")[1]["items"] == []


def test_the_same_again(store: Store, tmp_path: Path) -> None:
    """PKG-3: the same bytes again are refused with the id, and nothing changes."""
    path = wheel(tmp_path, TWO)
    _, first = store.upload(path)
    (kept,) = store.files()
    before = (store.folder / kept).stat().st_mtime_ns
    status, found = store.upload(path)
    assert (status, found["reason"], found["facts"]["package_id"]) == (409, "package_exists_same", first["id"])
    assert store.files() == [kept]
    assert (store.folder / kept).stat().st_mtime_ns == before


def test_other_bytes_of_the_same_version(store: Store, tmp_path: Path) -> None:
    """PKG-4: other bytes of a version that is there are refused; nodes go on getting the old ones."""
    path = wheel(tmp_path, TWO)
    _, first = store.upload(path)
    other = wheel(tmp_path, {**TWO, "acme/more.py": "x = 1\n"})
    assert store.upload(other)[1]["reason"] == "package_exists_different"
    status, content = store.call("GET", f"/{first['id']}/file", at=store.node.executor_url, **{TOKEN_HEADER: SECRET})
    assert (status, hashlib.sha256(content).hexdigest()) == (200, first["sha256"])


def test_two_at_once(store: Store, tmp_path: Path) -> None:
    """PKG-5: of simultaneous uploads of one version exactly one succeeds, and one file remains."""
    path = wheel(tmp_path, TWO)
    statuses: list[int] = []
    threads = [threading.Thread(target=lambda: statuses.append(store.upload(path)[0])) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(statuses) == [201, 409]
    assert len(store.files()) == 1


def test_too_large_a_body(store: Store) -> None:
    """PKG-8: a body over the limit is answered 413, and nothing is kept."""
    status, _ = store.call("POST", "?file=a-1-py3-none-any.whl", b"x" * (6 * 1024 * 1024 + 1))
    assert status == 413
    assert store.files() == []


@pytest.mark.parametrize("name", ["../../evil.whl", "a%0D%0Ab-1-py3-none-any.whl", ""])
def test_names_are_never_repaired(store: Store, name: str) -> None:
    """PKG-9: a name with a separator or control character is refused."""
    status, content = store.call("POST", f"?file={name}", b"x")
    assert (status, json.loads(content)["reason"]) == (422, "bad_filename")
    assert store.files() == []


def test_a_package_without_jobs(store: Store, tmp_path: Path) -> None:
    """PKG-10: a package in which nothing is a job is refused, unless it is asked for."""
    path = wheel(tmp_path, {"acme/__init__.py": ""})
    assert store.upload(path)[1]["reason"] == "no_jobs"
    assert store.upload(path, "&allow_empty=true")[0] == 201


@pytest.fixture(scope="module")
def viewer(module_store: Store) -> str:
    token: str = module_store.node.call("POST", "tokens", {"name": "viewer", "role": "viewer"})["token"]
    return token


def test_uploads_take_a_permission(store: Store, tmp_path: Path, viewer: str) -> None:
    """PKG-11: without the permission the answer is 403, and no byte is kept."""
    assert store.upload(wheel(tmp_path, TWO), token=viewer)[0] == 403
    assert store.files() == []


def test_a_viewer_changes_nothing(store: Store, tmp_path: Path, viewer: str) -> None:
    """CON-1: of every route that changes something a viewer gets 403."""
    _, found = store.upload(wheel(tmp_path, TWO))
    job_id = nightly_of(found)
    for route in _routes():
        path = route.path.replace("{package_id:id}", str(found["id"])).replace("{job_id:id}", str(job_id))
        if route.method != "GET" and not route.for_executors:
            assert store.call(route.method, path, b"{}", token=viewer)[0] == 403, path
    assert store.ask("GET", "", token=viewer)[0] == 200


def _routes() -> Sequence[Any]:
    return check_routes(PackageRoutes(StoreOptions(directory="/nowhere")))


def test_a_crash_is_swept(store: Store, tmp_path: Path) -> None:
    """PKG-12: files without a row go, rows without a file are marked, and a retry of the upload works."""
    path = wheel(tmp_path, TWO)
    _, found = store.upload(path)
    (kept,) = store.files()
    (store.folder / kept).unlink()
    stray = store.folder / "packages" / "99-stray-1-py3-none-any.whl"
    stray.write_bytes(b"x")
    left = store.folder / "incoming" / "left"
    left.write_bytes(b"x")
    os.utime(left, (0, 0))
    options = {"job_package": {"store": {"directory": str(store.folder), "max_upload_mb": 6}}}
    with closing(sqlite3.connect(store.folder.parent / "node" / "node.db")) as source:
        folder = tmp_path / "again"
        folder.mkdir()
        with closing(sqlite3.connect(folder / "node.db")) as target:
            source.backup(target)
    from xwheel_job_package.service import PackageService

    # a second process with the same store, as after a restart
    with SecondSite(folder) as site:
        service = PackageService(StoreOptions(**options["job_package"]["store"]), site)
        service.sweep_once()
        with site.database.read() as conn:
            state = conn.exec_driver_sql("SELECT state FROM job_package_file WHERE id = ?", (found["id"],))
            assert state.scalar() == "missing"
    assert store.files() == []
    store.call("GET", f"/{found['id']}/file")  # here the download finds out
    assert store.ask("GET", f"/{found['id']}")[1]["state"] == "missing"
    status, again = store.upload(path)
    assert (status, again["id"], again["state"]) == (201, found["id"], "stored")


class SecondSite:
    """What a service of another process works with: a copy of the database."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __enter__(self) -> Any:
        from contextlib import contextmanager
        from types import SimpleNamespace

        from sqlalchemy import create_engine

        engine = create_engine(f"sqlite:///{self._folder / 'node.db'}")
        self._engine = engine

        @contextmanager
        def read() -> Any:
            with engine.connect() as conn:
                yield conn

        def transaction(work: Any) -> Any:
            with engine.begin() as conn:
                return work(conn)

        database = SimpleNamespace(backend="sqlite", read=read, transaction=transaction)
        return SimpleNamespace(database=database, jobs=None, now_ms=lambda: 10**13, record=lambda *_, **__: None)

    def __exit__(self, *_: object) -> None:
        self._engine.dispose()


def test_a_package_in_use(store: Store, tmp_path: Path) -> None:
    """DL-6: a package in use is not deleted; forced, its jobs are paused, runs finish, then file and rows go."""
    _, found = store.upload(wheel(tmp_path, TWO))
    job_id = nightly_of(found)
    operate(store, job_id, "Start")
    status, refused = store.ask("DELETE", f"/{found['id']}")
    assert (status, refused["reason"], refused["facts"]) == (409, "package_in_use", {"jobs": [job_id], "runs": []})
    run = store.node.call("POST", f"jobs/{job_id}/run", {"delay_ms": 600_000})
    assert store.ask("DELETE", f"/{found['id']}?force=true") == (202, {"state": "deleting", "runs": [run["id"]]})
    assert store.node.call("GET", f"jobs/{job_id}")["enabled"] is False
    assert len(store.files()) == 1
    store.node.call("POST", f"runs/{run['id']}/kill")
    wait_until(lambda: store.node.call("GET", f"runs/{run['id']}")["state"] == "cancelled")
    assert store.ask("DELETE", f"/{found['id']}") == (200, {"state": "deleted", "runs": []})
    assert store.files() == []
    assert store.ask("GET", f"/{found['id']}")[0] == 404


def test_downloads_take_a_secret(store: Store, tmp_path: Path) -> None:
    """DL-7: without an executor's secret a download is 401."""
    _, found = store.upload(wheel(tmp_path, TWO))
    for headers, wanted in (({}, 401), ({TOKEN_HEADER: "none-of-theirs"}, 401), ({TOKEN_HEADER: SECRET}, 200)):
        assert store.call("GET", f"/{found['id']}/file", at=store.node.executor_url, **headers)[0] == wanted
    part = store.call(
        "GET", f"/{found['id']}/file", at=store.node.executor_url, **{TOKEN_HEADER: SECRET, "Range": "bytes=0-1"}
    )
    assert part == (206, b"PK")


@pytest.mark.parametrize("place", ["..%2f..%2fetc%2fpasswd", "999999", "0", "-1", "1%00"])
def test_downloads_are_by_id_alone(store: Store, place: str) -> None:
    """DL-8: a path, or an id that is not there, is 404."""
    assert store.call("GET", f"/{place}/file")[0] == 404


def operate(store: Store, job_id: int, operation: str, wanted: int = 200, **more: Any) -> Any:
    status, found = store.ask("POST", f"/jobs/{job_id}/operations", {"operation": operation, **more})
    assert status == wanted, found
    return found


@pytest.fixture
def job_id(store: Store, tmp_path: Path) -> int:
    return nightly_of(store.upload(wheel(tmp_path, TWO))[1])


def nightly_of(found: Any) -> int:
    """Return the job that has a cron."""
    return next(int(job["job_id"]) for job in found["jobs"] if job["name"] == "nightly")


def core_job(store: Store, job_id: int) -> Any:
    return store.node.call("GET", f"jobs/{job_id}")


def test_a_second_start_does_nothing(store: Store, job_id: int) -> None:
    """OPS-2: Start of a job that is started is a success that changes nothing."""
    first = operate(store, job_id, "Start")
    assert (first["state"], first["version"]) == ("Startup", 2)
    revision = core_job(store, job_id)["revision"]
    again = operate(store, job_id, "Start")
    assert (again["result"], again["reason"], again["version"]) == ("Success", "already_started", 2)
    assert core_job(store, job_id)["revision"] == revision


def test_a_restart_keeps_the_grid_or_replaces_it(store: Store, job_id: int, tmp_path: Path) -> None:
    """OPS-3: Restart with nothing new keeps the job as it is; with a new cron or package it is replaced."""
    operate(store, job_id, "Start")
    before = core_job(store, job_id)
    assert operate(store, job_id, "Restart")["reason"] == "resumed"
    assert core_job(store, job_id) == before
    changed = operate(store, job_id, "Restart", cron="0 30 2 * * ?")
    assert changed["version"] == 3
    after = core_job(store, job_id)
    assert (after["enabled"], after["schedule_conf"]) == (True, "0 30 2 * * ?")
    _, newer = store.upload(wheel(tmp_path, TWO, version="1.3.0"))
    assert nightly_of(newer) == job_id
    assert store.ask("GET", f"/jobs/{job_id}")[1]["cron"] == "0 30 2 * * ?"  # what an operator set stays
    operate(store, job_id, "Restart", package_id=newer["id"])
    source = store.node.call("GET", f"jobs/{job_id}/glue")["items"][0]
    assert source["number"] == 2
    wrong = operate(store, job_id, "Restart", 422, package_id=10**6)
    assert wrong["reason"] == "no_such_job_in_package"


def test_a_restart_of_a_stopped_job_starts_it(store: Store, job_id: int) -> None:
    """OPS-4: Restart of a stopped job is a Start."""
    found = operate(store, job_id, "Restart")
    assert (found["state"], found["result"], core_job(store, job_id)["enabled"]) == ("Startup", "Success", True)


def test_a_pause(store: Store, job_id: int) -> None:
    """OPS-5: Pause ends the fires; of a job that is not started it does nothing."""
    assert operate(store, job_id, "Pause")["reason"] == "not_running"
    operate(store, job_id, "Start")
    assert operate(store, job_id, "Pause")["state"] == "Pause"
    assert core_job(store, job_id)["enabled"] is False


def test_a_bad_cron_changes_nothing(store: Store, job_id: int) -> None:
    """OPS-9: a cron that cannot be used is refused by name, and nothing is written."""
    operate(store, job_id, "Start")
    before = (store.ask("GET", f"/jobs/{job_id}")[1]["cron"], core_job(store, job_id))
    wrong = operate(store, job_id, "Restart", 422, cron="61 * * * * ?")
    assert (wrong["reason"], wrong["field"]) == ("bad_cron", "cron")
    assert (store.ask("GET", f"/jobs/{job_id}")[1]["cron"], core_job(store, job_id)) == before


def test_the_second_of_two_forms_is_stale(store: Store, job_id: int) -> None:
    """OPS-10: who saw an older version gets 409 with what is there now."""
    operate(store, job_id, "Start", version=1)
    stale = operate(store, job_id, "Pause", 409, version=1)
    assert (stale["reason"], stale["facts"]["version"], stale["facts"]["state"]) == ("stale_version", 2, "Startup")


def test_each_change_is_one_version(store: Store, job_id: int) -> None:
    """OPS-13: each accepted change is one version more, and the log shows them all."""
    for number, (operation, more) in enumerate(
        [("Start", {}), ("Restart", {"cron": "0 0 5 * * ?"}), ("Pause", {}), ("Restart", {})], 2
    ):
        assert operate(store, job_id, operation, **more)["version"] == number
    items = store.ask("GET", f"/jobs/{job_id}/operations")[1]["items"]
    assert [json.loads(item["after"])["state"] for item in items] == ["Startup", "Pause", "Startup", "Startup"]


def test_run_now_leaves_the_schedule(store: Store, job_id: int) -> None:
    """OPS-14: a run by hand has its own parameter, and the job stays as it is."""
    before = core_job(store, job_id)
    status, run = store.ask("POST", f"/jobs/{job_id}/run", {"param": "rows=3"})
    assert (status, run["param"], run["job_id"]) == (201, "rows=3", job_id)
    assert core_job(store, job_id) == before


def test_the_operation_log(store: Store, job_id: int) -> None:
    """LOG-3: each operation is one row with who, when, from, to and its result, closed once."""
    operate(store, job_id, "Start")
    operate(store, job_id, "Restart", 422, cron="61 * * * * ?")
    _, page = store.ask("GET", f"/jobs/{job_id}/operations?limit=5")
    last, first = page["items"]
    assert (first["operation"], first["result"], first["actor"]) == ("Start", "Success", "first")
    assert json.loads(first["before"])["state"] == "Shutdown"
    assert last["result"] == "Failed"
    assert "cron" in last["error"]
    assert all(item["ended_ms"] >= item["begun_ms"] for item in page["items"])


def test_a_job_that_was_stopped_elsewhere_can_be_started_again(store: Store, job_id: int) -> None:
    """What the job of xwheel is counts: Start after its own Stop starts it, and Pause stops what was started there."""
    operate(store, job_id, "Start")
    store.node.call("POST", f"jobs/{job_id}/stop", {})
    assert store.ask("GET", f"/jobs/{job_id}")[1]["state"] == "Pause"
    assert operate(store, job_id, "Start")["reason"] == ""
    assert core_job(store, job_id)["enabled"] is True
    operate(store, job_id, "Pause")
    store.node.call("POST", f"jobs/{job_id}/start", {})
    assert operate(store, job_id, "Pause")["reason"] == ""
    assert core_job(store, job_id)["enabled"] is False
