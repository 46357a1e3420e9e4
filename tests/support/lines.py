"""An HTTP client for lanes that is a list: calls pile up, and tests say what comes back."""

from __future__ import annotations

from xwheel.scheduler.records import Parcel
from xwheel.wire.codec import batch_payload, encode_response
from xwheel.wire.contract import FAIL, OK
from xwheel.wire.http import HttpCall, HttpClient, HttpResult
from xwheel.wire.messages import BatchAnswer, Response


class Plug:
    """An HTTP client that hands everything to another one, which tests choose once the node is there."""

    def __init__(self) -> None:
        self.behind: HttpClient = Silence()

    def submit(self, call: HttpCall) -> None:
        self.behind.submit(call)

    def poll(self, timeout_ms: int) -> list[HttpResult]:
        return self.behind.poll(timeout_ms)

    def wake(self) -> None:
        self.behind.wake()

    def close(self) -> None:
        self.behind.close()


class Silence:
    """A network in which every call is lost at once."""

    def __init__(self) -> None:
        self._calls: list[HttpCall] = []

    def submit(self, call: HttpCall) -> None:
        self._calls.append(call)

    def poll(self, timeout_ms: int) -> list[HttpResult]:
        del timeout_ms
        calls, self._calls = self._calls, []
        return [HttpResult(key=call.key, error="no route to host", sent=False) for call in calls]

    def wake(self) -> None:
        """Nothing waits."""

    def close(self) -> None:
        """Nothing is open."""


class Line:
    """Stands in for :class:`~xwheel.wire.http.MultiClient`.

    Attributes:
        calls: What was submitted and has no result yet.
        sent: The parcels of those calls.
    """

    def __init__(self) -> None:
        self.calls: list[HttpCall] = []
        self.sent: list[Parcel] = []
        self._results: list[HttpResult] = []

    def submit(self, call: HttpCall) -> None:
        assert isinstance(call.key, Parcel)
        self.calls.append(call)
        self.sent.append(call.key)

    def poll(self, timeout_ms: int) -> list[HttpResult]:
        del timeout_ms
        results, self._results = self._results, []
        return results

    def wake(self) -> None:
        """Nothing waits."""

    def close(self) -> None:
        """Nothing is open."""

    def reply(
        self, *, status: int = 200, body: bytes = b"", error: str = "", sent: bool = True, repeated: bool = False
    ) -> Parcel:
        """Let the oldest call come back with the next poll; return its parcel.

        A test may have taken parcels out of ``sent``: their calls never come back.
        """
        parcel = self.sent.pop(0)
        while self.calls.pop(0).key is not parcel:
            pass
        self._results.append(
            HttpResult(
                key=parcel,
                status=0 if error else status,
                body=b"" if error else body,
                error=error,
                sent=sent,
                cost_ms=5,
                repeated=repeated,
            )
        )
        return parcel


def bodies_of(parcel: Parcel, ok: bool, message: str = "", *, not_yet: bool = False) -> bytes:
    """Return the answer of an executor that does the same with all runs of a parcel."""
    if parcel.executor.kind != "xwheel":
        return encode_response(Response(code=OK if ok else FAIL, message=message, not_yet=not_yet))
    return batch_body(parcel, {shard.run.id: ok for shard in parcel.shards}, message, not_yet=not_yet)


def batch_body(
    parcel: Parcel, given: dict[int, bool], message: str = "", instance: str | None = None, *, not_yet: bool = False
) -> bytes:
    """Return an xwheel executor's answer about some runs."""
    answers = [
        BatchAnswer(run_id=run_id, code=OK if ok else FAIL, message=message, not_yet=not_yet)
        for run_id, ok in given.items()
    ]
    said = parcel.executor.instance if instance is None else instance
    return encode_response(Response(code=OK, data=batch_payload(said, answers)))
