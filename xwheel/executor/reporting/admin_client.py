"""The executor's side of the scheduler's API: beats, the farewell, and the delivery of outcomes."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from msgspec.structs import replace

from xwheel.clock import Clock
from xwheel.errors import ExecutorRefusedError, ExecutorUnreachableError, WireError
from xwheel.wire import codec, contract
from xwheel.wire.http import post
from xwheel.wire.http.tls import NO_FILES, TlsFiles
from xwheel.wire.messages import BadItem, CallbackItem, LogPart, LogReceipt, RegistryRequest, Response

logger = logging.getLogger(__name__)

ARRAY_GENERATION: Final = 3
STALE_MS: Final = 60_000
TOO_LARGE: Final = 413
BUSY: Final = 503
FIRST_AGAIN_MS: Final = 1000
LONGEST_AGAIN_MS: Final = 5000
LEAST_SHIPPED: Final = 64 * 1024

_PLAIN: Final = {number: "?" for number in range(32) if chr(number) not in "\t\n\r\x1b"}
CALL_S: Final = 3.0
SHIP_TIMEOUT_S: Final = 20.0  # behind it is the scheduler's log store, whose calls may take ten seconds


@dataclass(eq=False, repr=False)  # the token is in no text
class AdminClient:
    """Calls the first scheduler that says yes. Thread-safety: any thread."""

    addresses: Sequence[str]  # base URLs in the order they are tried; with or without ``/api`` at their end
    token: str  # what schedulers are shown
    app_name: str  # the executor's group
    instance: str = ""  # an xwheel scheduler takes this instance's outcomes from no other
    tls: TlsFiles = NO_FILES

    def __post_init__(self) -> None:
        self.addresses = [address.rstrip("/").removesuffix("/api") for address in self.addresses]
        self._generations: dict[str, int] = {}

    def register(self, request: RegistryRequest) -> Response:
        """Send a beat; return the answer of the scheduler that took it. Raises WireError if none did."""
        return self._send(contract.REGISTRY, codec.encode_registry(request))

    def deregister(self, request: RegistryRequest) -> None:
        """Send the farewell; raises like :meth:`register`."""
        self._send(contract.REGISTRY_REMOVE, codec.encode_registry(request))

    def deliver(self, items: Sequence[CallbackItem]) -> tuple[Response, list[BadItem]]:
        """Hand over outcomes; return the answer, and the items that the scheduler refused for good.

        Raises CallRefusedError: a scheduler answered and refused the batch; WireError: none answered.
        """
        answer = self._first(lambda address: self._deliver(address, items))
        return answer, codec.read_refusals(answer.data)

    def ship_logs(self, parts: Sequence[LogPart]) -> list[LogReceipt]:
        """Hand over parts of run logs; return how far each log is there.

        Raises TooLargeError or NotTakenError if a scheduler answered so, WireError if none answered.
        """
        body = codec.encode_log_parts(self.instance, parts)
        if len(body) > LEAST_SHIPPED + 2 * sum(len(part.content) for part in parts):
            # what no text has travels as six characters each
            plain = [replace(part, content=part.content.translate(_PLAIN)) for part in parts]
            body = codec.encode_log_parts(self.instance, plain)
        try:
            answer = self._send(contract.SHIP_LOGS, body, SHIP_TIMEOUT_S)
        except (ExecutorRefusedError, ExecutorUnreachableError) as error:
            if f"HTTP status {TOO_LARGE}" in str(error):
                text = f"a scheduler takes no request of {len(body)} bytes (HTTP status {TOO_LARGE})"
                raise TooLargeError(text) from None
            if f"HTTP status {BUSY}" in str(error):
                raise NotTakenError(str(error)) from None
            raise
        return codec.read_receipts(answer.data)

    def _deliver(self, address: str, items: Sequence[CallbackItem]) -> Response:
        def send(generation: int) -> Response:
            body = codec.encode_callbacks(items, generation=generation, instance=self.instance)
            return self._call(address, contract.CALLBACK, body)

        known = self._generations.get(address, ARRAY_GENERATION)
        answer = send(known)
        if answer.ok or not answer.message.startswith(contract.TEXT_G4_OBJECT):
            return answer
        # a fourth-generation scheduler refuses the array, earlier ones refuse the object the same way
        other = codec.OBJECT_GENERATION if known == ARRAY_GENERATION else ARRAY_GENERATION
        answer = send(other)
        if answer.ok:
            self._generations[address] = other
        return answer

    def _send(self, uri: str, body: bytes, timeout_s: float = CALL_S) -> Response:
        return self._first(lambda address: self._call(address, uri, body, timeout_s))

    def _call(self, address: str, uri: str, body: bytes, timeout_s: float = CALL_S) -> Response:
        try:
            return post(
                contract.join_url(address, f"api/{uri}"),
                body,
                token=self.token,
                app_name=self.app_name,
                timeout_s=timeout_s,
                tls=self.tls,
            )
        except ExecutorRefusedError as error:
            raise ExecutorRefusedError(
                f"{error}: nothing there speaks to executors: executor.admin_addresses takes the address of a node's "
                "executor API, which it logs at its start (port 8081 unless told otherwise), not that of its "
                "management API (8080)"
            ) from None

    def _first(self, call: Callable[[str], Response]) -> Response:
        problem: WireError | None = None
        for address in self.addresses:
            try:
                answer = call(address)
            except WireError as error:
                # a scheduler that answered says more than one that is away
                problem = error if problem is None or isinstance(error, ExecutorRefusedError) else problem
                continue
            if answer.ok:
                return answer
            # some say which token they did not like
            said = answer.message.replace(self.token, "…")
            if said.startswith(contract.TEXT_TOKEN):
                said += (
                    " executor.access_token takes the executor token that the node showed at its first start, or one "
                    "of the group's own ('xwheel secret create')"
                )
            problem = CallRefusedError(f"{address} answers {answer.code}: {said}")
        raise problem or WireError("no scheduler address is configured")


class TooLargeError(WireError):
    """A scheduler takes no body of that size."""


class NotTakenError(WireError):
    """A scheduler is too busy for logs, or its log store does not take these."""


class CallRefusedError(WireError):
    """A scheduler answered, and the answer is no."""


@dataclass(eq=False)
class Registration:
    """Keeps the executor registered; knows since when no scheduler has confirmed it."""

    client: AdminClient
    request: Callable[[], RegistryRequest]  # makes the message again for each beat
    clock: Clock
    beat_ms: int  # between beats; a failed one is repeated after a second, two, four, and then five
    # told after each beat whether the scheduler that took it wants run logs
    on_logs_wanted: Callable[[bool], None] = lambda _: None

    def __post_init__(self) -> None:
        self._acknowledged_ms = self.clock.monotonic_ms()
        self._failing = False
        self._again_ms = FIRST_AGAIN_MS
        self._gone = False
        self._turn = threading.Lock()
        self.registered = threading.Event()

    def step(self, _now_ms: int) -> int:
        """Send one beat; return the time until the next, in milliseconds."""
        try:
            with self._turn:  # the farewell waits for it: a beat that arrives later would register us again
                if self._gone:
                    return self.beat_ms
                answer = self.client.register(self.request())
        except WireError as error:
            if not self._failing:
                logger.warning("the executor is not registered: %s", error)
            self._failing = True
            again_ms, self._again_ms = self._again_ms, min(2 * self._again_ms, LONGEST_AGAIN_MS)
            return min(self.beat_ms, again_ms)
        if self._failing or not self.registered.is_set():
            logger.info("the executor is registered")
        self._failing, self._again_ms = False, FIRST_AGAIN_MS
        self.registered.set()
        self.on_logs_wanted(answer.xwheel and codec.wants_logs(answer.data))
        if answer.xwheel:
            self._acknowledged_ms = self.clock.monotonic_ms()
        return self.beat_ms

    def leave(self) -> bool:
        """Send the farewell and no beat after it; return whether a scheduler took it that had us registered."""
        try:
            with self._turn:
                self._gone = True
                self.client.deregister(self.request())
        except WireError as error:
            logger.warning("the farewell did not arrive: %s", error)
            return False
        return self.registered.is_set()

    def may_start(self, instance: str) -> str:
        """Return why a run that was sent to this instance must not start now, or an empty string.

        An xwheel scheduler may have given up an executor it has not heard of, and run its work elsewhere. Foreign
        schedulers make no such promise and are not bound by it.
        """
        if not instance:
            return ""
        silent_ms = self.clock.monotonic_ms() - self._acknowledged_ms
        if silent_ms <= max(STALE_MS, 2 * self.beat_ms):
            return ""
        return f"no scheduler confirmed a beat for {silent_ms // 1000} s"
