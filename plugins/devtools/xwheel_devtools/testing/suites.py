"""One suite for each contract of plugins; each raises ``AssertionError`` with the line that does not hold."""

from __future__ import annotations

import importlib
import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FunctionType
from typing import Any, Final

from xwheel.errors import ExecutorError, FieldError, HandlerNotFoundError, PluginError, RouteError
from xwheel.model import Job, RegisteredExecutor, RunState
from xwheel.plugin.contracts import (
    ChecksSource,
    Command,
    GlueRequest,
    GlueType,
    HostedRun,
    RouteContext,
    Router,
    RunChange,
    RunListener,
    ScheduleSpec,
    ScheduleType,
    TakesOptions,
)
from xwheel.plugin.hookspecs import check_object
from xwheel.plugin.validation import chosen_executors
from xwheel_alarms import Alarm, AlarmChannel, AlarmKind, AlarmRetryLater

from xwheel_devtools.testing.samples import SAMPLE_MS, sample_alarm, sample_executors, sample_job, sample_route_context

THREADS: Final = 4
ROUTES: Final = 100
FIRES: Final = 50
MAX_ANSWER: Final = 2000
# what a job's author may put into a name, and a handler into a message
STRANGE: Final = (
    "\"quotes\" 'n' <b>tags</b> {braces} $(shell) `ticks` %s \\ \u4e2d\u6587 \U0001f514\r\nX-Injected: 1\x00\x1b[31m"
)


def check_router(router: Router, job: Job | None = None, *, bad_options: Sequence[str] = (), **more: Any) -> None:
    """Check a router: it chooses among the given ones, each once, from any thread, and asks only if it says so.

    Args:
        router: The router.
        job: A job that it can route, with its options; :func:`~xwheel_devtools.testing.sample_job` if None.
        bad_options: Options that it must refuse, if it takes any.
        more: Further fields of the route context that it needs.
    """
    _check_form(Router, router)
    job = job or sample_job(route_strategy=router.name)

    def context_of(executors: Sequence[RegisteredExecutor]) -> RouteContext:
        def ask(address: str) -> bool:
            _demand(router.asks, f"router {router.name} asks {address}, but its attribute asks is False")
            _demand(address in {item.address for item in executors}, f"{address} was not among the executors")
            return True

        return sample_route_context(executors, job, beat=ask, idle_beat=ask, **more)

    def check(executors: Sequence[RegisteredExecutor]) -> None:
        before = list(executors)
        answer = router.route(context_of(executors))
        try:
            chosen_executors(answer, {item.address: item for item in before})
        except RouteError as error:
            raise AssertionError(f"router {router.name} {error}") from None
        _demand(list(executors) == before, f"router {router.name} changed the list of executors")

    suspects = sample_executors(3, suspect_until_ms=SAMPLE_MS + 60_000)
    for executors in (sample_executors(1), sample_executors(2), sample_executors(100), suspects):
        check(executors)
    if isinstance(router, TakesOptions):
        router.check(job.route_options)
        for options in bad_options:
            with _must_raise(RouteError, f"router {router.name} took the options {options[:40]!r}"):
                router.check(options)
    several = sample_executors(5)

    def often() -> None:
        for _ in range(ROUTES):
            check(several)

    in_threads(often, f"router {router.name}")


def check_alarm_channel(channel: AlarmChannel, *, receivers: Sequence[str] = ()) -> None:
    """Check a channel whose other side answers: it takes alarms of every kind, whatever they hold.

    Args:
        channel: The channel, set up to reach a test's server.
        receivers: Who gets the alarms; empty for the channel's default.
    """
    _check_form(AlarmChannel, channel)
    for alarm in sample_alarms(receivers):
        try:
            answer = channel.send(alarm)
        except AlarmRetryLater as error:
            _demand(error.after_s >= 0, f"channel {channel.name} wants to be asked {error.after_s} s later")
            continue
        _demand(
            answer is None or isinstance(answer, str),
            f"channel {channel.name} answered {type(answer).__name__}, not a text or None",
        )
        _demand(len(answer or "") <= MAX_ANSWER, f"channel {channel.name} answered at too great length")


def sample_alarms(receivers: Sequence[str] = ()) -> Iterator[Alarm]:
    """Yield alarms of every kind, short and long, with and without job and run."""
    for kind in AlarmKind:
        yield sample_alarm(kind=kind, receivers=receivers)
    nothing: dict[str, Any] = {"job": None, "group": None, "run": None}
    yield sample_alarm(kind=AlarmKind.TEST, title="test", text="test", reason="", receivers=receivers, **nothing)
    yield sample_alarm(kind=AlarmKind.NOT_RUN, run=None, reason="", receivers=receivers)
    yield sample_alarm(
        title=STRANGE, text=STRANGE * 10, reason=STRANGE, job=sample_job(name=STRANGE), receivers=receivers
    )
    yield sample_alarm(text="long line " * 5000, count=1000, receivers=receivers)


def check_glue_type(glue: GlueType, *, source: str = "", handler: str = "", bad_sources: Sequence[str] = ()) -> None:
    """Check a glue type: it builds a function, a command that can travel or a hosted run, and refuses other sources.

    Args:
        glue: The glue type.
        source: A source that it can use, if it takes one.
        handler: Name of a handler, if it looks one up; any other name must be refused.
        bad_sources: Sources that must be refused.
    """
    _check_form(GlueType, glue)
    handlers = _Handlers(handler)
    request = GlueRequest(job_id=1, handler=handler, source=source, updated_ms=SAMPLE_MS)
    built = glue.build(request, handlers)
    if isinstance(built, Command):
        _check_command(glue.name, built)
    elif isinstance(built, HostedRun):
        _demand(callable(built.run) and callable(built.end), f"glue type {glue.name} built no whole HostedRun")
    else:
        _demand(callable(built), f"glue type {glue.name} built {type(built).__name__}, which cannot be called")
    refused = [GlueRequest(job_id=1, handler=handler, source=bad, updated_ms=SAMPLE_MS) for bad in bad_sources]
    if glue.takes_source:
        refused.append(GlueRequest(job_id=1, handler=handler, source="", updated_ms=SAMPLE_MS))
    for bad_request in refused:
        with _must_raise(ExecutorError, f"glue type {glue.name} took the source {bad_request.source[:40]!r}"):
            glue.build(bad_request, handlers)
    if isinstance(glue, ChecksSource):
        glue.check_source(source)
        for text in bad_sources:
            with _must_raise(ExecutorError, f"glue type {glue.name} let {text[:40]!r} be saved"):
                glue.check_source(text)


def check_schedule_type(
    schedule: ScheduleType, confs: Sequence[str], *, bad_confs: Sequence[str] = (), timezone: str = "UTC"
) -> None:
    """Check a schedule type: due times rise, the same question has the same answer, nonsense is refused.

    Args:
        schedule: The schedule type.
        confs: Configurations that it understands.
        bad_confs: Some that it must refuse.
        timezone: The zone in which they are read.
    """
    _check_form(ScheduleType, schedule)
    for conf in confs:
        spec = ScheduleSpec(conf=conf, timezone=timezone, anchor_ms=SAMPLE_MS)
        schedule.check(spec)
        after_ms = SAMPLE_MS
        for _ in range(FIRES):
            due_ms = schedule.next_ms(spec, after_ms)
            _demand(due_ms == schedule.next_ms(spec, after_ms), f"{conf!r} after {after_ms}: two answers")
            if due_ms is None:
                break
            _demand(isinstance(due_ms, int), f"{conf!r}: {due_ms!r} is no whole number of milliseconds")
            _demand(due_ms > after_ms, f"{conf!r}: {due_ms} is not later than {after_ms}")
            after_ms = due_ms
    for conf in bad_confs:
        with _must_raise(FieldError, f"schedule type {schedule.name} took {conf!r}"):
            schedule.check(ScheduleSpec(conf=conf, timezone=timezone, anchor_ms=SAMPLE_MS))


def check_run_listener(listener: RunListener) -> None:
    """Check a run listener: it takes every state, one change and a thousand."""
    _check_form(RunListener, listener)
    changes = [
        RunChange(
            run_id=number,
            job_id=1,
            group_id=1,
            state=state,
            at_ms=SAMPLE_MS + number,
            reason="misfire" if state is RunState.SKIPPED else "",
            message=STRANGE if state is RunState.FAILED else "",
            address="http://10.0.0.1:9999" if number % 2 else "",
        )
        for number, state in enumerate(list(RunState) * 100, start=1)
    ][:1000]
    listener.on_change(changes[:1])
    listener.on_change(changes)


def _check_form(contract: type[Any], item: object) -> None:
    try:
        check_object(contract, item)
    except PluginError as error:
        raise AssertionError(str(error)) from None


def _check_command(name: str, command: Command) -> None:
    prepare = command.prepare
    _demand(isinstance(prepare, FunctionType), f"{name}: prepare must be a function, not {prepare!r}")
    found = getattr(importlib.import_module(prepare.__module__), prepare.__qualname__, None)
    _demand(found is prepare, f"{name}: prepare must stand at the top level of a module, not in {prepare.__qualname__}")
    try:
        json.dumps(dict(command.data))
    except (TypeError, ValueError) as error:
        raise AssertionError(f"{name}: the command's data must be plain values: {error}") from None


def _demand(holds: bool, words: str) -> None:
    if not holds:
        raise AssertionError(words)


class _Handlers:
    """Knows one handler."""

    def __init__(self, known: str) -> None:
        self._known = known

    def get(self, name: str) -> Callable[..., object]:
        if not name or name != self._known:
            raise HandlerNotFoundError(f"no handler is called {name!r}")
        return lambda: None


@contextmanager
def _must_raise(error: type[Exception], words: str) -> Iterator[None]:
    try:
        yield
    except error:
        return
    raise AssertionError(f"{words}; it must raise {error.__name__}")


def in_threads(work: Callable[[], object], what: str) -> None:
    """Do the same on several threads at once; raises ``AssertionError`` if it fails on one of them."""
    failures: list[BaseException] = []

    def guarded() -> None:
        try:
            work()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=guarded, daemon=True) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise AssertionError(f"{what} fails if several threads call it: {failures[0]!r}") from failures[0]
