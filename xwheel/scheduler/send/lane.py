"""Send fenced runs to executors and say what came of it: accepted, refused or unknown."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Final

from xwheel.errors import WireError
from xwheel.model import BlockStrategy, GlueVersion
from xwheel.scheduler.cluster.contract import Lease
from xwheel.scheduler.executors.loads import Loads
from xwheel.scheduler.executors.registry import ExecutorRegistry
from xwheel.scheduler.records import Answer, Delivery, Fate, Parcel, Shard
from xwheel.scheduler.send.parcels import BodyLimits
from xwheel.scheduler.send.results import ResultWriter
from xwheel.wire import codec, contract
from xwheel.wire.codec.batch import encode_batch, read_batch_reply
from xwheel.wire.http import HttpCall, HttpClient, HttpResult
from xwheel.wire.messages import BatchAnswer, Response, TriggerRequest

POLL_MS: Final = 200
NOW_OR_LATER: Final = 2**62
# how long after its next check a run may still be asked again; one that is left over is taken up by that check
AGAIN_MS: Final = 30_000
NEWEST_GENERATION: Final = 4
HTTP_OK: Final = 200
TOO_LARGE: Final = 413
CLIENT_ERRORS: Final = range(400, 500)


@dataclass(eq=False, repr=False)
class Lane:
    """One event loop that sends; :meth:`send` may be called from any thread, :meth:`step` from the lane's own."""

    client: HttpClient
    results: ResultWriter
    lease: Lease
    registry: ExecutorRegistry
    body_limits: BodyLimits
    _: KW_ONLY
    timeout_ms: int  # time limit of a send

    def __post_init__(self) -> None:
        self._sending: set[int] = set()

    def send(self, parcel: Parcel) -> None:
        """Start the request for a parcel that was fenced; what is to follow it goes once it is answered."""
        self._sending.update([shard.run.id for shard in parcel.whole().shards])
        if self.lease.may_send(_fenced_ms(parcel), self.timeout_ms):
            self._submit(parcel)
        else:
            self._hand_over([_untried(parcel, "the lease is too short for a send")])

    def is_held(self, run_id: int) -> bool:
        """Return whether a run is in flight; from any thread."""
        return run_id in self._sending

    def step(self, now_ms: int) -> int:
        """Move bytes for a while; return 0: the waiting happens inside."""
        results = self.client.poll(POLL_MS)
        if results:
            self._hand_over([item for result in results for item in self._read(result, now_ms)])
        return 0

    def wake(self) -> None:
        """End the current poll."""
        self.client.wake()

    def close(self) -> None:
        """Close all connections."""
        self.client.close()

    def _submit(self, parcel: Parcel) -> None:
        url, body = encode_parcel(parcel)
        parcel.body_bytes = len(body)
        self.client.submit(
            HttpCall(
                key=parcel,
                url=url,
                body=body,
                timeout_ms=self.timeout_ms,
                wait_ms=self._wait_ms(parcel),
                # a journal makes a repeated send harmless; a foreign executor would run it twice
                repeatable=parcel.executor.kind == "xwheel",
                app_name=self.registry.app_name(parcel.executor.group_id),
                token=self.registry.token(parcel.executor),
            )
        )

    def _wait_ms(self, parcel: Parcel) -> int | None:
        """Return how long a first send may wait for its turn, so that it ends before others ask about its runs.

        One that asks again has a place of its own; a broadcast to more executors than there are places waits.
        """
        run = parcel.shards[0].run
        if parcel.again or run.check_ms is None or run.dispatched_ms is None:
            return None
        return max(0, run.check_ms - run.dispatched_ms - self.timeout_ms)

    def _read(self, result: HttpResult, now_ms: int) -> list[Delivery]:
        """Return what came of a request; start the next one in its place, if there is more to send."""
        parcel = result.key
        assert isinstance(parcel, Parcel)  # noqa: S101 - we put it there
        if result.status == TOO_LARGE:
            self.body_limits.refused(parcel.executor.address, parcel.body_bytes)
            if len(parcel.shards) > 1:
                return self._go_on(parcel.halves(), now_ms)
        if result.error:
            # what was to follow could not be sent either, or must not wait for another limit
            parcel = parcel.whole()
        delivery = Delivery(
            parcel=parcel,
            answers=read_answers(parcel, result),
            reached=not result.error or result.sent,
            cost_ms=round(result.cost_ms),
            at_ms=now_ms,
            again=parcel.again or result.repeated,
        )
        if not parcel.rest:
            return [delivery]
        following = dataclasses.replace(parcel.rest[0], rest=parcel.rest[1:])
        return [delivery, *self._go_on(following, now_ms)]

    def _go_on(self, parcel: Parcel, now_ms: int) -> list[Delivery]:
        """Send one more request in the same place, unless it might end after others may ask about its runs.

        What is asked again may take longer: if another asks meanwhile, only its own answer refuses it.
        """
        until_ms = parcel.shards[0].run.check_ms
        late_ms = AGAIN_MS if parcel.again else 0
        if not self.lease.may_send(_fenced_ms(parcel), self.timeout_ms):
            return [_untried(parcel, "the lease is too short for another send")]
        if until_ms is not None and now_ms + self.timeout_ms > until_ms + late_ms:
            return [_untried(parcel, "those before it took too long")]
        self._submit(parcel)
        return []

    def _hand_over(self, deliveries: Sequence[Delivery]) -> None:
        if deliveries:
            self.results.put(deliveries)  # first, so that at each moment the lane or the writer has each run
        for delivery in deliveries:
            self._sending.difference_update(shard.run.id for shard in delivery.parcel.shards)


class Lanes:
    """The fast and the slow lane; a parcel says which of them it takes."""

    def __init__(self, lanes: Mapping[int, Lane], loads: Loads) -> None:
        self.by_number = lanes
        self._loads = loads

    def send(self, parcel: Parcel) -> None:
        """Start the requests of a parcel that was fenced; from any thread."""
        self._loads.sent(parcel.executor.address, len(parcel.whole().shards))
        self.by_number[parcel.lane].send(parcel)


def _fenced_ms(parcel: Parcel) -> int:
    """Return when a parcel was fenced; what is asked again was put under the present lease a moment ago."""
    if parcel.again:
        return NOW_OR_LATER
    if len(parcel.shards) == 1:
        return parcel.shards[0].run.dispatched_ms or 0
    return min([shard.run.dispatched_ms or 0 for shard in parcel.shards])


def encode_parcel(parcel: Parcel) -> tuple[str, bytes]:
    """Return where a parcel goes and its bytes."""
    requests = [trigger_request(shard, parcel.sources.get(shard.job.id)) for shard in parcel.shards]
    executor = parcel.executor
    if executor.kind == "xwheel":
        body = encode_batch(executor.instance, requests)
        return contract.join_url(executor.address, contract.RUN_BATCH), body
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
        job_param="" if run.param is None or source is None else job.param,
    )


def read_answers(parcel: Parcel, result: HttpResult) -> list[Answer]:
    """Return what became of each run of a parcel.

    Only a connection that was never made and an explicit answer mean refused: no executor runs it. Everything else is
    unknown: a time-out, a broken connection, an answer that cannot be read. Of a run that was sent before, the first
    request may have arrived: only an answer about that very run refuses it.
    """
    again = parcel.again or result.repeated
    refused = Fate.UNKNOWN if again else Fate.REFUSED
    if result.error:
        return _all(parcel, Fate.UNKNOWN if result.sent else refused, result.error)
    if result.status != HTTP_OK:
        fate = refused if result.status in CLIENT_ERRORS else Fate.UNKNOWN
        return _all(parcel, fate, _status_text(parcel, result.status))
    try:
        response = codec.decode_response(result.body)
        if parcel.executor.kind == "xwheel" and response.ok:
            return _batch_answers(parcel, response)
    except WireError as error:
        return _all(parcel, Fate.UNKNOWN, f"unreadable answer: {error}")
    if response.not_yet and not (response.ok or again):
        refused = Fate.NOT_YET
    return _all(parcel, Fate.ACCEPTED if response.ok else refused, response.message)


def _batch_answers(parcel: Parcel, response: Response) -> list[Answer]:
    reply = read_batch_reply(response.data)
    if reply.instance not in ("", parcel.executor.instance):
        raise WireError(f"executor instance {reply.instance} answered for {parcel.executor.instance}")
    given: dict[int, BatchAnswer] = {}
    unclear: set[int] = set()
    for item in reply.answers:
        first = given.setdefault(item.run_id, item)
        if first is not item and first.ok != item.ok:
            unclear.add(item.run_id)
    answers = []
    for shard in parcel.shards:
        run_id = shard.run.id
        said = given.get(run_id)
        if said is None:
            answers.append(Answer(run_id, Fate.UNKNOWN, "missing from the answer"))
        elif run_id in unclear:
            answers.append(Answer(run_id, Fate.UNKNOWN, "answered with yes and with no"))
        else:
            no = Fate.NOT_YET if said.not_yet else Fate.REFUSED
            answers.append(Answer(run_id, Fate.ACCEPTED if said.ok else no, said.message))
    return answers


def _status_text(parcel: Parcel, status: int) -> str:
    if status != TOO_LARGE:
        return f"HTTP status {status}"
    shard = parcel.shards[0]
    return (
        f"HTTP status 413: a request of {parcel.body_bytes} bytes for one run is too large there; raise the limit of "
        "the executor (executor.max_body_bytes in xwheel) or of the proxy before it, or shorten the parameter or the "
        f"source of job {shard.job.id}"
    )


def _all(parcel: Parcel, fate: Fate, message: str) -> list[Answer]:
    return [Answer(shard.run.id, fate, message) for shard in parcel.shards]


def _untried(parcel: Parcel, why: str) -> Delivery:
    """Return that nothing of a parcel was sent: its rows stay dispatching and are asked about later."""
    parcel = parcel.whole()
    answers = _all(parcel, Fate.UNKNOWN, f"not sent: {why}")
    return Delivery(parcel=parcel, answers=answers, reached=False, cost_ms=0, at_ms=0, tried=False)
