"""One cell by itself: when another one is left alone, and what this node says where it cannot answer."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from sites import token_file
from xwheel.plugin import FieldError, StorageError
from xwheel_devtools.testing import ManualClock, WebServer, web_reply

from xwheel_cells import fanout
from xwheel_cells.fanout import FanOut
from xwheel_cells.far import SLOW_REST_MS, TOKEN_REST_MS, FarCell
from xwheel_cells.options import CellOptions
from xwheel_cells.own import OwnCell
from xwheel_cells.problems import CellError

LONG_S = 60.0


def site_of(clock: ManualClock, *routes: object) -> Any:
    return SimpleNamespace(clock=clock, now_ms=clock.now_ms, resources=lambda: routes)


def far_cell(folder: Path, server: WebServer, clock: ManualClock) -> FarCell:
    options = CellOptions(url=server.url, token_file=Path(token_file(folder)))  # type: ignore[arg-type]
    return FarCell("north", options, site_of(clock))


def ask(cell: FarCell, timeout_s: float = LONG_S) -> bytes:
    deadline = time.monotonic() + timeout_s
    return cell.start(partial(cell.ask, "jobs", {}, deadline, bytes)).result(LONG_S * 2)


def test_a_cell_that_used_up_the_time_is_left_alone_for_a_while(tmp_path: Path) -> None:
    clock = ManualClock()
    with WebServer() as server:
        cell = far_cell(tmp_path, server, clock)
        server.reply = server.hang
        with pytest.raises(CellError, match="no complete answer") as first:
            ask(cell, 0.1)
        server.reply = web_reply(body=b"good")
        with pytest.raises(CellError) as second:
            ask(cell)
        assert str(second.value) == str(first.value)
        assert len(server.requests) == 1
        clock.advance(SLOW_REST_MS)
        assert ask(cell) == b"good"
        assert ask(cell) == b"good"


def test_a_cell_that_refuses_the_token_is_left_alone_for_longer(tmp_path: Path) -> None:
    clock = ManualClock()
    with WebServer(web_reply(401)) as server:
        cell = far_cell(tmp_path, server, clock)
        for _ in range(3):
            with pytest.raises(CellError, match="does not know the token"):
                ask(cell)
            clock.advance(TOKEN_REST_MS // 3 - 1)
        assert len(server.requests) == 1
        clock.advance(3)
        server.reply = web_reply(body=b"good")
        assert ask(cell) == b"good"


def test_a_cell_that_fails_at_once_is_asked_again(tmp_path: Path) -> None:
    with WebServer(web_reply(503)) as server:
        cell = far_cell(tmp_path, server, ManualClock())
        for _ in range(2):
            with pytest.raises(CellError, match="503"):
                ask(cell)
        assert len(server.requests) == 2


class Resource:
    """A list of this node that does as a test says."""

    def __init__(self, answer: Callable[[Any, Any], None]) -> None:
        self.on_get = answer


def own_cell(answer: Callable[[Any, Any], None]) -> OwnCell:
    route = SimpleNamespace(path="/api/v1/jobs", suffix=None, resource=Resource(answer))
    as_file = SimpleNamespace(path="/api/v1/jobs", suffix="csv", resource=None)
    return OwnCell("here", site_of(ManualClock(), as_file, route))


def test_this_node_answers_by_its_own_list() -> None:
    def answer(request: Any, response: Any) -> None:
        assert (request.method, request.path) == ("GET", "/api/v1/jobs")
        response.data = request.params["search"].encode()

    cell = own_cell(answer)
    assert cell.answered_ms is None
    assert cell.ask("jobs", {"search": "a&b=c d,e"}, 0, bytes) == b"a&b=c d,e"
    assert cell.answered_ms == ManualClock().now_ms()


def raising(error: Exception) -> Callable[[Any, Any], None]:
    def answer(_request: Any, _response: Any) -> None:
        raise error

    return answer


def test_this_node_is_a_cell_that_may_fail_as_others() -> None:
    with pytest.raises(CellError, match="the database is away") as outage:
        own_cell(raising(StorageError("the database is away"))).ask("jobs", {}, 0, bytes)
    assert outage.value.code == "failing"
    with pytest.raises(CellError, match="its log says why") as failure:
        own_cell(raising(RuntimeError("of the code"))).ask("jobs", {}, 0, bytes)
    assert "of the code" not in str(failure.value)
    with pytest.raises(FieldError, match="limit"):
        own_cell(raising(FieldError("limit", "is wrong"))).ask("jobs", {}, 0, bytes)
    with pytest.raises(CellError, match="it has no /api/v1/overview"):
        own_cell(raising(RuntimeError())).ask("overview", {}, 0, bytes)


class StuckCell(FarCell):
    """A cell whose work never ends."""

    def __init__(self, name: str, future: Future[Any]) -> None:
        self.name = name
        self._future = future

    def start(self, work: Callable[[], Any]) -> Future[Any]:
        return self._future


def test_work_that_does_not_end_and_faults_of_ours_cost_one_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fanout, "GRACE_S", 0)
    broken: Future[Any] = Future()
    broken.set_exception(RuntimeError("of the code"))
    own = own_cell(raising(RuntimeError()))
    cells = FanOut(own, [StuckCell("stuck", Future()), StuckCell("broken", broken)], 1)
    found, missing = cells.ask(["here", "stuck", "broken"], lambda cell, _deadline: cell.name)
    assert found == {"here": "here"}
    assert [(item.cell, item.code) for item in missing] == [("stuck", "unreachable"), ("broken", "failing")]
    assert "no answer within 1 ms" in missing[0].reason
    assert "of the code" not in missing[1].reason
