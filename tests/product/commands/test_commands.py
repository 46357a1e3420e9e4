"""``xwheel group``, ``job`` and ``run`` against a real node: both output forms, exit statuses, one line for errors."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.integration.test_cli_apply import Shell, xwheel
from xwheel.cli import main
from xwheel.clock import wall_ms
from xwheel.wire.http.rest import RestClient

__all__ = ["xwheel"]  # the fixture of the neighbour


MISTAKES: tuple[tuple[tuple[str, ...], int, str], ...] = (
    (("job", "show", "nobody"), 1, "nobody"),
    (("job", "show", "999"), 1, "999"),
    (("group", "show", "nobody"), 1, "nobody"),
    (("run", "show", "999"), 1, "999"),
    (("job", "edit", "nightly"), 2, "--set: must change"),
    (("job", "edit", "nightly", "--set", "timeot_s=5"), 2, "timeot_s: is not a field here; did you mean timeout_s"),
    (("job", "edit", "nightly", "--set", "timeout_s=1e3"), 2, "timeout_s: must be a whole number"),
    (("job", "edit", "nightly", "--set", "name=null", "--revision", "9"), 1, "revision"),
    (("job", "edit", "nightly", "--set", "x"), 2, "--set: takes FIELD=VALUE"),
    (("job", "create", "x", "--group", "orders", "--set", "name=y"), 2, "name: is given by NAME"),
    (("job", "create", "x", "--group", "orders"), 2, "handler: must name a handler"),
    (("job", "run", "nightly", "--address", "http://a:1"), 2, "address: http://a:1 is no live executor"),
    (
        ("job", "run", "nightly", "--address", "http://a:1", "--address", "http://b:1"),
        2,
        "addresses: http://a:1 is no live executor of group",
    ),
    (("run", "list", "--since", "yesterday"), 2, "--since: takes a span"),
    (("run", "list", "--since", "9" * 400 + "d"), 2, "--since: takes a span"),
    (("group", "list", "--url", "ftp://x"), 2, "--url: must be an http"),
    (("group", "list", "--url", "http://127.0.0.1:1"), 1, "cannot be reached"),
    (("group", "list", "--token-file", "/nowhere"), 2, "--token-file: cannot read"),
    (("job", "apply", "-f", "/nowhere"), 2, "--file: cannot read"),
    (("job", "export", "--output", "/nowhere/x"), 2, "--output: cannot write"),
)


def parsed(result: tuple[int, str, str]) -> Any:
    status, out, err = result
    assert (status, err) == (0, "")
    return json.loads(out)


@pytest.fixture
def node(xwheel: Shell) -> RestClient:
    client = xwheel.node()
    assert xwheel("group", "create", "orders", "--title", "The orders")[0] == 0
    assert xwheel("job", "create", "nightly", "--group", "orders", "--set", "handler=h")[0] == 0
    return client


@pytest.mark.parametrize(("words", "near"), [(("jbo", "list"), "'job'"), (("job", "lst"), "'list'")])
def test_u26_a_command_that_nobody_has_names_those_that_look_like_it(
    xwheel: Shell, words: tuple[str, ...], near: str
) -> None:
    status, _, err = xwheel(*words)
    assert (status, f"Did you mean {near}?" in err) == (2, True), err


def test_groups(xwheel: Shell, node: RestClient) -> None:
    (group,) = parsed(xwheel("group", "list", "--json"))
    assert (group["app_name"], group["title"]) == ("orders", "The orders")
    assert parsed(xwheel("group", "show", "orders", "--json"))["executors"] == []
    assert parsed(xwheel("group", "edit", "orders", "--max-running", "3", "--json"))["max_running"] == 3
    lines = xwheel("group", "list")[1].splitlines()
    assert [line.split("  ")[1].strip() for line in lines] == ["APP NAME", "orders"]
    assert xwheel("group", "delete", "orders")[0] == main.EXIT_FAILED
    assert xwheel("job", "delete", "nightly")[0] == 0
    assert xwheel("group", "delete", "orders") == (0, "group orders is deleted\n", "")


def test_jobs(xwheel: Shell, node: RestClient) -> None:
    fields = ("--set", "schedule_type=CRON", "--set", "schedule_conf=0 0 3 * * ?", "--set", "retry_delays_ms=1,2")
    job = parsed(xwheel("job", "edit", "orders/nightly", *fields, "--set", "end_ms=null", "--json"))
    assert (job["schedule_type"], job["retry_delays_ms"], job["end_ms"]) == ("CRON", [1, 2], None)
    assert parsed(xwheel("job", "start", "nightly", "--json"))["enabled"] is True
    assert xwheel("job", "preview", "nightly", "-n", "1", "--from", "2030-01-01T00:00:00Z") == (
        0, "2030-01-01T03:00:00+00:00\n", "",
    )  # fmt: skip
    assert parsed(xwheel("job", "stop", str(job["id"]), "--json"))["enabled"] is False
    copy = parsed(xwheel("job", "copy", "nightly", "--name", "other", "--json"))
    assert [item["id"] for item in parsed(xwheel("job", "list", "--json", "--group", "orders"))] == [
        job["id"],
        copy["id"],
    ]
    assert len(parsed(xwheel("job", "list", "--json", "--limit", "1"))) == 1
    assert parsed(xwheel("job", "children", "other", "--json"))["children"] == []


def test_u8_schedules_have_short_names(xwheel: Shell, node: RestClient) -> None:
    made = parsed(xwheel(
        "job", "create", "often", "--group", "orders", "--handler", "h", "--param", "x", "--every", "90s", "--start",
        "--json",
    ))  # fmt: skip
    wanted = {
        "handler": "h", "param": "x", "schedule_type": "FIX_RATE", "schedule_conf": "90s", "enabled": True
    }  # fmt: skip
    assert {name: made[name] for name in wanted} == wanted
    for option, value, kind in (
        ("--cron", "*/5 * * * *", "UNIX_CRON"),
        ("--cron", "0 0 3 * * ?", "CRON"),
        ("--delay", "10s", "FIX_DELAY"),
        ("--at", "2099-01-31T12:00:00", "ONCE"),
    ):
        changed = parsed(xwheel("job", "edit", "often", option, value, "--json"))
        assert (changed["schedule_type"], changed["schedule_conf"]) == (kind, value)
    for words, said in (
        (("--every", "1s", "--cron", "@daily"), "--cron and --every: exclude each other"),
        (("--every", "1s", "--set", "schedule_conf=2s"), "schedule_conf: is given by --every"),
        (("--handler", "h", "--set", "handler=h"), "handler: is given by --handler"),
        (("--every", "often"), "schedule_conf: "),
    ):
        status, _, err = xwheel("job", "edit", "often", *words)
        assert (status, said in err) == (main.EXIT_CONFIG, True), err


def test_u2_who_stops_waiting_is_told_that_the_run_goes_on(
    xwheel: Shell, node: RestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(seconds: float) -> None:
        raise KeyboardInterrupt

    assert xwheel("job", "edit", "nightly", "--set", "wait_for_executor_s=60")[0] == 0
    monkeypatch.setattr("xwheel_commands.run.pause", interrupt)
    status, _, err = xwheel("job", "run", "nightly", "--wait")
    (run,) = parsed(xwheel("run", "list", "--json"))
    assert (status, run["state"]) == (130, "planned")
    assert f"run {run['id']} goes on: 'xwheel run show {run['id']}'" in err


def test_u6_health_says_of_each_loop_how_it_is_in_a_word(xwheel: Shell, node: RestClient) -> None:
    status, out, _ = xwheel("health")
    assert status == 0
    heads, *rows = out[out.index("LOOP") :].splitlines()
    assert heads.split() == ["LOOP", "STATE", "AGE", "MS", "FAILURES"]
    assert {row.split()[1] for row in rows} == {"ok"}
    assert "tick" in {row.split()[0] for row in rows}


def test_runs(xwheel: Shell, node: RestClient) -> None:
    status, out, err = xwheel("job", "run", "nightly", "--param", "x", "--wait")
    assert (status, err) == (main.EXIT_FAILED, "")  # there is no executor
    assert "refused" in out
    (run,) = parsed(xwheel("run", "list", "--job", "nightly", "--since", "1h", "--state", "refused", "--json"))
    assert (run["state"], run["param"]) == ("refused", "x")
    assert parsed(xwheel("run", "list", "--state", "failed", "--json")) == []
    assert xwheel("run", "kill", str(run["id"]))[0] == main.EXIT_FAILED
    assert parsed(xwheel("run", "rerun", str(run["id"]), "--json"))["param"] == "x"
    status, out, err = xwheel("run", "log", str(run["id"]), "--follow", "--json")
    assert (status, json.loads(out)["is_end"], "has no log: refused" in err) == (main.EXIT_FAILED, True, True)
    assert "refused" in xwheel("run", "show", str(run["id"]))[1]


def test_runs_that_are_due_later(xwheel: Shell, node: RestClient) -> None:
    before_ms = wall_ms()
    later = parsed(xwheel("job", "run", "nightly", "--in", "10m", "--json"))
    assert later["state"] == "planned"
    assert 0 <= later["due_ms"] - before_ms - 600_000 < 60_000
    then = parsed(xwheel("job", "run", "nightly", "--at", str(before_ms + 3_600_000), "--json"))
    assert then["due_ms"] == before_ms + 3_600_000
    listed = parsed(xwheel("run", "list", "--state", "planned", "--json"))
    assert [run["id"] for run in listed] == [then["id"], later["id"]]
    for run in listed:
        assert xwheel("run", "kill", str(run["id"]))[0] == 0
    for words, complaint in (
        (("--in", "10m", "--at", "2033-05-18"), "--at: says what --in says"),
        (("--in", "soon"), "--in: takes a span"),
        (("--at", "10m"), "goes with --in"),
        (("--at", "2001-01-01"), "has passed"),
    ):
        status, _, err = xwheel("job", "run", "nightly", *words)
        assert status != 0
        assert complaint in err.replace("\n", " ")


def test_names_cannot_speak_to_the_terminal(xwheel: Shell, node: RestClient) -> None:
    assert xwheel("job", "create", "\x1b[31m[red]中", "--group", "orders", "--set", "handler=h")[0] == 0
    assert "\\x1b[31m[red]中" in xwheel("job", "list")[1]


def test_a_terminal_gets_a_table(xwheel: Shell, node: RestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    assert "─" in xwheel("group", "list")[1]


def test_errors_are_one_line_with_a_status(xwheel: Shell, node: RestClient) -> None:
    for words, status, message in MISTAKES:
        found, out, err = xwheel(*words)
        assert (found, out) == (status, ""), words
        assert err.startswith("xwheel: "), words
        assert message in err, words
        assert err.count("\n") == 1, words


def test_tokens_come_from_files_or_the_environment(
    xwheel: Shell, node: RestClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = tmp_path / "token"
    token.write_text(os.environ["XWHEEL_TOKEN"] + "\n")
    monkeypatch.delenv("XWHEEL_TOKEN")
    status, _, err = xwheel("group", "list")
    assert (status, "a management token for" in err) == (main.EXIT_CONFIG, True)
    assert xwheel("group", "list", "--token-file", str(token))[0] == 0
    monkeypatch.setenv("XWHEEL_TOKEN_FILE", str(token))
    assert xwheel("group", "list")[0] == 0
    token.write_text("wrong")
    assert xwheel("group", "list")[0] == main.EXIT_FAILED
    assert xwheel("plugins")[0] == 0  # the settings take these names
