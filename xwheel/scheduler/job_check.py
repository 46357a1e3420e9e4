"""Whether the fields of a job fit together and what it names is installed; asked before a job is saved."""

from __future__ import annotations

from collections.abc import Callable

from xwheel.errors import FieldError, RouteError, ScheduleError
from xwheel.model import Job, RetryBackoff
from xwheel.plugin import Router
from xwheel.plugin.contracts import TakesOptions
from xwheel.plugin.manager import Plugins


def check_job(job: Job, plugins: Plugins, check_schedule: Callable[[Job], None]) -> None:
    """Refuse names nobody registered and schedules that cannot work.

    Args:
        job: The job as it would be saved.
        plugins: What jobs may name.
        check_schedule: Refuses a schedule that cannot work.

    Raises:
        FieldError: Names the field and what is allowed.
    """
    for field, name, registry in (
        ("schedule_type", job.schedule_type, plugins.schedule_types),
        ("route_strategy", job.route_strategy, plugins.routers),
        ("glue_type", job.glue_type, plugins.glue_types),
    ):
        if name not in registry:
            raise FieldError(field, f"{name!r} is not installed; known: {', '.join(sorted(registry))}")
    _check_route_options(job, plugins.routers[job.route_strategy])
    if job.glue_type == "BEAN" and not job.handler.strip():
        raise FieldError("handler", "must name a handler")
    if job.retry_backoff is RetryBackoff.LIST and not job.retry_delays_ms:
        raise FieldError("retry_delays_ms", "must hold at least one delay for the backoff list")
    if job.start_ms is not None and job.end_ms is not None and job.end_ms <= job.start_ms:
        raise ScheduleError("end_ms", "must be later than start_ms")
    check_schedule(job)


def _check_route_options(job: Job, router: Router) -> None:
    if not isinstance(router, TakesOptions):
        if job.route_options:
            raise FieldError("route_options", f"must be empty: the router {router.name} takes none")
        return
    try:
        router.check(job.route_options)
    except RouteError as error:
        raise FieldError("route_options", str(error)) from error
    except Exception as error:  # a router is a plugin
        text = f"the router {router.name} cannot read it: {type(error).__name__}: {error}"
        raise FieldError("route_options", text[:500]) from error
