"""Reading logs: the store first, then the executor; last lines and searches."""

from __future__ import annotations

from typing import Any

import pytest
from xwheel_run_logs import LogKey, reading
from xwheel_run_logs.reading import LogReader, Match, Matches

from tests.product.run_logs.node import LogNode
from tests.product.run_logs.stores import MemoryStore, fails, stores_of
from tests.support.rows import NOW
from xwheel.clock import ManualClock
from xwheel.errors import ExecutorUnreachableError, LogStoreError
from xwheel.model import Reporter, Run, RunState
from xwheel.plugin import LogText
from xwheel.scheduler.runs.logs import ExecutorLogs
from xwheel.storage import runs
from xwheel.storage.database.engine import Database
from xwheel.wire.contract import TEXT_NO_LOG
from xwheel.wire.messages import LogData, LogPart, LogRequest

ADDRESS = "http://127.0.0.1:9001"
NOTE = f"the store has no more, and the executor at {ADDRESS} cannot be asked"


class Executors(ExecutorLogs):
    """Executors whose logs are lists."""

    def __init__(self, node: LogNode) -> None:
        core = node.scheduler.core
        super().__init__(core.registry, core.clock.now_ms, timeout_s=1, networks=core.networks)
        self.lines: list[str] | None = []
        self.asked: list[LogRequest] = []

    def _ask(self, run: Run, address: str, request: LogRequest) -> LogData:
        self.asked.append(request)
        if self.lines is None:
            return LogData(from_line=request.from_line, to_line=request.from_line - 1, content=TEXT_NO_LOG, is_end=True)
        first = max(1, len(self.lines) + 1 - request.tail) if request.tail else request.from_line
        found = self.lines[first - 1 :]
        content = "".join(f"{line}\n" for line in found)
        return LogData(from_line=first, to_line=first + len(found) - 1, content=content, is_end=True)


class Site:
    """A run at an executor, and a log store that has a part of its log."""

    def __init__(self, db: Database) -> None:
        self.store = MemoryStore()
        self.node = LogNode(db, ManualClock(NOW), stores=[self.store], run_logs={"store": "memory"})
        self.node.group()
        self.node.register(ADDRESS)
        job = self.node.job(enabled=False)
        self.run_id = self.node.scheduler.management.run_now.run(job.id).id
        self.node.run_for(300)
        self.node.answer()
        self.executors = Executors(self.node)
        self.reader = LogReader(db, self.node.kept.stores, self.executors)

    @property
    def run(self) -> Run:
        with self.node.db.read() as conn:
            return runs.get_run(conn, self.run_id)

    def ship(self, first: int, *lines: str, is_end: bool = False) -> None:
        content = "".join(f"{line}\n" for line in lines)
        run = self.run
        part = LogPart(run_id=run.id, created_ms=run.created_ms, from_line=first, content=content, is_end=is_end)
        self.node.kept.take_logs("instance-1", [part], Reporter(None))

    def read(self, from_line: int = 1) -> LogText:
        return self.reader.read(self.run, from_line)

    def leave(self) -> None:
        self.node.scheduler.core.registry.remove("demo", ADDRESS)


@pytest.fixture
def site(db: Database) -> Site:
    return Site(db)


def test_the_store_is_read_first_and_the_executor_for_the_rest(site: Site) -> None:
    site.ship(1, "a", "b")
    site.executors.lines = ["a", "b", "c"]
    assert site.read() == LogText(1, 3, "a\nb\n", False, "store")
    assert site.executors.asked == []
    assert site.read(3) == LogText(3, 4, "c\n", False, "executor")


def test_a_complete_log_asks_no_executor(site: Site) -> None:
    site.ship(1, "a", "b", is_end=True)
    site.node.finish([site.run])
    assert site.read() == LogText(1, 3, "a\nb\n", False, "store")
    assert site.read(3) == LogText(3, 3, "", True, "store")
    assert site.reader.tail(site.run, 1) == LogText(2, 3, "b\n", True, "store")
    assert site.executors.asked == []


def test_what_the_store_has_is_read_after_the_executor_is_gone(site: Site) -> None:
    site.ship(1, "a", "b", "c")
    site.leave()
    assert site.read() == LogText(1, 4, "a\nb\nc\n", False, "store")
    assert site.read(4) == LogText(4, 4, "", False, "store", NOTE)
    assert site.reader.tail(site.run, 2) == LogText(2, 4, "b\nc\n", False, "store", NOTE)
    site.node.finish([site.run], RunState.FAILED)
    assert site.read(4) == LogText(4, 4, "", True, "store", NOTE)


def test_an_executor_with_an_empty_disk_is_no_news(site: Site) -> None:
    site.ship(1, "a")
    site.executors.lines = None
    assert site.read(2) == LogText(2, 2, "", False, "store")


def test_without_a_log_in_the_store_the_executor_is_what_there_is(site: Site) -> None:
    site.executors.lines = ["a"]
    assert site.read() == LogText(1, 2, "a\n", False, "executor")
    site.leave()
    with pytest.raises(ExecutorUnreachableError, match="no live executor"):
        site.read()


def test_a_store_that_fails_leaves_the_executor(site: Site) -> None:
    site.ship(1, "a", is_end=True)
    site.executors.lines = ["a"]
    site.store.trouble = fails
    assert site.read().content == "a\n"
    assert site.reader.tail(site.run, 1).content == "a\n"
    site.leave()
    with pytest.raises(LogStoreError, match="no space left"):
        site.read()


def test_a_log_of_a_store_that_is_not_there_is_read_at_the_executor(site: Site, db: Database) -> None:
    site.ship(1, "a", is_end=True)
    site.executors.lines = ["a"]
    reader = LogReader(db, stores_of(), site.executors)
    assert reader.read(site.run, 1) == LogText(1, 2, "a\n", False, "executor")


def test_a_run_that_was_not_sent_has_nothing(site: Site) -> None:
    job = site.node.job(enabled=False, name="other")
    planned = site.node.scheduler.management.run_now.run(job.id)
    assert site.reader.read(planned, 4) == LogText(4, 4, "", False)
    assert site.reader.tail(planned, 4) == LogText(1, 1, "", False)


def test_the_last_lines_of_a_run_that_goes_on_are_its_executors(site: Site) -> None:
    site.ship(1, "a")
    site.executors.lines = [str(number) for number in range(1, 101)]
    assert site.reader.tail(site.run, 2) == LogText(99, 101, "99\n100\n", False, "executor")
    assert [request.tail for request in site.executors.asked] == [2]
    site.executors.lines = None
    assert site.reader.tail(site.run, 2) == LogText(1, 2, "a\n", False, "store")


def test_the_last_lines_of_an_executor_that_gives_all_of_them(site: Site) -> None:
    site.executors.lines = ["a", "b", "c"]
    data = LogData(from_line=1, to_line=3, content="a\nb\nc\n", is_end=False)
    site.executors._ask = lambda *_: data  # type: ignore[method-assign]
    assert site.reader.tail(site.run, 2) == LogText(2, 4, "b\nc\n", False, "executor")


def search(site: Site, text: str, from_line: int = 1, limit: int = 10) -> Matches:
    return site.reader.search(site.run, text, from_line, limit)


def test_a_search_finds_lines_in_any_case_in_the_store_and_behind_it(site: Site) -> None:
    site.ship(1, "An Error", "fine")
    site.executors.lines = ["An Error", "fine", "errors!", "fine"]
    found = [Match(1, "An Error"), Match(3, "errors!")]
    assert search(site, "ERROR") == Matches(found, 5, False)
    assert search(site, "error", from_line=2) == Matches(found[1:], 5, False)
    assert search(site, "none") == Matches([], 5, False)


def test_a_search_goes_on_where_it_ended(site: Site) -> None:
    site.ship(1, *[f"line {number}" for number in range(1, 31)], is_end=True)
    site.node.finish([site.run])
    first = search(site, "line", limit=20)
    assert (len(first.found), first.next_line, first.is_end) == (20, 21, False)
    rest = search(site, "line", first.next_line, limit=20)
    assert [match.line for match in rest.found] == list(range(21, 31))
    assert rest.is_end


def test_a_search_goes_through_so_much_and_no_more(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "SEARCHED_BYTES", 100)
    site.ship(1, *["x" * 50] * 10, "found", is_end=True)
    store: Any = site.store
    read = store.read
    store.read = lambda key, line, _most: read(key, line, 60)
    first = search(site, "found")
    assert not first.found
    assert 1 < first.next_line < 11
    line, calls = first.next_line, 1
    while not (found := search(site, "found", line)).found:
        assert found.next_line > line
        line, calls = found.next_line, calls + 1
    assert (found.found, calls > 2) == ([Match(11, "found")], True)


def test_a_search_ends_though_the_executor_goes_round_in_circles(site: Site) -> None:
    asked: list[int] = []

    def ask(_run: Run, _address: str, request: LogRequest) -> LogData:
        asked.append(request.from_line)
        return LogData(from_line=1, to_line=0, content="x", is_end=False)

    site.executors._ask = ask  # type: ignore[method-assign]
    assert search(site, "none") == Matches([], 1, False)
    assert len(asked) == 1


def test_another_run_with_the_same_id_has_another_log(site: Site) -> None:
    site.ship(1, "a", is_end=True)
    run = site.run
    site.store.logs[LogKey(run.id, run.created_ms)] = ["a"]
    twin = runs.Run(**{name: getattr(run, name) for name in run.__struct_fields__} | {"created_ms": 5})
    site.executors.lines = ["of the twin"]
    assert site.reader.read(twin, 1).content == "of the twin\n"
