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
from xwheel.wire.http.rest import RestClient

__all__ = ["xwheel"]  # the fixture of the neighbour


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
    fields = (
        "--set",
        "schedule_type=CRON",
        "--set",
        "schedule_conf=0 0 3 * * ?",
        "--set",
        "retry_delays_ms=1,2",
    )
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


def test_runs(xwheel: Shell, node: RestClient) -> None:
    status, out, err = xwheel("job", "run", "nightly", "--param", "x", "--wait")
    assert (status, err) == (main.EXIT_FAILED, "")  # there is no executor
    assert "refused" in out
    (run,) = parsed(
        xwheel("run", "list", "--job", "nightly", "--since", "1h", "--state", "refused", "--json")
    )
    assert (run["state"], run["param"]) == ("refused", "x")
    assert parsed(xwheel("run", "list", "--state", "failed", "--json")) == []
    assert xwheel("run", "kill", str(run["id"]))[0] == main.EXIT_FAILED
    assert parsed(xwheel("run", "rerun", str(run["id"]), "--json"))["param"] == "x"
    status, out, err = xwheel("run", "log", str(run["id"]), "--follow", "--json")
    assert (status, json.loads(out)["is_end"], "has no log: refused" in err) == (main.EXIT_FAILED, True, True)
    assert "refused" in xwheel("run", "show", str(run["id"]))[1]


def test_names_cannot_speak_to_the_terminal(xwheel: Shell, node: RestClient) -> None:
    assert xwheel("job", "create", "\x1b[31m[red]中", "--group", "orders", "--set", "handler=h")[0] == 0
    assert "\\x1b[31m[red]中" in xwheel("job", "list")[1]


def test_a_terminal_gets_a_table(xwheel: Shell, node: RestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    assert "─" in xwheel("group", "list")[1]


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (("job", "show", "nobody"), 1, "nobody"),
        (("job", "show", "999"), 1, "999"),
        (("group", "show", "nobody"), 1, "nobody"),
        (("run", "show", "999"), 1, "999"),
        (("job", "edit", "nightly"), 2, "--set: must change"),
        (
            ("job", "edit", "nightly", "--set", "timeot_s=5"),
            2,
            "timeot_s: is not a field here; did you mean timeout_s",
        ),
        (("job", "edit", "nightly", "--set", "timeout_s=1e3"), 2, "timeout_s: must be a whole number"),
        (("job", "edit", "nightly", "--set", "name=null", "--revision", "9"), 1, "revision"),
        (("job", "edit", "nightly", "--set", "x"), 2, "--set: takes FIELD=VALUE"),
        (("job", "create", "x", "--group", "orders", "--set", "name=y"), 2, "name: is given by NAME"),
        (("job", "create", "x", "--group", "orders"), 2, "handler: must name a handler"),
        (("run", "list", "--since", "yesterday"), 2, "--since: takes a span"),
        (("run", "list", "--since", "9" * 400 + "d"), 2, "--since: takes a span"),
        (("group", "list", "--url", "ftp://x"), 2, "--url: must be an http"),
        (("group", "list", "--url", "http://127.0.0.1:1"), 1, "cannot be reached"),
        (("group", "list", "--token-file", "/nowhere"), 2, "--token-file: cannot read"),
        (("job", "apply", "-f", "/nowhere"), 2, "--file: cannot read"),
        (("job", "export", "--output", "/nowhere/x"), 2, "--output: cannot write"),
    ],
    ids=str,
)
def test_errors_are_one_line_with_a_status(
    xwheel: Shell, node: RestClient, words: tuple[str, ...], status: int, message: str
) -> None:
    found, out, err = xwheel(*words)
    assert (found, out) == (status, "")
    assert err.startswith("xwheel: ")
    assert message in err
    assert err.count("\n") == 1


def test_tokens_come_from_files_or_the_environment(
    xwheel: Shell, node: RestClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = tmp_path / "token"
    token.write_text(os.environ["XWHEEL_TOKEN"] + "\n")
    monkeypatch.delenv("XWHEEL_TOKEN")
    status, _, err = xwheel("group", "list")
    assert (status, "a management token is needed" in err) == (main.EXIT_CONFIG, True)
    assert xwheel("group", "list", "--token-file", str(token))[0] == 0
    monkeypatch.setenv("XWHEEL_TOKEN_FILE", str(token))
    assert xwheel("group", "list")[0] == 0
    token.write_text("wrong")
    assert xwheel("group", "list")[0] == main.EXIT_FAILED
    assert xwheel("plugins")[0] == 0  # the settings take these names
