"""A user's file: mypy --strict must accept it as it stands."""

from __future__ import annotations

from collections.abc import Sequence

from xwheel_alarms import Alarm, AlarmChannel
from xwheel_devtools.testing import ManualClock, check_alarm_channel, check_router, check_schedule_type

from xwheel import Config, Job, RouteContext, Run, XwheelError, __version__, embedded, hookimpl
from xwheel.executor import Executor, JobContext, current_job, job
from xwheel.plugin import (
    PlainUrl,
    PluginOptions,
    RegisteredExecutor,
    Router,
    ScheduleSpec,
    ScheduleType,
    read_options,
    refused_kind,
)


@job("greet", parallel=2)
def greet(ctx: JobContext) -> str:
    ctx.log(f"hello {ctx.param} {ctx.shard_index}/{ctx.shard_total}")
    return str(current_job().run_id)


@job("fetch")
async def fetch(ctx: JobContext) -> None:
    ctx.set_result({"planned": ctx.planned_ms, "attempt": ctx.attempt})


class Newest:
    name = "NEWEST"
    asks = False

    def route(self, context: RouteContext) -> Sequence[RegisteredExecutor]:
        return [max(context.executors, key=lambda item: item.seen_ms)]


class Weekly:
    name = "WEEKLY"

    def check(self, spec: ScheduleSpec) -> None:
        int(spec.conf)

    def next_ms(self, spec: ScheduleSpec, after_ms: int) -> int | None:
        return after_ms + 7 * 86_400_000


@hookimpl
def xwheel_register_routers(config: Config) -> list[Router]:
    config.plugin("newest")
    return [Newest()]


@hookimpl
def xwheel_register_schedule_types(config: Config) -> list[ScheduleType]:
    return [Weekly()]


class Options(PluginOptions):
    prefix: str = ""


class Loud:
    name = "loud"

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix

    def send(self, alarm: Alarm) -> str:
        return f"{self._prefix}{alarm.title}"


@hookimpl
def xwheel_register_alarms(config: Config) -> list[AlarmChannel]:
    return [Loud(read_options(config, "loud", Options).prefix)]


def check_all() -> None:
    check_router(Newest())
    check_schedule_type(Weekly(), ["1"])
    check_alarm_channel(Loud("!"), receivers=["ops"])


def describe(item: Job, run: Run) -> str:
    try:
        return f"{__version__} {item.name} {run.state.value} {ManualClock().now_ms()}"
    except XwheelError as error:
        return str(error)


def start() -> None:
    executor = Executor(handlers=[greet, fetch], app_name="demo", port=0)
    executor.start()
    executor.stop()


def is_public(text: str) -> bool:
    url = PlainUrl.parse(text)
    return url.literal is not None and refused_kind(url.literal) is None


scheduler = embedded.EmbeddedScheduler("schedule", settings={"executor": {"workers": 4}})


@scheduler.job(every=2, max_retries=1)
def ticks() -> int:
    return 1


@scheduler.job("by hand")
async def by_hand(ctx: embedded.JobContext) -> str:
    return ctx.param


counted: int = ticks()


async def application() -> str:
    async with scheduler as running:
        state: str = running.wait_for(running.run_now("by hand", "x"))["state"]
        return state
