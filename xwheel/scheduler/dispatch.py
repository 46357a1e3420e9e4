"""Send fenced runs to executors and say what came of it: accepted, refused or unknown."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Final

from xwheel.errors import WireError
from xwheel.model import BlockStrategy, GlueVersion
from xwheel.scheduler.handover import Answer, Delivery, Fate, Parcel, Shard
from xwheel.wire import batch_codec, codec, contract
from xwheel.wire.http import HttpCall, HttpResult, MultiClient
from xwheel.wire.messages import BatchRequest, Response, TriggerRequest

logger = logging.getLogger(__name__)

POLL_MS: Final = 200
NEWEST_GENERATION: Final = 4
HTTP_OK: Final = 200
CLIENT_ERRORS: Final = range(400, 500)


class Lane:
    """One event loop that sends; :meth:`send` may be called from any thread, :meth:`step` from the lane's own.

    Args:
        client: The lane's connections.
        deliver: Gets what came back.
        may_send: Tells whether our lease outlasts a send.
        app_name: Name of a group; fourth-generation executors insist on it.
        timeout_ms: Time limit of a send.
    """

    def __init__(
        self,
        client: MultiClient,
        deliver: Callable[[Sequence[Delivery]], None],
        may_send: Callable[[], bool],
        app_name: Callable[[int], str],
        *,
        timeout_ms: int,
    ) -> None:
        self._client = client
        self._deliver = deliver
        self._may_send = may_send
        self._app_name = app_name
        self._timeout_ms = timeout_ms
        self._sending: set[int] = set()

    def send(self, parcel: Parcel) -> None:
        """Start a request for a parcel that was fenced."""
        self._sending.update(shard.run.id for shard in parcel.shards)
        if not self._may_send():
            # too late to send under this lease: the rows stay dispatching and are asked about later
            self._forget(parcel)
            self._deliver(
                [
                    _delivery(
                        parcel, [_unknown(shard, "lease too short") for shard in parcel.shards], False, 0, 0
                    )
                ]
            )
            return
        url, body = encode_parcel(parcel)
        # a journal makes a repeated send harmless; a foreign executor would run it twice
        repeatable = parcel.executor.kind == "xwheel"
        self._client.submit(
            HttpCall(
                key=parcel,
                url=url,
                body=body,
                timeout_ms=self._timeout_ms,
                repeatable=repeatable,
                app_name=self._app_name(parcel.executor.group_id),
            )
        )

    def is_sending(self, run_id: int) -> bool:
        """Tell whether a run is in flight; from any thread."""
        return run_id in self._sending

    def step(self, now_ms: int) -> int:
        """Move bytes for a while; return 0: the waiting happens inside."""
        results = self._client.poll(POLL_MS)
        if results:
            self._deliver([self._result(result, now_ms) for result in results])
        return 0

    def wake(self) -> None:
        """End the current poll."""
        self._client.wake()

    def close(self) -> None:
        """Close all connections."""
        self._client.close()

    def _result(self, result: HttpResult, now_ms: int) -> Delivery:
        parcel = result.key
        assert isinstance(parcel, Parcel)  # noqa: S101 - we put it there
        self._forget(parcel)
        answers = read_answers(parcel, result)
        return _delivery(parcel, answers, not result.error or result.sent, round(result.cost_ms), now_ms)

    def _forget(self, parcel: Parcel) -> None:
        self._sending.difference_update(shard.run.id for shard in parcel.shards)


def encode_parcel(parcel: Parcel) -> tuple[str, bytes]:
    """Return where a parcel goes and its bytes."""
    requests = [trigger_request(shard, parcel.sources.get(shard.job.id)) for shard in parcel.shards]
    executor = parcel.executor
    if executor.kind == "xwheel":
        batch = BatchRequest(instance=executor.instance, runs=requests)
        return contract.join_url(executor.address, contract.RUN_BATCH), batch_codec.encode_batch(batch)
    path = contract.TRIGGER if executor.generation >= NEWEST_GENERATION else contract.RUN
    return contract.join_url(executor.address, path), codec.encode_trigger(requests[0])


def trigger_request(shard: Shard, source: GlueVersion | None = None) -> TriggerRequest:
    """Return the message that starts a shard; with the source of its job if it has one."""
    run, job = shard.run, shard.job
    return TriggerRequest(
        job_id=run.job_id,
        run_id=run.id,
        created_ms=run.created_ms,
        handler=job.handler,
        param=job.param if run.param is None else run.param,
        block_strategy=BlockStrategy(job.block_strategy),
        timeout_s=job.timeout_s,
        glue_type=job.glue_type,
        glue_source="" if source is None else source.source,
        glue_updated_ms=0 if source is None else source.created_ms,
        shard_index=run.shard_index,
        shard_total=run.shard_total,
        planned_ms=run.planned_ms,
        attempt=run.attempt,
        instance=shard.executor.instance,
    )


def read_answers(parcel: Parcel, result: HttpResult) -> list[Answer]:
    """Say what became of each run of a parcel.

    Only a connection that was never made and an explicit answer mean refused: nobody runs it. Everything else, such as
    a time-out, a broken connection or an answer nobody can read, is unknown.
    """
    if result.error:
        fate = Fate.UNKNOWN if result.sent or parcel.again else Fate.REFUSED
        return [Answer(shard.run.id, fate, result.error) for shard in parcel.shards]
    if result.status != HTTP_OK:
        fate = Fate.REFUSED if result.status in CLIENT_ERRORS else Fate.UNKNOWN
        return [Answer(shard.run.id, fate, f"HTTP status {result.status}") for shard in parcel.shards]
    try:
        response = codec.decode_response(result.body)
        if parcel.executor.kind == "xwheel" and response.ok:
            return _batch_answers(parcel, response)
    except WireError as error:
        return [_unknown(shard, f"unreadable answer: {error}") for shard in parcel.shards]
    fate = Fate.ACCEPTED if response.ok else Fate.REFUSED
    return [Answer(shard.run.id, fate, response.message) for shard in parcel.shards]


def _batch_answers(parcel: Parcel, response: Response) -> list[Answer]:
    given = {answer.run_id: answer for answer in batch_codec.read_batch_reply(response.data).answers}
    answers = []
    for shard in parcel.shards:
        answer = given.get(shard.run.id)
        if answer is None:
            answers.append(_unknown(shard, "missing from the answer"))
        else:
            answers.append(Answer(shard.run.id, Fate.ACCEPTED if answer.ok else Fate.REFUSED, answer.message))
    return answers


def _unknown(shard: Shard, message: str) -> Answer:
    return Answer(shard.run.id, Fate.UNKNOWN, message)


def _delivery(parcel: Parcel, answers: Sequence[Answer], reached: bool, cost_ms: int, at_ms: int) -> Delivery:
    return Delivery(parcel=parcel, answers=answers, reached=reached, cost_ms=cost_ms, at_ms=at_ms)
