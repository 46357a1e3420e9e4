"""What an executor answers to requests for runs: its journal knows more than its handlers."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from xwheel.builtin.glue_bean import BeanGlue
from xwheel.clock import SystemClock
from xwheel.executor import job
from xwheel.executor.handlers import HandlerRegistry
from xwheel.executor.intake.endpoints import Endpoints, SharedSources
from xwheel.executor.intake.queues import QueueLimits
from xwheel.executor.journal.journal import Journal
from xwheel.executor.logs.run_log import RunLogs
from xwheel.executor.running.worker import Workers
from xwheel.wire import contract
from xwheel.wire.codec import decode_trigger, encode_trigger
from xwheel.wire.codec.batch import encode_batch, read_batch_reply
from xwheel.wire.codec.fields import encode
from xwheel.wire.messages import Response, TriggerRequest

TOKEN = "a-token-for-tests-only"


class Place:
    """One executor without a listener, which can be deployed anew with other handlers."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.executed: list[int] = []
        self.ran = threading.Semaphore(0)
        self.deploy("greet")

    def deploy(self, *names: str, glue_types: dict[str, Any] | None = None) -> None:
        clock = SystemClock()
        self.journal = Journal(self.folder, clock)
        self.logs = RunLogs(self.folder / "logs", clock)
        self.workers = Workers(
            journal=self.journal,
            logs=self.logs,
            clock=clock,
            limits=QueueLimits(places=4, per_job=10, waiting=100, grace_ms=20),
            may_start=lambda _request: "",
            on_outcome=self.ran.release,
        )
        handlers = HandlerRegistry([job(name)(lambda: self.executed.append(1)) for name in names])
        self.endpoints = Endpoints(
            token=TOKEN,
            app_name="demo",
            workers=self.workers,
            journal=self.journal,
            logs=self.logs,
            handlers=handlers,
            glue_types=glue_types or {"BEAN": BeanGlue()},
        )

    def close(self) -> None:
        self.workers.close()
        self.journal.close()
        self.logs.close()

    def call(self, path: str, body: bytes) -> Response:
        headers = {contract.TOKEN_HEADER: TOKEN}
        return self.endpoints.answer("POST", path, headers.get, lambda: body)

    def batch(self, *runs: TriggerRequest) -> dict[int, int]:
        return self.send(encode_batch(self.journal.instance, runs))

    def send(self, body: bytes) -> dict[int, int]:
        reply = self.call(contract.RUN_BATCH, body)
        assert reply.ok, reply.message
        return {answer.run_id: answer.code for answer in read_batch_reply(reply.data).answers}


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    place = Place(tmp_path)
    yield place
    place.close()


def run(run_id: int, handler: str = "greet", **fields: Any) -> TriggerRequest:
    return TriggerRequest(run_id=run_id, job_id=run_id, created_ms=1, handler=handler, **fields)


def executed(place: Place, run_id: int) -> None:
    assert place.batch(run(run_id)) == {run_id: 200}
    assert place.ran.acquire(timeout=10)
    assert place.executed == [1]


def redeployed(place: Place, *names: str, **options: Any) -> None:
    place.close()
    place.deploy(*names, **options)


def test_r10_a_redeploy_without_the_handler_refuses_no_run_that_was_executed(place: Place) -> None:
    """R10: the journal is asked first about a repeated id; one that it does not know is refused."""
    executed(place, 1)
    redeployed(place, "other")
    assert place.batch(run(1), run(2)) == {1: 200, 2: 500}
    assert place.call(contract.RUN, encode_trigger(run(1))).code == 200
    assert place.call(contract.RUN, encode_trigger(run(2))).code == 500
    assert place.executed == [1]
    assert [item.run_id for item in place.journal.pending(10)] == [1]


def test_p11_runs_of_one_job_share_its_source_and_few_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xwheel.executor.intake.endpoints.SHARED_CHARS", 25)
    sources = SharedSources()

    def given(job_id: int, source: str) -> TriggerRequest:
        body = encode_trigger(run(job_id, glue_type="SCRIPT", glue_source=source))
        return sources.share(decode_trigger(body))

    first, second, other, changed = (
        given(*item) for item in ((1, "x" * 9), (1, "x" * 9), (2, "x" * 9), (1, "y"))
    )
    assert second.glue_source is first.glue_source
    assert other.glue_source is not first.glue_source
    assert (changed.glue_source, given(1, "y").glue_source is changed.glue_source) == ("y", True)
    for job_id in range(3, 9):
        assert given(job_id, "z" * 9).glue_source == "z" * 9
    assert len(sources._known) == 2
    assert sources._chars == 18
    assert given(9, "w" * 30).glue_source == "w" * 30
    assert (len(sources._known), sources._chars) == (0, 0)


def test_r10_a_glue_type_that_fails_refuses_its_own_run_only(place: Place) -> None:
    """R10: whatever it raises; a run that the journal knows is not refused even so."""

    class Broken:
        name = "BROKEN"
        takes_source = False

        def build(self, request: object, handlers: object) -> object:
            raise RuntimeError("a mistake of its author")

    executed(place, 1)
    redeployed(place, "greet", glue_types={"BEAN": BeanGlue(), "BROKEN": Broken()})
    place.endpoints._allowed = frozenset({"BEAN", "BROKEN"})
    broken = {"glue_type": "BROKEN"}
    assert place.batch(run(1, **broken), run(2, **broken), run(3)) == {1: 200, 2: 500, 3: 200}


def test_r10_a_repeated_run_that_cannot_be_read_any_more_is_known(place: Place) -> None:
    """R10: a version that reads more strictly refuses what it never saw, and nothing that ran here."""
    executed(place, 1)
    odd = [{"logId": run_id, "jobId": run_id, "logDateTime": 1, "broadcastIndex": 9} for run_id in (1, 2)]
    assert place.send(encode({"instance": place.journal.instance, "runs": odd})) == {
        2: 500
    }  # what is left out has an unknown fate, and its outcome comes


def test_what_fails_while_runs_are_taken_in_leaves_their_fate_open(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R2: some may be on disk already, so none of them is refused; what could not be built is."""

    def fail(_: object) -> None:
        raise RuntimeError("a mistake of ours")

    monkeypatch.setattr(place.workers, "_admitted", lambda *_: fail(0))
    monkeypatch.setattr("xwheel.executor.running.worker.JOURNAL_WAIT_S", 0.05)
    assert place.batch(run(1), run(2, "gone")) == {}
    monkeypatch.setattr(place.workers, "accept", fail)
    assert place.batch(run(3), run(4, "gone")) == {}
