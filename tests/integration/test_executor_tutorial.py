"""The tutorial, run as it stands: its files, its settings, its commands."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from tests.support.executors import ROOT, wait_until
from tests.support.ports import free_port

TUTORIAL = (ROOT / "docs" / "tutorial" / "first-executor.md").read_text()
BIN = str(Path(sys.executable).parent)


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", TUTORIAL, re.DOTALL | re.MULTILINE)


def test_the_first_executor(tmp_path: Path) -> None:
    ports = {"8080": str(free_port()), "8081": str(free_port()), "9999": "0"}

    def adapt(text: str) -> str:
        return re.sub(r"\b(8080|8081|9999)\b", lambda found: ports[found[0]], text)

    (code,), (toml,) = blocks("python"), blocks("toml")
    server, exports, group, executor, create, look = blocks("sh")
    (tmp_path / "my_jobs.py").write_text(code)
    (tmp_path / "executor.toml").write_text(adapt(toml))
    env = {
        **os.environ,
        "PATH": f"{BIN}:{os.environ['PATH']}",
        "XWHEEL_API__PORT": ports["8080"],
        "XWHEEL_API__EXECUTOR_PORT": ports["8081"],
    }

    def start(command: str, log: str) -> subprocess.Popen[bytes]:
        with (tmp_path / log).open("wb") as file:
            return subprocess.Popen(
                ["/bin/sh", "-c", f"exec {command}"], cwd=tmp_path, env=env, stdout=file, stderr=file
            )

    def said(log: str, pattern: str) -> Callable[[], str | None]:
        def look_for() -> str | None:
            found = re.search(pattern, (tmp_path / log).read_text())
            return found[1] if found else None

        return look_for

    def ask(command: str) -> dict[str, object]:
        done = subprocess.run(
            ["/bin/sh", "-c", adapt(command)], cwd=tmp_path, env=env, capture_output=True, check=False
        )
        return dict(json.loads(done.stdout)) if done.returncode == 0 else {}

    processes = [start(server, "server.log")]
    try:
        names = re.findall(r"export (\w+)=<the (management|executor) token>", exports)
        for name, kind in names:
            env[name] = wait_until(said("server.log", rf"{kind} token \(shown once\): (\S+)"))
        assert len(names) == 2
        assert wait_until(lambda: ask(group))["id"] == 1
        processes.append(start(executor, "executor.log"))
        wait_until(said("executor.log", "(is registered)"))
        assert ask(create)["id"] == 1
        (run,) = wait_until(lambda: ask(look).get("items"))
        assert run["message"] == "greeted world"
        log = ask(look.replace("runs?state=succeeded&limit=1", f"runs/{run['id']}/log"))
        assert f"run {run['id']} greets world" in str(log["content"])
        assert "this line lands in the run's log too" in str(log["content"])
    finally:
        statuses = [(process.terminate(), process.wait(60))[1] for process in reversed(processes)]
    assert statuses == [0, 0]
