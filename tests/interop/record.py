"""Record the traffic of a peer: ``python -m tests.interop.record [PEER …]``, all peers of the roster by default.

A real node runs the peer through a proxy; what both said is written to ``tests/contract/data/peers``, where
``tests/contract/test_peer_traffic.py`` plays it again without either. Ports, times, tokens and folders get fixed
values.
"""

from __future__ import annotations

import re
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.interop.cluster import Cluster, cluster
from tests.interop.peers import ROOT, Peer, Place
from tests.interop.recorder import Exchange, Recorder, dumps
from tests.interop.roster import PEERS
from tests.support.ports import free_port
from xwheel.wire import contract
from xwheel.wire.http import post

DATA = ROOT / "tests" / "contract" / "data" / "peers"
APP = "recorded"
ADDRESS = "127.0.0.1:9999"
TOKEN = "the-recorded-token"
AT_MS = 1_790_000_000_123
_TIMES = re.compile(r'("logDateTime?"\s*:\s*|logDateTime=)\d+')
_CLOCK = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d([.,]\d+)?")


class Session:
    """A node, a peer and the recorder between them.

    Args:
        made: The node.
        peer: The peer to start.
    """

    def __init__(self, made: Cluster, peer: Peer) -> None:
        self.made = made
        self.peer = peer
        self.group_id = made.group(APP)
        port = free_port()
        self.recorder = Recorder(made.admin_url, f"http://127.0.0.1:{port}")
        folder = made.folder / "peer"
        folder.mkdir()
        place = Place(app_name=APP, admin_url=self.recorder.admin_url, token=made.token, port=port, folder=folder)
        self.process = peer.start(place)
        made.processes.append(self.process)
        made.wait(lambda: self.recorder.peer_url in made.executors(self.group_id), "registration", 120)
        time.sleep(2)
        self.runs: dict[int, str] = {}

    def job(self, handler: str, **fields: Any) -> int:
        if "handlers" in self.peer.lacks:
            handler = f"{handler}.{len(self.runs) + 1}"
        return self.made.job(self.group_id, handler, **fields)

    def run(self, label: str, job_id: int, param: str) -> int:
        run_id = self.made.run(job_id, param, self.recorder.peer_url)
        self.runs[run_id] = label
        return run_id

    def play(self) -> None:
        """Let the node and the peer say everything that they have to say to each other."""
        made = self.made
        post(contract.join_url(self.recorder.peer_url, contract.BEAT), b"", token=made.token, app_name=APP)
        made.ended(self.run("echo", self.job("echo"), "grüße 世界 <&>"))
        made.ended(self.run("fail", self.job("fail"), "it"))
        made.ended(self.run("unknown", self.made.job(self.group_id, "nobody"), ""))
        made.ended(self.run("late", self.job("hold", timeout_s=1), "late"))
        busy = self.job("hold", block_strategy="DISCARD_LATER")
        first = self.run("kept", busy, "kept")
        made.wait(lambda: "kept" in self.process.executed(), "start")
        made.ended(self.run("discarded", busy, "discarded"))
        self._wait_for(contract.IDLE_BEAT)
        made.call("POST", f"/runs/{first}/kill", {})
        made.ended(first)
        logged = self.run("lines", self.job("lines"), "4 log")
        made.wait(lambda: "2 of 4" in made.log(logged)["content"], "log")
        made.log(logged, 1000)
        self.process.release("log")
        made.ended(logged)
        made.log(logged)
        self.process.terminate()
        self._wait_for("/api/registryRemove")
        time.sleep(1)

    def _wait_for(self, path: str) -> None:
        self.made.wait(lambda: any(item["path"].endswith(path) for item in self.recorder.exchanges), path)


def normalised(session: Session) -> list[Exchange]:
    """Return what was said, once each, with fixed values for what changes from run to run."""
    places = [session.recorder.peer_url, session.process.address]
    found: list[Exchange] = []
    for exchange in session.recorder.exchanges:
        item = dict(exchange)
        for key in ("body", "reply"):
            text = item[key]
            for place in places:
                text = text.replace(place.removeprefix("http://"), ADDRESS)
            text = text.replace(str(session.made.folder), "/folder").replace(str(ROOT), "/folder")
            text = text.replace(sys.prefix, "/python").replace(sys.base_prefix, "/python")
            item[key] = _CLOCK.sub("2026-09-21 14:13:20", _TIMES.sub(rf"\g<1>{AT_MS}", text))
        item["headers"] = {name: value.replace(session.made.token, TOKEN) for name, value in item["headers"].items()}
        if item["headers"].get("content-length"):
            item["headers"]["content-length"] = str(len(item["body"].encode()))
        if item not in found:
            found.append(item)
    return found


def record(peer: Peer, folder: Path) -> None:
    """Record one peer."""
    with cluster(folder, {"XWHEEL_TRIGGER__CHECK_AFTER_S": "2"}) as made:
        session = Session(made, peer)
        try:
            session.play()
        except BaseException:
            print(made.tails())
            raise
        finally:
            session.recorder.close()
    runs = {str(run_id): label for run_id, label in session.runs.items()}
    data = {"peer": peer.title, "runs": runs, "exchanges": normalised(session)}
    DATA.mkdir(parents=True, exist_ok=True)
    (DATA / f"{peer.name}.json").write_text(dumps(data), encoding="utf-8")
    print(f"{peer.name}: {len(data['exchanges'])} exchanges")


def main() -> None:
    names = sys.argv[1:]
    for peer in PEERS:
        if peer.name != "xwheel" and (not names or peer.name in names):
            with tempfile.TemporaryDirectory() as folder:
                record(peer, Path(folder))


if __name__ == "__main__":
    main()
