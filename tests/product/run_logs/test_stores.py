"""Calls of log stores: what fails, hangs or lies is an error of its own, and answers are checked."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from typing import Any

import pytest
from xwheel_devtools.testing import check_log_store, sample_log_chunk, sample_log_key, wait_until
from xwheel_run_logs import LogChunk, LogEnd, LogKey
from xwheel_run_logs.storage import FOR_EVER
from xwheel_run_logs.stores import CheckedStore

from tests.product.run_logs.stores import MemoryStore, fails, stores_of
from xwheel.clock import ManualClock
from xwheel.errors import ConfigError, LogStoreError
from xwheel.storage.retention import DAY_MS

KEY = LogKey(1, 1000)
FAILED = "log store memory failed: OSError: no space left on device"


def chosen(store: object, **settings: object) -> CheckedStore:
    found = stores_of(store, **settings).chosen
    assert found is not None
    return found


def test_the_store_of_these_tests_keeps_the_contract() -> None:
    check_log_store(MemoryStore())


def test_what_a_store_says_is_handed_on() -> None:
    store = chosen(MemoryStore())
    assert store.append([sample_log_chunk(KEY, 1, ["a", "b"])]) == [3]
    assert store.read(KEY, 2) == "b\n"
    assert store.find(KEY) == LogEnd(3, False)
    store.delete([KEY])
    assert store.find(KEY) is None


class Liar(MemoryStore):
    """Answers what it was told to."""

    def __init__(self, answer: object) -> None:
        super().__init__()
        self.answer: Any = answer

    def append(self, chunks: Sequence[LogChunk]) -> Sequence[int]:
        return self.answer

    def read(self, key: LogKey, from_line: int, max_bytes: int) -> str:
        return self.answer

    def find(self, key: LogKey) -> LogEnd | None:
        return self.answer


class Text(str):
    """Runs code of its own."""


@pytest.mark.parametrize(
    "answer", [None, [], [3, 3], "3", [True], [0], [-1], ["3"], [2.0], [2**60], {"a": 1}, [None]], ids=repr
)
def test_an_append_that_answers_no_line_numbers_is_refused(answer: object) -> None:
    with pytest.raises(LogStoreError, match="log store memory: append"):
        chosen(Liar(answer)).append([sample_log_chunk(KEY, 1, ["a", "b"])])


def test_a_line_behind_the_end_is_believed_if_it_is_there() -> None:
    store = MemoryStore()
    store.append([sample_log_chunk(KEY, 1, ["a", "b", "c"])])
    # a machine that crashed has fewer lines than were shipped
    assert chosen(store).append([sample_log_chunk(KEY, 1, ["a", "b"], is_last=True)]) == [4]
    liar = Liar([4])
    liar.find = lambda _: LogEnd(3, True)  # type: ignore[method-assign]
    with pytest.raises(LogStoreError, match="append answered 4 to the end of run 1, but it has 2 lines"):
        chosen(liar).append([sample_log_chunk(KEY, 1, ["a", "b"], is_last=True)])
    assert chosen(Liar([4])).append([sample_log_chunk(KEY, 1, ["a", "b"])]) == [4]  # more is there by now


@pytest.mark.parametrize("answer", [None, b"a\n", "no end", 7, Text("a\n"), "x" * 5_000_000 + "\n"], ids=type)
def test_a_read_that_returns_no_whole_lines_is_refused(answer: object) -> None:
    with pytest.raises(LogStoreError, match="log store memory: read returned"):
        chosen(Liar(answer)).read(KEY, 1)


def test_half_of_a_pair_is_no_text_that_can_be_sent_on() -> None:
    assert chosen(Liar("\ud800\n")).read(KEY, 1) == "?\n"


@pytest.mark.parametrize("answer", [1, "x", (1, True), LogEnd(0, False), LogEnd(True, False), LogEnd(1, 0)], ids=repr)
def test_a_find_that_returns_no_end_is_refused(answer: object) -> None:
    with pytest.raises(LogStoreError, match="log store memory: find returned"):
        chosen(Liar(answer)).find(KEY)


@pytest.mark.parametrize("error", [OSError("full"), SystemExit(1), KeyboardInterrupt(), GeneratorExit()], ids=repr)
def test_whatever_a_store_raises_is_its_failure(error: BaseException) -> None:
    store = MemoryStore()

    def trouble() -> None:
        raise error

    store.trouble = trouble
    checked = chosen(store)
    for call in (
        lambda: checked.append([sample_log_chunk(KEY, 1, ["a"])]),
        lambda: checked.read(KEY, 1),
        lambda: checked.find(KEY),
        lambda: checked.delete([KEY]),
    ):
        with pytest.raises(LogStoreError, match=f"log store memory failed: {type(error).__name__}"):
            call()


def test_a_store_that_hangs_is_left_behind_and_then_not_called() -> None:
    release = threading.Event()
    store = MemoryStore()
    calls: list[int] = []

    def trouble() -> None:
        calls.append(1)
        release.wait(60)

    store.trouble = trouble
    checked = chosen(store, call_timeout_s=0.05)
    for _ in range(4):
        with pytest.raises(LogStoreError, match="did not answer within"):
            checked.find(KEY)
    with pytest.raises(LogStoreError, match="hangs in 4 calls"):
        checked.find(KEY)
    assert (len(calls), checked.hanging()) == (4, 4)
    release.set()
    wait_until(lambda: not checked.hanging())
    assert checked.find(KEY) is None


def test_a_failure_is_one_line_and_so_is_its_end(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    clock, store = ManualClock(), MemoryStore()
    checked = stores_of(store, clock=clock).chosen
    assert checked is not None
    store.trouble = fails
    for _ in range(50):
        with pytest.raises(LogStoreError):
            checked.find(KEY)
        clock.advance(1000)
    assert checked.failures == 50
    store.trouble = lambda: None
    checked.find(KEY)
    assert checked.failures == 0
    texts = [record.getMessage() for record in caplog.records]
    assert texts == [
        f"logs wait with their executors, runs go on (1 failures by now): {FAILED}",
        "log store memory works again after 50 failures",
    ]


def test_settings_that_name_no_store_are_refused() -> None:
    words = r"run_logs\.store: no log store is called 'sql'; known: memory; .*pip install"
    with pytest.raises(ConfigError, match=words):
        stores_of(MemoryStore(), store="sql")
    assert stores_of().chosen is None


class Unset(MemoryStore):
    """Lacks an option."""

    def check(self) -> None:
        raise ConfigError("plugins.options.log_s3.bucket is missing")


def test_a_store_without_its_options_is_refused() -> None:
    with pytest.raises(ConfigError, match="bucket is missing"):
        stores_of(Unset())
    assert stores_of(MemoryStore("other"), Unset()).chosen  # another one is used


@pytest.mark.parametrize(("setting", "own", "days"), [(0, 0, None), (7, 0, 7), (0, 3, 3), (7, 30, 30)], ids=str)
def test_how_long_logs_are_kept(setting: int, own: int, days: int | None) -> None:
    kept = stores_of(MemoryStore(), retention_days=setting).delete_ms(5000, own)
    assert kept == (FOR_EVER if days is None else 5000 + days * DAY_MS)


def test_samples_are_of_new_logs() -> None:
    assert sample_log_key() != sample_log_key()
