"""A real scheduler and a real executor, each in a process of its own, as the commands start them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from xwheel_devtools.testing import NodeProcess, NodeSite, XwheelProcess, wait_until, written

MIB = 1024 * 1024
HANDLERS = "from xwheel.executor import job\n\n\n@job('demo')\ndef demo():\n    return 'bean'\n"

JOBS = """\
groups:
- app_name: files
  jobs:
  - name: tidy
    misfire_policy: fire_once
    misfire_threshold_ms: null
    glue_type: GLUE_SHELL
    glue_source: |
      echo one
      echo two
"""


class Node(NodeProcess):
    """A node with an executor that runs scripts."""

    executor: XwheelProcess
    group_id: int

    def job(self, glue_type: str, source: str, **fields: Any) -> int:
        body = {
            "group_id": self.group_id,
            "name": f"script {uuid4().hex[:8]}",
            "glue_type": glue_type,
            "glue_source": source,
            **fields,
        }
        return int(self.call("POST", "jobs", body)["id"])

    def run(self, job_id: int, **fields: Any) -> dict[str, Any]:
        """Run a job by hand and wait for the end."""
        return self.wait_for_run(self.start_run(job_id, **fields))

    def written(self, run: dict[str, Any]) -> str:
        return written(self.log(run)["content"])

    def log(self, run: dict[str, Any], from_line: int = 1) -> dict[str, Any]:
        found: dict[str, Any] = self.call("GET", f"runs/{run['id']}/log?from_line={from_line}")
        return found


def peak_memory(process: XwheelProcess) -> int:
    """Return the most that a process ever had in memory, in bytes."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    folder = tmp_path_factory.mktemp("site")
    (folder / "executor").mkdir()
    (folder / "executor" / "handlers.py").write_text(HANDLERS)
    with Node(folder / "node") as made:
        made.group_id = made.call("POST", "groups", {"app_name": "demo"})["id"]
        settings = {
            "XWHEEL_EXECUTOR__APP_NAME": "demo",
            "XWHEEL_EXECUTOR__ADMIN_ADDRESSES": json.dumps([made.executor_url]),
            "XWHEEL_EXECUTOR__ACCESS_TOKEN": made.executor_token,
            "XWHEEL_EXECUTOR__PORT": "0",
            "XWHEEL_EXECUTOR__ALLOWED_GLUE_TYPES": '["GLUE_SHELL", "GLUE_PYTHON"]',
        }
        with XwheelProcess(folder / "executor", "executor", "handlers", **settings) as made.executor:
            wait_until(lambda: made.call("GET", "executors")["items"])
            yield made


def test_a_shell_script_travels_runs_and_is_replaced(node: Node) -> None:
    job_id = node.job("GLUE_SHELL", 'echo "got $1, $2 of $3"; exit 0\n', param="stored")
    run = node.run(job_id)
    assert (run["state"], run["result_code"]) == ("succeeded", 200)
    assert node.written(run) == "got stored, 0 of 1\n"
    node.call("POST", f"jobs/{job_id}/glue", {"source": "echo broken >&2; exit 7", "remark": "worse"})
    run = node.run(job_id)
    assert (run["state"], run["message"]) == ("failed", "script exit value(7) is failed: broken")
    assert node.written(run) == "broken\n"
    node.call("POST", f"jobs/{job_id}/glue/1/restore")
    run = node.run(job_id, param="by hand")
    assert node.written(run) == "got by hand, 0 of 1\n"


def test_p5_a_failed_script_says_its_last_lines_in_each_attempt_and_in_alarms(tmp_path: Path) -> None:
    source = "for n in 1 2 3 4 5 6; do echo line $n; done; printf '\\033[31mdisk full\\033[0m\\n' >&2; exit 3"
    said = "script exit value(3) is failed: line 3 / line 4 / line 5 / line 6 / disk full"
    with NodeSite(tmp_path / "site", "glue_script") as site:
        first = site.run("", glue_type="GLUE_SHELL", glue_source=source, max_retries=1)
        assert first["message"] == said
        (alarm,) = site.wait_for_alarms()  # the last attempt, not those that are retried
        runs = site.call("GET", f"runs?job_id={first['job_id']}")["items"]
    assert sorted((run["attempt"], run["message"]) for run in runs) == [(1, said), (2, said)]
    assert said in alarm.text


def test_p11_a_script_of_1_mib_gets_a_parameter_of_64_kib(node: Node) -> None:
    lines = "# " + "\u6587" * 20 + '\t"quoted"\n'
    source = "echo ${#1}\n" + lines * (1024 * 1024 // len(lines.encode()) - 1)
    assert 1024 * 1024 - 200 < len(source.encode()) <= 1024 * 1024
    run = node.run(node.job("GLUE_SHELL", source, param="p" * 65_535))
    assert (run["state"], node.written(run)) == ("succeeded", "65535\n")


def test_a_python_script_runs_beside_handlers(node: Node) -> None:
    run = node.run(node.job("GLUE_PYTHON", "import sys\nprint('你好', sys.argv[1])\n", param="é"))
    assert (run["state"], node.written(run)) == ("succeeded", "你好 é\n")
    body = {"group_id": node.group_id, "name": "bean", "handler": "demo"}
    bean = node.run(node.call("POST", "jobs", body)["id"])
    assert (bean["state"], bean["message"]) == ("succeeded", "bean")


def test_scripts_are_applied_from_files_and_exported(node: Node, tmp_path: Path) -> None:
    (tmp_path / "token").write_text(node.token)
    (tmp_path / "token").chmod(0o600)
    file = tmp_path / "jobs.yaml"
    file.write_text(JOBS)

    def xwheel(*arguments: str) -> str:
        command = [sys.executable, "-m", "xwheel", "job", *arguments, "--url", node.url]
        command += ["--token-file", str(tmp_path / "token")]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout

    assert "create files/tidy" in xwheel("apply", "-f", str(file))
    (job,) = node.call("GET", "jobs?name=tidy")["items"]
    assert node.call("GET", f"jobs/{job['id']}/glue/1")["source"] == "echo one\necho two\n"
    exported = xwheel("export", "--group", "files").splitlines(keepends=True)
    assert "".join(line for line in exported if "anchor_ms" not in line) == JOBS
    assert "nothing differs" in xwheel("apply", "-f", str(file), "--check")
    file.write_text(JOBS.replace("echo two", "echo three"))
    assert "glue_source" in xwheel("apply", "-f", str(file))
    assert node.call("GET", f"jobs/{job['id']}")["glue_version"] == 2
    file.write_text(JOBS.partition("    glue_source")[0])
    assert "nothing differs" in xwheel("apply", "-f", str(file))


def test_what_the_executor_does_not_allow_is_refused(node: Node) -> None:
    run = node.run(node.job("GLUE_NODEJS", "console.log(1)"))
    assert run["state"] == "refused"
    assert "glue type GLUE_NODEJS is not allowed on this executor" in run["message"]


def test_more_output_than_a_log_holds_takes_little_memory_and_is_read_by_page(node: Node) -> None:
    line = "0123456789abcdef" * 4
    source = f"yes {line} | head -c {300 * MIB}; head -c 50000000 /dev/zero; echo the end"
    run = node.run(node.job("GLUE_SHELL", source))
    assert run["state"] == "succeeded"
    first = node.log(run)
    assert written(first["content"]).startswith(f"{line}\n{line}\n")
    assert 0 < len(first["content"]) <= MIB
    assert not first["is_end"]
    far = node.log(run, 2_000_000)
    assert far["content"].startswith(f"{line}\n")
    assert len(far["content"]) <= MIB
    assert peak_memory(node.executor) < 200 * MIB
    (file,) = node.executor.output.parent.rglob(f"{run['id']}.log")
    with file.open("rb") as stream:
        size = stream.seek(-4096, os.SEEK_END) + 4096
        last = stream.read().decode()
    file.unlink()
    assert size < 257 * MIB
    assert written(last).endswith("the log reached 268435456 characters; the rest is dropped\n")
    assert last.endswith(" s\n")
