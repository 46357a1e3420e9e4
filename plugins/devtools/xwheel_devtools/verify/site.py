"""The cluster that is verified, as its management API shows it: whichever of its nodes answers is asked."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import msgspec
from xwheel.errors import WireError
from xwheel.wire.http.rest import RestClient

from xwheel_devtools.verify.records import Executed, RunRow

PREFIX: Final = "/api/v1"
PAGE: Final = 1000
OPEN: Final = "planned,dispatching,running"
BEGIN, END = "begin", "end"


class Site:
    """Calls one node after the other until one answers.

    Thread-safety: any thread; each has connections of its own.

    Args:
        connect: Makes a client of each node, for one thread.
    """

    def __init__(self, connect: Callable[[], Sequence[RestClient]]) -> None:
        self._connect = connect
        self._mine = threading.local()

    def call(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        params: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Any:
        """Return the first node's answer; raises the last node's error if none can be reached, else what it says.

        Raises:
            WireError: No node answers.
            XwheelError: A node says no; see :meth:`RestClient.call`.
        """
        clients: list[RestClient] = self._clients()
        for number, client in enumerate(clients):
            try:
                answer = client.call(method, f"{PREFIX}{path}", body, params=params, headers=headers)
            except WireError:
                if number == len(clients) - 1:
                    raise
                continue
            if number:  # the next call begins with the node that answers
                clients.insert(0, clients.pop(number))
            return answer
        raise WireError("no node is named")

    def _clients(self) -> list[RestClient]:
        if not hasattr(self._mine, "clients"):
            self._mine.clients = list(self._connect())
        found: list[RestClient] = self._mine.clients
        return found

    def group(self, app_name: str, max_running: int = 0) -> int:
        """Return the id of a group, which is made if it is not there."""
        for item in self.call("GET", "/groups", params={"app_name": app_name})["items"]:
            if item["app_name"] == app_name:
                self.call("PATCH", f"/groups/{item['id']}", {"max_running": max_running})
                return int(item["id"])
        body = {"app_name": app_name, "title": "xwheel verify", "max_running": max_running}
        return int(self.call("POST", "/groups", body)["id"])

    def executors(self, group_id: int) -> list[str]:
        """Return the addresses of a group's live executors."""
        return [str(item["address"]) for item in self.call("GET", f"/groups/{group_id}/executors")["items"]]

    def make(self, fields: Mapping[str, Any]) -> int:
        """Create a job, stopped, and return its id."""
        return int(self.call("POST", "/jobs", fields)["id"])

    def link(self, parent_id: int, child_ids: Sequence[int]) -> None:
        """Let jobs run after another."""
        body = {"children": [{"child_id": number} for number in child_ids]}
        self.call("PUT", f"/jobs/{parent_id}/children", body)

    def bulk(self, what: str, ids: Sequence[int]) -> list[str]:
        """Start, stop or delete many jobs; return what went wrong with which."""
        found: list[str] = []
        for begin in range(0, len(ids), 100):
            answer = self.call("POST", f"/jobs/bulk/{what}", {"ids": list(ids[begin : begin + 100])})
            found += [f"job {item['id']}: {item['problem']}" for item in answer["items"] if item["problem"]]
        return found

    def edit(self, job_id: int, fields: Mapping[str, Any]) -> Any:
        """Change a job."""
        return self.call("PATCH", f"/jobs/{job_id}", fields)

    def switch(self, job_id: int, *, is_on: bool) -> Any:
        """Start or stop a job."""
        return self.call("POST", f"/jobs/{job_id}/{'start' if is_on else 'stop'}", {})

    def pause(self, *, is_on: bool) -> Any:
        """Pause all schedules, or let them fire again."""
        return self.call("PUT" if is_on else "DELETE", "/schedule/pause", {} if is_on else None)

    def run_now(self, job_id: int, key: str) -> Any:
        """Run a job by hand; the same key is the same run."""
        return self.call("POST", f"/jobs/{job_id}/run", {}, headers={"Idempotency-Key": key})

    def run_many(self, ids: Sequence[int]) -> dict[int, int]:
        """Run jobs by hand, once each; return the run of each job that has one now."""
        items = self.call("POST", "/jobs/bulk/run", {"ids": list(ids)})["items"]
        return {int(item["id"]): int(item["run_id"]) for item in items if item["run_id"]}

    def kill(self, run_id: int) -> Any:
        """End a run."""
        return self.call("POST", f"/runs/{run_id}/kill", {})

    def open_run(self, job_id: int, state: str = OPEN) -> int:
        """Return a run of a job that has not ended, or that is in another of these states, or 0."""
        found = self.call("GET", "/runs", params={"job_id": job_id, "state": state, "limit": 1})["items"]
        return int(found[0]["id"]) if found else 0

    def is_open(self, group_ids: Sequence[int]) -> bool:
        """Return whether a run of these groups is open, or a job of theirs fires again.

        They are asked twice: what ends while another question is on its way may have set the next fire of a job that
        was asked about before, or a run of another group in motion.
        """
        return any(self._is_open(number) for _ in range(2) for number in group_ids)

    def _is_open(self, group_id: int) -> bool:
        # jobs first: a fire that is planned in between has a run by then
        if any(job["next_fire_ms"] for job in self.pages("/jobs", {"group_id": group_id})):
            return True
        params = {"group_id": group_id, "state": OPEN, "limit": 1}
        return bool(self.call("GET", "/runs", params=params)["items"])

    def rows(self, group_ids: Sequence[int], job_ids: Sequence[int]) -> list[RunRow]:
        """Return all runs of these groups that are of these jobs."""
        wanted = set(job_ids)
        found = (item for number in group_ids for item in self.pages("/runs", {"group_id": number}))
        return [row for item in found if (row := _row(item)).job_id in wanted]

    def pages(self, path: str, params: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """Yield the items of a list, page by page."""
        after: Any = None
        while True:
            page = self.call(
                "GET", path, params={**params, "limit": PAGE, **({} if after is None else {"after": after})}
            )
            yield from page["items"]
            after = page["next"]
            if after is None:
                return


def _row(item: Mapping[str, Any]) -> RunRow:
    return RunRow(**{name: item[name] for name in RunRow.__dataclass_fields__})


class HandlerNote(msgspec.Struct, frozen=True):
    """What a handler writes: a line when it begins, and another when it ends."""

    what: str
    run_id: int
    job_id: int
    planned_ms: int
    at_ms: int
    executor: str
    param: str = ""


def executions(files: Sequence[Path], job_ids: Sequence[int]) -> list[Executed]:
    """Return what handlers of these jobs wrote down; a line that is not whole was never written."""
    found: list[Executed] = []
    wanted = set(job_ids)
    for path in files:
        open_ones: dict[int, int] = {}
        for text in path.read_text().splitlines():
            try:
                line = msgspec.json.decode(text, type=HandlerNote)
            except msgspec.DecodeError:
                continue
            if line.job_id not in wanted:
                continue
            if line.what == BEGIN:
                open_ones[line.run_id] = len(found)
                found.append(Executed(line.run_id, line.job_id, line.planned_ms, line.at_ms, line.executor, line.param))
            elif line.run_id in open_ones:
                place = open_ones.pop(line.run_id)
                found[place] = replace(found[place], end_ms=line.at_ms)
    return found
