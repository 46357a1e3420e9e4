"""The management API as plain WSGI under three servers, next to a node on the same database that does what it asks."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from xwheel_devtools.testing.processes import NodeProcess

from tests.support.databases import BACKENDS, CleanDatabases, installed_tables
from tests.support.executors import ROOT, wait_until
from tests.support.listings import one_listing
from tests.support.ports import free_port
from xwheel.builtin.glue_bean import BeanGlue
from xwheel.errors import XwheelError
from xwheel.executor import Executor, JobContext, job
from xwheel.storage.database.startup import upgrade
from xwheel.wire.http.rest import RestClient

PAGE = "docs/howto/wsgi.md"
BIN = Path(sys.executable).parent
SOON_MS = 15_000


def command(server: str, port: int) -> list[str]:
    """Return the page's command for a server, on another port."""
    program, *words = shlex.split(one_listing(PAGE, server).text.replace(":8080", f":{port}"))
    more = ["--virtualenv", sys.prefix] if program == "uwsgi" else []  # it is linked with the system's Python
    return [str(BIN / program), *words, *more]


@contextmanager
def served(server: str, folder: Path, **settings: str) -> Iterator[str]:
    """Run a server; give the URL once it answers."""
    port = free_port()
    with (folder / f"{server}.log").open("wb") as log:
        process = subprocess.Popen(
            command(server, port),
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(ROOT), **settings},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    url = f"http://127.0.0.1:{port}"
    try:
        wait_until(lambda: _answers(url, process, folder / f"{server}.log"))
        yield url
    finally:
        process.terminate()
        process.wait(60)


def _answers(url: str, process: subprocess.Popen[bytes], log: Path) -> bool:
    assert process.poll() is None, log.read_text()
    try:
        RestClient(url, "").call("GET", "/healthz")
    except XwheelError:
        return False
    return True


class Site:
    """A node in a process of its own, an executor in this one, and calls of the WSGI server."""

    def __init__(self, node: NodeProcess, url: str) -> None:
        self.node = node
        self.client = RestClient(url, node.token)
        self.url = url
        self.seen: list[str | None] = []
        self.killed = threading.Event()

    def call(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        return self.client.call(method, f"/api/v1/{path}", body)

    def wait_for(self, run_id: int, *states: str) -> dict[str, Any]:
        def arrived() -> Any:
            run = self.call("GET", f"runs/{run_id}")
            return run if run["state"] in states else None

        found: dict[str, Any] = wait_until(arrived, 60)
        return found

    def executor(self, folder: Path, app_name: str) -> Executor:
        @job("note")
        def note(ctx: JobContext) -> str:
            self.seen.append(ctx.param)
            return "noted"

        @job("long")
        def long(ctx: JobContext) -> str:
            ctx.log("it goes on")
            while not ctx.cancelled:
                threading.Event().wait(0.02)
            self.killed.set()
            return "ended"

        return Executor(
            handlers=[note, long],
            glue_types={"BEAN": BeanGlue()},
            app_name=app_name,
            admin_addresses=[self.node.executor_url],
            access_token=self.node.executor_token,
            port=0,
            data_dir=folder / "executor",
            leave_s=0,
        )


@contextmanager
def site_of(server: str, database: str | None, folder: Path) -> Iterator[Site]:
    settings = {} if database is None else {"XWHEEL_DATABASE__URL": database}
    with NodeProcess(folder / "node", **settings) as node:
        url = database or f"sqlite:///{folder / 'node' / 'xwheel.db'}"
        file = folder / "xwheel.toml"
        file.write_text(f'[database]\nurl = "{url}"\npool_size = 2\n')
        file.chmod(0o600)
        with served(server, folder, XWHEEL_CONFIG=str(file), XWHEEL_API__MAX_BODY_BYTES="65536") as address:
            yield Site(node, address)


@pytest.fixture(scope="module", params=["mariadb", pytest.param("postgresql", marks=pytest.mark.nightly)])
def databases(request: pytest.FixtureRequest) -> Iterator[CleanDatabases]:
    with BACKENDS[request.param]() as base:
        made = CleanDatabases(base, request.param)
        yield made
        made.close()


@pytest.mark.long
@pytest.mark.parametrize("server", ["gunicorn", "uwsgi"])
def test_a_node_beside_it_does_what_it_is_asked(server: str, databases: CleanDatabases, tmp_path: Path) -> None:
    """Both servers load the application once and fork then."""
    with site_of(server, databases.url(0), tmp_path) as site:
        check_site(site, tmp_path, f"{server}-app")


def test_two_processes_share_a_file(tmp_path: Path) -> None:
    with site_of("waitress", None, tmp_path) as site:
        check_site(site, tmp_path, "waitress-app")


def check_site(site: Site, folder: Path, app_name: str) -> None:
    # what it is, and who may ask
    assert RestClient(site.url, "").call("GET", "/healthz") == {"status": "ok", "role": "management"}
    assert RestClient(site.url, "").call("GET", "/readyz") == {"status": "ok", "role": "management"}
    with pytest.raises(XwheelError, match=r"token"):
        RestClient(site.url, "wrong" * 8).call("GET", "/api/v1/jobs")
    health = site.call("GET", "health")
    assert (health["role"], health["loops"], health["partitions"]) == ("management", [], 0)

    group = site.call("POST", "groups", {"app_name": app_name})
    executor = site.executor(folder, app_name)
    executor.start()
    try:
        wait_until(lambda: site.call("GET", f"groups/{group['id']}/executors")["items"])
        made = site.call("POST", "jobs", {"group_id": group["id"], "name": "n", "handler": "note", "param": "own"})
        assert made["id"] in [item["id"] for item in site.call("GET", "jobs")["items"]]
        # a run by hand is a row; the node fires it
        run = site.call("POST", f"jobs/{made['id']}/run", {"param": "by hand"})
        done = site.wait_for(run["id"], "succeeded")
        assert site.seen == ["by hand"]
        assert done["finished_ms"] - done["planned_ms"] < SOON_MS
        # and so is a schedule
        site.call("PATCH", f"jobs/{made['id']}", {"schedule_type": "FIX_RATE", "schedule_conf": "1"})
        site.call("POST", f"jobs/{made['id']}/start")
        wait_until(lambda: site.seen.count("own") >= 2)
        site.call("POST", f"jobs/{made['id']}/stop")
        # a kill is a mark; the node sends it
        long = site.call("POST", "jobs", {"group_id": group["id"], "name": "l", "handler": "long"})
        run = site.call("POST", f"jobs/{long['id']}/run")
        site.wait_for(run["id"], "running")
        wait_until(lambda: "it goes on" in site.call("GET", f"runs/{run['id']}/log")["content"])
        assert site.call("POST", f"runs/{run['id']}/kill")["kill_requested"] is True
        assert site.wait_for(run["id"], "killed")["state"] == "killed"
        assert site.killed.wait(10)
    finally:
        executor.stop()


def test_before_any_node_it_says_what_is_missing(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'xwheel.db'}"
    assert f"SchemaError: there is no database {tmp_path / 'xwheel.db'}" in load(url)
    assert list(tmp_path.iterdir()) == []
    upgrade(url, installed_tables())
    assert "ConfigError: no node has started on this database yet" in load(url)


def load(url: str) -> str:
    """Load the application as a server does; return the last line of its complaint."""
    done = subprocess.run(
        [sys.executable, "-c", "import xwheel.api; xwheel.api.management_app()"],
        env={**os.environ, "PYTHONPATH": str(ROOT), "XWHEEL_DATABASE__URL": url},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    return done.stderr.strip().splitlines()[-1]
