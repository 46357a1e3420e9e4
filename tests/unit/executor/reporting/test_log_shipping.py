"""Shipping of run logs, step by step, to a scheduler made of a list."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import cast

import pytest

from xwheel.clock import ManualClock
from xwheel.errors import WireError
from xwheel.executor.logs.run_log import PAGE_BYTES, RunLog, RunLogs
from xwheel.executor.reporting import log_shipping
from xwheel.executor.reporting.admin_client import AdminClient, NotTakenError, TooLargeError
from xwheel.executor.reporting.log_shipping import (
    IDLE_MS,
    INTERVAL_MS,
    LEAST_BYTES,
    MAX_ASKS,
    MAX_BYTES,
    MAX_PARTS,
    LogShipping,
)
from xwheel.wire.messages import LogPart, LogReceipt

CREATED_MS = 1_700_000_000_000


class Scheduler:
    """Keeps lines as a log store does.

    Attributes:
        requests: What was sent.
        down: It does not answer.
        claims: What it says of a run instead of the truth.
    """

    def __init__(self) -> None:
        self.requests: list[list[LogPart]] = []
        self.lines: dict[int, list[str]] = {}
        self.ended: set[int] = set()
        self.down = False
        self.most = 10**9
        self.damaged: set[int] = set()
        self.claims: dict[int, LogReceipt | None] = {}

    def ship_logs(self, parts: Sequence[LogPart]) -> list[LogReceipt]:
        self.requests.append(list(parts))
        if self.down:
            raise WireError("down")
        if self.damaged & {part.run_id for part in parts}:
            raise NotTakenError("HTTP status 503")
        if sum(len(part.content) for part in parts) > self.most:
            raise TooLargeError("HTTP status 413")
        receipts = [self._keep(part) for part in parts]
        return [receipt for receipt in receipts if receipt is not None]

    def _keep(self, part: LogPart) -> LogReceipt | None:
        if part.run_id in self.claims:
            return self.claims[part.run_id]
        lines = self.lines.setdefault(part.run_id, [])
        skipped = len(lines) + 1 - part.from_line
        if skipped >= 0:
            lines += part.content.split("\n")[:-1][skipped:]
            if part.is_end:
                self.ended.add(part.run_id)
        return LogReceipt(run_id=part.run_id, next_line=len(lines) + 1, settled=part.run_id in self.ended)


class Shipper:
    """A folder of logs, and what ships them."""

    def __init__(self, folder: Path) -> None:
        self.clock = ManualClock()
        self.scheduler = Scheduler()
        self.earlier: list[tuple[int, int, Path]] = []
        self.shipping = LogShipping(cast(AdminClient, self.scheduler), self.clock, lambda: self.earlier)
        self.logs = RunLogs(folder, self.clock, self.shipping.begun)
        self.shipping.want(True)

    def open(self, run_id: int) -> RunLog:
        return self.logs.open(run_id, CREATED_MS)

    def step(self) -> int:
        return self.shipping.step(self.clock.now_ms())

    def run(self, steps: int = 20) -> None:
        """Step until there is nothing to do."""
        for _ in range(steps):
            wait_ms = self.step()
            if wait_ms >= IDLE_MS:
                return
            self.clock.advance(wait_ms)


@pytest.fixture
def shipper(tmp_path: Path) -> Iterator[Shipper]:
    found = Shipper(tmp_path)
    yield found
    found.logs.close()


def test_lines_are_shipped_while_they_are_written(shipper: Shipper) -> None:
    log = shipper.open(1)
    log.raw("first\nsec")
    log.flush()
    assert shipper.step() == 0
    assert shipper.scheduler.lines == {1: ["first"]}
    assert shipper.step() == INTERVAL_MS  # the second line is not whole
    log.raw("ond\nthird\n")
    log.flush()
    shipper.clock.advance(INTERVAL_MS)
    shipper.step()
    assert shipper.scheduler.lines == {1: ["first", "second", "third"]}
    log.raw("no end")
    log.close()
    shipper.run()
    assert shipper.scheduler.lines == {1: ["first", "second", "third", "no end"]}
    assert shipper.scheduler.ended == {1}
    assert shipper.step() == IDLE_MS


def test_a_run_that_is_over_is_one_request(shipper: Shipper) -> None:
    log = shipper.open(1)
    log.raw("all\n")
    log.close()
    shipper.step()
    (parts,) = shipper.scheduler.requests
    assert parts == [LogPart(run_id=1, created_ms=CREATED_MS, from_line=1, content="all\n", is_end=True)]
    assert shipper.step() == IDLE_MS


def test_n36_lines_of_a_run_that_ends_while_its_log_is_read_are_shipped(
    shipper: Shipper, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its last line comes, and it is closed, after the reader saw the end of the file."""
    log = shipper.open(1)
    log.raw("first\n")
    log.flush()
    read = log_shipping.read_chunk

    def read_and_end(path: Path, offset: int, size: int, *, live: bool) -> tuple[str, int, int]:
        found = read(path, offset, size, live=live)
        if not found[1] and not log.is_closed:
            log.raw("last\n")
            log.close()
        return found

    monkeypatch.setattr(log_shipping, "read_chunk", read_and_end)
    shipper.run()
    assert shipper.scheduler.lines == {1: ["first", "last"]}
    assert shipper.scheduler.ended == {1}


def test_a_run_that_begins_wakes_the_loop_where_logs_are_wanted(shipper: Shipper) -> None:
    shipper.shipping.wakeup.clear()
    log = shipper.open(1)
    log.raw("first\n")
    log.flush()
    assert shipper.shipping.wakeup.is_set()
    shipper.shipping.want(False)
    shipper.shipping.wakeup.clear()
    log = shipper.open(2)
    log.raw("first\n")
    log.flush()
    assert not shipper.shipping.wakeup.is_set()


def test_a_silent_run_ships_nothing(shipper: Shipper) -> None:
    shipper.open(1).close()
    assert shipper.step() == IDLE_MS
    assert shipper.scheduler.requests == []


def test_a_log_that_is_opened_again_is_over_when_that_one_is_closed(shipper: Shipper) -> None:
    log = shipper.open(1)
    log.raw("first\n")
    log.flush()
    shipper.run()
    log.close()
    again = shipper.open(1)
    again.raw("second\n")
    again.flush()
    shipper.run()
    assert (shipper.scheduler.lines, shipper.scheduler.ended) == ({1: ["first", "second"]}, set())
    again.close()
    shipper.run()
    assert shipper.scheduler.ended == {1}


def test_many_runs_share_requests(shipper: Shipper) -> None:
    for number in range(1, MAX_PARTS + 101):
        log = shipper.open(number)
        log.raw(f"of run {number}\n")
        log.close()
    shipper.run()
    assert [len(parts) for parts in shipper.scheduler.requests] == [MAX_PARTS, 100]
    assert len(shipper.scheduler.ended) == MAX_PARTS + 100


def test_much_text_is_several_requests_and_all_runs_get_their_turn(shipper: Shipper) -> None:
    for number in (1, 2):
        log = shipper.open(number)
        log.raw("x" * 99 + "\n")
        for _ in range(40):
            log.raw(("y" * 999 + "\n") * 60)
        log.close()
    shipper.run(30)
    sizes = [sum(len(part.content) for part in parts) for parts in shipper.scheduler.requests]
    assert max(sizes) <= 2 * MAX_BYTES
    assert [len(lines) for lines in shipper.scheduler.lines.values()] == [2401, 2401]
    assert {part.run_id for parts in shipper.scheduler.requests[:2] for part in parts} == {1, 2}


def test_a_scheduler_that_takes_only_small_requests_gets_such(shipper: Shipper) -> None:
    shipper.scheduler.most = 2 * LEAST_BYTES
    log = shipper.open(1)
    for _ in range(40):
        log.raw(("y" * 999 + "\n") * 60)
    log.close()
    shipper.run(60)
    assert len(shipper.scheduler.lines[1]) == 2400
    assert shipper.scheduler.ended == {1}


def test_a_line_that_is_too_large_keeps_no_other_log_waiting(
    shipper: Shipper, caplog: pytest.LogCaptureFixture
) -> None:
    shipper.scheduler.most = 2 * LEAST_BYTES
    for number, line in ((1, "z" * 500_000), (2, "short")):
        log = shipper.open(number)
        log.raw(f"{line}\n")
        log.close()
    shipper.run(60)
    assert shipper.scheduler.lines == {2: ["short"]}
    assert "the log of run 1 stays here for now: HTTP status 413" in caplog.text


def test_numbers_of_lines_are_those_of_reading(shipper: Shipper) -> None:
    log = shipper.open(1)
    log.raw("short\n" + "z" * (2 * PAGE_BYTES) + "\nlast\n")
    log.close()
    shipper.run()
    texts: list[str] = []
    while read := shipper.logs.read(1, CREATED_MS, len(texts) + 1, live=False):
        texts += read.content.split("\n")[:-1]
        if read.is_end:
            break
    assert shipper.scheduler.lines[1] == texts
    assert [len(line) for line in texts] == [5, PAGE_BYTES + len(" … (a line of 2097152 bytes)"), 4]


def test_while_the_scheduler_is_away_logs_wait(shipper: Shipper, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    shipper.scheduler.down = True
    log = shipper.open(1)
    log.raw("first\n")
    log.close()
    waits = []
    for _ in range(10):
        waits.append(shipper.step())
        shipper.clock.advance(waits[-1])
    assert waits == [200, 400, 800, 1600, 3200, 6400, 10_000, 10_000, 10_000, 10_000]
    shipper.scheduler.down = False
    shipper.run()
    assert shipper.scheduler.lines == {1: ["first"]}
    said = [record.getMessage() for record in caplog.records]
    assert said == ["1 logs wait for the scheduler: down", "logs are shipped again"]


def test_a_scheduler_that_lost_lines_gets_them_again(shipper: Shipper) -> None:
    log = shipper.open(1)
    log.raw("1\n2\n3\n")
    log.flush()
    shipper.step()
    shipper.scheduler.lines[1] = ["1"]
    log.raw("4\n")
    log.close()
    shipper.run()
    assert shipper.scheduler.lines == {1: ["1", "2", "3", "4"]}


def test_a_scheduler_that_has_more_already_is_followed(shipper: Shipper) -> None:
    shipper.scheduler.lines[1] = ["1", "2"]
    log = shipper.open(1)
    log.raw("1\n2\n3\n")
    log.close()
    shipper.run()
    assert shipper.scheduler.lines == {1: ["1", "2", "3"]}


def test_a_scheduler_that_never_takes_a_line_is_asked_ever_less(shipper: Shipper) -> None:
    shipper.scheduler.claims[1] = LogReceipt(run_id=1, next_line=1)
    other = shipper.open(2)
    other.raw("taken\n")
    log = shipper.open(1)
    log.raw("first\n")
    log.close()
    other.close()
    began_ms = shipper.clock.monotonic_ms()
    while shipper.clock.monotonic_ms() < began_ms + 600_000:
        shipper.clock.advance(max(1, shipper.step()))
    assert shipper.scheduler.ended == {2}
    assert len(shipper.scheduler.requests) < 20


@pytest.mark.parametrize("next_line", [5, 2**52])
def test_a_scheduler_that_claims_more_than_there_is_is_not_believed(
    shipper: Shipper, next_line: int, caplog: pytest.LogCaptureFixture
) -> None:
    shipper.scheduler.claims[1] = LogReceipt(run_id=1, next_line=next_line)
    log = shipper.open(1)
    log.raw("first\n")
    log.flush()
    shipper.step()
    assert f"has 1 lines, but the scheduler's store wants line {next_line}" in caplog.text
    del shipper.scheduler.claims[1]
    log.close()
    shipper.clock.advance(600_000)
    shipper.run()
    assert shipper.scheduler.lines == {1: ["first"]}


def test_a_run_without_a_receipt_is_sent_again(shipper: Shipper) -> None:
    shipper.scheduler.claims[1] = None
    log = shipper.open(1)
    log.raw("first\n")
    log.close()
    shipper.step()
    shipper.scheduler.claims.clear()
    shipper.run()
    assert shipper.scheduler.lines == {1: ["first"]}


def test_a_log_that_is_not_wanted_is_dropped(shipper: Shipper, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    shipper.scheduler.claims[1] = LogReceipt(run_id=1, settled=True, message="no run has this id and time")
    log = shipper.open(1)
    log.raw("first\n")
    log.close()
    shipper.run()
    assert len(shipper.scheduler.requests) == 1
    assert "the log of run 1 stays here: no run has this id and time" in caplog.text


def test_a_deleted_file_ends_what_was_shipped(shipper: Shipper) -> None:
    log = shipper.open(1)
    log.raw("first\n")
    log.flush()
    shipper.step()
    log.path.unlink()
    log.close()
    shipper.run()
    assert shipper.scheduler.lines == {1: ["first"]}
    assert shipper.scheduler.ended == {1}


def test_after_a_start_the_scheduler_is_asked_how_far_it_is(tmp_path: Path) -> None:
    first = Shipper(tmp_path)
    for number in (1, 2, 3):
        log = first.open(number)
        log.raw("1\n2\n3\n")
        log.close()
    first.logs.close()
    second = Shipper(tmp_path)
    second.earlier = [(number, CREATED_MS, tmp_path / "x") for number in ()]
    found = [(number, CREATED_MS, first.logs.find(number, CREATED_MS)) for number in (1, 2, 3)]
    second.earlier = [(number, created_ms, path) for number, created_ms, path in found if path]
    second.scheduler.lines = {1: ["1", "2"], 2: ["1", "2", "3"]}
    second.scheduler.ended = {2}
    second.run()
    asked, *sent = second.scheduler.requests
    assert [(part.run_id, part.asks) for part in asked] == [(1, True), (2, True), (3, True)]
    assert {part.run_id: part.from_line for parts in sent for part in parts} == {1: 3, 3: 1}
    assert second.scheduler.lines == {number: ["1", "2", "3"] for number in (1, 2, 3)}
    assert second.scheduler.ended == {1, 2, 3}
    second.logs.close()


def test_a_log_that_the_store_cannot_take_keeps_no_other_waiting(shipper: Shipper) -> None:
    shipper.scheduler.damaged = {3}
    for number in range(1, 9):
        log = shipper.open(number)
        log.raw(f"of run {number}\n")
        log.close()
    shipper.run(60)
    assert shipper.scheduler.ended == {1, 2, 4, 5, 6, 7, 8}
    shipper.scheduler.damaged = set()
    shipper.clock.advance(60_000)
    shipper.run()
    assert shipper.scheduler.ended == set(range(1, 9))


def test_a_log_that_is_not_taken_is_tried_by_itself(shipper: Shipper) -> None:
    def write(*numbers: int) -> None:
        for number in numbers:
            log = shipper.open(number)
            log.raw(f"of run {number}\n")
            log.close()

    shipper.scheduler.damaged = {1}
    write(1)
    shipper.run(3)
    for first in range(2, 2002, 100):  # requests are large again
        write(*range(first, first + 100))
        shipper.run(3)
    write(*range(2002, 2102))
    shipper.clock.advance(120_000)
    shipper.scheduler.requests.clear()
    shipper.run(10)
    assert shipper.scheduler.ended == set(range(2, 2102))
    refused = [parts for parts in shipper.scheduler.requests if any(part.run_id == 1 for part in parts)]
    assert refused
    assert {len(parts) for parts in refused} == {1}


def test_a_log_that_is_not_taken_is_not_sent_behind_another(shipper: Shipper) -> None:
    shipper.scheduler.damaged = {1}
    growing = shipper.open(2)
    growing.raw("first\n")
    growing.flush()
    shipper.run(3)
    for number in (1, 3, 4, 5):
        log = shipper.open(number)
        log.raw("a line\n")
        log.close()
        shipper.clock.advance(INTERVAL_MS)
        shipper.run(4)
    growing.raw("second\n")
    growing.flush()
    shipper.clock.advance(120_000)
    shipper.scheduler.requests.clear()
    shipper.step()
    assert [[part.run_id for part in parts] for parts in shipper.scheduler.requests] == [[2]]


def test_what_ended_while_no_logs_were_wanted_is_shipped_after_all(shipper: Shipper, tmp_path: Path) -> None:
    shipper.step()  # logs of before the start were asked about
    log = shipper.open(1)
    log.raw("first\n")
    shipper.shipping.want(False)
    log.close()
    shipper.step()
    found = shipper.logs.find(1, CREATED_MS)
    assert found is not None
    shipper.earlier = [(1, CREATED_MS, found)]
    shipper.shipping.want(True)
    shipper.run()
    assert shipper.scheduler.lines == {1: ["first"]}


def test_questions_are_few_in_one_request(shipper: Shipper, tmp_path: Path) -> None:
    shipper.earlier = [(number, CREATED_MS, tmp_path / "none") for number in range(1, 121)]
    shipper.scheduler.ended = set(range(1, 121))
    shipper.run()
    assert [len(parts) for parts in shipper.scheduler.requests] == [MAX_ASKS, MAX_ASKS, 20]


def test_nothing_is_shipped_to_a_scheduler_without_a_store(shipper: Shipper) -> None:
    shipper.shipping.want(False)
    for number in (1, 2):
        log = shipper.open(number)
        log.raw("first\n")
        log.flush()
    log.close()
    assert shipper.step() > INTERVAL_MS
    assert shipper.scheduler.requests == []
    shipper.shipping.want(True)  # what still grows goes there after all, from its first line on
    shipper.step()
    assert shipper.scheduler.lines == {1: ["first"]}


def test_of_too_many_logs_the_oldest_stay(
    shipper: Shipper, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(log_shipping, "MAX_LOGS", 3)
    shipper.scheduler.down = True
    for number in range(1, 6):
        log = shipper.open(number)
        log.raw("first\n")
        log.close()
    shipper.step()
    shipper.scheduler.down = False
    shipper.clock.advance(60_000)
    shipper.run()
    assert shipper.scheduler.ended == {3, 4, 5}
    assert "1 more stay here" in caplog.text


def test_a_drain_ships_what_is_left(shipper: Shipper) -> None:
    for number in (1, 2):
        log = shipper.open(number)
        log.raw("first\n")
        log.flush()
    shipper.step()
    log.raw("last\n")
    log.close()
    assert shipper.shipping.finish(5)  # the other one is still written
    assert shipper.scheduler.lines == {1: ["first"], 2: ["first", "last"]}
    assert shipper.scheduler.ended == {2}


def test_a_drain_ends_though_the_scheduler_is_away(shipper: Shipper) -> None:
    shipper.scheduler.down = True
    log = shipper.open(1)
    log.raw("first\n")
    log.close()
    before_ms = shipper.clock.monotonic_ms()
    assert not shipper.shipping.finish(5)
    assert shipper.clock.monotonic_ms() - before_ms < 6000
