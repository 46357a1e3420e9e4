"""Choose who gets a run: the job's router, asked about the live executors of its group.

What it answers must be some of these executors: :func:`xwheel.plugin.validation.chosen_executors` refuses all else.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from xwheel.model import Job, RegisteredExecutor, Run
from xwheel.plugin import RouteContext, Router
from xwheel.scheduler.executors.loads import Loads
from xwheel.scheduler.route.async_choose import AsyncChooser
from xwheel.scheduler.route.routers import ElsewhereError, Executors, call_router, refuse_to_ask


class Chooser:
    """Chooses on the tick thread, or has the choice made elsewhere: by routers that ask executors, or are not trusted.

    Thread-safety: tick thread only.
    """

    def __init__(
        self, routers: Mapping[str, Router], elsewhere: AsyncChooser, loads: Loads, trusted: Collection[str]
    ) -> None:
        names = routers.keys() & set(trusted)
        # which ones ask is settled here: an attribute of a plugin may be code, too
        self._here = {name: routers[name] for name in names if not routers[name].asks}
        self._routers = _OnTick(routers, self._here)
        self.elsewhere, self._loads = elsewhere, loads
        self._given: Executors = ()
        self._executors: Executors = ()
        self._known: Mapping[str, RegisteredExecutor] = {}

    def choose(self, run: Run, job: Job, executors: Executors, now_ms: int) -> Executors | None:
        """Return who gets a run; None if the choice is made elsewhere and the run comes back, none if it must wait.

        Raises like :func:`~xwheel.scheduler.route.routers.route`.
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
            chosen = call_router(
                router,
                RouteContext(
                    job=job,
                    executors=self._executors,
                    beat=refuse_to_ask,
                    idle_beat=refuse_to_ask,
                    load=loads.load,
                    now_ms=now_ms,
                    routers=self._routers,
                ),
                self._known,
            )
        except ElsewhereError:
            return self.elsewhere.choose(run, job, executors, now_ms)
        if loads.is_asked:
            loads.chosen(chosen, now_ms)
        return chosen


class _OnTick(Mapping[str, Router]):
    """The routers as the tick thread sees them: asking for one that may not work there ends the call."""

    def __init__(self, routers: Mapping[str, Router], allowed: Collection[str]) -> None:
        self._routers, self._allowed = routers, frozenset(allowed)

    def __getitem__(self, name: str) -> Router:
        router = self._routers[name]
        if name not in self._allowed:
            raise ElsewhereError
        return router

    def __iter__(self) -> Iterator[str]:
        return iter(self._routers)

    def __len__(self) -> int:
        return len(self._routers)
