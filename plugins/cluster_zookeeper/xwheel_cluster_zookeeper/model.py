"""What a cluster keeps: its nodes, which jobs shall run, who runs them, and how that went; each as JSON of one znode.

Each kind has one writer. Values are replaced as a whole, at the version that was read; a field that a later version
added is kept in ``more``. Times are milliseconds since 1970, UTC.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, Generic, TypeVar
from urllib.parse import quote

T = TypeVar("T")
MOST_BYTES: Final = 64 * 1024
MOST_ERROR_BYTES: Final = 8 * 1024


class Mode(StrEnum):
    """How nodes share jobs; also the name of the tree's part."""

    MASTER_SLAVE = "master-slave-node"
    STANDBY = "standby-node"


class Role(StrEnum):
    """What a node is."""

    MASTER = "Master"
    SLAVE = "Slave"
    BACKUP = "Backup"


class Wanted(StrEnum):
    """What shall become of a job."""

    STARTED = "Started"
    STOPPED = "Stopped"


class JobState(StrEnum):
    """What a job is."""

    SHUTDOWN = "Shutdown"
    STARTUP = "Startup"
    PAUSE = "Pause"


class Result(StrEnum):
    """How far the last operation of a job is."""

    WAITING = "Waiting"
    EXECUTING = "Executing"
    RETRYING = "Retrying"
    SUCCESS = "Success"
    FAILED = "Failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRecord:
    """A node, as it writes itself; gone with its session.

    Attributes:
        path: Name of its znode, ``node-`` and ten digits; a node that joins again has another.
        node_id: Name of the node, the same for all its lives.
        address: Where the scheduler reaches its executor: a URL, as the executor registers it.
        slots: How many jobs it may have at most; 0 for any number.
        tags: What jobs may ask for.
        app_name: The group of its executor, of which it has jobs; empty of a node of an older version, for any.
    """

    path: str
    node_id: str
    host: str
    address: str
    pid: int
    role: Role
    slots: int = 0
    tags: tuple[str, ...] = ()
    app_name: str = ""
    xwheel_version: str = ""
    python_version: str = ""
    started_ms: int = 0
    more: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRecord:
    """What shall become of a job; written by the scheduler.

    Attributes:
        key: See :func:`job_key`.
        job_id: The job's id in the scheduler.
        source: The job's source: which package, and what of it is called.
        operation: The last operation: ``Start``, ``Restart`` or ``Pause``.
        op_seq: Number of the last operation; rises with each.
        operation_id: Row of the operation log that waits for the result.
        tag: Only nodes with this tag get the job; empty for any.
        app_name: The job's group: only its nodes get the job, and can have the package; empty for any.
    """

    key: str
    job_id: int
    group_name: str
    job_name: str
    source: str
    wanted: Wanted
    operation: str
    op_seq: int
    operation_id: int = 0
    tag: str = ""
    app_name: str = ""
    updated_by: str = ""
    updated_ms: int = 0
    more: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """Which node has a job; written by the master.

    Attributes:
        node_id: The node.
        node_path: Its znode: a node that joined again has to be asked again.
        epoch: Of the master that decided.
        op_seq: Which operation it is for.
        attempt: 1 for the first, one more for each retry of the same operation.
        not_before_ms: When a retry begins.
        excluded: Ids of nodes where this operation failed before.
    """

    key: str
    job_id: int
    node_id: str
    node_path: str
    epoch: int
    op_seq: int
    attempt: int = 1
    not_before_ms: int = 0
    excluded: tuple[str, ...] = ()
    more: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStatus:
    """How the last operation of a job went; written by the node that has it, by the master where there is none.

    Attributes:
        reason: A word for programs, such as ``no_eligible_node``; empty where all is well.
        error: The same in words, at most 8 KiB.
        attempt: Which attempt it is about.
        is_permanent: Of a failure: another node would fail likewise.
    """

    key: str
    job_state: JobState
    result: Result
    op_seq: int
    epoch: int
    node_id: str
    reason: str = ""
    error: str = ""
    attempt: int = 1
    is_permanent: bool = False
    updated_ms: int = 0
    more: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """That a node has a job loaded and takes its runs; gone with its session."""

    key: str
    node_id: str
    epoch: int
    more: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Drain:
    """That a node shall have no jobs while others can have them; written for people, and kept until they resume it.

    Attributes:
        key: See :func:`drain_key`.
        node_id: The node, in all its lives.
        by: Who asked for it.
    """

    key: str
    node_id: str
    since_ms: int = 0
    by: str = ""
    more: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Epoch:
    """Who is master: one more for each election that was won. ``number`` 0: there was none yet."""

    number: int = 0
    node_id: str = ""
    since_ms: int = 0
    more: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Stored(Generic[T]):
    """A value, and the version of the znode that holds it."""

    value: T
    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterState:
    """What is known of a cluster; nodes by the name of their znode, all else by job key."""

    epoch: Stored[Epoch]
    nodes: Mapping[str, NodeRecord]
    jobs: Mapping[str, Stored[JobRecord]]
    assignments: Mapping[str, Stored[Assignment]]
    statuses: Mapping[str, Stored[JobStatus]]
    owners: Mapping[str, Owner]
    drains: Mapping[str, Drain] = field(default_factory=dict)

    def drained(self) -> dict[str, Drain]:
        """Return drained nodes by their ids."""
        return {drain.node_id: drain for drain in self.drains.values()}


def may_have(node: NodeRecord, job: JobRecord) -> bool:
    """Return whether a node may have a job: it is of the job's group, and has the tag that the job asks for."""
    is_of_group = not job.app_name or not node.app_name or job.app_name == node.app_name
    return is_of_group and (not job.tag or job.tag in node.tags)


def job_key(job_id: int, group_name: str, job_name: str) -> str:
    """Return the name of a job's znodes: its id first, as two projects may have a module of one name."""
    return quote(f"{job_id}-{group_name}.{job_name}", safe="")


def drain_key(node_id: str) -> str:
    """Return the name of the znode that drains a node."""
    return quote(node_id, safe="")
