"""Call a job's router: what it is asked with, and what of its answer is believed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from xwheel.errors import NoExecutorYetError, RouteError
from xwheel.model import Job, RegisteredExecutor
from xwheel.plugin import RouteContext, Router
from xwheel.plugin.contracts import no_load
from xwheel.plugin.validation import chosen_executors, error_words

Ask = Callable[[str], bool]
Executors = Sequence[RegisteredExecutor]


class ElsewhereError(BaseException):
    """A router was named that must not work on the tick thread; no router that names another one may handle it."""


def route(
    job: Job,
    executors: Executors,
    routers: Mapping[str, Router],
    *,
    beat: Ask,
    idle_beat: Ask,
    load: Callable[[str], int] = no_load,
    now_ms: int = 0,
) -> Executors:
    """Return the executors that shall run a job: one, or several for one shard each.

    Suspects come last among the executors. Only routers that say so may ask. Raises NoExecutorYetError if the router
    says that none may have it now, and one may soon, UnknownNameError if it is not installed, and RouteError if there
    is no live executor, or the router fails or chooses none.
    """
    if not executors:
        raise RouteError(f"job {job.id}: no live executor in group {job.group_id}")
    router = routers[job.route_strategy]
    asks = router.asks
    context = RouteContext(
        job=job,
        executors=tuple(executors),
        beat=beat if asks else refuse_to_ask,
        idle_beat=idle_beat if asks else refuse_to_ask,
        load=load,
        now_ms=now_ms,
        routers=routers,
    )
    return call_router(router, context, {item.address: item for item in executors})


def call_router(router: Router, context: RouteContext, known: Mapping[str, RegisteredExecutor]) -> Executors:
    """Return what a router chooses, once it is known to be some of the executors."""
    job = context.job
    try:
        chosen = router.route(context)
    except ElsewhereError:
        raise
    except NoExecutorYetError as error:
        raise NoExecutorYetError(f"job {job.id}: {error_words(error)}") from error
    except BaseException as error:  # a router is a plugin: whatever it raises fails this run only
        text = f"job {job.id}: router {job.route_strategy} failed: {error_words(error)}"
        raise RouteError(text) from error
    try:
        return chosen_executors(chosen, known)
    except BaseException as error:  # to read what it returned may run its code
        raise RouteError(f"job {job.id}: router {job.route_strategy} {error_words(error)}") from error


def refuse_to_ask(address: str) -> bool:
    """Refuse what only routers that say so may do."""
    raise RouteError(f"it asks {address}: only routers with asks = True may ask")
