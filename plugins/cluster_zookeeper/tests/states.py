"""States of a cluster that tests make and change as nodes, schedulers and masters do."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

from xwheel_cluster_zookeeper.backend import MasterChange
from xwheel_cluster_zookeeper.master import REBALANCE, MasterSettings, Plan, movable, reconcile
from xwheel_cluster_zookeeper.model import (
    Assignment,
    ClusterState,
    Drain,
    Epoch,
    JobRecord,
    JobState,
    JobStatus,
    NodeRecord,
    Result,
    Role,
    Stored,
    Wanted,
    drain_key,
)

NOW = 1_700_000_000_000


@dataclass
class Cluster:
    """A cluster in memory whose parts do what the real ones do, one step at a time."""

    settings: MasterSettings = field(default_factory=MasterSettings)
    now: int = NOW
    epoch: Epoch = field(default_factory=lambda: Epoch(number=1, node_id="n1"))
    nodes: dict[str, NodeRecord] = field(default_factory=dict)
    jobs: dict[str, Stored[JobRecord]] = field(default_factory=dict)
    assignments: dict[str, Stored[Assignment]] = field(default_factory=dict)
    statuses: dict[str, Stored[JobStatus]] = field(default_factory=dict)
    drains: dict[str, Drain] = field(default_factory=dict)
    joined: int = 0

    def state(self) -> ClusterState:
        return ClusterState(
            epoch=Stored(self.epoch, 0),
            nodes=dict(self.nodes),
            jobs=dict(self.jobs),
            assignments=dict(self.assignments),
            statuses=dict(self.statuses),
            owners={},
            drains=dict(self.drains),
        )

    def join(self, *node_ids: str, **more: Any) -> str:
        path = ""
        for node_id in node_ids:
            self.joined += 1
            path = f"node-{self.joined:010}"
            self.nodes[path] = NodeRecord(
                path=path,
                node_id=node_id,
                host="127.0.0.1",
                address=f"http://{node_id}:9999",
                pid=1,
                role=Role.SLAVE,
                **more,
            )
        return path

    def lose(self, *node_ids: str) -> None:
        self.nodes = {path: node for path, node in self.nodes.items() if node.node_id not in node_ids}

    def drain(self, *node_ids: str) -> None:
        for name in node_ids:
            self.drains[drain_key(name)] = Drain(key=drain_key(name), node_id=name)

    def resume(self, *node_ids: str) -> None:
        for name in node_ids:
            self.drains.pop(drain_key(name), None)

    def elect(self, node_id: str) -> None:
        self.epoch = Epoch(number=self.epoch.number + 1, node_id=node_id)

    def order(self, *keys: str, wanted: Wanted = Wanted.STARTED, tag: str | None = None, app_name: str = "") -> None:
        """Let jobs have one more operation."""
        for key in keys:
            before = self.jobs.get(key)
            made = JobRecord(
                key=key,
                job_id=int(key),
                group_name="acme.jobs",
                job_name=key,
                source="{}",
                wanted=wanted,
                operation="Start" if wanted is Wanted.STARTED else "Pause",
                op_seq=before.value.op_seq + 1 if before else 1,
                tag=before.value.tag if before and tag is None else tag or "",
                app_name=app_name,
            )
            self.jobs[key] = Stored(made, before.version + 1 if before else 0)

    def step(self) -> Plan:
        """Let the master do its work, and see that it has nothing to do then."""
        plan = reconcile(self.state(), self.now, self.settings)
        for change in plan.changes:
            self.apply(change)
        again = reconcile(self.state(), self.now, self.settings)
        assert again.changes == []
        assert again.next_ms == plan.next_ms
        return plan

    def apply(self, change: MasterChange) -> None:
        table: dict[str, Stored[Any]] = self.assignments if change.is_assignment else self.statuses
        before = table.get(change.key)
        assert change.expected == (before.version if before else None), change
        value = change.assignment if change.is_assignment else change.status
        if value is None:
            del table[change.key]
        else:
            table[change.key] = Stored(value, before.version + 1 if before else 0)

    def give(self, key: str, node_id: str) -> None:
        """Put a job on a node, whatever a master would say."""
        before = self.assignments[key]
        (path,) = [path for path, node in self.nodes.items() if node.node_id == node_id]
        self.assignments[key] = Stored(replace(before.value, node_id=node_id, node_path=path), before.version)

    def say(self, key: str, result: Result, state: JobState | None = None, **more: Any) -> None:
        """Let the node that has a job write its status."""
        item, job = self.assignments[key].value, self.jobs[key].value
        before = self.statuses.get(key)
        was = before.value.job_state if before else JobState.SHUTDOWN
        status = JobStatus(
            key=key,
            job_state=state or was,
            result=result,
            op_seq=job.op_seq,
            epoch=item.epoch,
            node_id=item.node_id,
            attempt=item.attempt,
            **more,
        )
        self.statuses[key] = Stored(status, before.version + 1 if before else 0)

    def work(self, *keys: str) -> None:
        """Let living nodes do what their jobs' last operations want."""
        for key in keys or list(self.assignments):
            if key not in self.assignments or self.assignments[key].value.node_path not in self.nodes:
                continue
            is_started = self.jobs[key].value.wanted is Wanted.STARTED
            self.say(key, Result.SUCCESS, JobState.STARTUP if is_started else JobState.PAUSE)

    def mark(self) -> list[str]:
        """Ask for even loads, as a scheduler does."""
        keys = movable(self.state(), self.settings)
        for key in keys:
            before = self.jobs[key]
            more = {**before.value.more, REBALANCE: self.now}
            self.jobs[key] = Stored(replace(before.value, more=more), before.version + 1)
        return keys

    def node_of(self, key: str) -> str:
        stored = self.assignments.get(key)
        return stored.value.node_id if stored else ""

    def loads(self) -> Counter[str]:
        """Return how many jobs each node has, also those that have none."""
        counts = Counter({node.node_id: 0 for node in self.nodes.values()})
        counts.update(stored.value.node_id for stored in self.assignments.values())
        return counts


def keys(count: int, first: int = 0) -> list[str]:
    return [f"{number:05}" for number in range(first, first + count)]
