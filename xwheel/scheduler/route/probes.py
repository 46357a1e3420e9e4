"""Ask executors whether they live, or whether a job is idle there, for routers that want to know."""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Final, NamedTuple, Protocol

from xwheel.clock import Clock
from xwheel.errors import RouteError, WireError
from xwheel.model import RegisteredExecutor
from xwheel.wire import codec, contract
from xwheel.wire.http import HttpCall, HttpResult

logger = logging.getLogger(__name__)

FRESH_MS: Final = 1000
IDLE_FRESH_MS: Final = 100
SPENT_MS: Final = 200
"""By then the run that goes there is there, and the executor says so itself."""

KEPT: Final = 20_000
POLL_MS: Final = 200
HTTP_OK: Final = 200


class Beat(NamedTuple):
    """A question.

    Attributes:
        address: Who is asked.
        group_id: The executor's group.
        job_id: Whether this job is idle there; 0 for whether the executor lives.
    """

    address: str
    group_id: int
    job_id: int = 0


class Caller(Protocol):
    """What is needed of :class:`~xwheel.wire.http.MultiClient`."""

    def submit(self, call: HttpCall) -> None:
        """Hand in a call."""
        ...

    def poll(self, timeout_ms: int) -> list[HttpResult]:
        """Move everything on and return the calls that ended."""
        ...

    def wake(self) -> None:
        """End a wait inside ``poll``."""
        ...

    def close(self) -> None:
        """Close all connections."""
        ...


class _Known(NamedTuple):
    """An answer, or a question on its way, which is fresh for ever."""

    answer: Future[bool]
    until_ms: float = math.inf
    at_ms: float = math.inf


class Beats:
    """Puts questions and keeps their answers for a moment, so that many runs cost one question.

    Thread-safety: :meth:`step` and :meth:`close` belong to the one that owns the client; everything else may be
    called from any thread.

    Args:
        client: Connections of its own.
        app_name: Name of a group; fourth-generation executors insist on it.
        token: What an address of a group is called with.
        suspect: Told addresses that could not be reached.
        clock: Where time comes from.
        timeout_ms: Time limit of a question.
    """

    def __init__(
        self,
        client: Caller,
        app_name: Callable[[int], str],
        token: Callable[[int, str], str],
        suspect: Callable[[str, int], None],
        clock: Clock,
        *,
        timeout_ms: int,
    ) -> None:
        self._client = client
        self._app_name = app_name
        self._token = token
        self._suspect = suspect
        self._clock = clock
        self._timeout_ms = timeout_ms
        self._lock = threading.Lock()
        self._known: dict[Beat, _Known] = {}
        self._doubted: dict[str, int] = {}
        self._stopped = False

    def beat(self, executor: RegisteredExecutor) -> Future[bool]:
        """Ask whether an executor lives; return what will hold the answer.

        Raises:
            RouteError: The node stops.
        """
        return self._put(Beat(executor.address, executor.group_id))

    def idle_beat(self, executor: RegisteredExecutor, job_id: int) -> Future[bool]:
        """Ask whether an executor has nothing of a job; return what will hold the answer.

        Raises:
            RouteError: The node stops.
        """
        return self._put(Beat(executor.address, executor.group_id, job_id))

    def spend(self, executor: RegisteredExecutor, job_id: int) -> None:
        """Let an idle answer count no more: a run goes there."""
        beat = Beat(executor.address, executor.group_id, job_id)
        answer: Future[bool] = Future()
        answer.set_result(False)
        now_ms = self._clock.monotonic_ms()
        with self._lock:
            known = self._known.get(beat)
            if known is not None and known.answer.done():
                self._known[beat] = _Known(answer, now_ms + SPENT_MS, now_ms)

    def doubt(self, address: str) -> None:
        """Believe nothing that an address said until now: it could not be reached."""
        now_ms = self._clock.monotonic_ms()
        with self._lock:
            if len(self._doubted) >= KEPT:
                self._doubted.clear()
                self._known = {beat: known for beat, known in self._known.items() if not known.answer.done()}
            self._doubted[address] = now_ms

    def step(self, now_ms: int) -> int:
        """Move questions on for a while; return 0: the waiting happens inside."""
        for result in self._client.poll(POLL_MS):
            beat = result.key
            assert isinstance(beat, Beat)  # noqa: S101 - we put it there
            if result.error:
                self._suspect(beat.address, now_ms)
            answer = _is_yes(beat, result)
            with self._lock:
                known = self._known.get(beat)
                if known is not None and not known.answer.done():
                    fresh_ms = IDLE_FRESH_MS if beat.job_id else FRESH_MS
                    at_ms = self._clock.monotonic_ms()
                    self._known[beat] = _Known(known.answer, at_ms + fresh_ms, at_ms)
                    known.answer.set_result(answer)
        return 0

    def stop(self) -> None:
        """Answer nothing more: whoever waits is told that the node stops."""
        with self._lock:
            self._stopped = True
            for known in self._known.values():
                if not known.answer.done():
                    known.answer.set_exception(RouteError("the node stops"))
            self._known.clear()
        self._client.wake()

    def close(self) -> None:
        """Close all connections."""
        self._client.close()

    def _put(self, beat: Beat) -> Future[bool]:
        """Ask, unless the answer is known or on its way."""
        now_ms = self._clock.monotonic_ms()
        with self._lock:
            if self._stopped:
                raise RouteError("the node stops")
            known = self._known.pop(beat, None)
            is_new = (
                known is None
                or known.until_ms <= now_ms
                or known.at_ms <= self._doubted.get(beat.address, -1)
            )
            if known is None or is_new:
                known = _Known(Future())
            self._known[beat] = known  # at the end: who was asked for longest ago is forgotten first
            if len(self._known) > KEPT:
                self._forget_some()
        if is_new:
            self._client.submit(self._call(beat))
        return known.answer

    def _call(self, beat: Beat) -> HttpCall:
        path, body = contract.BEAT, b"{}"
        if beat.job_id:
            path, body = (
                contract.IDLE_BEAT,
                codec.encode_idle_beat(beat.job_id),
            )
        return HttpCall(
            key=beat,
            url=contract.join_url(beat.address, path),
            body=body,
            timeout_ms=self._timeout_ms,
            connect_timeout_ms=self._timeout_ms,
            app_name=self._app_name(beat.group_id),
            token=self._token(beat.group_id, beat.address),
        )

    def _forget_some(self) -> None:
        """Forget the older half of the answers; questions on their way stay."""
        done = [beat for beat, known in self._known.items() if known.answer.done()]
        for beat in done[: KEPT // 2]:
            del self._known[beat]


def _is_yes(beat: Beat, result: HttpResult) -> bool:
    if result.error or result.status != HTTP_OK:
        return False
    try:
        return codec.decode_response(result.body).ok
    except WireError as error:
        logger.warning("%s gave an unreadable answer to a beat: %s", beat.address, error)
        return False
