"""Questions to executors over HTTP, many in flight on one thread, and the envelopes that come back."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Final

from xwheel.errors import WireError
from xwheel.model import RegisteredExecutor
from xwheel.scheduler.executors.registry import ExecutorRegistry
from xwheel.wire import codec, contract
from xwheel.wire.http import HttpCall, HttpClient, HttpResult
from xwheel.wire.messages import Response

HTTP_OK: Final = 200


@dataclass(frozen=True, slots=True)
class Answered:
    """What came back from a question."""

    key: object  # what it was asked under
    response: Response | None  # the envelope; None if there is none that could be read
    error: str  # why there is none, or empty
    status: int  # HTTP status of the answer; 0 if the executor did not answer

    @property
    def reached(self) -> bool:
        """Whether the executor answered at all."""
        return self.status != 0


@dataclass(eq=False, repr=False)
class ExecutorClient:
    """Asks executors; :meth:`ask` may be called from any thread, the rest from the client's owner."""

    client: HttpClient
    registry: ExecutorRegistry
    _: KW_ONLY
    timeout_ms: int  # time limit of a question

    def ask(
        self, key: object, executor: RegisteredExecutor, path: str, body: bytes, *, token: str | None = None
    ) -> None:
        """Put a question; its answer comes out of :meth:`poll` under the key.

        Without a token it is called with what was proven at its address.
        """
        self.client.submit(
            HttpCall(
                key=key,
                url=contract.join_url(executor.address, path),
                body=body,
                timeout_ms=self.timeout_ms,
                connect_timeout_ms=self.timeout_ms,
                app_name=self.registry.app_name(executor.group_id),
                token=self.registry.token(executor) if token is None else token,
            )
        )

    def poll(self, timeout_ms: int) -> list[Answered]:
        """Wait for answers at most so long, and return those that came."""
        return [read_answer(result) for result in self.client.poll(timeout_ms)]


def read_answer(result: HttpResult) -> Answered:
    """Read the envelope of an answer; what cannot be read is an error."""
    status = 0 if result.error else result.status
    if status != HTTP_OK:
        return Answered(result.key, None, result.error or f"HTTP status {status}", status)
    try:
        return Answered(result.key, codec.decode_response(result.body), "", status)
    except WireError as error:
        return Answered(result.key, None, str(error), status)
