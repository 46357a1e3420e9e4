"""Finding S9: a node and an executor with TLS and client certificates in both directions, as docs/howto/tls.md says."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tomllib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.support.executors import ROOT, wait_until
from tests.support.ports import free_port
from tests.support.rows import job_values
from tests.support.tls import Authority, tls_front
from xwheel.builtin.glue_bean import BeanGlue
from xwheel.cli.main import app
from xwheel.config import build_config
from xwheel.errors import ConfigError, WireError
from xwheel.executor import Executor, JobContext, job
from xwheel.model import RunState
from xwheel.node.node import Node
from xwheel.storage import executors, runs
from xwheel.wire.http import post
from xwheel.wire.http.rest import RestClient
from xwheel.wire.http.tls import NO_FILES, TlsFiles

TOKEN = "Kq3vXz81-token-of-the-tests"
PAGE = (ROOT / "docs" / "howto" / "tls.md").read_text("utf-8")
NGINX = shutil.which("nginx", path="/usr/sbin:/usr/bin:/usr/local/sbin")
SCHEDULER, WORKER = "scheduler.example.com", "worker1.example.com"


@job("secretly")
def secretly(ctx: JobContext) -> str:
    ctx.log("no one listens")
    return "done"


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)


class Front:
    """Ports of the two proxies, which are not up before there is something behind them."""

    def __init__(self, folder: Path, authority: Authority) -> None:
        self.folder = folder
        self.authority = authority
        self.scheduler_port, self.worker_port = free_port(), free_port()
        self.cert, self.key = authority.issue("host")

    def adapt(self, text: str) -> str:
        """Return a block of the page with this test's files, ports and, for want of a name server, addresses."""
        words = {
            "/etc/xwheel/ca.pem": str(self.authority.file),
            "/etc/xwheel/host.crt": str(self.cert),
            "/etc/xwheel/host.key": str(self.key),
            f"https://{SCHEDULER}:8444": f"https://127.0.0.1:{self.scheduler_port}",
            f"https://{WORKER}:9443": f"https://127.0.0.1:{self.worker_port}",
            "listen 8444": f"listen 127.0.0.1:{self.scheduler_port}",
            "listen 9443": f"listen 127.0.0.1:{self.worker_port}",
        }
        for word, ours in words.items():
            text = text.replace(word, ours)
        return text


Proxies = Callable[[Front, int, int], Any]


@contextmanager
def python_proxies(front: Front, node_port: int, executor_port: int) -> Iterator[None]:
    with ExitStack() as open_now:
        for port, behind in ((front.scheduler_port, node_port), (front.worker_port, executor_port)):
            open_now.enter_context(tls_front(behind, front.authority, front.cert, front.key, port=port))
        yield


@contextmanager
def nginx_proxies(front: Front, node_port: int, executor_port: int) -> Iterator[None]:
    assert NGINX is not None
    for_node, for_executor = blocks("nginx")
    for_node = front.adapt(for_node).replace("127.0.0.1:8081", f"127.0.0.1:{node_port}")
    for_executor = front.adapt(for_executor).replace("127.0.0.1:9999", f"127.0.0.1:{executor_port}")
    with ExitStack() as open_now:
        for name, block in (("node", for_node), ("executor", for_executor)):
            home = front.folder / f"nginx-{name}"
            home.mkdir()
            paths = "".join(
                f"{kind}_temp_path {home}/{kind};\n" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
            )
            (home / "nginx.conf").write_text(
                f"daemon off;\npid {home}/pid;\nerror_log stderr;\nevents {{}}\n"
                f"http {{\naccess_log off;\n{paths}{block}}}\n"
            )
            command = [NGINX, "-p", str(home), "-e", "stderr", "-c", str(home / "nginx.conf")]
            process = open_now.enter_context(
                subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
            )
            open_now.callback(process.terminate)
        yield


PROXIES = [
    pytest.param(python_proxies, id="ssl"),
    pytest.param(
        nginx_proxies,
        id="nginx",
        marks=pytest.mark.skipif(NGINX is None and not os.environ.get("REQUIRE_SERVERS"), reason="no nginx here"),
    ),
]


@pytest.mark.parametrize("proxies", PROXIES)
def test_s9_jobs_run_over_tls_in_both_directions(
    tmp_path: Path, new_database: Callable[[], str], proxies: Proxies
) -> None:
    front = Front(tmp_path, Authority(tmp_path))
    for_node, for_executor = (tomllib.loads(front.adapt(block)) for block in blocks("toml"))
    for_node["api"] |= {"port": 0, "executor_port": 0, "executor_token": TOKEN}
    said: list[str] = []
    node = Node(build_config({**for_node, "database": {"url": new_database()}}), announce=said.append)
    node.start()
    for_executor["executor"] |= {
        "app_name": "demo",
        "access_token": TOKEN,
        "port": free_port(),
        "data_dir": tmp_path / "executor",
    }
    executor = Executor(
        build_config(for_executor), handlers=[secretly], glue_types={"BEAN": BeanGlue()}, beat_s=0.2, leave_s=0
    )
    scheduler = node.scheduler
    now_ms = scheduler.core.clock.now_ms()
    group_id = scheduler.core.db.transaction(
        lambda conn: executors.insert_group(conn, app_name="demo", title="demo", now_ms=now_ms).id
    )
    try:
        with proxies(front, node.executors.port, for_executor["executor"]["port"]):
            executor.start()
            wait_until(lambda: executor.is_registered)
            (known,) = wait_until(lambda: scheduler.core.registry.live(group_id, scheduler.core.clock.now_ms()))
            assert known.address == for_executor["executor"]["address"]
            values = job_values(group_id=group_id, name="secretly", handler="secretly")
            job_id = scheduler.management.jobs.create({**values, "anchor_ms": now_ms}, enabled=False).id
            run_id = scheduler.management.run_now.run(job_id).id

            def ended() -> Any:
                with scheduler.core.db.read() as conn:
                    run = runs.get_run(conn, run_id)
                return run.state is RunState.SUCCEEDED

            wait_until(ended)
            management = RestClient(f"http://127.0.0.1:{node.management.port}", _token_in(said))
            assert "no one listens" in management.call("GET", f"/api/v1/runs/{run_id}/log")["content"]
            for address in (for_executor["executor"]["address"], *for_executor["executor"]["admin_addresses"]):
                _check_strangers(address, front, tmp_path)
            executor.stop()
    finally:
        executor.stop()
        node.stop()


def _check_strangers(address: str, front: Front, folder: Path) -> None:
    """Neither without a certificate nor with another authority's does anybody get as far as the token."""
    cert, key = Authority(folder, "theirs").issue("client")
    ca = str(front.authority.file)
    for files in (TlsFiles(ca), TlsFiles(ca, str(cert), str(key)), NO_FILES):
        with pytest.raises(WireError):
            post(f"{address}/beat", b"", token=TOKEN, tls=files)
    assert post(f"{address}/beat", b"", token=TOKEN, tls=TlsFiles(ca, str(front.cert), str(front.key)))


def test_s9_commands_reach_a_node_of_a_private_authority(tmp_path: Path, new_database: Callable[[], str]) -> None:
    front = Front(tmp_path, Authority(tmp_path))
    said: list[str] = []
    settings = {"api": {"port": 0, "executor_port": 0}, "database": {"url": new_database()}}
    node = Node(build_config(settings), announce=said.append)
    node.start()
    trust = {"XWHEEL_TLS__CA_FILE": str(front.authority.file)}
    ours = {**trust, "XWHEEL_TLS__CERT_FILE": str(front.cert), "XWHEEL_TLS__KEY_FILE": str(front.key)}
    url = f"https://127.0.0.1:{front.scheduler_port}"
    words = ["group", "list", "--json", "--url", url]
    token = _token_in(said)
    try:
        with tls_front(node.management.port, front.authority, front.cert, front.key, port=front.scheduler_port):
            runs_of = {
                name: CliRunner().invoke(app, words, env={"XWHEEL_TOKEN": token, **files})
                for name, files in (("all", ours), ("no certificate", trust), ("no trust", {}))
            }
    finally:
        node.stop()
    assert runs_of["all"].exit_code == 0, runs_of["all"].output
    assert json.loads(runs_of["all"].stdout) == []
    assert "XWHEEL_TLS__CA_FILE" in str(runs_of["no trust"].exception or runs_of["no trust"].output)
    assert runs_of["no certificate"].exit_code != 0


@pytest.mark.parametrize("part", ["node", "executor"])
def test_s9_a_start_with_a_missing_file_stops(tmp_path: Path, new_database: Callable[[], str], part: str) -> None:
    settings: dict[str, Any] = {
        "tls": {"ca_file": tmp_path / "missing"},
        "database": {"url": new_database()},
        "executor": {
            "app_name": "demo",
            "access_token": TOKEN,
            "admin_addresses": ["https://127.0.0.1:1"],
            "port": 0,
            "data_dir": tmp_path / "executor",
        },
    }
    starts: dict[str, Callable[[], object]] = {
        "node": lambda: Node(build_config(settings), announce=lambda _: None),
        "executor": lambda: Executor(build_config(settings), glue_types={"BEAN": BeanGlue()}).start(),
    }
    with pytest.raises(ConfigError, match="tls.ca_file: cannot read"):
        starts[part]()


def _token_in(said: list[str]) -> str:
    (token,) = (line.split()[-1] for line in said if "management token" in line)
    return token
