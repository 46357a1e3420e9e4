"""What a job tells its router is checked when the job is saved, and kept with it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.rows import make_job
from xwheel.errors import FieldError, RouteError
from xwheel.plugin.questions import PluginQuestions
from xwheel.runtime.foreign import PluginThreads
from xwheel.scheduler.jobs.validate import check_job


class Plain:
    name = "PLAIN"


class Picky(Plain):
    name = "PICKY"

    def check(self, options: str) -> None:
        if options == "bug":
            raise KeyError(options)
        if options != "good":
            raise RouteError("write good")


class Routers(dict[str, Any]):
    trusted = frozenset({"PLAIN", "PICKY"})


def check(name: str, options: str) -> None:
    names: dict[str, Any] = {"schedule_types": {"FIX_RATE"}, "glue_types": {"BEAN"}}
    plugins: Any = SimpleNamespace(**names, routers=Routers(PLAIN=Plain(), PICKY=Picky()))
    timetable: Any = SimpleNamespace(check=lambda _: None)
    questions = PluginQuestions(PluginThreads(2))
    check_job(make_job(route_strategy=name, route_options=options), plugins, timetable, questions)


def test_options_that_the_router_takes_are_fine() -> None:
    check("PLAIN", "")
    check("PICKY", "good")


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("PLAIN", "x", "must be empty: the router PLAIN takes none"),
        ("PICKY", "", "write good"),
        ("PICKY", "bug", "cannot be read: router PICKY failed: KeyError: 'bug'"),
    ],
)
def test_others_are_refused_by_the_name_of_the_field(name: str, options: str, words: str) -> None:
    with pytest.raises(FieldError, match=words) as caught:
        check(name, options)
    assert caught.value.field == "route_options"
