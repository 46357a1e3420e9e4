"""A program defines, starts, triggers and removes a job on a real node, with nothing but its group's token."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.component.api.conftest import Api
from tests.component.api.xxl.test_group_tokens import REFUSED
from tests.support.executors import wait_until
from tests.support.job_calls import SUCCESS, Tenant, definition
from xwheel.api.app import executor_app
from xwheel.builtin.glue_bean import BeanGlue
from xwheel.config import build_config
from xwheel.executor import Executor, current_job, job
from xwheel.model.jobs import MAX_PARAM_BYTES
from xwheel.node.node import Node
from xwheel.runtime.http_server import Listener
from xwheel.wire.contract import APP_NAME_HEADER, TOKEN_HEADER

EXECUTOR_TOKEN = "token-between-node-and-executors"
params: list[str] = []


@job("collect")
def collect() -> None:
    params.append(current_job().param)


def xwheel(url: str, *words: str) -> Any:
    command = [sys.executable, "-m", "xwheel", *words, "--database", url, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def test_from_the_first_token_to_the_last_call(tmp_path: Path, new_database: Callable[[], str]) -> None:
    url = new_database()
    config = build_config(
        {"database": {"url": url}, "api": {"port": 0, "executor_port": 0, "executor_token": EXECUTOR_TOKEN}}
    )
    announced: list[str] = []
    node = Node(config, announce=announced.append)
    node.start()
    try:
        # the printed token is lost: the command line makes another one while the node runs
        assert [line.partition(" (")[0] for line in announced] == [
            "management token",
            "password of the account admin",
            "console",
        ]
        ops = {"Authorization": "Bearer " + xwheel(url, "token", "create", "ops")["token"]}
        management = f"http://127.0.0.1:{node.management.port}/api/v1"
        wait_until(lambda: requests.get(f"{management}/groups", headers=ops, timeout=60).ok)
        made = requests.post(f"{management}/groups", headers=ops, json={"app_name": "orders"}, timeout=60)
        assert made.status_code == 201
        secret = xwheel(url, "token", "create", "orders-1", "--group", "orders")["token"]
        base = f"http://127.0.0.1:{node.executors.port}"

        def call(name: str, body: dict[str, Any]) -> dict[str, Any]:
            headers = {TOKEN_HEADER: secret, APP_NAME_HEADER: "orders"}
            answer = requests.post(f"{base}/api/{name}", headers=headers, json=body, timeout=60)
            found: dict[str, Any] = answer.json()
            return found

        wait_until(lambda: call("removeJob", {"id": 99})["code"] == 200)
        executor = Executor(
            handlers=[collect],
            glue_types={"BEAN": BeanGlue()},
            app_name="orders",
            admin_addresses=[base],
            access_token=EXECUTOR_TOKEN,
            port=0,
            data_dir=tmp_path / "executor",
            leave_s=0,
        )
        executor.start()
        try:
            added = call("addJob", definition(executorHandler="collect", scheduleType="NONE"))
            job_id = added["data"]
            live = f"{management}/groups/{made.json()['id']}/executors"
            wait_until(lambda: requests.get(live, headers=ops, timeout=60).json()["items"])
            address = requests.get(live, headers=ops, timeout=60).json()["items"][0]["address"]
            assert call("triggerJob", {"id": job_id, "executorParam": "first"})["code"] == 200
            assert (
                call("triggerJob", {"id": job_id, "executorParam": "second", "addressList": address + "/"})["code"]
                == 200
            )
            wait_until(lambda: sorted(params) == ["first", "second"])
            longest = '\u6587\n"' * (MAX_PARAM_BYTES // 5)  # P11: one that is longer when it travels
            assert len(longest.encode()) == MAX_PARAM_BYTES
            assert call("triggerJob", {"id": job_id, "executorParam": longest})["code"] == 200
            wait_until(lambda: longest in params)
            changed = definition(
                id=job_id, executorHandler="collect", scheduleType="FIX_RATE", scheduleConf="1", executorParam="each"
            )
            assert call("updateJob", changed)["code"] == 200
            assert call("startJob", {"id": job_id})["code"] == 200
            wait_until(lambda: "each" in params)
            assert call("stopJob", {"id": job_id})["code"] == 200
            assert call("removeJob", {"id": job_id})["code"] == 200
            assert call("startJob", {"id": job_id})["msg"] == f"job {job_id} does not exist"
        finally:
            executor.stop()
        xwheel(url, "token", "delete", "orders-1")
        wait_until(lambda: call("removeJob", {"id": job_id})["code"] == 500)
    finally:
        node.stop()


GOOD = b"XXL-JOB-ACCESS-TOKEN: token-of-orders\r\nXXL-JOB-APPNAME: orders\r\n"


@pytest.mark.parametrize(
    ("headers", "status", "message"),
    [
        (GOOD, 200, "Success"),
        (GOOD.lower(), 200, "Success"),
        (GOOD + b"XXL-JOB-APPNAME: orders\r\n", 200, REFUSED),
        (GOOD + b"XXL-JOB-ACCESS-TOKEN: wrong\r\n", 200, REFUSED),
        (b"XXL-JOB-ACCESS-TOKEN: token-of-orders\x00\r\nXXL-JOB-APPNAME: orders\r\n", 400, ""),
        (b"XXL_JOB_ACCESS_TOKEN: token-of-orders\r\nXXL_JOB_APPNAME: orders\r\n", 200, REFUSED),
        (b"XXL-JOB-ACCESS-TOKEN: " + b"x" * 20_000 + b"\r\nXXL-JOB-APPNAME: orders\r\n", 200, REFUSED),
        (b"XXL-JOB-ACCESS-TOKEN: " + b"x" * 200_000 + b"\r\nXXL-JOB-APPNAME: orders\r\n", 431, ""),
    ],
)
def test_headers_as_the_server_reads_them(api: Api, headers: bytes, status: int, message: str) -> None:
    app = executor_app(api.parts)
    Tenant(api.db, app, "orders")
    listener = Listener("executor-api", app, host="127.0.0.1", port=0, threads=2, max_body_bytes=1_000_000)
    listener.start()
    try:
        with socket.create_connection(("127.0.0.1", listener.port), timeout=10) as raw:
            body = b'{"id": 99}'
            raw.sendall(
                b"POST /api/removeJob HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
                + headers
                + b"Content-Length: %d\r\n\r\n" % len(body)
                + body
            )
            answer = b"".join(iter(lambda: raw.recv(65_536), b""))
    finally:
        listener.stop()
    first, _, rest = answer.partition(b"\r\n")
    assert int(first.split()[1]) == status
    if status == 200:
        found = json.loads(rest.partition(b"\r\n\r\n")[2])
        assert found["msg"] == message
        assert (found == SUCCESS) is (message == "Success")
