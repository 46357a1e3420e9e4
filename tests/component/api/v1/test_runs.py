"""Runs and their logs over the management API."""

from __future__ import annotations

import threading
from contextlib import ExitStack, nullcontext
from typing import Any

import pytest

from tests.component.api.conftest import Api
from tests.support.rows import NOW, make_executor, make_run
from xwheel.api.http.places import Places
from xwheel.errors import BusyError, ExecutorRefusedError, ExecutorUnreachableError, WireError
from xwheel.model import Run, RunState
from xwheel.wire.messages import LogData

ADDRESS = "http://10.0.0.1:9999"


def sent(api: Api, state: RunState = RunState.RUNNING) -> None:
    """Insert run 1 at a live executor."""
    group = api.group("demo")
    api.parts.registry.register("demo", make_executor(ADDRESS), NOW)
    api.runs(make_run(1, group_id=group, state=state, address=ADDRESS))


def answering(data: LogData) -> Any:
    return lambda run, from_line: data


def failing(error: Exception) -> Any:
    def fail(run: Run, from_line: int) -> LogData:
        raise error

    return fail


def test_a_run_shows_what_happened_but_no_machinery(api: Api) -> None:
    api.runs(make_run(7, state=RunState.FAILED, message="<b>", address=ADDRESS, result_code=500))
    run = api.call("GET", "runs/7").json
    assert (run["id"], run["state"], run["message"], run["result_code"]) == (7, "failed", "<b>", 500)
    assert {"epoch", "partition", "check_ms"}.isdisjoint(run)


def test_runs_are_listed_latest_first_and_paged_without_gaps(api: Api) -> None:
    # three due times, each shared by several runs, so that pages break inside one
    api.runs(*(make_run(number, due_ms=NOW + number // 4, job_id=1 + number % 2) for number in range(1, 12)))
    seen: list[int] = []
    params: dict[str, Any] = {"limit": 3}
    while True:
        page = api.call("GET", "runs", params=params).json
        seen += [item["id"] for item in page["items"]]
        if page["next"] is None:
            break
        params["after"] = page["next"]
    assert seen == list(range(11, 0, -1))
    odd = api.call("GET", "runs", params={"job_id": 2}).json["items"]
    assert [item["id"] for item in odd] == [11, 9, 7, 5, 3, 1]


@pytest.mark.parametrize("state", list(RunState))
def test_runs_are_filtered_by_state(api: Api, state: RunState) -> None:
    asked = {RunState.DISPATCHING, RunState.RUNNING}
    api.runs(
        *(
            make_run(number, state=other, check_ms=NOW if other in asked else None)
            for number, other in enumerate(RunState, 1)
        )
    )
    (item,) = api.call("GET", "runs", params={"state": state.value}).json["items"]
    assert item["state"] == state


def test_a_run_that_is_not_there_is_404(api: Api) -> None:
    for path in ("runs/9", "runs/9/log"):
        answer = api.call("GET", path)
        assert (answer.status_code, answer.json["detail"]) == (404, "run 9 does not exist")


@pytest.mark.parametrize(("state", "is_end"), [(RunState.PLANNED, False), (RunState.CANCELLED, True)])
def test_the_log_of_a_run_that_was_not_sent_is_empty(api: Api, state: RunState, is_end: bool) -> None:
    api.runs(make_run(1, state=state))
    assert api.call("GET", "runs/1/log", params={"from_line": 4}).json == {
        "run_id": 1,
        "from_line": 4,
        "next_line": 4,
        "content": "",
        "is_end": is_end,
        "place": "",
        "note": "",
    }


def test_a_log_is_read_at_its_executor(api: Api) -> None:
    sent(api)
    asked: list[tuple[int, str | None, int]] = []

    def logs(run: Run, from_line: int) -> LogData:
        asked.append((run.id, run.address, from_line))
        return LogData(from_line=from_line, to_line=5, content="three\nfour\nfive\n", is_end=False)

    api.asked.logs = logs
    answer = api.call("GET", "runs/1/log", params={"from_line": 3})
    assert answer.json == {
        "run_id": 1,
        "from_line": 3,
        "next_line": 6,
        "content": "three\nfour\nfive\n",
        "is_end": False,
        "place": "executor",
        "note": "",
    }
    assert asked == [(1, ADDRESS, 3)]


@pytest.mark.parametrize(
    ("state", "data", "next_line", "is_end"),
    [
        # pyxxl says "end" at the end of the file, even while the run goes on
        (RunState.RUNNING, LogData(from_line=3, to_line=3, content="", is_end=True), 3, False),
        (RunState.RUNNING, LogData(from_line=3, to_line=9, content="", is_end=False), 3, False),
        (RunState.RUNNING, LogData(from_line=3, to_line=2, content="", is_end=False), 3, False),
        (RunState.SUCCEEDED, LogData(from_line=3, to_line=4, content="a\nb", is_end=False), 5, False),
        (RunState.SUCCEEDED, LogData(from_line=3, to_line=4, content="a\nb", is_end=True), 5, True),
        (RunState.SUCCEEDED, LogData(from_line=5, to_line=4, content="", is_end=False), 3, True),
    ],
)
def test_reading_on_never_skips_a_line_and_ends_with_the_run(
    api: Api, state: RunState, data: LogData, next_line: int, is_end: bool
) -> None:
    sent(api, state)
    api.asked.logs = answering(data)
    answer = api.call("GET", "runs/1/log", params={"from_line": 3}).json
    assert (answer["next_line"], answer["is_end"]) == (next_line, is_end)


@pytest.mark.parametrize(
    ("error", "status", "slug"),
    [
        (ExecutorUnreachableError(ADDRESS, "refused", sent=False), 502, "executor-unreachable"),
        (ExecutorUnreachableError(ADDRESS, "no answer", sent=True), 504, "executor-unreachable"),
        (ExecutorRefusedError("HTTP status 404"), 502, "executor-refused"),
        (WireError("not an envelope"), 502, "executor-refused"),
    ],
)
def test_an_executor_that_does_not_answer_is_told(api: Api, error: Exception, status: int, slug: str) -> None:
    sent(api)
    api.asked.logs = failing(error)
    answer = api.call("GET", "runs/1/log")
    assert (answer.status_code, answer.json["type"]) == (status, f"urn:xwheel:problem:{slug}")
    assert answer.json["status"] == status


def test_an_address_that_is_not_registered_now_is_not_asked(api: Api) -> None:
    # the process that listens there now would get our token; the stub fails the test if it is asked
    sent(api)
    api.parts.registry.remove("demo", ADDRESS)
    answer = api.call("GET", "runs/1/log")
    assert answer.status_code == 502
    assert ADDRESS in answer.json["detail"]


class SlowExecutors:
    """Reads of logs that last until the test says so, each on a thread."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._entered, self._leave = threading.Semaphore(0), threading.Event()
        self._threads: list[threading.Thread] = []
        self.statuses: list[int] = []
        api.asked.logs = self._slow

    def read(self, run_id: int) -> None:
        def call() -> None:
            self.statuses.append(self._api.call("GET", f"runs/{run_id}/log").status_code)

        self._threads.append(threading.Thread(target=call))
        self._threads[-1].start()
        assert self._entered.acquire(timeout=60)

    def end(self) -> None:
        self._leave.set()
        for thread in self._threads:
            thread.join(60)

    def _slow(self, run: Run, from_line: int) -> LogData:
        self._entered.release()
        assert self._leave.wait(60)
        return LogData(from_line=1, to_line=0, content="", is_end=False)


def test_s8_slow_executors_take_only_their_own_groups_places(api: Api) -> None:
    for number, app_name in enumerate(("a", "b", "c"), 1):
        group, address = api.group(app_name), f"http://10.0.0.{number}:9999"
        api.parts.registry.register(app_name, make_executor(address), NOW)
        api.runs(make_run(number, group_id=group, state=RunState.RUNNING, address=address))
    slow = SlowExecutors(api)
    assert api.parts.config.api.threads // 4 == 2
    slow.read(1)
    refused = api.call("GET", "runs/1/log")
    assert (refused.status_code, refused.json["type"]) == (503, "urn:xwheel:problem:busy")
    assert refused.headers["retry-after"] == "1"
    slow.read(2)  # the other group is served
    assert api.call("GET", "runs/3/log").status_code == 503  # a quarter of the threads wait for executors
    assert api.call("GET", "runs/1").status_code == 200
    slow.end()
    assert slow.statuses == [200, 200]
    assert [api.call("GET", f"runs/{number}/log").status_code for number in (1, 2, 3)] == [200] * 3


@pytest.mark.parametrize(("total", "each"), [(1, 1), (2, 1), (4, 2), (16, 8)])
def test_s8_half_of_the_places_for_one_group(total: int, each: int) -> None:
    places = Places(total, "logs are being read")
    with ExitStack() as held:
        for _ in range(each):
            held.enter_context(places.hold(7))
        with places.hold(None) if total > each else nullcontext():  # a caller of no single group
            pass
        with pytest.raises(BusyError), places.hold(7):
            pass
        for group_id in range(total - each):
            held.enter_context(places.hold(100 + group_id))
        with pytest.raises(BusyError), places.hold(99):
            pass
    with places.hold(7):
        pass


def test_callers_of_no_single_group_share_all_places() -> None:
    places = Places(4, "logs are being kept")
    with ExitStack() as held:
        for _ in range(4):
            held.enter_context(places.hold(None))
        with pytest.raises(BusyError, match="too many logs are being kept: ask again"), places.hold(None):
            pass
