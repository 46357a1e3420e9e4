"""What a scheduler node knows of a cluster, kept in memory: it answers at once, also while the store does not."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from xwheel_cluster_zookeeper.model import (
    Assignment,
    ClusterState,
    Drain,
    Epoch,
    JobStatus,
    NodeRecord,
    Result,
    Role,
    Stored,
    Wanted,
)

MOST_LOST: Final = 100
KEEP_LOST_MS: Final = 24 * 60 * 60 * 1000
NOTHING: Final = ClusterState(epoch=Stored(Epoch(), 0), nodes={}, jobs={}, assignments={}, statuses={}, owners={})


@dataclass(frozen=True, slots=True)
class Place:
    """Where a job is.

    Attributes:
        is_wanted: Whether it shall run by its schedule.
        assignment: Which node it was given to; None if none has it.
        node: That node, while it lives.
        status: How its last operation went.
        is_taken: Whether that node is ready for it and takes its runs.
    """

    is_wanted: bool
    assignment: Assignment | None
    node: NodeRecord | None
    status: JobStatus | None
    is_taken: bool


@dataclass(frozen=True, slots=True)
class _Seen:
    """One state, and what is looked up in it."""

    state: ClusterState = NOTHING
    keys: Mapping[int, str] = field(default_factory=dict)
    lost: Mapping[str, tuple[NodeRecord, int]] = field(default_factory=dict)
    is_read: bool = False


class ClusterView:
    """The newest state that was read, when that was, and nodes that are gone; for many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seen = _Seen()
        self._read_ms = 0

    @property
    def state(self) -> ClusterState:
        """The newest state; an empty one before the first."""
        return self._seen.state

    def confirm(self, now_ms: int) -> None:
        """Note that the state is still what it was."""
        self._read_ms = now_ms

    def update(self, state: ClusterState, now_ms: int) -> list[str]:
        """Take a newer state, and return addresses of nodes that are gone and have not come back."""
        with self._lock:
            before = self._seen
            last_ms = self._read_ms
            gone = {path: node for path, node in before.state.nodes.items() if path not in state.nodes}
            back = {node.node_id for node in state.nodes.values()}
            lost = {
                node_id: (node, seen_ms)
                for node_id, (node, seen_ms) in before.lost.items()
                if node_id not in back and now_ms - seen_ms < KEEP_LOST_MS
            }
            lost |= {node.node_id: (node, last_ms) for node in gone.values() if node.node_id not in back}
            newest = sorted(lost.items(), key=lambda item: item[1][1])[-MOST_LOST:]
            self._seen = _Seen(state, _keys(state), dict(newest), is_read=True)
            self._read_ms = now_ms
        present = {node.address for node in state.nodes.values()}
        return sorted({node.address for node in gone.values()} - present)

    def find(self, job_id: int) -> Place | None:
        """Return where a job is; None if the cluster does not know it."""
        seen = self._seen
        key = seen.keys.get(job_id)
        if key is None:
            return None
        given, status = seen.state.assignments.get(key), seen.state.statuses.get(key)
        assignment = given.value if given else None
        node = seen.state.nodes.get(assignment.node_path) if assignment else None
        is_wanted = key in seen.state.jobs and seen.state.jobs[key].value.wanted is Wanted.STARTED
        owner = seen.state.owners.get(key)
        is_taken = node is not None and owner is not None and owner.node_id == node.node_id
        return Place(is_wanted, assignment, node, status.value if status else None, is_taken)

    def knows(self, node_id: str) -> bool:
        """Return whether a node lives, or did lately."""
        seen = self._seen
        return node_id in seen.lost or any(node.node_id == node_id for node in seen.state.nodes.values())

    def nodes(self, tag: str) -> list[NodeRecord]:
        """Return the living nodes that may run a job with this tag by hand; in a standby cluster the master alone."""
        state = self._seen.state
        found = [node for _, node in sorted(state.nodes.items()) if not tag or tag in node.tags]
        drained = state.drained()
        found = [node for node in found if node.node_id not in drained] or found
        if any(node.role is Role.BACKUP for node in state.nodes.values()):
            return [node for node in found if node.role is Role.MASTER]
        return found

    def summary(self, now_ms: int, app_names: Collection[str] | None = None) -> dict[str, Any]:
        """Return what people want to know of the cluster, as JSON.

        Args:
            now_ms: The time.
            app_names: The groups that they may read, of which nodes and jobs are shown; None for all.
        """
        seen = self._seen
        state = seen.state if app_names is None else _part(seen.state, app_names)
        drained = state.drained()
        loads = Counter(item.value.node_path for item in state.assignments.values())
        nodes = [
            {**_node(node, drained), "jobs": loads[path], "is_lost": False, "last_seen_ms": None}
            for path, node in sorted(state.nodes.items())
        ]
        nodes += [
            {**_node(node, drained), "jobs": 0, "is_lost": True, "last_seen_ms": seen_ms}
            for node, seen_ms in seen.lost.values()
            if app_names is None or node.app_name in app_names
        ]
        master, shown = state.epoch.value.node_id, {node["node_id"] for node in nodes}
        return {
            "age_ms": max(0, now_ms - self._read_ms) if seen.is_read else None,
            "epoch": state.epoch.value.number,
            "master": master if app_names is None or master in shown else "",
            "master_since_ms": state.epoch.value.since_ms,
            "nodes": nodes,
            "jobs": {
                "started": sum(item.value.wanted is Wanted.STARTED for item in state.jobs.values()),
                "assigned": len(state.assignments),
                "waiting": sum(item.value.result is Result.WAITING for item in state.statuses.values()),
                "retrying": sum(item.value.result is Result.RETRYING for item in state.statuses.values()),
                "failed": sum(item.value.result is Result.FAILED for item in state.statuses.values()),
            },
        }


def _part(state: ClusterState, app_names: Collection[str]) -> ClusterState:
    """Return what there is of some groups."""
    jobs = {key: item for key, item in state.jobs.items() if item.value.app_name in app_names}
    return replace(
        state,
        nodes={path: node for path, node in state.nodes.items() if node.app_name in app_names},
        jobs=jobs,
        assignments={key: item for key, item in state.assignments.items() if key in jobs},
        statuses={key: item for key, item in state.statuses.items() if key in jobs},
    )


def _keys(state: ClusterState) -> dict[int, str]:
    """Return the keys of jobs by their ids."""
    return {item.value.job_id: key for key, item in state.jobs.items()}


def _node(node: NodeRecord, drained: Mapping[str, Drain]) -> dict[str, Any]:
    drain = drained.get(node.node_id)
    return {
        "drained_ms": drain.since_ms if drain else None,
        "drained_by": drain.by if drain else None,
        "node_id": node.node_id,
        "path": node.path,
        "role": node.role.value,
        "host": node.host,
        "address": node.address,
        "pid": node.pid,
        "slots": node.slots,
        "tags": list(node.tags),
        "xwheel_version": node.xwheel_version,
        "python_version": node.python_version,
        "started_ms": node.started_ms,
    }
