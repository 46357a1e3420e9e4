"""Whether the fields of a job fit together and what it names is installed; asked before a job is saved."""

from __future__ import annotations

from xwheel.errors import FieldError, PluginError, RouteError
from xwheel.model import Job
from xwheel.model.jobs import check_fields
from xwheel.plugin.contracts import TakesOptions
from xwheel.plugin.discovery import Plugins
from xwheel.plugin.questions import PluginQuestion, PluginQuestions
from xwheel.plugin.registries import where_it_comes_from
from xwheel.plugin.validation import guarded
from xwheel.scheduler.plan.timetable import Timetable


def check_job(job: Job, plugins: Plugins, timetable: Timetable, questions: PluginQuestions) -> None:
    """Refuse names that no plugin registered and schedules that cannot work.

    Args:
        job: The job as it would be saved.
        plugins: What jobs may name.
        timetable: Knows whether a schedule can work.
        questions: Asks plugins where and when they may be asked.

    Raises:
        FieldError: Names the field and what is allowed.
    """
    for field, name, registry in (
        ("schedule_type", job.schedule_type, plugins.schedule_types),
        ("route_strategy", job.route_strategy, plugins.routers),
        ("glue_type", job.glue_type, plugins.glue_types),
    ):
        if name not in registry:
            hint = where_it_comes_from(registry.kind, name)
            known = ", ".join(sorted(registry)) + (f"; {hint}" if hint else "")
            raise FieldError(field, f"{name!r} is not installed; known: {known}")
    _check_route_options(job, plugins, questions)
    check_fields(job)
    timetable.check(job)


def _check_route_options(job: Job, plugins: Plugins, questions: PluginQuestions) -> None:
    name, router = job.route_strategy, plugins.routers[job.route_strategy]
    if not isinstance(router, TakesOptions):
        if job.route_options:
            raise FieldError("route_options", f"must be empty: the router {name} takes none")
        return
    question = PluginQuestion(
        f"router {name}",
        name in plugins.routers.trusted,
        lambda: guarded(f"router {name}", lambda: router.check(job.route_options), allowed=RouteError),
    )
    try:
        questions.ask(("route_options", name, job.route_options), question)
    except RouteError as error:
        raise FieldError("route_options", str(error)) from error
    except PluginError as error:
        raise FieldError("route_options", f"cannot be read: {error}"[:500]) from error
