"""What the core brings keeps the contracts, and the suites for plugin authors see who does not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from xwheel_alarms import AlarmRetryLater
from xwheel_devtools.testing import (
    check_alarm_channel,
    check_glue_type,
    check_router,
    check_run_listener,
    check_schedule_type,
)

from tests.support.node import plugins
from xwheel.plugin import Command, ExecutorError, RouteError, ScheduleError
from xwheel.plugin.registries import Registry


def own(registry: Registry[Any]) -> list[str]:
    """Names that the core brings: this environment may have other plugins too."""
    return sorted(name for name, owner in registry.owners.items() if owner.startswith("xwheel "))


CONFS = {
    "CRON": (["0/7 * * * * ?", "0 0 9 ? * MON-FRI"], ["", "0 0 25 * * ?"]),
    "UNIX_CRON": (["*/5 * * * *"], ["", "* * *"]),
    "FIX_RATE": (["90s", "1500ms"], ["", "0", "-5"]),
    "FIX_DELAY": (["1"], ["", "soon"]),
    "ONCE": (["2026-03-08T12:00:00"], ["", "yesterday"]),
    "DAILY_INTERVAL": (["from=09:00 to=17:30 every=15m days=MON-FRI"], ["", "every=15m"]),
    "NONE": ([""], []),
}


@pytest.mark.parametrize("name", own(plugins().routers))
def test_a_router_of_the_core_keeps_the_contract(name: str) -> None:
    check_router(plugins().routers[name])


@pytest.mark.parametrize("name", own(plugins().schedule_types))
def test_a_schedule_type_of_the_core_keeps_the_contract(name: str) -> None:
    confs, bad_confs = CONFS[name]
    check_schedule_type(plugins().schedule_types[name], confs, bad_confs=bad_confs, timezone="Europe/London")


def test_bean_keeps_the_contract() -> None:
    check_glue_type(plugins().glue_types["BEAN"], handler="report")


class Router:
    name = "MINE"
    asks = False

    def __init__(self, choose: Callable[[Any], Any]) -> None:
        self.route = choose


@pytest.mark.parametrize(
    ("choose", "words"),
    [
        (lambda context: [], "chose none of 1"),
        (lambda context: [context.executors[0]] * 2, "twice: each executor takes one shard"),
        (lambda context: [context.executors.pop()], "not there|changed the list"),
        (lambda context: [x for x in context.executors if context.beat(x.address)], "its attribute asks is False"),
    ],
)  # fmt: skip
def test_a_router_that_breaks_the_contract_is_refused_with_the_reason(choose: Callable[[Any], Any], words: str) -> None:
    with pytest.raises(AssertionError, match=words):
        check_router(Router(choose))


class Options(Router):
    """A router that takes any options."""

    def check(self, options: str) -> None:
        if options == "bad":
            raise RouteError("bad: write something else")


def test_a_router_that_takes_wrong_options_is_refused() -> None:
    router = Options(lambda context: context.executors[:1])
    check_router(router, bad_options=["bad"])
    with pytest.raises(AssertionError, match="took the options 'worse'"):
        check_router(router, bad_options=["bad", "worse"])


class Channel:
    name = "mine"

    def __init__(self, send: Callable[[Any], Any]) -> None:
        self.send = send


def later(alarm: Any) -> None:
    raise AlarmRetryLater("busy", 5)


def test_a_channel_may_ask_for_a_pause() -> None:
    check_alarm_channel(Channel(later))
    check_alarm_channel(Channel(lambda alarm: "ok"), receivers=["a"])


@pytest.mark.parametrize(
    ("send", "error", "words"),
    [
        (lambda alarm: 200, AssertionError, "answered int, not a text"),
        (lambda alarm: "x" * 5000, AssertionError, "at too great length"),
        (lambda alarm: alarm.job.name, AttributeError, "NoneType"),
        (lambda alarm: str(alarm.title.encode("ascii")), UnicodeEncodeError, "ordinal"),
    ],
)
def test_a_channel_that_breaks_the_contract_is_refused_with_the_reason(
    send: Callable[[Any], Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        check_alarm_channel(Channel(send))


def prepare(context: Any, data: Any) -> list[str]:
    return ["true"]


class Glue:
    name = "MINE"
    takes_source = True

    def __init__(self, build: Callable[..., Any]) -> None:
        self._build = build

    def build(self, request: Any, handlers: Any) -> Any:
        if not request.source:
            raise ExecutorError("no source")
        return self._build(request)


class Reading(Glue):
    """Reads sources when they are saved, but not well."""

    def check_source(self, source: str) -> None:
        if source == "bad":
            raise ExecutorError("bad")


def test_a_glue_type_that_lets_a_bad_source_be_saved_is_refused() -> None:
    def build(request: Any) -> Any:
        if request.source != "x":
            raise ExecutorError("bad")
        return prepare

    check_glue_type(Reading(build), source="x", bad_sources=["bad"])
    with pytest.raises(AssertionError, match="let 'worse' be saved"):
        check_glue_type(Reading(build), source="x", bad_sources=["bad", "worse"])


def test_a_glue_type_may_build_a_command() -> None:
    check_glue_type(Glue(lambda request: Command(prepare=prepare, data={"a": 1})), source="x")


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda request: 5, "built int, which cannot be called"),
        (lambda request: Command(prepare=lambda context, data: [], data={}), "top level of a module"),
        (lambda request: Command(prepare=prepare, data={"a": object()}), "plain values"),
        (lambda request: Command(prepare=print, data={}), "must be a function"),
        (lambda request: prepare, "took the source 'bad'"),
    ],
)
def test_a_glue_type_that_breaks_the_contract_is_refused_with_the_reason(build: Callable[..., Any], words: str) -> None:
    with pytest.raises(AssertionError, match=words):
        check_glue_type(Glue(build), source="x", bad_sources=["bad"])


class Schedule:
    name = "MINE"

    def __init__(self, next_ms: Callable[[Any, int], Any]) -> None:
        self.next_ms = next_ms

    def check(self, spec: Any) -> None:
        if spec.conf == "bad":
            raise ScheduleError("schedule_conf", "is bad")


@pytest.mark.parametrize(
    ("next_ms", "words"),
    [
        (lambda spec, after_ms: after_ms, "is not later than"),
        (lambda spec, after_ms: after_ms + 1.5, "no whole number"),
        (lambda spec, after_ms: after_ms + len(seen.append(1) or seen), "two answers"),
        (lambda spec, after_ms: None, "took 'worse'"),
    ],
)
def test_a_schedule_type_that_breaks_the_contract_is_refused_with_the_reason(
    next_ms: Callable[[Any, int], Any], words: str
) -> None:
    with pytest.raises(AssertionError, match=words):
        check_schedule_type(Schedule(next_ms), ["x"], bad_confs=["bad", "worse"])


seen: list[int] = []


class Listener:
    name = "mine"

    def __init__(self) -> None:
        self.told: list[int] = []

    def on_change(self, changes: Any) -> None:
        self.told.append(len(changes))


def test_a_listener_gets_one_change_and_a_thousand() -> None:
    listener = Listener()
    check_run_listener(listener)
    assert listener.told == [1, 1000]
    with pytest.raises(AssertionError, match=r"the method on_change\(changes\) is missing"):
        check_run_listener(Channel(later))  # type: ignore[arg-type]
