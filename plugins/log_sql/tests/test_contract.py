"""The suite on each kind of database, and several nodes at once."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from threading import Event, Thread

import pytest
from conftest import Make, read_log
from sqlalchemy import create_engine, inspect
from xwheel_devtools.testing import check_log_store, sample_log_chunk, sample_log_key
from xwheel_run_logs import LogEnd, LogKey

from xwheel_log_sql.store import SqlLogs

CHILD = Path(__file__).with_name("appending_child.py")
LINES = 3000


def test_the_contract_holds(url: str, make: Make) -> None:
    check_log_store(make(url), make(url))


def test_two_processes_that_append_the_same_lines_leave_each_once(url: str, make: Make) -> None:
    store, key = make(url), sample_log_key()
    store.find(key)  # the tables are there
    children = [
        subprocess.Popen(
            [sys.executable, str(CHILD), url, str(key.run_id), str(key.created_ms), str(LINES), str(size)],
            stderr=subprocess.PIPE,
            text=True,
        )
        for size in (7, 16)
    ]
    said = [child.communicate(timeout=120)[1] for child in children]
    assert [child.returncode for child in children] == [0, 0], said
    assert read_log(store, key).splitlines() == [f"line {number}" for number in range(1, LINES + 1)]


def test_nodes_that_make_the_tables_at_once_all_work(url: str, make: Make) -> None:
    stores = [make(url) for _ in range(6)]
    keys = [sample_log_key(number) for number in range(1, len(stores) + 1)]
    barrier, failures = threading.Barrier(len(stores)), list[BaseException]()

    def work(number: int) -> None:
        try:
            barrier.wait()
            stores[number].append([sample_log_chunk(keys[number], 1, ["first"])])
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(len(stores))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert [store.read(key, 1, 100) for store, key in zip(stores, keys, strict=True)] == ["first\n"] * 6


def test_the_same_new_log_on_two_nodes(url: str, make: Make) -> None:
    """Chunks 1-10 and 1-15 at once: one of them makes the row, and no line is there twice."""
    stores = [make(url), make(url)]
    lines = [f"line {number}" for number in range(1, 16)]
    for _ in range(40):
        key, barrier = sample_log_key(), threading.Barrier(2)
        answers: dict[int, int] = {}

        def work(number: int, key=key, barrier=barrier, answers=answers) -> None:  # type: ignore[no-untyped-def]
            barrier.wait()
            (answers[number],) = stores[number].append([sample_log_chunk(key, 1, lines[: 10 + 5 * number])])

        threads = [threading.Thread(target=work, args=(number,)) for number in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert answers[1] == 16
        assert answers[0] in (11, 16)
        assert read_log(stores[0], key).splitlines() == lines


def _follow(store: SqlLogs, key: LogKey, whole: str, is_over: Event, is_followed: Event) -> None:
    """Read a log while it grows; once it was there it stays."""
    is_there = False
    while not is_over.is_set():
        found = store.find(key)
        text = read_log(store, key, max_bytes=2000)
        assert whole.startswith(text)
        if found is not None or is_there:
            assert found is not None, "a log that was there is gone"
            is_there = True
            is_followed.set()
            assert text.count("\n") >= found.next_line - 1


def test_nodes_that_write_the_same_log_to_its_end(url: str, make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small pieces, so that the end of the log becomes one again and again, while another node reads."""
    for name, size in (("pieces.LEAST_PIECE", 300), ("pieces.PIECE", 900), ("store.LEAST_PIECE", 300)):
        monkeypatch.setattr(f"xwheel_log_sql.{name}", size)
    lines, failures = [f"line {number} of many" for number in range(1, 601)], list[BaseException]()
    is_over, is_followed = Event(), Event()
    whole, key = "".join(f"{line}\n" for line in lines), sample_log_key()
    make(url).find(key)

    def write(store: SqlLogs, size: int) -> None:
        line, last = 1, False
        while not last:
            part = lines[line - 1 : line - 1 + size]
            last = line + len(part) > len(lines)
            (line,) = store.append([sample_log_chunk(key, line, part, is_last=last)])
            assert is_followed.wait(60)

    def guarded(work: Callable[..., None], *arguments: object) -> None:
        try:
            work(*arguments)
        except BaseException as failure:
            failures.append(failure)

    writers = [Thread(target=guarded, args=(write, make(url, timeout_s=60), size)) for size in (1, 2, 3, 7)]
    reader = Thread(target=guarded, args=(_follow, make(url), key, whole, is_over, is_followed))
    for thread in (*writers, reader):
        thread.start()
    for thread in writers:
        thread.join()
    is_over.set()
    reader.join()
    assert failures == []
    assert make(url).find(key) == LogEnd(601, True)
    assert read_log(make(url), key) == whole


def test_both_tables_have_a_key_that_look_ups_use(url: str, make: Make) -> None:
    make(url).find(sample_log_key())
    engine = create_engine(url)
    found = inspect(engine)
    keys = {name: found.get_pk_constraint(name)["constrained_columns"] for name in found.get_table_names()}
    engine.dispose()
    assert keys == {"xwheel_log": ["run_id", "created_ms"], "xwheel_log_piece": ["run_id", "created_ms", "first_line"]}
