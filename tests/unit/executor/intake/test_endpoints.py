"""What an executor answers to requests for runs: its journal knows more than its handlers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import falcon.testing
import pytest

from xwheel.builtin.glue_bean import BeanGlue
from xwheel.clock import ManualClock, SystemClock
from xwheel.config.sections import ExecutorSection
from xwheel.errors import NotYetError
from xwheel.executor import job
from xwheel.executor.handlers import HandlerRegistry
from xwheel.executor.intake.endpoints import CallsApp, Endpoints, SharedSources
from xwheel.executor.journal import Journal
from xwheel.executor.logs.run_log import RunLogs
from xwheel.executor.running.worker import Workers
from xwheel.plugin import GlueRequest, HandlerLookup
from xwheel.wire import contract
from xwheel.wire.codec import (
    decode_trigger,
    encode,
    encode_batch,
    encode_log_request,
    encode_states,
    encode_trigger,
    read_batch_reply,
    read_log_data,
)
from xwheel.wire.messages import LogRequest, Response, RunKey, TriggerRequest

TOKEN = "a-token-for-tests-only"


class Place:
    """One executor without a listener, which can be deployed again with other handlers."""

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
            settings=ExecutorSection(workers=4, queue_limit=10, waiting_limit=100, kill_grace_s=0.02),
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

    first, second, other, changed = (given(*item) for item in ((1, "x" * 9), (1, "x" * 9), (2, "x" * 9), (1, "y")))
    assert second.glue_source is first.glue_source
    assert other.glue_source is not first.glue_source
    assert (changed.glue_source, given(1, "y").glue_source is changed.glue_source) == ("y", True)
    for job_id in range(3, 9):
        assert given(job_id, "z" * 9).glue_source == "z" * 9
    assert len(sources._known) == 2
    assert sources._chars == 18
    assert given(9, "w" * 30).glue_source == "w" * 30
    assert (len(sources._known), sources._chars) == (0, 0)


def test_n31_a_run_for_an_earlier_instance_is_refused_by_either_call(place: Place) -> None:
    for_another = run(1, instance="an-earlier-one")
    said = place.call(contract.RUN, encode_trigger(for_another))
    assert (said.code, "the call is for an-earlier-one" in said.message) == (500, True)
    assert place.batch(for_another) == {1: 500}
    assert place.executed == []
    assert place.call(contract.RUN, encode_trigger(run(1, instance=place.journal.instance))).ok
    assert place.ran.acquire(timeout=10)


class Later:
    """A glue type that takes no run at first."""

    name = "LATER"
    takes_source = False

    def __init__(self, ready: bool = False) -> None:
        self.ready = ready

    def build(self, request: GlueRequest, handlers: HandlerLookup) -> Any:
        if not self.ready:
            raise NotYetError("there is no cluster now")
        return BeanGlue().build(request, handlers)


def test_r25_not_yet_is_said_to_either_call_and_only_of_the_runs_that_it_is_about(place: Place) -> None:
    glue = Later()
    redeployed(place, "greet", glue_types={"BEAN": BeanGlue(), "LATER": glue})
    place.endpoints._allowed |= {"LATER"}
    later = run(1, glue_type="LATER")
    reply = place.call(contract.RUN, encode_trigger(later))
    assert (reply.code, reply.message, reply.not_yet) == (500, "there is no cluster now", True)
    reply = place.call(contract.RUN_BATCH, encode_batch(place.journal.instance, [later, run(2), run(3, "no")]))
    answers = {item.run_id: (item.code, item.not_yet) for item in read_batch_reply(reply.data).answers}
    assert answers == {1: (500, True), 2: (200, False), 3: (500, False)}
    # nothing of it was taken in, so the same run may come again
    glue.ready = True
    assert place.batch(later) == {1: 200}
    # and one that was is answered by the journal, whatever the glue type says now
    glue.ready = False
    assert place.batch(later) == {1: 200}
    assert not place.call(contract.RUN, encode_trigger(later)).not_yet


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


def test_an_executor_says_nothing_about_runs_of_the_one_that_it_replaced(place: Place) -> None:
    keys = [RunKey(1, 1, 1)]
    assert place.call(contract.RUN_STATE, encode_states(place.journal.instance, keys)).ok
    answer = place.call(contract.RUN_STATE, encode_states("another", keys))
    assert not answer.ok
    assert "the call is for another" in answer.message


@pytest.mark.parametrize(("app_name", "is_ours"), [("demo", True), ("demo2", False), ("dem", False)])
def test_a_call_for_another_group_is_refused(place: Place, app_name: str, is_ours: bool) -> None:
    headers = {contract.TOKEN_HEADER: TOKEN, contract.APP_NAME_HEADER: app_name}
    assert place.endpoints.answer("POST", contract.BEAT, headers.get, bytes).ok is is_ours


def test_readers_of_a_run_that_wrote_no_log_are_told_the_end_once_it_ended(place: Place) -> None:
    executed(place, 1)
    place.workers.close()
    place.journal.settle(10)
    for path in (place.folder / "logs").rglob("*.log"):
        path.unlink()
    answer = place.call(contract.LOG, encode_log_request(LogRequest(run_id=1, created_ms=1, from_line=1)))
    assert read_log_data(answer.data).is_end


@pytest.mark.parametrize(("length", "status"), [(100, 200), (101, 413)])
def test_a_body_over_the_limit_is_not_read(length: int, status: int) -> None:
    class Heard(Endpoints):
        def __init__(self) -> None:
            self.read: list[int] = []

        def answer(
            self, method: str, path: str, header: Callable[[str], str | None], read: Callable[[], bytes]
        ) -> Response:
            self.read.append(len(read()))
            return Response(code=contract.OK)

    heard = Heard()
    client = falcon.testing.TestClient(CallsApp(heard, max_body_bytes=100, clock=ManualClock()))
    assert client.simulate_post("/run", body=b"x" * length).status_code == status
    assert heard.read == ([length] if status == 200 else [])
