"""Choose who gets a run: the job's router, asked about the live executors of its group."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from xwheel.errors import RouteError
from xwheel.model import Job, RegisteredExecutor
from xwheel.plugin import RouteContext, Router

Ask = Callable[[str], bool]


def route(
    job: Job,
    executors: Sequence[RegisteredExecutor],
    routers: Mapping[str, Router],
    *,
    beat: Ask,
    idle_beat: Ask,
) -> Sequence[RegisteredExecutor]:
    """Return the executors that shall run a job: one, or several for one shard each.

    Args:
        job: The job.
        executors: Live executors of its group, suspects last.
        routers: Routers by name.
        beat: Asks an address whether it lives.
        idle_beat: Asks an address whether the job is idle there.

    Raises:
        RouteError: There is no live executor, or the router fails or chooses nobody.
        UnknownNameError: The job's router is not installed.
    """
    if not executors:
        raise RouteError(f"job {job.id}: no live executor in group {job.group_id}")
    router = routers[job.route_strategy]
    try:
        chosen = router.route(RouteContext(job=job, executors=executors, beat=beat, idle_beat=idle_beat))
    except Exception as error:  # a router is a plugin: whatever it raises fails this run only
        raise RouteError(
            f"job {job.id}: router {router.name} failed: {type(error).__name__}: {error}"
        ) from error
    if not chosen:
        raise RouteError(f"job {job.id}: router {router.name} chose none of {len(executors)} executors")
    return chosen
