"""The state of a node, and what clients of the management API get of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import msgspec
from msgspec import UNSET, UnsetType

from xwheel.api.schema.derived import fields_of

Role = Literal["node", "management"]


class LoopHealthView(msgspec.Struct, frozen=True, kw_only=True):
    """A loop of a node: ``age_ms`` is the time since its last good step, ``failures`` counts since the start."""

    name: str  # its thread's, without "xwheel-"
    ok: bool  # it lives, and its last good step is recent
    age_ms: int
    failures: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthCounts:
    """What a node has counted since its start."""

    deadlocks: int = 0  # lost races of transactions, serialization failures and locks that came too late too
    retries: int = 0  # transactions that were done again, after a lost race or a broken connection
    broken_connections: int = 0  # to the database, while they were used
    clock_steps: int = 0  # jumps of the database's clock
    connections_refused: int = 0  # by both listeners, at a limit
    connections_cut: int = 0  # which trickled or did not read


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthReport:
    """The state of a node, or of a process that only serves the management API, as far as it needs no database."""

    role: Role = "node"
    stale_loops: Sequence[str] = ()  # names of loops whose last good step is too long ago
    holds_leases: bool = True  # those that it should
    partitions: int = 0
    loops: Sequence[LoopHealthView] = ()
    counts: HealthCounts = HealthCounts()
    missing_plugins: Sequence[str] = ()  # broken or not installed, and its settings let it start without
    executor_port: int | None = None  # of its executor API; None where another process has that


class HealthView(msgspec.Struct, frozen=True, kw_only=True):
    """The answer: ``ok`` or ``failing``, and then what fails.

    ``role`` is there only where the process is no node: ``management`` serves the management API and fires nothing.
    """

    status: str
    role: Role | UnsetType = UNSET
    failing: list[str] | UnsetType = UNSET


@fields_of(HealthCounts)
class HealthCountsView(msgspec.Struct, frozen=True, kw_only=True):
    """What a node has counted since its start.

    ``deadlocks`` are transactions that lost a race for locks, ``retries`` those that were done again;
    ``connections_refused`` and ``connections_cut`` are callers' connections to the listeners.
    """


class NodeHealthView(msgspec.Struct, frozen=True, kw_only=True):
    """How this node fares; ``failing`` is what ``/healthz`` and ``/readyz`` together would name.

    ``role`` is ``node``, or ``management`` for a process without loops, which holds no partitions and fires nothing.
    ``missing_plugins`` are those without which ``plugins.tolerate`` let it start; ``/plugins`` says what is wrong.
    ``executor_port`` is the port at which executors reach it, null in a process for management.
    """

    status: str
    role: Role
    failing: list[str]
    partitions: int
    missing_plugins: list[str]
    executor_port: int | None
    counts: HealthCountsView
    loops: list[LoopHealthView]
