"""Send fenced runs to executors and say what came of it: accepted, refused or unknown."""

from __future__ import annotations

import dataclasses
import threading
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Final

from xwheel.clock import Clock
from xwheel.errors import WireError
from xwheel.model import BlockStrategy, GlueVersion
from xwheel.scheduler.cluster.contract import Lease
from xwheel.scheduler.cluster.split_brain import RecentSends
from xwheel.scheduler.executors.loads import Loads
from xwheel.scheduler.executors.registry import ExecutorRegistry
from xwheel.scheduler.records import Answer, Delivery, Fate, Parcel, Shard
from xwheel.scheduler.send.parcels import BodyLimits
from xwheel.scheduler.send.results import ResultWriter
from xwheel.wire import codec, contract
from xwheel.wire.codec import EARLY_GENERATION, encode_batch, read_batch_reply
from xwheel.wire.http import HttpCall, HttpClient, HttpResult
from xwheel.wire.messages import BatchAnswer, Response, TriggerRequest

POLL_MS: Final = 1000  # what is handed in ends the wait
NOW_OR_LATER: Final = 2**62
# how long after its next check a run may still be asked again; one that is left over is taken up by that check
AGAIN_MS: Final = 30_000
NEWEST_GENERATION: Final = 4
HTTP_OK: Final = 200
TOO_LARGE: Final = 413
CLIENT_ERRORS: Final = range(400, 500)


@dataclass(eq=False, repr=False)
class Lane:
    """One event loop that sends; :meth:`send` may be called from any thread, :meth:`step` from the lane's own.

    A parcel may leave before its runs are due: it says when they are, and its executor starts each of them then.
    """

    client: HttpClient
    results: ResultWriter
    lease: Lease
    registry: ExecutorRegistry
    body_limits: BodyLimits
    clock: Clock
    _: KW_ONLY
    timeout_ms: int  # time limit of a send
    share: int  # requests in flight to one executor that takes one run a request; more wait here, in order

    def __post_init__(self) -> None:
        self._sending: set[int] = set()
        self._turns_lock = threading.Lock()
        self._in_flight: Counter[str] = Counter()  # by address, of executors that take one run a request
        self._turns: dict[str, deque[Parcel]] = {}

    def send(self, parcel: Parcel) -> None:
        """Start the request for a parcel that was fenced; what follows it goes once it is answered."""
        self._sending.update([shard.run.id for shard in parcel.whole().shards])
        if parcel.executor.kind == "xwheel" or self._has_turn(parcel):
            self._hand_over(self._begin(parcel))

    def is_held(self, run_id: int) -> bool:
        """Return whether a run is in flight; from any thread."""
        return run_id in self._sending

    def step(self, now_ms: int) -> int:
        """Move bytes for a while; return 0: the waiting happens inside."""
        results = self.client.poll(POLL_MS)
        if results:
            self._hand_over([item for result in results for item in self._read(result, now_ms)])
        return 0

    def _has_turn(self, parcel: Parcel) -> bool:
        """Return whether a request may go now; if not, it is kept until another one to its address ends."""
        address = parcel.executor.address
        with self._turns_lock:
            if self._in_flight[address] < self.share:
                self._in_flight[address] += 1
                return True
            self._turns.setdefault(address, deque()).append(parcel)
            return False

    def _next_turn(self, address: str) -> Parcel | None:
        """Return what goes to an address in place of a request that ended; None if nothing waits."""
        with self._turns_lock:
            if line := self._turns.get(address):
                return line.popleft()
            self._turns.pop(address, None)
            self._in_flight[address] -= 1
            if not self._in_flight[address]:
                del self._in_flight[address]
            return None

    def _begin(self, parcel: Parcel) -> list[Delivery]:
        """Send a parcel; return what came of that at once."""
        if not self.lease.may_send(_fenced_ms(parcel), self.timeout_ms):
            return [_untried(parcel, "the lease is too short for a send")]
        self._submit(parcel)
        return []

    def _submit(self, parcel: Parcel) -> None:
        url, body = encode_parcel(parcel, self.clock.now_ms())
        parcel.body_bytes = len(body)
        executor = parcel.executor
        call = HttpCall(
            key=parcel,
            url=url,
            body=body,
            timeout_ms=self.timeout_ms,
            wait_ms=self._turn_ms(parcel),
            # a journal makes a repeated send harmless; a foreign executor would run it twice
            repeatable=executor.kind == "xwheel",
            app_name=self.registry.app_name(executor.group_id),
            token=self.registry.token(executor),
        )
        self.client.submit(call)

    def _turn_ms(self, parcel: Parcel) -> int | None:
        """Return how long a first send may wait for its turn, so that it ends before others ask about its runs.

        One that asks again has a place of its own; a broadcast to more executors than there are places waits.
        """
        run = parcel.shards[0].run
        if parcel.again or run.check_ms is None or run.dispatched_ms is None:
            return None
        return max(0, run.check_ms - max(run.dispatched_ms, run.due_ms) - self.timeout_ms)

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
        if until_ms is not None and now_ms + self.timeout_ms > until_ms + late_ms:
            return [_untried(parcel, "those before it took too long")]
        return self._begin(parcel)

    def _hand_over(self, deliveries: Sequence[Delivery]) -> None:
        """Hand on what came back, and send what waited for its turn until then."""
        while deliveries:
            self.results.put(deliveries)  # first, so that at each moment the lane or the writer has each run
            for delivery in deliveries:
                self._sending.difference_update(shard.run.id for shard in delivery.parcel.shards)
            executors = [delivery.parcel.executor for delivery in deliveries]
            ended = [executor.address for executor in executors if executor.kind != "xwheel"]
            following = [parcel for address in ended if (parcel := self._next_turn(address))]
            deliveries = [late for parcel in following for late in self._go_on(parcel, self.clock.now_ms())]


@dataclass(eq=False, repr=False)
class Lanes:
    """The fast and the slow lane; a parcel says which of them it takes."""

    by_number: Mapping[int, Lane]
    loads: Loads
    recent: RecentSends | None  # None where the database cannot lose commits

    def send(self, parcel: Parcel) -> None:
        """Start the requests of a parcel that was fenced; from any thread."""
        shards = parcel.whole().shards
        self.loads.sent(parcel.executor.address, len(shards))
        if self.recent is not None:
            self.recent.note([shard.run for shard in shards])
        self.by_number[parcel.lane].send(parcel)


def _fenced_ms(parcel: Parcel) -> int:
    """Return when a parcel was fenced; what is asked again was put under the present lease a moment ago."""
    if parcel.again:
        return NOW_OR_LATER
    if len(parcel.shards) == 1:
        return parcel.shards[0].run.dispatched_ms or 0
    return min([shard.run.dispatched_ms or 0 for shard in parcel.shards])


def encode_parcel(parcel: Parcel, now_ms: int = 0) -> tuple[str, bytes]:
    """Return where a parcel goes and its bytes; :mod:`xwheel.executor.intake.endpoints` reads them there."""
    sent_ms = now_ms if parcel.executor.generation >= EARLY_GENERATION else 0
    requests = [trigger_request(shard, parcel.sources.get(shard.job.id), sent_ms) for shard in parcel.shards]
    executor = parcel.executor
    if executor.kind == "xwheel":
        body = encode_batch(executor.instance, requests)
        return contract.join_url(executor.address, contract.RUN_BATCH), body
    path = contract.TRIGGER if executor.generation >= NEWEST_GENERATION else contract.RUN
    return contract.join_url(executor.address, path), codec.encode_trigger(requests[0])


def trigger_request(shard: Shard, source: GlueVersion | None = None, sent_ms: int = 0) -> TriggerRequest:
    """Return the message that starts a shard; with the source of its job if it has one.

    With the time of sending it says when the run is due, if that is later.
    """
    run, job = shard.run, shard.job
    is_early = 0 < sent_ms < run.due_ms
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
        due_ms=run.due_ms if is_early else 0,
        sent_ms=sent_ms if is_early else 0,
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
        text = f"HTTP status {result.status}"
        if result.status == TOO_LARGE:
            text += (
                f": a request of {parcel.body_bytes} bytes for one run is too large there; raise the limit of the "
                "executor (executor.max_body_bytes in xwheel) or of the proxy before it, or shorten the parameter or "
                f"the source of job {parcel.shards[0].job.id}"
            )
        return _all(parcel, fate, text)
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


def _all(parcel: Parcel, fate: Fate, message: str) -> list[Answer]:
    return [Answer(shard.run.id, fate, message) for shard in parcel.shards]


def _untried(parcel: Parcel, why: str) -> Delivery:
    """Return that nothing of a parcel was sent: its rows stay dispatching and are asked about later."""
    parcel = parcel.whole()
    answers = _all(parcel, Fate.UNKNOWN, f"not sent: {why}")
    return Delivery(parcel=parcel, answers=answers, reached=False, cost_ms=0, at_ms=0, tried=False)
