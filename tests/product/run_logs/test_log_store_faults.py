"""A log store that hangs, fails, is full or lies: runs are unharmed, a line says so, and logs catch up."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from xwheel_devtools.testing import NodeSite, wait_until
from xwheel_run_logs import LogChunk, LogEnd, LogKey, LogStore

from tests.product.run_logs.stores import MemoryStore
from xwheel.executor import JobContext, job
from xwheel.plugin import hookimpl

LINES = 20


@job("lines")
def lines(context: JobContext) -> str:
    """Write some lines."""
    for number in range(1, LINES + 1):
        context.log(f"line {number}")
    return "done"


class OddStore(MemoryStore):
    """A store that misbehaves as a test says."""

    def __init__(self) -> None:
        super().__init__("odd")
        self.lie: Callable[[str, Any], Any] = lambda _, answer: answer

    def append(self, chunks: Sequence[LogChunk]) -> Sequence[int]:
        return self.lie("append", super().append(chunks))  # type: ignore[no-any-return]

    def read(self, key: LogKey, from_line: int, max_bytes: int) -> str:
        return self.lie("read", super().read(key, from_line, max_bytes))  # type: ignore[no-any-return]

    def find(self, key: LogKey) -> LogEnd | None:
        return self.lie("find", super().find(key))  # type: ignore[no-any-return]


class Plugin:
    """Registers the store."""

    def __init__(self, store: LogStore) -> None:
        self._store = store

    @hookimpl
    def xwheel_register_log_stores(self) -> list[LogStore]:
        return [self._store]


@pytest.fixture
def store() -> OddStore:
    return OddStore()


@pytest.fixture
def node(store: OddStore, tmp_path: Path) -> Iterator[NodeSite]:
    with NodeSite(
        tmp_path, Plugin(store), handlers=[lines], settings={"run_logs": {"store": "odd", "call_timeout_s": 0.3}}
    ) as site:
        yield site


def stored(store: OddStore, run: dict[str, Any]) -> list[str]:
    return store.logs.get(LogKey(run["id"], run["created_ms"]), [])


def is_whole(store: OddStore, run: dict[str, Any]) -> bool:
    numbers = [line.rpartition(" ")[2] for line in stored(store, run) if " line " in line]
    return numbers == [str(number) for number in range(1, LINES + 1)]


def run_beside(node: NodeSite) -> list[dict[str, Any]]:
    """Run a few jobs, whose runs and outcomes nothing may harm; return their runs."""
    made = [node.run("lines") for _ in range(3)]
    assert [(run["state"], run["message"]) for run in made] == [("succeeded", "done")] * 3
    return made


def trouble_of(kind: str, store: OddStore, release: threading.Event) -> str:
    """Let a store misbehave; return what the log must say."""

    def hang() -> None:
        release.wait(60)

    def fail() -> None:
        raise RuntimeError("the other side is on fire")

    def be_full() -> None:
        raise OSError(28, "No space left on device")

    def end() -> None:
        raise SystemExit(3)

    if kind in ("hangs", "fails", "full", "exits"):
        store.trouble = {"hangs": hang, "fails": fail, "full": be_full, "exits": end}[kind]
        return {
            "hangs": "log store odd did not answer within 0.3 s",
            "fails": "log store odd failed: RuntimeError: the other side is on fire",
            "full": "log store odd failed: OSError: [Errno 28] No space left on device",
            "exits": "log store odd failed: SystemExit: 3",
        }[kind]
    store.lie = {
        "too few": lambda what, answer: answer[:-1] if what == "append" else answer,
        "nonsense": lambda what, answer: "all of it" if what == "append" else answer,
        "beyond": lambda what, answer: [line + 7 for line in answer] if what == "append" else answer,
    }[kind]
    return "log store odd: append"


@pytest.mark.parametrize("kind", ["hangs", "fails", "full", "exits", "too few", "nonsense", "beyond"])
def test_runs_are_unharmed_and_logs_catch_up(
    node: NodeSite, store: OddStore, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    release = threading.Event()
    said = trouble_of(kind, store, release)
    first = run_beside(node)
    wait_until(lambda: said in caplog.text)
    second = run_beside(node)  # while it has been in trouble for a while
    for run in (*first, *second):
        assert "line 20" in node.log(run["id"])  # at their executor
    store.trouble, store.lie = (lambda: None), (lambda _, answer: answer)
    release.set()
    wait_until(lambda: all(is_whole(store, run) for run in (*first, *second)))
    wait_until(lambda: "log store odd works again" in caplog.text or kind == "beyond")


def test_a_store_that_claims_lines_which_it_does_not_have_is_read_over(
    node: NodeSite, store: OddStore, caplog: pytest.LogCaptureFixture
) -> None:
    (run, *_) = run_beside(node)
    wait_until(lambda: is_whole(store, run))
    store.lie = lambda what, answer: 17 if what == "read" else answer
    assert "line 20" in node.log(run["id"])
    assert "log store odd: read returned int" in caplog.text


def test_a_store_that_forgets_gets_nothing_twice(node: NodeSite, store: OddStore) -> None:
    """An answer that says less than is there: lines are sent again, and are there once."""
    forgets = iter([1, 1, 1])
    store.lie = lambda what, answer: [next(forgets, line) for line in answer] if what == "append" else answer
    for run in run_beside(node):
        wait_until(lambda run=run: is_whole(store, run))  # type: ignore[misc]
        assert len(stored(store, run)) == LINES + 2
