"""Runs that a glue type hosts in processes of its own, and what such a glue type keeps while an executor runs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from xwheel_devtools.testing import check_glue_type, wait_until

from tests.unit.executor.running.test_worker import House, request
from xwheel.errors import ConfigError, ExecutorError
from xwheel.executor import Executor, current_job
from xwheel.executor.handlers import HandlerKind, handler_of
from xwheel.model import RunState
from xwheel.plugin import GlueRequest, HandlerLookup, HostedRun, HostSetup, KeepsThings, RunContext

GRACES_S = 10
TOKEN = "a-token-for-tests-only"


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    house = House(tmp_path)
    yield house
    house.workers.close()
    house.logs.close()


class Hosted:
    """A run that works until it was asked to end this many times.

    Attributes:
        asked: What ``end`` was called with.
    """

    def __init__(self, rounds: int = 0, error: Exception | None = None) -> None:
        self.asked: list[int] = []
        self.entered = threading.Event()
        self.ended = threading.Semaphore(0)
        self._rounds = rounds
        self._error = error

    @property
    def built(self) -> HostedRun:
        return HostedRun(run=self.run, end=self.end)

    def run(self, context: RunContext, write: Callable[[str], None]) -> str:
        write(f"run {current_job().run_id} ")
        write(f"with {context.param}\n")
        self.entered.set()
        for _ in range(self._rounds):
            assert self.ended.acquire(timeout=GRACES_S)
        if self._error is not None:
            raise self._error
        return "hosted"

    def end(self, round_number: int) -> None:
        self.asked.append(round_number)
        self.ended.release()
        if round_number == 1:
            raise RuntimeError("no process")


def start(house: House, hosted: Hosted, run_id: int = 1) -> None:
    assert house.workers.accept([(request(run_id, param="x"), handler_of(hosted.built, ""))]) == [None]


def log_of(house: House, run_id: int = 1) -> str:
    found = house.logs.read(run_id, 1, 1, live=False)
    return "" if found is None else found.content


def test_its_result_and_its_texts_are_those_of_the_run(house: House) -> None:
    assert handler_of(Hosted().built, "").kind is HandlerKind.HOSTED
    start(house, Hosted())
    outcome = house.outcome(1)
    assert (outcome.state, outcome.message) == (RunState.SUCCEEDED, "hosted")
    assert "run 1 with x\n" in log_of(house)


@pytest.mark.parametrize(
    ("error", "message", "has_traceback"),
    [(ExecutorError("no: package"), "no: package", False), (OSError("no disk"), "OSError: no disk", True)],
)
def test_what_it_raises_is_the_failure(house: House, error: Exception, message: str, has_traceback: bool) -> None:
    start(house, Hosted(error=error))
    outcome = house.outcome(1)
    assert (outcome.state, outcome.message) == (RunState.FAILED, message)
    assert ("Traceback" in log_of(house)) is has_traceback


def test_a_kill_asks_each_round_harder_though_one_round_fails(house: House) -> None:
    hosted = Hosted(rounds=3)
    start(house, hosted)
    assert hosted.entered.wait(GRACES_S)
    assert house.workers.kill(1)
    assert house.outcome(1).state is RunState.KILLED
    assert hosted.asked[:3] == [0, 1, 2]


def test_one_that_does_not_end_is_reported_after_the_fourth_call(house: House) -> None:
    hosted = Hosted(rounds=6)
    start(house, hosted)
    assert hosted.entered.wait(GRACES_S)
    house.workers.kill(1)
    outcome = house.outcome(1)
    assert (outcome.state, "still runs" in outcome.message) == (RunState.KILLED, True)
    assert hosted.asked[:4] == [0, 1, 2, 3]
    hosted.ended.release(6)
    wait_until(lambda: not house.workers.queues.has(1))


class Keeper:
    """A glue type that keeps something."""

    name = "KEEPER"
    takes_source = True

    def __init__(self, error: Exception | None = None) -> None:
        self.said: list[Any] = []
        self._error = error

    def open(self, setup: HostSetup) -> None:
        self.said.append(setup.config.executor.app_name)
        assert TOKEN not in repr(setup)
        assert not any(name.startswith("XWHEEL_") for name in setup.environment)
        assert setup.supervisor.exists()
        if self._error is not None:
            raise self._error

    def close(self) -> None:
        self.said.append("closed")

    def build(self, request: GlueRequest, handlers: HandlerLookup) -> HostedRun:
        del handlers
        if not request.source:
            raise ExecutorError("no source")
        return Hosted().built


def executor(folder: Path, glue: Keeper, allowed: list[str]) -> Executor:
    return Executor(
        glue_types={"KEEPER": glue},
        app_name="demo",
        admin_addresses=["http://127.0.0.1:1"],
        access_token=TOKEN,
        port=0,
        data_dir=folder,
        allowed_glue_types=allowed,
    )


def test_what_a_glue_type_keeps_lives_as_long_as_an_executor_that_allows_it(tmp_path: Path) -> None:
    glue = Keeper()
    assert isinstance(glue, KeepsThings)
    with executor(tmp_path, glue, ["KEEPER"]):
        assert glue.said == ["demo"]
    assert glue.said == ["demo", "closed"]
    with executor(tmp_path, glue, []):
        pass
    assert glue.said == ["demo", "closed"]


def test_a_glue_type_that_cannot_begin_stops_the_start(tmp_path: Path) -> None:
    glue = Keeper(ConfigError("no folder"))
    with pytest.raises(ConfigError, match="no folder"):
        executor(tmp_path, glue, ["KEEPER"]).start()
    assert glue.said == ["demo", "closed"]
    with executor(tmp_path, Keeper(), ["KEEPER"]):  # journal and port were given back
        pass


def test_the_suite_takes_hosted_runs() -> None:
    check_glue_type(Keeper(), source="x")
