"""Choose who gets a run: the job's router, asked about the live executors of its group."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Protocol

from xwheel.errors import RouteError
from xwheel.model import Job, RegisteredExecutor, Run
from xwheel.plugin import RouteContext, Router
from xwheel.plugin.contracts import no_load
from xwheel.plugin.validation import chosen_executors, error_words

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
    """Chooses on the tick thread, or has the choice made elsewhere: by routers that ask executors, or are not trusted.

    Thread-safety: tick thread only.

    Args:
        routers: Routers by name.
        asker: Calls the others.
        loads: Counts runs.
        trusted: Names of the routers that may work on the tick thread, if they ask nobody; None for all.
    """

    def __init__(
        self,
        routers: Mapping[str, Router],
        asker: Asker,
        loads: Loads,
        trusted: Collection[str] | None = None,
    ) -> None:
        names = routers if trusted is None else routers.keys() & set(trusted)
        # which ones ask is settled here: an attribute of a plugin may be code, too
        here = {name: routers[name] for name in names if not routers[name].asks}
        self._here = here
        self._routers = _OnTick(routers, here)
        self._asker = asker
        self._loads = loads
        self._given: Sequence[RegisteredExecutor] = ()
        self._executors: Sequence[RegisteredExecutor] = ()
        self._known: Mapping[str, RegisteredExecutor] = {}

    def choose(
        self, run: Run, job: Job, executors: Sequence[RegisteredExecutor], now_ms: int
    ) -> Sequence[RegisteredExecutor] | None:
        """Return who gets a run; None if the choice is made elsewhere and the run comes back, nobody if it must wait.

        Raises:
            RouteError: The router fails or chooses nobody.
            UnknownNameError: The job's router is not installed.
        """
        loads = self._loads
        try:
            router = self._here.get(job.route_strategy)
            if router is None:
                router = self._routers[job.route_strategy]
            if executors is not self._given:  # one list serves all runs of a batch
                self._executors = tuple(executors)
                self._known = {item.address: item for item in executors}
                self._given = executors
            chosen = _call(
                router,
                RouteContext(
                    job=job,
                    executors=self._executors,
                    beat=_silent,
                    idle_beat=_silent,
                    load=loads.load,
                    now_ms=now_ms,
                    routers=self._routers,
                ),
                self._known,
            )
        except _ElsewhereError:
            return self._asker.choose(run, job, executors, now_ms)
        if loads.is_asked:
            loads.chosen(chosen, now_ms)
        return chosen


class _ElsewhereError(BaseException):
    """A router was named that must not work on the tick thread; no router that names another one may take it up."""


class _OnTick(Mapping[str, Router]):
    """The routers as the tick thread sees them: to reach for one that may not work there ends the call."""

    def __init__(self, routers: Mapping[str, Router], allowed: Collection[str]) -> None:
        self._routers = routers
        self._allowed = frozenset(allowed)

    def __getitem__(self, name: str) -> Router:
        router = self._routers[name]
        if name not in self._allowed:
            raise _ElsewhereError
        return router

    def __iter__(self) -> Iterator[str]:
        return iter(self._routers)

    def __len__(self) -> int:
        return len(self._routers)


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
        beat: Asks an address whether it lives; for routers that say so only.
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
    asks = router.asks
    context = RouteContext(
        job=job,
        executors=tuple(executors),
        beat=beat if asks else _silent,
        idle_beat=idle_beat if asks else _silent,
        load=load,
        now_ms=now_ms,
        routers=routers,
    )
    return _call(router, context, {item.address: item for item in executors})


def _call(
    router: Router, context: RouteContext, known: Mapping[str, RegisteredExecutor]
) -> Sequence[RegisteredExecutor]:
    """Return what a router chooses, once it is known to be some of the executors."""
    job = context.job
    try:
        chosen = router.route(context)
    except _ElsewhereError:
        raise
    except BaseException as error:  # a router is a plugin: whatever it raises fails this run only
        text = f"job {job.id}: router {job.route_strategy} failed: {error_words(error)}"
        raise RouteError(text) from error
    try:
        return chosen_executors(chosen, known)
    except BaseException as error:  # to read what it returned may run its code
        raise RouteError(f"job {job.id}: router {job.route_strategy} {error_words(error)}") from error


def _silent(address: str) -> bool:
    raise RouteError(f"it asks {address}: only routers with asks = True may ask")
