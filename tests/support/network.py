"""A network that is a function: what executors answer to questions, without sockets."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from tests.support.node import HandNode
from xwheel.wire.http import HttpCall, HttpResult

STEP_MS = 5000
Script = Callable[[str, str, dict[str, Any]], "dict[str, Any] | bytes | int | None"]


class Network:
    """Answers calls by a script.

    Attributes:
        slots: How many calls one poll answers.

    Args:
        script: ``script(address, path, body)`` returns an envelope, raw bytes, an HTTP status, or None for silence.
    """

    def __init__(self, script: Script) -> None:
        self.script = script
        self.calls: list[tuple[str, str, dict[str, Any]]] = []
        self.most = 0
        self.slots = 1_000_000
        self._open: list[HttpCall] = []

    def submit(self, call: HttpCall) -> None:
        self._open.append(call)
        self.most = max(self.most, len(self._open))

    def poll(self, timeout_ms: int) -> list[HttpResult]:
        del timeout_ms
        calls, self._open = self._open[: self.slots], self._open[self.slots :]
        return [self._answer(call) for call in calls]

    def wake(self) -> None:
        pass

    def close(self) -> None:
        pass

    def paths(self) -> list[str]:
        """Take the paths of all calls since the last time."""
        found = [path for _, path, _ in self.calls]
        self.calls.clear()
        return found

    def _answer(self, call: HttpCall) -> HttpResult:
        parts = urlsplit(call.url)
        address, body = f"{parts.scheme}://{parts.netloc}", json.loads(call.body)
        self.calls.append((address, parts.path, body))
        said = self.script(address, parts.path, body)
        if said is None:
            return HttpResult(key=call.key, status=0, body=b"", error="timed out", sent=True, cost_ms=3000)
        status, data = (said, b"") if isinstance(said, int) else (200, said)
        raw = data if isinstance(data, bytes) else json.dumps(data).encode()
        return HttpResult(key=call.key, status=status, body=raw, error="", sent=True, cost_ms=5)


def states(found: dict[int, Any], *, instance: str = "instance-1") -> Script:
    """Play an xwheel executor: ``found`` gives the state of a run, or all its fields; others are unknown."""

    def answer(_address: str, path: str, body: dict[str, Any]) -> dict[str, Any]:
        if path != "/runState":
            return {"code": 200}
        rows = []
        for run_id, _, created_ms in body["keys"]:
            item = found.get(run_id, "unknown")
            item = {"state": item} if isinstance(item, str) else dict(item)
            if "outcome" in item:
                item["outcome"] = {"logId": run_id, "logDateTime": created_ms, **item["outcome"]}
            rows.append({"id": run_id, **item})
        return {"code": 200, "data": {"instance": instance, "boot": "boot-1", "runs": rows}}

    return answer


def attach(node: HandNode, script: Script) -> Network:
    """Let the checks of a node talk to a script."""
    network = Network(script)
    node.plugs["check"].behind = network
    return network


def check(node: HandNode, by_ms: int = 0) -> None:
    """Let time pass, look at the registry, and check until nothing is left to do."""
    for part_ms in [*[STEP_MS] * (by_ms // STEP_MS), by_ms % STEP_MS]:
        now_ms = node.clock.advance(part_ms)
        node.scheduler.core.registry.step(now_ms)  # as often as a node does, or it would have stood still
    node.keep_lease()
    for _ in range(300):
        if node.scheduler.finishing.check.step(now_ms):
            return
    raise AssertionError("the checks find no end")
