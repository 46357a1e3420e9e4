"""The stage that the scenario is played on: a node, three executors of one peer and one with a wrong token."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.interop.cluster import Cluster
from tests.interop.peers import Peer
from xwheel.wire import contract
from xwheel.wire.http import post
from xwheel.wire.messages import Response

GROUP = "interop"


class Stage:
    """What steps work with.

    Attributes:
        first: The first executor by address, which FIRST chooses.
        worker: The one that most steps name, which stays to the end.
        leaver: The one that leaves as it should.
        stranger: One with a wrong token.
    """

    def __init__(self, cluster: Cluster, peer: Peer) -> None:
        self.cluster = cluster
        self.peer = peer
        self._jobs = 0
        self.group_id = cluster.group(GROUP)
        started = [cluster.start(peer, GROUP) for _ in range(3)]
        self.first, self.worker, self.leaver = sorted(started, key=lambda process: process.address)
        self.stranger = cluster.start(peer, GROUP, token="nobody-knows-this-token")
        cluster.registered(self.group_id, self.first, self.worker, self.leaver)

    def job(self, handler: str, **fields: Any) -> int:
        """Create a job; where jobs must not share a handler, it gets a copy of its own."""
        if handler and "handlers" in self.peer.lacks:
            self._jobs += 1
            handler = f"{handler}.{self._jobs}"
        return self.cluster.job(self.group_id, handler, **fields)

    def run(self, job_id: int, param: str) -> int:
        """Run a job on the worker."""
        return self.cluster.run(job_id, param, self.worker.address)

    def hold(self, job_id: int, param: str) -> int:
        """Run a job on the worker and wait until its handler began."""
        run_id = self.run(job_id, param)
        self.cluster.wait(
            lambda: param in self.worker.executed() or self.cluster.look(run_id)["finished_ms"], f"start of {param!r}"
        )
        return run_id

    def cut(self, param: str) -> str:
        """Say whether a handler that began on the worker was cut short."""
        if param not in self.worker.executed():
            return "never began"
        return "not cut short" if param in self.worker.executed("end") else "cut short"

    def ended(self, run_id: int) -> dict[str, Any]:
        return self.cluster.ended(run_id)

    def attempts(self, run_id: int) -> list[dict[str, Any]]:
        """Wait until a run, and what was planned with or after it, is over; return them all, first attempt first."""
        root_id = self.ended(run_id)["root_id"]

        def look() -> list[dict[str, Any]]:
            found = self.cluster.runs(root_id=root_id)
            return found if len(found) > 1 and all(run["finished_ms"] for run in found) else []

        runs = self.cluster.wait(look, f"end of all runs of root {root_id}")
        return sorted(runs, key=lambda run: int(run["attempt"]))

    def whole_log(self, run_id: int) -> str:
        """Return the log of a run that ended."""
        pages: list[str] = []
        line = 1

        def read() -> bool:
            nonlocal line
            page = self.cluster.log(run_id, line)
            pages.append(page["content"])
            line = page["next_line"]
            return bool(page["is_end"])

        self.cluster.wait(read, f"the end of the log of run {run_id}")
        return "".join(pages)

    def ask(self, path: str, body: bytes, token: str | None = None) -> Response:
        """Call the worker as the node does, with the right token or another one."""
        url = contract.join_url(self.worker.address, path)
        return post(url, body, token=token or self.cluster.token, app_name=GROUP)

    def node_log(self) -> str:
        return (Path(self.cluster.folder) / "node.log").read_text(errors="replace")
