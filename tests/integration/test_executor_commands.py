"""Glue types that run programs: what becomes of their output, their end and their children; and who may run at all."""

from __future__ import annotations

import os
import re
import resource
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.admins import APP_NAME, TOKEN, FakeAdmin
from tests.support.executors import is_alive, started_beside, wait_until
from xwheel.builtin.glue_bean import BeanGlue
from xwheel.errors import ConfigError
from xwheel.executor import Executor
from xwheel.plugin import Command, ExecutorError, GlueRequest, HandlerLookup, RunContext

LOG_AT = {"logDateTim": 1_790_000_000_000, "logDateTime": 1_790_000_000_000}


def prepare(context: RunContext, data: Mapping[str, Any]) -> Sequence[str]:
    """Run the source with bash; words in front of it make it fail in other ways."""
    source = str(data["source"])
    if source.startswith("refuse "):
        raise ExecutorError(source.removeprefix("refuse "))
    if source.startswith("raise "):
        raise ValueError(source.removeprefix("raise "))
    context.log("prepared")
    os.environ["FROM_PREPARE"] = "set"
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    program = "no-such-program" if source == "missing" else "/bin/bash"
    return [program, "-c", source, "script", context.param, str(context.shard_index), str(context.shard_total)]


class BashGlue:
    name = "BASH"
    takes_source = True

    def build(self, request: GlueRequest, handlers: HandlerLookup) -> Callable[..., object] | Command:
        del handlers
        return Command(prepare=prepare, data={"source": request.source})


class Site:
    """An executor, its scheduler, and short ways to use them."""

    def __init__(self, admin: FakeAdmin, executor: Executor) -> None:
        self.admin = admin
        self.executor = executor

    def start(self, source: str, log_id: int = 1, **fields: Any) -> dict[str, Any]:
        fields = {"glueType": "BASH", "glueSource": source, **fields}
        return self.admin.run(self.executor.address, "", log_id, log_id, **fields)

    def run(self, source: str, log_id: int = 1, **fields: Any) -> tuple[int, str]:
        assert self.start(source, log_id, **fields)["code"] == 200
        item = self.admin.outcome(log_id, 60)
        return item["handleCode"], item["handleMsg"]

    def log(self, log_id: int = 1, from_line: int = 1) -> dict[str, Any]:
        body = {"logId": log_id, "fromLineNum": from_line, **LOG_AT}
        found: dict[str, Any] = self.admin.payload(self.admin.call(self.executor.address, "/log", body))
        return found


@contextmanager
def site_of(folder: Path, *, allowed: Sequence[str] = ("BASH",), **settings: Any) -> Iterator[Site]:
    with FakeAdmin() as admin:
        executor = Executor(
            glue_types={"BEAN": BeanGlue(), "BASH": BashGlue()},
            app_name=APP_NAME,
            admin_addresses=[admin.url],
            access_token=TOKEN,
            port=0,
            data_dir=folder,
            kill_grace_s=0.3,
            leave_s=0,
            stop_timeout_s=5,
            allowed_glue_types=list(allowed),
            **settings,
        )
        executor.start()
        try:
            yield Site(admin, executor)
        finally:
            executor.stop()


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with site_of(tmp_path / "data") as made:
        yield made


@pytest.mark.parametrize(
    ("source", "code", "message"),
    [
        ("true", 200, ""),
        ("exit 3", 500, "script exit value(3) is failed"),
        ("echo p5 out; echo p5 err >&2; exit 3", 500, "script exit value(3) is failed: p5 out / p5 err"),
        ("yes | head -c 9999 | tr -d '\\n'; exit 3", 500, "script exit value(3) is failed: " + "y" * 1000),
        ("kill -KILL $$", 500, "script exit value(137) is failed (SIGKILL)"),
        ("yes | head -1", 200, ""),
        ("set -o pipefail; yes | head -1 >/dev/null", 500, "script exit value(141) is failed"),
        ("refuse not today", 500, "not today"),
        ("raise something", 500, "ValueError: something"),
        ("missing", 500, "FileNotFoundError: [Errno 2] No such file or directory"),
    ],
)
def test_the_end_of_a_program_is_the_outcome(site: Site, source: str, code: int, message: str) -> None:
    found, said = site.run(source)
    # what a glue type logs while it prepares the program stands in the same output
    assert (found, re.sub(r": [-0-9]+ [:.0-9]+ prepared( / |$)", lambda at: ": " if at[1].strip() else "", said)) == (
        code,
        message,
    )


def test_arguments_reach_the_program_as_they_are(site: Site) -> None:
    nasty = "a b; rm -rf '$HOME' `id` \"\n* é🙂"
    source = 'printf "%s|%s|%s|%s" "$1" "$2" "$3" "$FROM_PREPARE"; cat'
    assert site.run(source, executorParams=nasty, broadcastIndex=1, broadcastTotal=3) == (200, "")
    assert f"prepared\n{nasty}|1|3|set\n" in site.log()["logContent"]


SECRETS = (
    "AWS_SECRET_ACCESS_KEY",
    "DATABASE_URL",
    "XWHEEL_TOKEN",
    "XWHEEL_CONFIG",
    "XWHEEL_API__EXECUTOR_TOKEN",
    "PIPER",
)


def test_s6_a_program_gets_only_what_is_named_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither the program nor the process that supervises it, whose environment the program may read."""
    for name in SECRETS:
        monkeypatch.setenv(name, f"canary-{name}")
    for name in ("JAVA_HOME", "PIP_INDEX_URL", "LC_TIME", "TZ"):
        monkeypatch.setenv(name, f"wanted-{name}")
    with site_of(tmp_path / "data", script_environment=["JAVA_HOME", "PIP_*", "X*"]) as site:
        source = "env; tr '\\0' '\\n' < /proc/$PPID/environ"
        assert site.run(source) == (200, "")
        printed = site.log()["logContent"]
    assert "canary" not in printed
    assert set(re.findall("wanted-(\\w+)", printed)) == {"JAVA_HOME", "PIP_INDEX_URL", "LC_TIME", "TZ"}
    assert {"PATH", "HOME", "FROM_PREPARE"} <= set(re.findall(r"^(\w+)=", printed, re.MULTILINE))


def test_s6_no_setting_can_pass_on_xwheels_own_variables(tmp_path: Path) -> None:
    for name in ("XWHEEL_TOKEN", "XWHEEL_*", "*", "A=B", ""):
        with pytest.raises(ConfigError, match="script_environment"), site_of(tmp_path, script_environment=[name]):
            pass


def test_the_log_rolls_while_the_program_runs(site: Site, tmp_path: Path) -> None:
    go = tmp_path / "go"
    site.start(f'echo first; while [ ! -e "{go}" ]; do sleep 0.05; done; echo last >&2')
    rolling = wait_until(lambda: (found := site.log())["toLineNum"] == 3 and found)
    assert rolling["logContent"].endswith("prepared\nfirst\n")
    assert not rolling["isEnd"]
    go.touch()
    site.admin.outcome(1)
    rest = site.log(1, 4)
    assert rest["logContent"].startswith("last\n")
    assert (rest["toLineNum"], rest["isEnd"]) == (5, True)


def test_bytes_that_are_not_utf8_are_replaced(site: Site) -> None:
    assert site.run(r"printf 'a\xff\xfeb\n\xe4\xbd\xa0\n\xf0\x9f'")[0] == 200
    assert "prepared\na\ufffd\ufffdb\n你\n\ufffd\n" in site.log()["logContent"]


def test_output_beyond_the_limit_is_dropped_and_said(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xwheel.executor.logs.run_log.MAX_LOG", 300_000)
    assert site.run("yes 0123456789 | head -c 20000000; echo unseen")[0] == 200
    first = site.log()
    assert "the log reached 300000 characters; the rest is dropped" in first["logContent"]
    assert "unseen" not in first["logContent"]
    assert re.search(r" succeeded after [\d.]+ s\n$", first["logContent"])
    (path,) = (site.executor._settings.data_dir / "logs").rglob("1.log")
    assert path.stat().st_size < 500_000


@pytest.mark.parametrize(("ending", "code"), [("kill", 500), ("timeout", 502), ("exit", 200)])
def test_children_that_left_the_group_and_ignore_term_are_gone(
    site: Site, tmp_path: Path, ending: str, code: int
) -> None:
    pids, others = tmp_path / "pids", started_beside(set())
    child = f"trap '' TERM HUP; echo $BASHPID >> '{pids}'; while :; do sleep 0.1; done"
    source = f"trap '' TERM; ({child}) & setsid bash -c \"{child.replace('$', chr(92) + '$')}\" & "
    source += f"until [ \"$(wc -l < '{pids}')\" = 2 ]; do sleep 0.05; done; "
    source += "exit 0" if ending == "exit" else "while :; do sleep 0.1; done"
    pids.touch()
    site.start(source, executorTimeout=10 if ending == "timeout" else 0)
    wait_until(lambda: len(pids.read_text().split()) == 2)
    found = [int(line) for line in pids.read_text().split()]
    if ending == "kill":
        assert site.admin.call(site.executor.address, "/kill", {"jobId": 1})["code"] == 200
    assert site.admin.outcome(1, 60)["handleCode"] == code
    assert not any(is_alive(pid) for pid in found)
    assert started_beside(others) == set()


def test_a_program_that_closes_its_output_is_waited_for(site: Site, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    assert site.run(f"exec >&- 2>&-; sleep 0.3; echo done > '{mark}'; exit 4")[0] == 500
    assert mark.read_text() == "done\n"


def test_no_type_but_bean_runs_unless_it_is_allowed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    mark = tmp_path / "mark"
    with site_of(tmp_path / "data", allowed=()) as site:
        refused = site.start(f"touch '{mark}'")
        assert refused["code"] == 500
        assert "glue type BASH is not allowed on this executor" in refused["msg"]
        assert "executor.allowed_glue_types" in refused["msg"]
        unknown = site.start("true", 2, glueType="GLUE_COBOL")
        assert unknown["msg"] == "glueType[GLUE_COBOL] is not valid."
    assert not mark.exists()
    assert "run 1 of job 1 refused: glue type BASH" in caplog.text


def test_an_allowed_type_must_be_installed(tmp_path: Path) -> None:
    with (
        pytest.raises(ConfigError, match="'GLUE_COBOL' is not installed; known: BASH, BEAN"),
        site_of(tmp_path, allowed=["GLUE_COBOL"]),
    ):
        raise AssertionError(sys.argv)
