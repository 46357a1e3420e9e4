"""Findings U2 and U4: a run is followed to its end, a log that is not there says why, deleted jobs keep their runs."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest
from xwheel_devtools.testing import NodeProcess, wait_until
from xwheel_devtools.testing.processes import XwheelProcess

pytestmark = pytest.mark.processes
HANDLERS = """
from xwheel.executor import current_job, job

@job("greet")
def greet() -> str:
    current_job().log(f"hello {current_job().param}")
    return "greeted"

@job("never")
def never() -> None:
    raise ValueError("boom")

@job("flaky")
def flaky() -> None:
    if current_job().attempt == 1:
        raise ValueError("the first attempt fails")
"""


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    folder = tmp_path_factory.mktemp("follow")
    with NodeProcess(folder / "node") as process:
        for name in ("orders", "empty"):
            process.call("POST", "groups", {"app_name": name})
        (folder / "executor").mkdir()
        (folder / "executor" / "tasks.py").write_text(HANDLERS)
        settings = {
            "XWHEEL_EXECUTOR__APP_NAME": "orders",
            "XWHEEL_EXECUTOR__ADMIN_ADDRESSES": f'["{process.executor_url}"]',
            "XWHEEL_EXECUTOR__ACCESS_TOKEN": process.executor_token,
            "XWHEEL_EXECUTOR__PORT": "0",
        }
        with XwheelProcess(folder / "executor", "executor", "tasks", **settings):
            wait_until(lambda: process.call("GET", "executors")["items"], 20)
            yield process


@pytest.fixture
def xwheel(node: NodeProcess) -> Callable[..., tuple[int, str, str]]:
    def run(*words: str) -> tuple[int, str, str]:
        done = subprocess.run(
            [sys.executable, "-m", "xwheel", *words],
            capture_output=True,
            text=True,
            check=False,
            env={"PATH": "", "XWHEEL_URL": node.url, "XWHEEL_TOKEN": node.token, "TZ": "UTC", "COLUMNS": "80"},
        )
        return done.returncode, done.stdout, done.stderr

    return run


def job_of(node: NodeProcess, name: str, handler: str, app_name: str = "orders", **fields: object) -> int:
    (group,) = [item for item in node.call("GET", "groups")["items"] if item["app_name"] == app_name]
    body = {"group_id": group["id"], "name": name, "handler": handler, **fields}
    return int(node.call("POST", "jobs", body)["id"])


def test_u2_retries_are_followed_to_the_end(node: NodeProcess, xwheel: Callable[..., tuple[int, str, str]]) -> None:
    job_of(node, "flaky", "flaky", max_retries=2, retry_delay_ms=300)
    status, out, err = xwheel("job", "run", "flaky", "--wait")
    assert (status, err) == (0, "")
    lines = out.splitlines()
    (failed,) = [line for line in lines if "attempt 1: failed" in line]
    assert "ValueError: the first attempt fails" in failed
    (again,) = [line for line in lines if "tries run" in line]
    assert "orders/flaky, attempt 2" in again
    assert "1 further retry left" in again
    assert lines[-1] == "succeeded after 2 runs"
    # a job's name stands for its latest run
    (latest, first) = json.loads(xwheel("run", "list", "--job", "flaky", "--json")[1])
    for name in ("flaky", "orders/flaky"):
        assert xwheel("run", "log", name) == xwheel("run", "log", str(latest["id"]))
    assert xwheel("run", "log", "flaky") != xwheel("run", "log", str(first["id"]))
    job_of(node, "idle", "greet")
    status, out, err = xwheel("run", "log", "idle")
    assert (status, out, err) == (2, "", "xwheel: RUN: job idle had no run so far\n")


def test_u2_the_end_says_what_failed_and_why(node: NodeProcess, xwheel: Callable[..., tuple[int, str, str]]) -> None:
    job_of(node, "never", "never", max_retries=1, retry_delay_ms=100)
    status, out, _ = xwheel("job", "run", "never", "--wait")
    assert status == 1
    last = out.splitlines()[-1]
    assert last.startswith("failed: run ")
    assert "of orders/never, attempt 2: ValueError: boom" in last
    assert "'xwheel run log " in last
    assert "no further attempt: no retries left" in out


def test_u2_children_are_followed_and_json_has_all_runs(
    node: NodeProcess, xwheel: Callable[..., tuple[int, str, str]]
) -> None:
    parent = job_of(node, "parent", "greet")
    child = job_of(node, "child", "never")
    node.call("PUT", f"jobs/{parent}/children", {"children": [{"child_id": child, "param": "x"}]})
    status, out, _ = xwheel("job", "run", "parent", "--wait")
    assert status == 1
    assert "orders/parent, attempt 1: succeeded" in out
    assert "result greeted" in out
    assert "of orders/child, attempt 1: ValueError: boom" in out.splitlines()[-1]
    status, out, _ = xwheel("job", "run", "parent", "--wait", "--json")
    found = json.loads(out)
    assert (status, found["succeeded"], found["state"], found["job_name"]) == (1, False, "succeeded", "parent")
    assert [run["job_name"] for run in found["runs"]] == ["parent", "child"]


def test_u2_a_run_without_a_log_says_why(node: NodeProcess, xwheel: Callable[..., tuple[int, str, str]]) -> None:
    job_of(node, "nobody", "greet", "empty")
    status, out, _ = xwheel("job", "run", "nobody", "--wait")
    assert status == 1
    assert "no executor of the group is live: 'xwheel group show empty' lists them" in out
    (run,) = json.loads(xwheel("run", "list", "--job", "nobody", "--json")[1])
    status, out, err = xwheel("run", "log", str(run["id"]))
    assert (status, out) == (1, "")
    assert err.startswith(f"xwheel: run {run['id']} has no log: refused, no executor of the group is live")
    job_of(node, "unknown", "not-there")
    xwheel("job", "run", "unknown", "--wait")
    (run,) = json.loads(xwheel("run", "list", "--job", "unknown", "--json")[1])
    status, out, err = xwheel("run", "log", str(run["id"]))
    assert (status, out) == (1, "")
    assert "not-there" in err
    assert "readLog" not in err


def test_u2_a_log_is_followed_from_before_the_run_to_its_end(
    node: NodeProcess, xwheel: Callable[..., tuple[int, str, str]]
) -> None:
    job_id = job_of(node, "greeter", "greet")
    run = node.start_run(job_id, param="you")
    status, out, err = xwheel("run", "log", str(run), "--follow")
    assert (status, err) == (0, "")
    assert "hello you" in out


def test_u4_runs_of_a_deleted_job_are_listed(node: NodeProcess, xwheel: Callable[..., tuple[int, str, str]]) -> None:
    job_id = job_of(node, "going", "greet")
    assert xwheel("job", "run", "going", "--wait")[0] == 0
    assert xwheel("job", "delete", "going")[0] == 0
    for spelled in ("going", "orders/going", str(job_id)):
        status, out, err = xwheel("run", "list", "--job", spelled)
        assert (status, err) == (0, ""), spelled
        assert "orders/going" in out
    assert xwheel("run", "list", "--job", "99999") == (1, "", "xwheel: job 99999 does not exist\n")


@pytest.mark.parametrize(("name", "how"), [("40404", "an id"), ("a/b", "APP/NAME"), ("orders/b", "APP/NAME")])
def test_u28_a_job_that_is_named_like_something_else_has_its_group_before_the_name(
    node: NodeProcess, xwheel: Callable[..., tuple[int, str, str]], name: str, how: str
) -> None:
    """The name alone is not taken: where an id is gone, a script would change another job than last time."""
    job_of(node, name, "greet")
    told = f"xwheel: job {name} (read as {how}; the job of that name is orders/{name}) does not exist\n"
    assert xwheel("job", "delete", name) == (1, "", told)
    assert xwheel("run", "list", "--job", name) == (1, "", told)
    assert xwheel("job", "show", f"nowhere/{name}") == (1, "", "xwheel: group nowhere does not exist\n")
    assert xwheel("job", "show", f"orders/{name}")[0] == 0
    assert xwheel("job", "delete", f"orders/{name}")[0] == 0


def test_u5_states_between_commas(node: NodeProcess, xwheel: Callable[..., tuple[int, str, str]]) -> None:
    assert xwheel("run", "list", "--state", "failed,timed_out")[0] == 0
    assert xwheel("run", "list", "--state", "failed", "--state", "lost")[0] == 0
    status, _, err = xwheel("run", "list", "--state", "failed,broken")
    assert status == 2
    assert err.startswith("xwheel: --state: takes planned, dispatching, running, succeeded, failed, ")
    assert err.endswith("between commas, not 'broken'\n")
