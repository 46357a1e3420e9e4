"""``@job`` with a schedule declares a job; what is wrong with it is named and breaks no handler."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from xwheel.errors import ConfigError
from xwheel.executor import job
from xwheel.executor.declarations import Declaration, declared_body, digest_of, problem_line
from xwheel.executor.handlers import MARK, HandlerRegistry
from xwheel.model import MisfirePolicy


def work() -> None: ...


def declared(name: str = "report", **options: Any) -> Declaration | None:
    def function() -> None: ...

    found: Declaration | None = getattr(job(name, **options)(function), MARK).declaration
    return found


def said(**options: Any) -> dict[str, Any]:
    found = declared(**options)
    assert found is not None
    assert found.problem is None, found.problem
    return dict(found.fields)


def problem(**options: Any) -> str:
    found = declared(**options)
    assert found is not None
    assert found.problem is not None
    return str(found.problem)


def test_a_bare_handler_declares_nothing() -> None:
    assert declared() is None
    assert declared(process=False, parallel=3, init=work) is None
    assert HandlerRegistry([job("bare")(work)]).declarations == []


@pytest.mark.parametrize(
    ("options", "kind", "conf"),
    [
        ({"cron": "0 0 2 * * ?"}, "CRON", "0 0 2 * * ?"),
        ({"cron": "0 2 * * *"}, "UNIX_CRON", "0 2 * * *"),
        ({"every": timedelta(seconds=90)}, "FIX_RATE", "90000ms"),
        ({"delay": "5m"}, "FIX_DELAY", "5m"),
        ({"at": datetime(2030, 1, 31, tzinfo=UTC)}, "ONCE", "2030-01-31T00:00:00.000+00:00"),
        ({"retries": 3}, "NONE", ""),
    ],
)
def test_schedules_are_spelled_as_in_the_embedded_mode(options: dict[str, Any], kind: str, conf: str) -> None:
    found = said(**options)
    assert (found["schedule_type"], found["schedule_conf"], found["handler"]) == (kind, conf, "report")


def test_fields_have_the_names_of_the_api_and_values_of_json() -> None:
    found = said(
        cron="0 2 * * *",
        timezone="Asia/Shanghai",
        retries=3,
        misfire_policy=MisfirePolicy.SKIP,
        calendar_exclude=("holidays",),
        retry_delays_ms=(1000, 2000),
    )
    assert found["max_retries"] == 3
    assert json.loads(json.dumps(found)) == found
    assert (found["misfire_policy"], found["calendar_exclude"]) == ("skip", ["holidays"])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"cron": "0 2 * * *", "tymezone": "UTC"}, "tymezone: is no field of jobs; did you mean timezone?"),
        ({"cron": "0 2 * * *", "xyz": 1}, "xyz: is no field of jobs; known: "),
        ({"cron": "0 2 * * *", "every": "5m"}, "cron and every: exclude each other"),
        ({"cron": 5}, "cron: must be text"),
        ({"every": object()}, "every: must be seconds"),
        ({"at": datetime(2030, 1, 1)}, "at: needs a time zone"),
        ({"cron": "0 2 * * *", "handler": "x"}, "handler: follows from the declaration"),
        ({"cron": "0 2 * * *", "schedule_type": "X"}, "schedule_type: follows from the declaration"),
        ({"cron": "0 2 * * *", "retries": 1, "max_retries": 2}, "retries: is max_retries in short"),
        ({"cron": "0 2 * * *", "param": work}, "param: must be text, a number, true, false or a list"),
    ],
)
def test_a_typo_is_the_problem_of_that_job_and_its_handler_stays(options: dict[str, Any], words: str) -> None:
    assert words in problem(**options)

    def function() -> None: ...

    registry = HandlerRegistry([job("report", **options)(function)])
    assert registry.get("report") is function


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"proces": True}, "proces is neither an option of handlers nor a field of jobs; did you mean process?"),
        ({"cron": "0 2 * * *", "paralel": 2}, "did you mean parallel?"),
        ({"corn": "0 2 * * *"}, "did you mean cron?"),
        ({"nothing_like_it": 1}, "options are process, parallel, init, destroy, cron, every, delay, at"),
    ],
)
def test_a_mistyped_option_of_the_handler_is_refused_at_once(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError) as raised:
        declared(**options)
    assert words in str(raised.value)
    assert "@job('report')" in str(raised.value)


def test_a_problem_is_told_with_module_function_and_field_as_code_spells_it() -> None:
    found = declared(cron="0 0 25 * * ?", retries=3)
    told = {"name": "report", "place": "", "field": "schedule_conf", "reason": "hour: 25"}
    line = problem_line(found, told)
    assert line.startswith("job 'report' (tests.unit.executor.test_declarations:declared.")
    assert line.endswith(": cron: hour: 25; correct it there")
    assert "): retries: " in problem_line(found, {**told, "field": "max_retries"})
    assert "(app:f): timezone: " in problem_line(None, {**told, "place": "app:f", "field": "timezone"})


def test_what_nodes_are_told() -> None:
    good, bad = declared("good", cron="0 2 * * *"), declared("bad", cron="0 2 * * *", tymezone="UTC")
    assert good is not None
    assert bad is not None
    body = declared_body([good, bad])
    assert body["jobs"] == [{"name": "good", "place": good.place, **good.fields}]
    (broken,) = body["broken"]
    assert (broken["name"], broken["place"], broken["field"]) == ("bad", bad.place, "tymezone")


def test_a_value_that_json_does_not_have_is_that_jobs_problem_and_no_error_of_the_executor() -> None:
    bad = declared("bad", cron="0 2 * * *", param=object())
    assert bad is not None
    assert declared_body([bad])["broken"][0]["field"] == "param"
    assert digest_of([bad]) != digest_of([])


def test_the_digest_is_that_of_what_is_said_and_of_nothing_else() -> None:
    def make(**options: Any) -> Declaration:
        found = declared(**options)
        assert found is not None
        return found

    one, two = make(name="a", cron="0 2 * * *"), make(name="b", cron="0 3 * * *")
    digest = digest_of([one, two])
    assert digest == digest_of([two, make(name="a", cron="0 2 * * *")])
    others: list[Callable[[], list[Declaration]]] = [
        lambda: [one],
        lambda: [one, make(name="b", cron="0 4 * * *")],
        lambda: [one, make(name="c", cron="0 3 * * *")],
        lambda: [one, make(name="b", cron="0 3 * * *", retries=1)],
        lambda: [one, two, make(name="c", cron="0 3 * * *", typo=1)],
    ]
    assert digest not in {digest_of(other()) for other in others}
