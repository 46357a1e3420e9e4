"""Logs of executors that do not ship them: what is asked when, and what is kept of the answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from xwheel_run_logs import LogChunk, LogKey, storage
from xwheel_run_logs.dispatched import FIRST_MS
from xwheel_run_logs.fetch import GIVE_UP_MS, LONGEST_MS, usable_lines
from xwheel_run_logs.storage import RunLogRow

from tests.product.run_logs.node import LogNode
from tests.product.run_logs.stores import MemoryStore, fails
from tests.support.network import Network
from tests.support.rows import NOW
from xwheel.clock import ManualClock
from xwheel.model import Run, RunState
from xwheel.scheduler.records import Fate
from xwheel.storage import runs
from xwheel.storage.database.engine import Database
from xwheel.wire.contract import TEXT_NO_LOG
from xwheel.wire.messages import LogData

ADDRESS = "http://127.0.0.1:9001"
INTERVAL_MS = 5000


class Site:
    """A node with a log store, and a Java executor with log files.

    Attributes:
        files: The lines of each run's log, as the executor has them.
        answer: What it says instead.
    """

    def __init__(self, db: Database, **settings: Any) -> None:
        self.clock = ManualClock(NOW)
        self.store = MemoryStore()
        self.files: dict[int, str] = {}
        self.answer: dict[str, Any] | int | None = None
        self.node = LogNode(db, self.clock, stores=[self.store], run_logs={"store": "memory", **settings})
        self.network = self._attach(self.node)
        self.node.group()
        self.beat()

    def _attach(self, node: LogNode) -> Network:
        network = Network(self._reply)
        node.plugs["logs"].behind = network
        return network

    def _reply(self, _address: str, path: str, body: dict[str, Any]) -> dict[str, Any] | int | None:
        assert path == "/log"
        if self.answer is not None:
            return None if self.answer == 0 else self.answer
        text = self.files.get(body["logId"])
        if text is None:
            data = {"fromLineNum": body["fromLineNum"], "toLineNum": 0, "logContent": TEXT_NO_LOG, "isEnd": True}
            return {"code": 200, "data": data}
        lines = text.split("\n")
        lines = [f"{line}\n" for line in (lines[:-1] if text.endswith("\n") else lines)]
        found = lines[body["fromLineNum"] - 1 :]
        return {
            "code": 200,
            "data": {
                "fromLineNum": body["fromLineNum"],
                "toLineNum": body["fromLineNum"] + len(found) - 1 if found else 0,
                "logContent": "".join(found),
                "isEnd": False,
            },
        }

    def beat(self) -> None:
        self.node.register(ADDRESS, kind="foreign", instance="", boot="")

    def start(self, name: str = "job", **fields: Any) -> Run:
        """Return a run that is at the executor."""
        job = self.node.job(enabled=False, name=name, **fields)
        run_id = self.node.scheduler.management.run_now.run(job.id).id
        self.node.run_for(300)
        self.node.answer()
        return self.load(run_id)

    def load(self, run_id: int) -> Run:
        with self.node.db.read() as conn:
            return runs.get_run(conn, run_id)

    def pass_time(self, duration_ms: int, *, beats: bool = True, step_ms: int = 1000) -> None:
        """Let time pass, and fetch as often as is asked for."""
        end_ms = self.clock.now_ms() + duration_ms
        while self.clock.now_ms() < end_ms:
            for _ in range(300):
                wait_ms = self.node.kept.step(self.clock.now_ms())
                if wait_ms:
                    break
            self.clock.advance(step_ms)
            self.node.keep_lease()
            self.node.scheduler.core.registry.step(self.clock.now_ms())
            if beats:
                self.beat()

    def lines(self, run: Run) -> list[str]:
        return self.store.logs.get(LogKey(run.id, run.created_ms), [])

    def row(self, run: Run) -> RunLogRow | None:
        with self.node.db.read() as conn:
            return storage.find_log(conn, run.id)

    def asked(self) -> list[int]:
        """Take from which lines it was asked since the last time."""
        found = [body["fromLineNum"] for _, _, body in self.network.calls]
        self.network.calls.clear()
        return found


@pytest.fixture
def site(db: Database) -> Site:
    return Site(db)


def test_a_run_that_is_over_is_fetched_once_to_its_end(site: Site) -> None:
    run = site.start()
    site.files[run.id] = "a\nb\nc\n"
    site.node.finish([run])
    site.pass_time(FIRST_MS + 3000)
    assert site.lines(run) == ["a", "b", "c"]
    assert site.asked() == [1, 4]
    row = site.row(run)
    assert row is not None
    assert (row.ended, row.fetch_ms) == (True, None)
    site.pass_time(60_000)
    assert site.asked() == []


def test_an_open_run_is_fetched_while_it_writes(site: Site) -> None:
    run = site.start()
    site.files[run.id] = "a\nb\nhal"
    site.pass_time(FIRST_MS + 1000)
    assert site.lines(run) == ["a", "b"]  # the last line may be written still
    site.files[run.id] = "a\nb\nhalf\nd\n"
    site.pass_time(INTERVAL_MS + 1000)
    assert site.lines(run) == ["a", "b", "half"]
    site.node.finish([run])
    site.pass_time(LONGEST_MS)
    assert site.lines(run) == ["a", "b", "half", "d"]
    row = site.row(run)
    assert row is not None
    assert row.ended


def test_a_run_that_is_open_for_long_is_asked_less_often(site: Site) -> None:
    run = site.start()
    site.files[run.id] = "a\n"
    site.pass_time(60_000)
    early = len(site.asked())
    site.pass_time(3_600_000, step_ms=20_000)
    site.asked()
    site.pass_time(600_000, step_ms=5000)
    assert 8 <= early <= 14
    assert len(site.asked()) == 10


def test_where_to_go_on_is_known_after_a_crash(site: Site) -> None:
    run = site.start()
    site.files[run.id] = "a\nb\nc\n"
    site.pass_time(FIRST_MS + 1000)
    site.node.crash()
    site.node = LogNode(site.node.db, site.clock, stores=[site.store], run_logs={"store": "memory"})
    site.network = site._attach(site.node)
    site.beat()
    site.pass_time(2 * INTERVAL_MS)
    assert site.asked()[0] == 3
    site.node.finish([run])
    site.pass_time(LONGEST_MS)
    assert site.lines(run) == ["a", "b", "c"]


def test_a_run_without_a_log_has_none(site: Site) -> None:
    run = site.start()
    site.node.finish([run])
    site.pass_time(10_000)
    assert site.lines(run) == []
    row = site.row(run)
    assert row is not None
    assert row.ended


def test_a_run_that_never_left_has_no_row_for_long(site: Site) -> None:
    job = site.node.job(enabled=False)
    run_id = site.node.scheduler.management.run_now.run(job.id).id
    site.node.run_for(300)
    site.node.answer(Fate.REFUSED, "no")
    run = site.load(run_id)
    assert run.state is RunState.REFUSED
    assert site.row(run) is not None
    site.pass_time(10_000)
    assert site.row(run) is None
    assert site.asked() == []


def test_an_executor_that_is_away_is_asked_again_and_in_the_end_given_up(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    run = site.start()
    site.files[run.id] = "a\nb\n"
    site.pass_time(FIRST_MS + 1000)
    site.answer = 0  # no answer
    site.node.finish([run])
    site.pass_time(GIVE_UP_MS + 60_000, step_ms=5000)
    row = site.row(run)
    assert row is not None
    assert (row.ended, row.fetch_ms) == (False, None)
    assert f"the log of run {run.id} is incomplete: timed out at {ADDRESS}" in caplog.text
    asked = len(site.asked())
    assert 50 <= asked <= 70
    site.pass_time(60_000)
    assert site.asked() == []
    assert site.lines(run) == ["a"]


def test_an_executor_that_left_is_not_asked(site: Site) -> None:
    run = site.start()
    site.files[run.id] = "a\n"
    site.node.scheduler.core.registry.remove("demo", ADDRESS)
    site.pass_time(30_000, beats=False)
    assert site.asked() == []
    site.beat()
    site.node.finish([run])
    site.pass_time(30_000)
    assert site.lines(run) == ["a"]


@pytest.mark.parametrize(
    "said", [500, {"code": 500, "msg": "no"}, {"code": 200, "data": "text"}, {"code": 200, "data": {"logContent": []}}]
)
def test_an_answer_that_is_none_is_asked_for_again(site: Site, said: dict[str, Any] | int) -> None:
    run = site.start()
    site.files[run.id] = "a\n"
    site.node.finish([run])
    site.answer = said
    site.pass_time(30_000)
    assert site.lines(run) == []
    site.answer = None
    site.pass_time(20_000)
    assert site.lines(run) == ["a"]


def test_a_store_that_fails_gets_the_lines_later_and_runs_go_on(site: Site) -> None:
    run = site.start()
    site.files[run.id] = "a\n"
    site.node.finish([run])
    site.store.trouble = fails
    site.pass_time(60_000)
    other = site.start("other")
    assert other.state is RunState.RUNNING
    site.store.trouble = lambda: None
    site.pass_time(30_000)
    assert site.lines(run) == ["a"]
    row = site.row(run)
    assert row is not None
    assert row.ended


def test_a_log_that_the_store_cannot_take_keeps_no_other_waiting(site: Site) -> None:
    made = [site.start(f"job {number}") for number in range(4)]
    for run in made:
        site.files[run.id] = "a\n"
    site.node.finish(made)
    append = site.store.append

    def refuse(chunks: Sequence[LogChunk]) -> Sequence[int]:
        if any(chunk.key.run_id == made[1].id for chunk in chunks):
            raise OSError("damaged")
        return append(chunks)

    site.store.append = refuse  # type: ignore[method-assign]
    site.pass_time(30_000)
    assert [site.lines(run) for run in made] == [["a"], [], ["a"], ["a"]]


def test_a_store_that_never_takes_a_line_is_not_asked_in_a_hurry(site: Site) -> None:
    run = site.start()
    site.files[run.id] = "a\n"
    site.node.finish([run])
    site.store.append = lambda chunks: [1] * len(chunks)  # type: ignore[method-assign]
    site.pass_time(60_000)
    assert 3 <= len(site.asked()) <= 8


def test_after_a_long_outage_executors_have_time_to_come_back(site: Site) -> None:
    run = site.start()
    site.files[run.id] = "a\n"
    site.node.finish([run])
    site.node.crash()
    site.clock.advance(2 * GIVE_UP_MS)
    site.node = LogNode(site.node.db, site.clock, stores=[site.store], run_logs={"store": "memory"})
    site.network = site._attach(site.node)
    site.pass_time(40_000, beats=False)
    site.beat()
    site.pass_time(40_000)
    assert site.lines(run) == ["a"]


def test_one_slow_executor_does_not_hold_up_the_others(site: Site) -> None:
    slow = [site.start(f"slow {number}") for number in range(10)]
    other = "http://127.0.0.1:9003"
    site.node.scheduler.core.registry.remove("demo", ADDRESS)
    site.node.register(other, kind="foreign", instance="", boot="")
    quick = site.start("quick")
    assert quick.address == other
    site.beat()
    due = {"now_ms": site.clock.now_ms() + 60_000, "limit": 4}
    with site.node.db.read() as conn:
        first = storage.list_due(conn, range(64), **due)
        others = storage.list_due(conn, range(64), **due, busy=[ADDRESS])
        rest = storage.list_due(conn, range(64), **due, asked=[run.id for run in slow[:9]])
    assert [log.id for log in first] == [run.id for run in slow[:4]]
    assert [log.id for log in others] == [quick.id]
    assert [log.id for log in rest] == [slow[9].id, quick.id]


def test_many_logs_are_few_calls_of_the_store(site: Site) -> None:
    made = [site.start(f"job {number}") for number in range(12)]
    for run in made:
        site.files[run.id] = "a\n"
    site.node.finish(made)
    site.pass_time(30_000)
    assert all(site.lines(run) == ["a"] for run in made)
    assert max(len(chunks) for chunks in site.store.appended) == 4  # at once at one address


def test_nothing_is_fetched_if_the_settings_say_so(db: Database) -> None:
    site = Site(db, fetch=False)
    run = site.start()
    assert site.row(run) is None
    site.pass_time(20_000)
    assert site.asked() == []


def test_an_executor_of_xwheel_is_not_asked(site: Site) -> None:
    site.node.scheduler.core.registry.remove("demo", ADDRESS)
    site.node.register("http://127.0.0.1:9002")
    run = site.start()
    assert run.instance
    assert site.row(run) is None


def test_a_broadcast_has_a_log_for_each_shard(site: Site) -> None:
    site.node.register("http://127.0.0.1:9003", kind="foreign", instance="", boot="")
    first = site.start(route_strategy="SHARDING_BROADCAST")
    shards = site.node.runs(first.job_id)
    assert len(shards) == 2
    assert all(site.row(run) for run in shards)


def test_long_lines_are_cut_and_long_answers_are_several(site: Site) -> None:
    run = site.start()
    long = "x" * 400_000
    site.files[run.id] = "".join(f"{number} {long}\n" for number in range(1, 6))
    site.node.finish([run])
    site.pass_time(30_000)
    lines = site.lines(run)
    assert [line.split()[0] for line in lines] == ["1", "2", "3", "4", "5"]
    assert all(line.endswith(" … (a line of 400002 characters)") for line in lines)
    assert len(site.store.appended) >= 3


@pytest.mark.parametrize(
    ("content", "from_line", "to_line", "open_lines", "final_lines"),
    [
        ("a\nb\n", 3, 4, "a\n", "a\nb\n"),
        ("a\nb", 3, 4, "a\n", "a\nb\n"),
        ("a\n", 3, 9, "", "a\n"),  # counts further than it gives
        ("a\nb\nc\n", 3, 4, "a\n", "a\nb\n"),  # gives more than it counts
        ("a\nb\n", 3, 2, "", ""),  # nothing new, by its own count
        ("a\nb\n", 1, 2, "", ""),  # other lines than were asked for
        ("a\nb\nc\nd\n", 1, 4, "", ""),
        ("", 3, 3, "", ""),
        (TEXT_NO_LOG, 3, 3, "", ""),
        ("a\r\nb\r\n", 3, 4, "a\r\n", "a\r\nb\r\n"),
    ],
)
def test_which_lines_of_an_answer_count(
    content: str, from_line: int, to_line: int, open_lines: str, final_lines: str
) -> None:
    data = LogData(from_line=from_line, to_line=to_line, content=content, is_end=False)
    assert usable_lines(3, data, is_final=False) == open_lines
    assert usable_lines(3, data, is_final=True) == final_lines
