"""A program defines, starts, triggers and removes a job on a real node, with nothing but its group's token."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import requests

from tests.support.executors import wait_until
from tests.support.job_calls import definition
from xwheel.builtin.glue_bean import BeanGlue
from xwheel.config import build_config
from xwheel.executor import Executor, current_job, job
from xwheel.node import Node
from xwheel.wire.contract import APP_NAME_HEADER, TOKEN_HEADER

EXECUTOR_TOKEN = "token-between-node-and-executors"
params: list[str] = []


@job("collect")
def collect() -> None:
    params.append(current_job().param)


def xwheel(tmp_path: Path, *words: str) -> Any:
    command = [
        sys.executable,
        "-m",
        "xwheel",
        *words,
        "--database",
        f"sqlite:///{tmp_path / 'x.db'}",
        "--json",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def test_from_the_first_token_to_the_last_call(tmp_path: Path) -> None:
    config = build_config(
        {
            "database": {"url": f"sqlite:///{tmp_path / 'x.db'}"},
            "api": {"port": 0, "executor_port": 0, "executor_token": EXECUTOR_TOKEN},
        }
    )
    announced: list[str] = []
    node = Node(config, announce=announced.append)
    node.start()
    try:
        # the printed token is lost: the command line makes another one while the node runs
        assert len(announced) == 1
        ops = {"Authorization": "Bearer " + xwheel(tmp_path, "token", "create", "ops")["token"]}
        management = f"http://127.0.0.1:{node.management.port}/api/v1"
        wait_until(lambda: requests.get(f"{management}/groups", headers=ops, timeout=5).ok)
        made = requests.post(f"{management}/groups", headers=ops, json={"app_name": "orders"}, timeout=5)
        assert made.status_code == 201
        secret = xwheel(tmp_path, "token", "create", "orders-1", "--group", "orders")["token"]
        base = f"http://127.0.0.1:{node.executors.port}"

        def call(name: str, body: dict[str, Any]) -> dict[str, Any]:
            headers = {TOKEN_HEADER: secret, APP_NAME_HEADER: "orders"}
            answer = requests.post(f"{base}/api/{name}", headers=headers, json=body, timeout=5)
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
        )
        executor.start()
        try:
            added = call("addJob", definition(executorHandler="collect", scheduleType="NONE"))
            job_id = added["data"]
            live = f"{management}/groups/{made.json()['id']}/executors"
            wait_until(lambda: requests.get(live, headers=ops, timeout=5).json()["items"])
            address = requests.get(live, headers=ops, timeout=5).json()["items"][0]["address"]
            assert call("triggerJob", {"id": job_id, "executorParam": "first"})["code"] == 200
            assert (
                call("triggerJob", {"id": job_id, "executorParam": "second", "addressList": address + "/"})[
                    "code"
                ]
                == 200
            )
            wait_until(lambda: sorted(params) == ["first", "second"])
            changed = definition(
                id=job_id,
                executorHandler="collect",
                scheduleType="FIX_RATE",
                scheduleConf="1",
                executorParam="each",
            )
            assert call("updateJob", changed)["code"] == 200
            assert call("startJob", {"id": job_id})["code"] == 200
            wait_until(lambda: "each" in params)
            assert call("stopJob", {"id": job_id})["code"] == 200
            assert call("removeJob", {"id": job_id})["code"] == 200
            assert call("startJob", {"id": job_id})["msg"] == f"job {job_id} does not exist"
        finally:
            executor.stop()
        xwheel(tmp_path, "token", "delete", "orders-1")
        wait_until(lambda: call("removeJob", {"id": job_id})["code"] == 500, 3)
    finally:
        node.stop()
