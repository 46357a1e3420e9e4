"""Choose who gets a run: the job's router, asked about the live executors of its group."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from xwheel.errors import RouteError
from xwheel.model import Job, RegisteredExecutor, Run
from xwheel.plugin import RouteContext, Router
from xwheel.plugin.contracts import no_load

Ask = Callable[[str], bool]


class Loads(Protocol):
    """What routing asks of those who count runs."""

    is_asked: bool

    def load(self, address: str) -> int:
        """Return how many runs an address has."""
        ...

    def chosen(self, executors: Sequence[RegisteredExecutor], now_ms: int) -> None:
        """Note a choice that asked for loads."""
        ...


class Asker(Protocol):
    """Who calls routers that ask executors."""

    def choose(
        self, run: Run, job: Job, executors: Sequence[RegisteredExecutor], now_ms: int
    ) -> Sequence[RegisteredExecutor] | None:
        """Return the choice if it is there; None if the run was taken, nobody if there is no room for it."""
        ...


class Chooser:
    """Chooses on the tick thread, or has the choice made elsewhere if the router asks executors.

    Args:
        routers: Routers by name.
        asker: Calls those that ask.
        loads: Counts runs.
    """

    def __init__(self, routers: Mapping[str, Router], asker: Asker, loads: Loads) -> None:
        self._routers = routers
        self._asker = asker
        self._loads = loads

    def choose(
        self, run: Run, job: Job, executors: Sequence[RegisteredExecutor], now_ms: int
    ) -> Sequence[RegisteredExecutor] | None:
        """Return who gets a run; None if executors are asked first and the run comes back, nobody if it must wait.

        Raises:
            RouteError: The router fails or chooses nobody.
            UnknownNameError: The job's router is not installed.
        """
        if self._routers[job.route_strategy].asks:
            return self._asker.choose(run, job, executors, now_ms)
        loads = self._loads
        chosen = route(
            job, executors, self._routers, beat=_silent, idle_beat=_silent, load=loads.load, now_ms=now_ms
        )
        if loads.is_asked:
            loads.chosen(chosen, now_ms)
        return chosen


def route(
    job: Job,
    executors: Sequence[RegisteredExecutor],
    routers: Mapping[str, Router],
    *,
    beat: Ask,
    idle_beat: Ask,
    load: Callable[[str], int] = no_load,
    now_ms: int = 0,
) -> Sequence[RegisteredExecutor]:
    """Return the executors that shall run a job: one, or several for one shard each.

    Args:
        job: The job.
        executors: Live executors of its group, suspects last.
        routers: Routers by name.
        beat: Asks an address whether it lives.
        idle_beat: Asks an address whether the job is idle there.
        load: How many runs an address has.
        now_ms: The shared time.

    Raises:
        RouteError: There is no live executor, or the router fails or chooses nobody.
        UnknownNameError: The job's router is not installed.
    """
    if not executors:
        raise RouteError(f"job {job.id}: no live executor in group {job.group_id}")
    router = routers[job.route_strategy]
    try:
        chosen = router.route(
            RouteContext(
                job=job,
                executors=executors,
                beat=beat,
                idle_beat=idle_beat,
                load=load,
                now_ms=now_ms,
                routers=routers,
            )
        )
    except Exception as error:  # a router is a plugin: whatever it raises fails this run only
        text = str(error) if isinstance(error, RouteError) else f"{type(error).__name__}: {error}"
        raise RouteError(f"job {job.id}: router {router.name} failed: {text}") from error
    if not chosen:
        raise RouteError(f"job {job.id}: router {router.name} chose none of {len(executors)} executors")
    return chosen


def _silent(address: str) -> bool:
    raise RouteError(f"it asks {address} on the tick thread: only routers with asks = True may ask")
