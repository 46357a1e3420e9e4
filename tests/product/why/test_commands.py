"""``xwheel why`` against a real node: words for people, JSON for machines, one line for mistakes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.integration.test_cli_apply import Shell, xwheel
from xwheel.cli import main

__all__ = ["xwheel"]  # the fixture of the neighbour

NASTY = "\x1b[31m[red]中"


@pytest.fixture
def node(xwheel: Shell) -> None:
    xwheel.node()
    assert xwheel("group", "create", "orders")[0] == 0
    every_day = ("--cron", "0 0 3 * * ?", "--reason", "OPS-17")
    assert xwheel("job", "create", "nightly", "--group", "orders", "--handler", "h", *every_day)[0] == 0


def parsed(result: tuple[int, str, str]) -> Any:
    status, out, err = result
    assert (status, err) == (0, "")
    return json.loads(out)


@pytest.mark.usefixtures("node")
def test_the_sentence_comes_first_and_then_the_rows(xwheel: Shell) -> None:
    assert xwheel("job", "run", "nightly")[0] == 0
    (run,) = parsed(xwheel("run", "list", "--json"))
    status, out, err = xwheel("why", "nightly", str(run["due_ms"]))
    assert (status, err) == (0, "")
    lines = out.splitlines()
    assert lines[0].startswith(("Its group had no live executor", f"Run {run['id']}"))
    words = {line.split("  ")[0] for line in lines}
    assert {"job", "cause", "asked", "due", "run_id", "TABLE"} <= words
    assert "run_history" in out or "open_run" in out


@pytest.mark.usefixtures("node")
def test_a_job_that_is_stopped_says_who_created_it_so(xwheel: Shell) -> None:
    status, out, err = xwheel("why", "orders/nightly")
    assert (status, err) == (0, "")
    assert out.startswith("The job had not been started since it was created at ")
    assert '("OPS-17")' in out
    found = parsed(xwheel("why", "1", "--json"))
    assert (found["cause"], found["due_ms"], found["asked_ms"]) == ("never_started", None, None)
    assert parsed(xwheel("why", "nightly", "2030-01-01T03:00:00+00:00", "--json"))["cause"] == "never_started"


@pytest.mark.usefixtures("node")
def test_a_deleted_job_is_found_by_its_id_without_any_run(xwheel: Shell) -> None:
    assert xwheel("job", "delete", "nightly", "--reason", "gone")[0] == 0
    found = parsed(xwheel("why", "1", "--json"))
    assert (found["cause"], found["facts"]["why"]) == ("job_deleted", "gone")


@pytest.mark.usefixtures("node")
def test_a_deleted_job_is_found_by_its_name_as_long_as_it_has_a_run(xwheel: Shell) -> None:
    """Upkeep forgets a name soon where there is none."""
    assert xwheel("job", "run", "nightly")[0] == 0
    assert xwheel("job", "delete", "nightly", "--reason", "gone")[0] == 0
    found = parsed(xwheel("why", "nightly", "--json"))
    assert (found["cause"], found["facts"]["why"]) == ("job_deleted", "gone")


@pytest.mark.usefixtures("node")
def test_names_cannot_speak_to_the_terminal(xwheel: Shell) -> None:
    assert xwheel("job", "create", NASTY, "--group", "orders", "--handler", "h")[0] == 0
    status, out, _ = xwheel("why", "2")
    assert (status, "\x1b" in out, "\\x1b[31m[red]中" in out) == (0, False, True)
    assert "\x1b" not in xwheel("why", "2", "--json")[1]


@pytest.mark.usefixtures("node")
@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (("absent",), 1, "absent"),
        (("999",), 1, "999"),
        (("nightly", "yesterday"), 2, "TIME: takes a span"),
        (("nightly", "9" * 400), 2, "TIME: takes a span"),
        (("nightly", "-5"), 2, ""),
    ],
)
def test_mistakes_are_one_line(xwheel: Shell, words: tuple[str, ...], status: int, message: str) -> None:
    found, out, err = xwheel("why", *words)
    assert (found, out) == (status, "")
    assert message in err
    assert main.EXIT_FAILED == 1


@pytest.mark.usefixtures("node")
def test_a_span_is_before_now(xwheel: Shell) -> None:
    assert parsed(xwheel("why", "nightly", "2d", "--json"))["cause"] == "not_created"
