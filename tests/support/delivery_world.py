"""One node, and executors that keep to their protocols, under faults: how runs end and how often handlers begin."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

from tests.support.lines import batch_body
from tests.support.network import Network, states
from tests.support.node import HandNode
from tests.support.rows import NOW
from xwheel.clock import ManualClock
from xwheel.errors import DatabaseUnreachableError
from xwheel.model import FINAL_STATES, DeliveryPolicy, Job, Run, RunState
from xwheel.scheduler.records import Outcome, Parcel
from xwheel.storage.database.engine import Database
from xwheel.wire.codec import encode_response
from xwheel.wire.contract import FAIL, OK
from xwheel.wire.messages import Response

POLICIES: dict[str, dict[str, Any]] = {
    "`at_most_once`": {"delivery": DeliveryPolicy.AT_MOST_ONCE, "recover_lost": True},
    "`at_least_once`": {"delivery": DeliveryPolicy.AT_LEAST_ONCE},
    "`at_least_once` with `recover_lost`": {"delivery": DeliveryPolicy.AT_LEAST_ONCE, "recover_lost": True},
}
STEP_MS = 5000
DUE_MS = NOW + 31_000
AT_ONCE_MS = 30_000  # steps are too coarse to tell less
SILENCE_MS = 60_000  # an xwheel executor starts nothing after this long without a confirmed beat
LONG_MS = 180_000  # an executor that is not heard of for this long is gone


@dataclass
class Taken:
    """A run that an executor has: it waits, runs or has ended."""

    run: Run
    state: str = "accepted"
    ends: RunState = RunState.SUCCEEDED
    reason: str = ""
    told: bool = False

    def end(self, state: RunState, reason: str = "") -> None:
        self.state, self.ends, self.reason = "finished", state, reason


@dataclass
class Peer:
    """An executor.

    Attributes:
        lives: Whether its process is there.
        frozen: Whether its process stands still: connections are taken, and what they bring waits.
        cut_off: Whether nothing passes between it and the nodes.
        begins: Whether it begins what waits.
        ends: Whether its handlers come to an end.
        repeats: Whether it reports an outcome until that is confirmed, or once.
        refuses: How many runs it refuses before it takes one.
        fails: How many handlers fail before one succeeds.
        begun: Job and time of each handler that began.
    """

    address: str
    foreign: bool
    lives: bool = True
    frozen: bool = False
    cut_off: bool = False
    begins: bool = True
    ends: bool = True
    repeats: bool = True
    refuses: int = 0
    fails: int = 0
    boot: int = 1
    journal: int = 1
    heard_ms: int = NOW
    taken: dict[int, Taken] = field(default_factory=dict)
    unread: list[Run] = field(default_factory=list)
    begun: list[tuple[int, int]] = field(default_factory=list)

    @property
    def speaks(self) -> bool:
        return self.lives and not self.frozen and not self.cut_off

    @property
    def identity(self) -> dict[str, str]:
        """What it registers with."""
        if self.foreign:
            return {"kind": "foreign", "instance": "", "boot": ""}
        instance = f"{self.address[-4:]}-{self.journal}"
        return {"kind": "xwheel", "instance": instance, "boot": f"boot-{self.boot}"}

    def take(self, run: Run) -> bool:
        """Take a run in; an xwheel executor knows by its journal what it took before."""
        known = self.taken.get(run.id)
        if known is not None and not self.foreign:
            known.told = False
            return known.reason != "not_started"
        if self.refuses:
            self.refuses -= 1
            return False
        self.taken[run.id] = Taken(run)
        return True

    def work(self, now_ms: int) -> None:
        """Begin and end handlers."""
        if not self.lives or self.frozen:
            return
        for item in self.taken.values():
            if item.state == "accepted" and self.begins:
                if not self.foreign and now_ms - self.heard_ms > SILENCE_MS:
                    item.end(RunState.FAILED, "not_started")
                else:
                    item.state = "started"
                    self.begun.append((item.run.job_id, now_ms))
            if item.state == "started" and self.ends:
                item.end(RunState.FAILED if self.fails else RunState.SUCCEEDED)
                self.fails = max(0, self.fails - 1)

    def thaw(self) -> None:
        """Go on; what came meanwhile is taken in."""
        self.frozen = False
        for run in self.unread:
            self.take(run)
        self.unread.clear()

    def restart(self, *, with_journal: bool = True) -> None:
        """Die and come back: an xwheel executor with its journal, another one with nothing."""
        self.lives, self.boot = True, self.boot + 1
        self.begins = self.ends = True
        if self.foreign or not with_journal:
            self.journal += 1
            self.taken.clear()
        for item in self.taken.values():
            if item.state != "finished":
                item.end(RunState.FAILED, "interrupted" if item.state == "started" else "not_started")

    def kill(self, body: dict[str, Any]) -> None:
        """End one run; a foreign executor ends what it runs of the job and drops the rest without a word."""
        run_id = body.get("xwheel", {}).get("run_id")
        for item in list(self.taken.values()):
            if item.run.job_id != body["jobId"] or (run_id and item.run.id != run_id):
                continue
            if item.state == "accepted" and self.foreign:
                del self.taken[item.run.id]
            elif item.state != "finished":
                item.end(RunState.FAILED)


class World:
    """A node with a job for each policy, each of which is due once, and two executors of one kind.

    Times and settings are those that xwheel has by default.

    Args:
        db: The database.
        foreign: Whether the executors are foreign.
        job: What the jobs are like.
    """

    def __init__(self, db: Database, *, foreign: bool, **job: Any) -> None:
        self.foreign = foreign
        self.node = HandNode(db, ManualClock(NOW))
        self.peers = [Peer(f"http://127.0.0.1:{port}", foreign) for port in (9001, 9002)]
        self.first = self.peers[0]
        self._given: deque[dict[int, bool] | None] = deque()
        self.node.group()
        self._connect()
        self.pass_time(DUE_MS - NOW - 1000)  # so that no executor is news
        once = {"schedule_type": "FIX_RATE", "schedule_conf": "1d", "anchor_ms": DUE_MS}
        self.jobs: list[Job] = [self.node.job(name=name, **once, **policy, **job) for name, policy in POLICIES.items()]

    # -- what happens -----------------------------------------------------------------------------------------

    def plan(self) -> None:
        """Have the fires planned and in memory."""
        self.node.plan()

    def fence(self) -> None:
        """Let them become due: they are fenced, and the requests made."""
        self.plan()
        self.node.tick(DUE_MS - self.node.clock.now_ms())

    def arrive(self) -> None:
        """Let the requests reach their executors."""
        for parcel in self.node.sent[len(self._given) :]:
            self._given.append(self._take(self._peer_at(parcel.executor.address), parcel))

    def vanish(self) -> None:
        """Let the requests be lost on the way, or their answers, if they arrived."""
        self._given = deque({} for _ in self.node.sent)

    def answer(self) -> None:
        """Let the answers come back; they are not written yet."""
        while self.node.sent:
            parcel, given = self.node.sent[0], self._given.popleft()
            if given is None:
                self.node.reply(error="no connection", sent=False)
            elif not given:
                self.node.reply(error="timed out", sent=True)
            elif self.foreign:
                self.node.reply(body=encode_response(Response(code=OK if all(given.values()) else FAIL)))
            else:
                self.node.reply(body=batch_body(parcel, given))

    def send(self) -> None:
        """Do all of it, and write the answers."""
        self.fence()
        self._send()

    def begin(self) -> None:
        """Send, and let handlers begin that do not end for now."""
        self.first.ends = False
        self.send()
        self.work()

    def work(self) -> None:
        """Let the executors work and report."""
        for peer in self.peers:
            peer.work(self.node.clock.now_ms())
            if peer.speaks:
                self._report(peer)

    def kill_node(self) -> None:
        """Let the node die and another one begin on its database."""
        self.node.crash()
        self.node = HandNode(self.node.db, self.node.clock)
        self._given.clear()
        self._connect()

    def freeze_node(self) -> None:
        """Let the node stand still for longer than its lease, with its requests not sent, while another takes over.

        When it goes on, its threads do first what they were about to do. On SQLite no other node can take over.
        """
        frozen, parcels = self.node, [*self.node.sent]
        frozen.sent.clear()
        frozen.line.calls.clear()
        if frozen.db.backend == "sqlite":
            frozen.clock.advance(3 * STEP_MS)
        else:
            self.kill_node()
            self.pass_time(3 * STEP_MS)
        for parcel in parcels:
            frozen.scheduler.sending.lanes.by_number[parcel.lane].send(parcel)
        frozen.adopt()
        frozen.tick()
        assert not frozen.sent, "it sent what may be another node's"
        frozen.write_answers()

    @contextmanager
    def database_away(self) -> Iterator[None]:
        """Let the database take nothing meanwhile."""
        with patch.object(Database, "transaction", side_effect=DatabaseUnreachableError("away")):
            yield

    def pass_time(self, duration_ms: int) -> None:
        for _ in range(0, duration_ms, STEP_MS):
            self._step()

    def settle(self) -> None:
        """Let time pass until each run has ended and nothing waits to be reported."""
        for _ in range(400):
            self._step()
            waiting = any(not item.told for peer in self.peers if peer.speaks for item in peer.taken.values())
            if not waiting and all(run.state in FINAL_STATES for run in self.node.runs()):
                return
        raise AssertionError([(run.job_id, run.state, run.reason) for run in self.node.runs()])

    # -- what came of it --------------------------------------------------------------------------------------

    def story(self, job: Job) -> str:
        """Return how often and when the handler of a job began, and how its runs ended."""
        attempts = sorted(self.node.runs(job.id), key=lambda run: run.attempt)
        ends = ", then ".join(f"`{run.state}`" + (f" ({run.reason})" if run.reason else "") for run in attempts)
        times_ms = sorted(at_ms - DUE_MS for peer in self.peers for job_id, at_ms in peer.begun if job_id == job.id)
        return f"{_begins(times_ms)}: {ends}"

    # -- how it works -----------------------------------------------------------------------------------------

    def _connect(self) -> None:
        self.node.plugs["check"].behind = Network(self._ask)

    def _beat(self) -> None:
        for peer in self.peers:
            if peer.speaks:
                self.node.register(peer.address, **peer.identity)
                peer.heard_ms = self.node.clock.now_ms()

    def _step(self) -> None:
        node, scheduler = self.node, self.node.scheduler
        now_ms = node.clock.advance(STEP_MS)
        self._beat()
        node.keep_lease()
        scheduler.core.registry.step(now_ms)
        node.plan()
        node.tick()
        self._send()
        self.work()
        for _ in range(100):
            if scheduler.finishing.check.step(now_ms):
                break

    def _send(self) -> None:
        self.arrive()
        self.answer()
        self.node.write_answers()

    def _take(self, peer: Peer, parcel: Parcel) -> dict[int, bool] | None:
        """Return what an executor says to the runs of a request: nothing if it is silent, None if it is not there."""
        if not peer.lives or peer.cut_off:
            return None
        runs = [shard.run for shard in parcel.shards]
        if peer.frozen:
            peer.unread += runs
            return {}
        return {run.id: peer.take(run) for run in runs}

    def _report(self, peer: Peer) -> None:
        for item in peer.taken.values():
            if item.state != "finished" or item.told:
                continue
            outcome = Outcome(run_id=item.run.id, state=item.ends, reason=item.reason, created_ms=item.run.created_ms)
            try:
                self.node.scheduler.finishing.finisher.finish([outcome])
            except DatabaseUnreachableError:
                item.told = not peer.repeats
            else:
                item.told = True

    def _ask(self, address: str, path: str, body: dict[str, Any]) -> dict[str, Any] | None:
        peer = self._peer_at(address)
        if not peer.speaks:
            return None
        if path == "/kill":
            peer.kill(body)
            return {"code": OK}
        if path == "/runState":
            found = {item.run.id: _state_of(item) for item in peer.taken.values()}
            said = states(found, instance=peer.identity["instance"])(address, path, body)
            assert isinstance(said, dict)
            return said
        mine = [item for item in peer.taken.values() if item.run.job_id == body["jobId"]]
        return {"code": OK if all(item.state == "finished" for item in mine) else FAIL}

    def _peer_at(self, address: str) -> Peer:
        return next(peer for peer in self.peers if peer.address == address)


def _state_of(item: Taken) -> dict[str, Any]:
    if item.state != "finished":
        return {"state": item.state}
    own = {"job_id": item.run.job_id, "state": str(item.ends), "reason": item.reason}
    code = OK if item.ends is RunState.SUCCEEDED else FAIL
    return {"state": "finished", "outcome": {"handleCode": code, "xwheel": own}}


def _begins(times_ms: list[int]) -> str:
    """Return how often a handler began, and how long after the due time the last one did, unless that was at once."""
    words = ["never", "once", "twice", "three times"][len(times_ms)]
    if not times_ms or times_ms[-1] < AT_ONCE_MS:
        return words
    seconds = round(times_ms[-1] / 1000)
    after = f"{seconds} s" if seconds < 120 else f"{round(seconds / 60)} min"
    return f"{words}, after {after}" if len(times_ms) == 1 else f"{words}, again after {after}"
