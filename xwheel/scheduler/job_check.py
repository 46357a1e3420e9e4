"""Whether the fields of a job fit together and what it names is installed; asked before a job is saved."""

from __future__ import annotations

from collections.abc import Callable

from xwheel.errors import FieldError, ScheduleError
from xwheel.model import Job, RetryBackoff
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
    if job.glue_type == "BEAN" and not job.handler.strip():
        raise FieldError("handler", "must name a handler")
    if job.retry_backoff is RetryBackoff.LIST and not job.retry_delays_ms:
        raise FieldError("retry_delays_ms", "must hold at least one delay for the backoff list")
    if job.start_ms is not None and job.end_ms is not None and job.end_ms <= job.start_ms:
        raise ScheduleError("end_ms", "must be later than start_ms")
    check_schedule(job)
