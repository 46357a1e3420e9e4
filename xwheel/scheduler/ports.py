"""What the stages ask of each other: the protocols that ``xwheel.node.pipeline`` wires them with."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from xwheel.model import ChildLink, GlueVersion, Job, RegisteredExecutor, Run
from xwheel.scheduler.records import Gated, Line, Parked, Routed, Shard
from xwheel.storage.database.engine import Connection
from xwheel.storage.open_runs import Holder

T = TypeVar("T")


class Around(Protocol):
    """Runs a transaction whose questions to plugins are asked between its attempts."""

    def __call__(self, transact: Callable[[], T], /) -> T:
        """Return what the transaction returns."""
        ...


def at_once(transact: Callable[[], T], /) -> T:
    """Return what a transaction returns that asks plugins itself, as in tests of what they have no part in."""
    return transact()


class LeaseView(Protocol):
    """What the stages may ask of the lease."""

    @property
    def epochs(self) -> Mapping[int, int]:
        """Partition to epoch, for the partitions this node holds."""
        ...

    def lock(self, conn: Connection) -> Mapping[int, int]:
        """Lock our lease rows and return partition to epoch as the database has them."""
        ...

    def may_act(self, margin_ms: int = 0) -> bool:
        """Tell whether the lease outlasts ``margin_ms`` from now."""
        ...


class ExecutorView(Protocol):
    """What the checks ask of the registry."""

    def all(self, now_ms: int) -> list[RegisteredExecutor]:
        """Return all live executors."""
        ...

    def app_name(self, group_id: int) -> str:
        """Return the app name of a group, or an empty text if it is not known yet."""
        ...

    def token(self, executor: RegisteredExecutor) -> str:
        """Return what an executor is called with: the secret last proven at its address, or nothing."""
        ...

    def missing_since(self, holder: Holder, now_ms: int) -> int:
        """Return since when an executor that is not live has been missing."""
        ...

    def take_news(self) -> list[Holder]:
        """Return executors that left, died, came back or restarted since the last call."""
        ...


class SecretView(Protocol):
    """What the registry asks of the executor secrets."""

    def is_live(self, secret_id: int | None) -> bool:
        """Return whether who proved this secret still may call."""
        ...

    def value(self, secret_id: int | None) -> str:
        """Return what an executor is sent that registered with this secret, or nothing."""
        ...

    def name(self, secret_id: int | None) -> str | None:
        """Return what people call a secret."""
        ...

    def refresh(self, conn: Connection) -> None:
        """Read the secrets."""
        ...


class SourceView(Protocol):
    """What those who send runs ask about the sources of script jobs."""

    def find(self, wanted: Collection[Job]) -> Mapping[int, GlueVersion]:
        """Return the current sources of jobs by job id; may read the database, once for all of them."""
        ...

    def refusal(self, job: Job, source: GlueVersion | None) -> tuple[str, str] | None:
        """Return why a script job cannot run, as a reason and a message, or None if it can.

        Args:
            job: The job.
            source: What :meth:`find` found for it.
        """
        ...


class Places(Protocol):
    """What the stages ask of the trigger pool."""

    def choose(self, job_ids: Iterable[int]) -> dict[int, int]:
        """Return the lane of each job."""
        ...

    def acquire(self, lane: int, address: str, *, batch: bool, beyond: bool = False) -> bool:
        """Take a place for one request, though there may be none; return whether it was taken."""
        ...

    def release(self, lane: int, address: str) -> None:
        """Give a place back."""
        ...

    def record(self, job_ids: Sequence[int], cost_ms: int, now_ms: int) -> None:
        """Note how long a send took, against every job that travelled in it."""
        ...


class Parking(Protocol):
    """What the other stages ask of the parked runs; tick thread only."""

    def park(self, runs: Sequence[Parked], now_ms: int) -> None:
        """Take runs that may not go yet."""
        ...

    def forget(self, run_ids: Iterable[int]) -> None:
        """Drop runs that will never go."""
        ...

    def is_behind(self, line: Line, run: Run) -> bool:
        """Tell whether an older run than this one waits in a line."""
        ...

    def older(self, run: Run, kind: str = "") -> list[int]:
        """Return the parked runs of the same job and another root that are older, in lines of a kind or in all."""
        ...

    def has_newer(self, run: Run) -> bool:
        """Tell whether a newer fire of the same job is parked, though it has an executor."""
        ...

    def watch(self, shards: Sequence[Shard]) -> None:
        """Note runs whose end lets others go."""
        ...


class GateView(Protocol):
    """What the stages ask of the gate for limits and cluster-wide block strategies; tick thread only."""

    def concerns(self, items: Iterable[Routed]) -> list[Routed]:
        """Return the runs that must pass it; empty costs no SQL."""
        ...

    def line_of(self, job: Job) -> Line:
        """Return the line in which a run that must pass waits for a place."""
        ...

    def queue_of(self, item: Routed) -> Line | None:
        """Return the line in which an older run waits already, so that asking for this one is in vain."""
        ...

    def lock(self, conn: Connection, items: Sequence[Routed]) -> Mapping[int, int]:
        """Lock what runs share with other nodes, before any run is locked; return group to limit."""
        ...

    def decide(self, conn: Connection, items: Sequence[Routed], limits: Mapping[int, int]) -> Gated:
        """Decide about runs that are still planned and ours."""
        ...


class FamilyLinks(Protocol):
    """The links that matter to a batch of outcomes."""

    @property
    def links(self) -> Sequence[ChildLink]:
        """From the jobs of the batch to their children."""
        ...


class Planner(Protocol):
    """What closing runs asks about their children."""

    def family_of(self, conn: Connection, job_ids: Collection[int]) -> Any:
        """Return the :class:`FamilyLinks` of jobs; nothing is locked."""
        ...

    def plan(
        self, conn: Connection, closed: Collection[int], family: Any, owners: Mapping[int, Job], now_ms: int
    ) -> list[Run]:
        """Return the child runs of fires that have just ended, without ids."""
        ...
