"""Whether the fields of a job fit together and what it names is installed; asked before a job is saved."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from typing import Final, NamedTuple

from xwheel.errors import FieldError, PluginError, RouteError
from xwheel.model import Job
from xwheel.model.jobs import MAX_PARAM_BYTES, MAX_SOURCE_BYTES, check_fields
from xwheel.plugin.contracts import TakesOptions
from xwheel.plugin.discovery import Plugins
from xwheel.plugin.questions import PluginQuestion, PluginQuestions
from xwheel.plugin.registries import where_it_comes_from
from xwheel.plugin.validation import guarded
from xwheel.scheduler.timetable import Timetable

MOST_BYTES_A_CHARACTER: Final = 4


class TextLimits(NamedTuple):
    """How many bytes the long texts of jobs and runs may have, as UTF-8."""

    param: int = MAX_PARAM_BYTES  # the setting ``api.max_param_bytes``
    source: int = MAX_SOURCE_BYTES  # the setting ``api.max_source_bytes``

    def check_param(self, text: str | None) -> None:
        """Refuse a parameter, or the template of one, that is too long; None is the job's own. Raises FieldError."""
        if text is not None:
            _check_bytes("param", text, self.param, MAX_PARAM_BYTES, "api.max_param_bytes")

    def check_source(self, text: str) -> None:
        """Refuse a source that is too long; raises FieldError."""
        _check_bytes("glue_source", text, self.source, MAX_SOURCE_BYTES, "api.max_source_bytes")


DEFAULT_LIMITS: Final = TextLimits()


def _check_bytes(field: str, text: str, limit: int, highest: int, setting: str) -> None:
    if len(text) * MOST_BYTES_A_CHARACTER <= limit:
        return
    size = len(text.encode("utf-8", "surrogatepass"))
    if size > limit:
        way = f"may be raised to {highest}" if limit < highest else "has no higher value: pass on where it is kept"
        raise FieldError(field, f"has {size} bytes as UTF-8, {limit} are allowed: {setting} {way}")


def check_job(
    job: Job, plugins: Plugins, timetable: Timetable, questions: PluginQuestions, *, listed: Collection[str] = ()
) -> None:
    """Refuse names that no plugin registered and schedules that cannot work.

    ``listed`` are the glue types that the job's group lists. Raises FieldError, which names the field and what is
    allowed.
    """
    for field, name, registry in (
        ("schedule_type", job.schedule_type, plugins.schedule_types),
        ("route_strategy", job.route_strategy, plugins.routers),
        ("glue_type", job.glue_type, plugins.glue_types),
    ):
        if name not in registry and not (field == "glue_type" and name in listed):
            hint = where_it_comes_from(registry.kind, name)
            known = ", ".join(sorted(registry)) + (f"; {hint}" if hint else "")
            if field == "glue_type":
                known += "; one that only the executors of the job's group know is listed in glue_types of the group"
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
    title = f"router {name}"
    check = partial(guarded, title, lambda: router.check(job.route_options), allowed=RouteError)
    try:
        question = PluginQuestion(title, name in plugins.routers.trusted, check)
        questions.ask(("route_options", name, job.route_options), question)
    except RouteError as error:
        raise FieldError("route_options", str(error)) from error
    except PluginError as error:
        raise FieldError("route_options", f"cannot be read: {error}"[:500]) from error
