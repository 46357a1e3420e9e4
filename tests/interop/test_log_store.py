"""Logs of executors that do not ship them: a real Java executor's, and pyxxl's, are in the store after its end."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.interop.cluster import Cluster, cluster
from tests.interop.java_peers import JAVA
from tests.interop.peers import Peer
from tests.interop.python_peers import PYXXL

LINES = 40


def stored(site: Cluster, run_id: int) -> list[str]:
    """Return the lines of a log that come from the store."""
    lines: list[str] = []
    while True:
        piece: dict[str, Any] = site.log(run_id, len(lines) + 1)
        if piece["place"] != "store" or not piece["content"]:
            return lines
        lines += piece["content"].split("\n")[:-1]


def counted(lines: list[str]) -> list[int]:
    """Return the numbers of the lines that the handler wrote."""
    words = [line.partition("line ")[2].split() for line in lines]
    return [int(word[0]) for word in words if word[1:3] == ["of", str(LINES)]]


@pytest.mark.long
@pytest.mark.parametrize(
    "peer", [pytest.param(JAVA[0], marks=pytest.mark.nightly), JAVA[-1], PYXXL], ids=lambda peer: peer.name
)
def test_a_log_outlives_its_executor(tmp_path: Path, peer: Peer) -> None:
    with cluster(tmp_path, {"XWHEEL_RUN_LOGS__STORE": "file"}) as site:
        group = site.group("logs")
        executor = site.start(peer, "logs")
        site.registered(group, executor)
        job = site.job(group, "lines")
        run_id = site.run(job, f"{LINES} first")
        site.accepted(run_id)
        # half of the lines are written, and the last of them may be in work still
        site.wait(lambda: len(counted(stored(site, run_id))) >= LINES // 2 - 1, "lines of an open run")
        (executor.place.folder / "first").touch()
        assert site.ended(run_id)["state"] == "succeeded"
        site.wait(lambda: counted(stored(site, run_id)) == list(range(1, LINES + 1)), "all lines")
        site.wait(lambda: site.log(run_id, 10_000)["is_end"], "the end of the log")
        executor.kill()
        shutil.rmtree(executor.place.folder)
        lines = stored(site, run_id)
        assert counted(lines) == list(range(1, LINES + 1))
        tail = site.call("GET", f"/runs/{run_id}/log?tail=3")
        assert tail["place"] == "store"
        assert tail["content"].split("\n")[:-1] == lines[-3:]
