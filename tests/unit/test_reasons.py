"""Reasons of runs: all of them stand in one place with their words, and nothing else is written."""

from __future__ import annotations

import ast
import functools
import re
from typing import Any, get_type_hints

import pytest

from tests.support.bare_app import DOCUMENT
from tests.support.paths import DOCS, ROOT
from xwheel.model.reasons import MARKS, REPORTED, SENTENCES, RunReason, read_report
from xwheel.scheduler.check import decide
from xwheel.scheduler.records import Batch, Outcome, new_run, reported
from xwheel.storage import runs
from xwheel.storage.schema.tables import run_history

WRITERS = ("scheduler", "storage", "executor")
PAGE = (DOCS / "reference" / "errors.md").read_text(encoding="utf-8")


def test_each_reason_has_a_sentence_and_fits_its_column() -> None:
    assert set(SENTENCES) == set(RunReason) - {RunReason.PLAIN}
    length: Any = run_history.c.reason.type
    for reason, sentence in SENTENCES.items():
        assert re.fullmatch("[a-z]+(_[a-z]+)*", reason)
        assert len(reason) <= length.length
        assert re.fullmatch(r"[A-Z][^.]+\.", sentence), sentence
        assert reason.sentence == sentence
    assert RunReason.PLAIN.sentence == ""


@pytest.mark.parametrize("write", [Batch.close, runs.cancel_runs, new_run, decide._end, Outcome])
def test_who_writes_a_reason_takes_no_other_word(write: Any) -> None:
    """What is passed on is checked by mypy."""
    assert get_type_hints(write)["reason"] is RunReason


@functools.cache
def trees() -> list[tuple[str, ast.AST]]:
    return [
        (str(path.relative_to(ROOT)), ast.parse(path.read_text(encoding="utf-8")))
        for room in WRITERS
        for path in sorted((ROOT / "xwheel" / room).rglob("*.py"))
        if "migrations" not in path.parts
    ]


def test_no_reason_is_spelled_out_where_it_is_written() -> None:
    found = [
        f"{name}:{node.value.lineno}"
        for name, tree in trees()
        for node in ast.walk(tree)
        if isinstance(node, ast.keyword)
        and node.arg == "reason"
        and isinstance(node.value, ast.Constant)
        # that of a version of a job is what its editor says
        and name != "xwheel/scheduler/jobs/versions.py"
    ]
    assert found == []


def test_each_reason_is_written_somewhere() -> None:
    used = {
        node.attr
        for _, tree in trees()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "RunReason"
    }
    assert used == {reason.name for reason in RunReason}


def test_executors_report_some_of_them() -> None:
    for reason in RunReason:
        may = reason in REPORTED or not reason
        assert read_report(reason) is (reason if may else None)
    assert reported("killed", "text") == (RunReason.KILLED, "text")
    assert reported("", "text") == (RunReason.PLAIN, "text")
    # one of a newer version, one that is this node's to say, and none
    assert reported("frozen", "text") == (RunReason.PLAIN, "frozen: text")
    assert reported("no_executor", "") == (RunReason.PLAIN, "no_executor")
    assert reported("a\nb", "text") == (RunReason.PLAIN, "text")


def test_the_page_tells_every_mark() -> None:
    for mark, words in MARKS.items():
        assert decide.read_mark(f"{mark}:17") == (mark, 17)
        assert f"| `{mark}:<ms>` | {words} |" in PAGE, mark


def test_the_document_and_the_page_tell_them_all() -> None:
    told = DOCUMENT["components"]["schemas"]["RunView"]["properties"]["reason"]
    assert told["x-reasons"] == {reason.value: words for reason, words in SENTENCES.items()}
    for reason, words in SENTENCES.items():
        assert f"| `{reason}` | {words} |" in PAGE, reason
