"""Run logs: exact lines while they grow, odd characters, bounds and retention."""

from __future__ import annotations

import os
import random
import sys
import threading
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest

from xwheel.clock import SystemClock
from xwheel.executor.logs import run_log
from xwheel.executor.logs.run_log import RunLog, RunLogs

CREATED_MS = 1_790_000_000_000
DAY_MS = 86_400_000


@pytest.fixture
def logs(tmp_path: Path) -> Iterator[RunLogs]:
    logs = RunLogs(tmp_path, SystemClock())
    yield logs
    logs.close()


def read(
    logs: RunLogs, from_line: int = 1, *, live: bool = False, created_ms: int = CREATED_MS
) -> tuple[int, int, str, bool]:
    data = logs.read(1, created_ms, from_line, live=live)
    assert data is not None
    return data.from_line, data.to_line, data.content, data.is_end


def test_a_silent_run_has_no_file(logs: RunLogs, tmp_path: Path) -> None:
    logs.open(1, CREATED_MS).close()
    assert list(tmp_path.iterdir()) == []
    assert logs.read(1, CREATED_MS, 1, live=False) is None


def test_the_logs_of_many_runs_leave_no_names_behind(
    logs: RunLogs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Steady: the interpreter's table of names, 2 MB, was copied every four minutes of 150 runs a second."""
    first = logs.open(1, CREATED_MS)
    first.line("makes the folder of the day")
    first.close()
    kept: list[str] = []
    monkeypatch.setattr(sys, "intern", lambda name: kept.append(name) or name)
    for run_id in range(2, 20):
        log = logs.open(run_id, CREATED_MS)
        if run_id % 2:
            log.line("a line")
        log.close()
    monkeypatch.undo()
    assert kept == []
    assert len(list(tmp_path.glob("*/*.log"))) == 10


def test_lines_have_their_time_and_raw_text_has_not(logs: RunLogs) -> None:
    log = logs.open(1, CREATED_MS)
    log.raw("no end")
    log.line("stamped")
    log.line("")
    log.raw("a\nb")
    log.close()
    lines = read(logs)[2].split("\n")
    assert lines[0] == "no end"
    assert lines[1][4:5] == "-"
    assert lines[1].endswith(" stamped")
    assert lines[3:] == ["a", "b"]
    assert read(logs)[:2] == (1, 5)


def test_unfinished_lines_wait_while_the_run_is_live(logs: RunLogs) -> None:
    log = logs.open(1, CREATED_MS)
    log.raw("one\ntw")
    log.flush()
    assert read(logs, live=True) == (1, 1, "one\n", False)
    assert read(logs, 2, live=True) == (2, 1, "", False)
    log.raw("o\nthree")
    log.flush()
    assert read(logs, 2, live=True) == (2, 2, "two\n", False)
    log.close()
    assert read(logs, 3) == (3, 3, "three", True)
    assert read(logs, 9) == (9, 8, "", True)


def test_pages_are_exact_while_the_log_grows(logs: RunLogs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_log, "PAGE_BYTES", 2000)
    monkeypatch.setattr(run_log, "CHUNK", 700)
    chance = random.Random(1)
    lines = [f"{number} {'é' * chance.randrange(60)}\n" for number in range(3000)]
    log = logs.open(1, CREATED_MS)

    def write() -> None:
        for line in lines:
            log.raw(line)
            if chance.random() < 0.05:
                log.flush()
        log.close()

    log.raw("")
    writer = threading.Thread(target=write)
    writer.start()
    found: list[str] = []
    ended = False
    while not ended:
        live = writer.is_alive()
        data = logs.read(1, CREATED_MS, len(found) + 1, live=live)
        if data is None:
            continue
        page = data.content.splitlines(keepends=True)
        assert data.to_line == data.from_line + len(page) - 1
        found += page
        ended = data.is_end
    writer.join()
    assert found == lines
    assert read(logs, 1500)[2].startswith(lines[1499])


@pytest.mark.parametrize("ahead", [0, 1, 2])
@pytest.mark.parametrize("live", [False, True], ids=["after a full page", "after the end so far"])
def test_n22_reading_goes_on_at_any_line_after_a_page(
    logs: RunLogs, monkeypatch: pytest.MonkeyPatch, live: bool, ahead: int
) -> None:
    """N22: where a page ended is remembered as a line and its place, and both must belong together."""
    monkeypatch.setattr(run_log, "PAGE_BYTES", 20)
    lines = [f"line {number}\n" for number in range(1, 7)]
    log = logs.open(1, CREATED_MS)
    log.raw("".join(lines[:2] if live else lines))
    log.flush()
    assert read(logs, 1, live=live) == (1, 2, "line 1\nline 2\n", False)
    if live:
        log.raw("".join(lines[2:]))
    log.close()
    wanted = 3 + ahead
    assert read(logs, wanted)[2] == "".join(lines[wanted - 1 : wanted + 1])


def test_odd_bytes_and_long_lines(logs: RunLogs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_log, "PAGE_BYTES", 100)
    log = logs.open(1, CREATED_MS)
    log.raw("a\udce9b\n")
    log.raw("x" * 1000 + "\n")
    log.raw("last\n")
    log.close()
    assert read(logs, 1)[:3] == (1, 1, "a?b\n")
    first, last, content, _ = read(logs, 2)
    assert (first, last) == (2, 2)
    assert content.endswith(" … (a line of 1001 bytes)\n")
    assert read(logs, 3) == (3, 3, "last\n", True)


def test_logs_have_a_limit(logs: RunLogs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_log, "MAX_LOG", 1000)
    log = logs.open(1, CREATED_MS)
    for _ in range(50):
        log.raw("x" * 99 + "\n")
    log.close()
    content = read(logs)[2]
    assert content.endswith("\n… the log reached 1000 characters; the rest is dropped\n")
    assert len(content) < 1300


def test_a_disk_without_room_loses_lines_and_not_the_run(
    logs: RunLogs, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log = logs.open(1, CREATED_MS)
    (tmp_path / log.path.parent.name).write_text("in the way")
    log.line("lost")
    log.flush()
    log.close()
    logs.close()
    assert "lines are lost" in caplog.text


@pytest.mark.parametrize("shift_ms", [-1, 0, 1])
def test_rounded_times_find_the_file(logs: RunLogs, shift_ms: int) -> None:
    midnight_ms = CREATED_MS - CREATED_MS % 86_400_000
    log = logs.open(1, midnight_ms + shift_ms)
    log.raw("here\n")
    log.close()
    assert read(logs, created_ms=midnight_ms)[2] == "here\n"


def test_old_logs_are_swept(logs: RunLogs, tmp_path: Path) -> None:
    for run_id, day in ((1, 0), (2, 29), (3, 31), (4, 400)):
        write_old(logs, run_id, day)
    (tmp_path / "something-else").mkdir()
    assert logs.sweep(CREATED_MS, 0) == 0
    assert logs.sweep(CREATED_MS, 30) == 2
    assert logs.sweep(CREATED_MS, 30) == 0
    assert len(list(tmp_path.iterdir())) == 3
    assert logs.read(2, CREATED_MS - 29 * DAY_MS, 1, live=False) is not None


def test_the_log_of_a_run_that_goes_on_for_months_stays(logs: RunLogs, tmp_path: Path) -> None:
    log = write_old(logs, 1, 100, closed=False)
    write_old(logs, 2, 100)
    assert logs.sweep(CREATED_MS, 30) == 1  # the other one, in the same folder
    log.raw("y\n")
    log.close()
    ended = logs.read(1, CREATED_MS - 100 * DAY_MS, 1, live=False)
    assert ended is not None
    assert ended.content == "x\ny\n"
    set_age(log.path, 29)
    assert logs.sweep(CREATED_MS, 30) == 0  # it ended a month ago, not three
    set_age(log.path, 31)
    assert logs.sweep(CREATED_MS, 30) == 1
    assert list(tmp_path.iterdir()) == []


def test_what_is_no_folder_of_logs_ends_no_sweep(logs: RunLogs, tmp_path: Path) -> None:
    (tmp_path / "2000-01-01").write_text("a file")
    (tmp_path / "2000-01-02" / "not a log").mkdir(parents=True)
    write_old(logs, 1, 100)
    assert logs.sweep(CREATED_MS, 30) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["2000-01-01", "2000-01-02"]


def write_old(logs: RunLogs, run_id: int, days: int, *, closed: bool = True) -> RunLog:
    log = logs.open(run_id, CREATED_MS - days * DAY_MS)
    log.raw("x\n")
    log.flush()
    set_age(log.path, days)
    if closed:
        log.close()
    return log


def set_age(path: Path, days: int) -> None:
    written_s = (CREATED_MS - days * DAY_MS) / 1000
    os.utime(path, (written_s, written_s))


def test_a_line_of_any_length_is_read_in_bounded_memory(logs: RunLogs, tmp_path: Path) -> None:
    log = logs.open(1, CREATED_MS)
    log.raw("a\n")
    log.close()
    (path,) = tmp_path.rglob("1.log")
    with path.open("ab") as file:
        for _ in range(64):
            file.write(b"x" * 1024 * 1024)
        file.write(b"\nb\n")
    tracemalloc.start()
    try:
        first = read(logs)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 16 * run_log.PAGE_BYTES
    second = read(logs, 2)
    third = read(logs, 3)
    assert (first[1], first[2], second[1], third[1:]) == (1, "a\n", 2, (3, "b\n", True))
    assert second[2].endswith(f"x … (a line of {64 * 1024 * 1024 + 1} bytes)\n")
    assert len(second[2]) < run_log.PAGE_BYTES + 100


def test_any_line_may_be_asked_for_first(logs: RunLogs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_log, "CHUNK", 16)
    lines = [f"{number}{'x' * (number * 7 % 50)}\n" for number in range(1, 200)]
    log = logs.open(1, CREATED_MS)
    log.raw("".join(lines))
    log.close()
    for number in range(1, 201):
        logs._positions.clear()
        assert read(logs, number) == (number, 199, "".join(lines[number - 1 :]), True), number
