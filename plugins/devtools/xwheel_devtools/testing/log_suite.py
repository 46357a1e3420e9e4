"""The suite for log stores: appending, reading back, repeated and missing chunks, two nodes at once, deleting.

And the whole way with real processes: from a handler's lines to a reader, after the executor is gone.
"""

from __future__ import annotations

import itertools
import secrets
import shutil
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from xwheel.errors import PluginError
from xwheel.plugin.hookspecs import check_object
from xwheel_run_logs import LogChunk, LogEnd, LogKey, LogStore

from xwheel_devtools.testing.processes import NodeProcess, XwheelProcess, wait_until

LINES: Final = 500
MANY: Final = 500
WRITERS: Final = 4
RACED_LINES: Final = 300
LONG_LINE: Final = 1024 * 1024
PAGE: Final = 64 * 1024
ROUNDS: Final = 10_000
HANDLERS: Final = """
import threading
from xwheel.executor import job

@job("writes")
def writes(context):
    for number in range(1, int(context.param) + 1):
        context.log(f"number {number}")
    threading.Event().wait()
"""
# what programs print: no line end but the line feed, whatever Unicode says of it
ODD: Final = (
    "",
    "plain",
    "\u4e2d\u6587 \U0001f514 \u00e9",
    "before\rafter",
    "page\x0cbreak, \x1b[31mred\x1b[0m, null \x00, \x85 and \u2028 and \u2029",
    "\"quotes\" 'n' %s {braces} \\ $(shell) ;--",
    "   blanks   ",
    "",
)

# a server may keep what an earlier call of the suite left
_times = itertools.count(secrets.randbelow(10**12))


def check_log_store(store: LogStore, other: LogStore | None = None) -> None:
    """Check a log store: what is appended is read back, line by line, no matter who appends it and how often.

    Args:
        store: The store, set up to reach a test's server or folder. Logs of run ids from 1 on are written and deleted.
        other: A second object on the same server or folder, as another node has it; None takes the first twice.
    """
    try:
        check_object(LogStore, store)
    except PluginError as error:
        raise AssertionError(str(error)) from None
    _check_nothing(store)
    _check_lines(store)
    _check_pages(store)
    _check_repeated(store)
    _check_end(store)
    _check_many(store)
    _check_race(store, other or store)
    _check_delete(store, other or store)


def check_logs_outlast(folder: Path, **settings: str) -> None:
    """Check that a node has a run's log after its executor is gone with its folder, in the middle of the run.

    Args:
        folder: An empty folder, for a node and an executor in processes of their own.
        settings: Environment variables of the node, which choose the store, such as ``XWHEEL_RUN_LOGS__STORE``.
    """
    (folder / "executor").mkdir(parents=True)
    (folder / "executor" / "writes.py").write_text(HANDLERS)
    with ExitStack() as stack:
        node = stack.enter_context(NodeProcess(folder / "node", **settings))
        group = node.call("POST", "groups", {"app_name": "demo", "title": ""})["id"]
        job = node.call("POST", "jobs", {"group_id": group, "name": "writes", "handler": "writes"})["id"]
        executor = stack.enter_context(
            XwheelProcess(
                folder / "executor",
                "executor",
                "writes",
                XWHEEL_EXECUTOR__APP_NAME="demo",
                XWHEEL_EXECUTOR__ADMIN_ADDRESSES=f'["{node.executor_url}"]',
                XWHEEL_EXECUTOR__ACCESS_TOKEN=node.executor_token,
                XWHEEL_EXECUTOR__PORT="0",
            )
        )
        executor.find("the executor is registered()")
        run = node.start_run(job, param=str(LINES))
        expected = list(range(1, LINES + 1))
        wait_until(lambda: _numbers(stored_lines(node, run)) == expected)
        executor.kill()
        shutil.rmtree(folder / "executor")
        _demand(_numbers(stored_lines(node, run)) == expected, "lines that were shipped are not there any more")
        _demand(node.call("GET", f"runs/{run}")["state"] == "running", "the run ended before its executor was gone")
        tail = node.call("GET", f"runs/{run}/log?tail=2")["content"]
        _demand(_numbers(tail.split("\n")) == expected[-2:], f"the last lines are {tail!r}")
        found = node.call("GET", f"runs/{run}/log/search?text=NUMBER%20{LINES}")["items"]
        _demand([item["line"] for item in found] == [LINES + 1], f"a search found {found}")


def stored_lines(node: NodeProcess, run_id: int) -> list[str]:
    """Return the lines of a run's log that a node reads from its store."""
    lines: list[str] = []
    while True:
        piece: dict[str, Any] = node.call("GET", f"runs/{run_id}/log?from_line={len(lines) + 1}")
        if piece["place"] != "store" or not piece["content"]:
            return lines
        lines += piece["content"].split("\n")[:-1]


def _numbers(lines: Sequence[str]) -> list[int]:
    return [int(line.rpartition(" ")[2]) for line in lines if " number " in line]


def sample_log_key(run_id: int = 1) -> LogKey:
    """Return the key of a log that nothing was written into yet."""
    return LogKey(run_id, next(_times))


def sample_log_chunk(key: LogKey, first_line: int, lines: Sequence[str], *, is_last: bool = False) -> LogChunk:
    """Return a chunk with these lines, given without their ends."""
    text = "".join(f"{line}\n" for line in lines)
    return LogChunk(key=key, job_id=7, first_line=first_line, lines=len(lines), text=text, is_last=is_last)


def read_log(store: LogStore, key: LogKey, from_line: int = 1, max_bytes: int = PAGE) -> str:
    """Return a whole log from a line on, read piece by piece."""
    found: list[str] = []
    for _ in range(ROUNDS):
        text = store.read(key, from_line, max_bytes)
        _demand(type(text) is str, f"read returned {type(text).__name__}, not a text")
        if not text:
            return "".join(found)
        _demand(text.endswith("\n"), f"read from line {from_line} ends inside a line: {text[-40:]!r}")
        found.append(text)
        from_line += text.count("\n")
    raise AssertionError(f"reading {key} does not end")


def _check_nothing(store: LogStore) -> None:
    key = sample_log_key()
    _demand(store.find(key) is None, "find knows a log that no one wrote")
    _demand(store.read(key, 1, PAGE) == "", "read returns lines of a log that no one wrote")
    store.delete([key])
    _demand(not list(store.append([])), "append answers what it was not given")


def _check_lines(store: LogStore) -> None:
    """Check that odd lines come back as they are, from any line on."""
    key = sample_log_key()
    lines = [*ODD, "x" * LONG_LINE, "the end"]
    first, second = sample_log_chunk(key, 1, lines[:3]), sample_log_chunk(key, 4, lines[3:])
    _expect(store, [first, second], [4, len(lines) + 1])
    for from_line in range(1, len(lines) + 1):
        text = "".join(f"{line}\n" for line in lines[from_line - 1 :])
        _demand(read_log(store, key, from_line) == text, f"what was appended is not what is read from {from_line}")
    _demand(store.read(key, len(lines) + 1, PAGE) == "", "read returns lines behind the last one")
    _demand(store.find(key) == LogEnd(len(lines) + 1, False), f"find returns {store.find(key)}")
    twin = LogKey(key.run_id, key.created_ms + 1)
    _demand(store.find(twin) is None, "a run of another time with the same id has the same log")


def _check_pages(store: LogStore) -> None:
    """Check that a piece is whole lines of this many bytes, and one line at least."""
    key = sample_log_key()
    lines = [f"line {number} \u00e9" for number in range(1, 1001)]
    for start in range(0, 1000, 250):
        _expect(store, [sample_log_chunk(key, start + 1, lines[start : start + 250])], [start + 251])
    for max_bytes in (1, 100, 5000):
        text = store.read(key, 240, max_bytes)
        _demand(
            text.count("\n") == 1 or len(text.encode()) <= max_bytes,
            f"read returned {len(text.encode())} bytes where {max_bytes} are allowed",
        )
        _demand(text.startswith("line 240 "), f"read from line 240 begins with {text[:40]!r}")
    whole = "".join(f"{line}\n" for line in lines)
    _demand(read_log(store, key, 1, 5000) == whole, "pieces do not make up the log")


def _check_repeated(store: LogStore) -> None:
    """Check that a repeated chunk changes nothing, a gap is answered, and an overlap leaves each line there once."""
    key = sample_log_key()
    lines = [f"line {number}" for number in range(1, 31)]
    chunk = sample_log_chunk(key, 1, lines[:10])
    _expect(store, [chunk], [11])
    _expect(store, [chunk], [11])
    _expect(store, [sample_log_chunk(key, 3, lines[2:5])], [11])
    _expect(store, [sample_log_chunk(key, 21, lines[20:])], [11])
    _demand(read_log(store, key) == chunk.text, "a repeated chunk or one behind a gap was kept")
    _go_on(store, sample_log_chunk(key, 6, lines[5:20]), lines)
    _demand(read_log(store, key).splitlines() == lines[:20], "an overlap lost lines or has them twice")
    _go_on(store, sample_log_chunk(key, 1, lines), lines)
    _demand(read_log(store, key).splitlines() == lines, "an overlap from the first line lost lines")


def _check_end(store: LogStore) -> None:
    with_lines, without = sample_log_key(1), sample_log_key(2)
    _expect(store, [sample_log_chunk(with_lines, 1, ["a", "b"], is_last=True)], [3])
    _demand(store.find(with_lines) == LogEnd(3, True), f"find returns {store.find(with_lines)} after the end")
    _expect(store, [sample_log_chunk(without, 1, ["a"])], [2])
    _demand(store.find(without) == LogEnd(2, False), f"find returns {store.find(without)} before the end")
    end = sample_log_chunk(without, 2, [], is_last=True)
    for _ in range(2):
        _expect(store, [end], [2])
        _demand(store.find(without) == LogEnd(2, True), f"find returns {store.find(without)} after the end")
    for key, text in ((with_lines, "a\nb\n"), (without, "a\n")):
        _demand(read_log(store, key) == text, "the end of a log changed its lines")
    early = sample_log_key(3)
    _expect(store, [sample_log_chunk(early, 5, ["e"], is_last=True)], [1])
    found = store.find(early)
    _demand(found is None or found == LogEnd(1, False), f"find returns {found} of a log that lacks lines")


def _check_many(store: LogStore) -> None:
    """Check one call with chunks of many logs."""
    keys = [sample_log_key(number) for number in range(1, MANY + 1)]
    chunks = [sample_log_chunk(key, 1, [f"of run {key.run_id}"]) for key in keys]
    _expect(store, chunks, [2] * MANY)
    chunks = [sample_log_chunk(key, 2, [f"more of run {key.run_id}"], is_last=True) for key in keys]
    _expect(store, chunks, [3] * MANY)
    for key in keys[:: MANY // 10]:
        _demand(
            read_log(store, key) == f"of run {key.run_id}\nmore of run {key.run_id}\n",
            f"one call with {MANY} chunks mixed up their logs",
        )
    store.delete(keys)
    _demand(store.find(keys[-1]) is None, "delete left a log")


def _check_race(store: LogStore, other: LogStore) -> None:
    """Check several nodes that append the same lines at once, in chunks of different sizes."""
    key = sample_log_key()
    lines = [f"line {number}" for number in range(1, RACED_LINES + 1)]
    failures: list[BaseException] = []

    def work(target: LogStore, size: int) -> None:
        try:
            for _ in _write(target, key, lines, size):
                pass
        except BaseException as error:
            failures.append(error)

    threads = [
        threading.Thread(target=work, args=((store, other)[number % 2], 7 + 6 * number), daemon=True)
        for number in range(WRITERS)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise AssertionError(f"appending from {WRITERS} threads fails: {failures[0]!r}") from failures[0]
    for target in (store, other):
        _demand(
            read_log(target, key).splitlines() == lines, "lines appended from several threads are not all there once"
        )


def _write(store: LogStore, key: LogKey, lines: Sequence[str], size: int) -> Iterator[int]:
    """Append lines as an executor ships them, whatever is answered; a failure is tried again."""
    line, failures = 1, 0
    while line <= len(lines):
        chunk = sample_log_chunk(key, line, lines[line - 1 : line - 1 + size])
        try:
            (answer,) = store.append([chunk])
        except Exception:
            failures += 1
            if failures > RACED_LINES:
                raise
            continue
        _demand(1 <= answer <= len(lines) + 1, f"append answered {answer} to lines {line} and following")
        line = answer
        yield line


def _check_delete(store: LogStore, other: LogStore) -> None:
    key, kept = sample_log_key(), sample_log_key()
    for each in (key, kept):
        _expect(store, [sample_log_chunk(each, 1, ["a"]), sample_log_chunk(each, 2, ["b"], is_last=True)], [2, 3])
    other.delete([key, sample_log_key()])
    for target in (store, other):
        _demand(target.find(key) is None and target.read(key, 1, PAGE) == "", "delete left lines")
        _demand(read_log(target, kept) == "a\nb\n", "delete took another log")
    store.delete([key])


def _go_on(store: LogStore, chunk: LogChunk, lines: Sequence[str]) -> None:
    """Append a chunk that overlaps, and what is missing of it then."""
    last = chunk.next_line
    for _ in range(3):
        (answer,) = store.append([chunk])
        if answer == last:
            return
        _demand(type(answer) is int and 1 <= answer < last, f"append answered {answer!r} to an overlap up to {last}")
        chunk = sample_log_chunk(chunk.key, answer, lines[answer - 1 : last - 1])
    raise AssertionError(f"a chunk up to line {last} is never kept")


def _expect(store: LogStore, chunks: Sequence[LogChunk], answers: Sequence[int]) -> None:
    found = list(store.append(chunks))
    where = f"chunks from line {chunks[0].first_line} on"
    _demand(found == list(answers), f"append answered {found[:5]} to {where}, where {list(answers)[:5]} is due")


def _demand(holds: bool, words: str) -> None:
    if not holds:
        raise AssertionError(words)
