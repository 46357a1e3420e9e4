"""A plugin of each kind that goes wrong when a file says so, and works well else.

Not imported by tests: :mod:`tests.faults.injectors.plugins` installs it as a distribution of its own. It knows nothing
but what plugins may know, and finds its file, ``commands.json``, next to itself: how each kind goes wrong, by its name.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar, cast

from xwheel_alarms import Alarm, AlarmChannel

from xwheel.builtin.schedule_types import FixRate
from xwheel.config import Config
from xwheel.model import RegisteredExecutor
from xwheel.plugin import RouteContext, Router, RunChange, RunListener, ScheduleSpec, ScheduleType, hookimpl

COMMANDS = Path(__file__).with_name("commands.json")
NOTES = Path(__file__).parent
PAUSE_S = 0.02

T = TypeVar("T")
Ways = dict[str, Callable[[], Any]]


def hang(kind: str) -> None:
    """Come back only once it is told otherwise."""
    while command(kind) == "hang":
        time.sleep(PAUSE_S)


def fail(error: BaseException) -> Any:
    raise error


def command(kind: str) -> str:
    """Return how a kind goes wrong now; empty if it works."""
    found: dict[str, str] = json.loads(COMMANDS.read_text())
    return found.get(kind, "")


def answer(kind: str, well: Callable[[], T], lies: Ways) -> T:
    """Do as the file says."""
    how = command(kind)
    if how == "hang":
        hang(kind)
        return well()
    faults: Ways = {
        "raise": lambda: fail(RuntimeError("faulty")),
        "exit": lambda: fail(SystemExit(3)),
        "interrupt": lambda: fail(KeyboardInterrupt()),
        **lies,
    }
    return cast("T", faults[how]() if how else well())


def note(kind: str, text: str) -> None:
    with (NOTES / f"{kind}.notes").open("a") as file:
        file.write(text + "\n")


class Endless(list[RegisteredExecutor]):
    """An answer that no one can read: its code leaves the process."""

    def __iter__(self) -> Iterator[RegisteredExecutor]:
        raise SystemExit(4)

    def __len__(self) -> int:
        raise SystemExit(4)


class FaultyRouter:
    """The first executor, or worse."""

    name = "FAULTY"
    asks = False

    def route(self, context: RouteContext) -> Sequence[RegisteredExecutor]:
        first = context.executors[0]

        return answer(
            "router",
            lambda: context.executors[:1],
            {
                "none": lambda: None,
                "empty": list,
                "text": lambda: first.address,
                "number": lambda: 1,
                "twice": lambda: [first, first],
                # registered nowhere; nothing listens there
                "foreign": lambda: [replace(first, address="http://127.0.0.1:1")],
                "unreadable": Endless,
            },
        )


class FaultyType(FixRate):
    """A fixed rate, or worse."""

    name = "FAULTY"

    def next_ms(self, spec: ScheduleSpec, after_ms: int) -> int | None:
        return answer(
            "schedule_type",
            lambda: super(FaultyType, self).next_ms(spec, after_ms),
            {
                "past": lambda: after_ms - 86_400_000,
                "same": lambda: after_ms,
                "far": lambda: 10**18,
                "text": lambda: "tomorrow",
                "bool": lambda: True,
                "fraction": lambda: after_ms + 0.5,
            },
        )


class FaultyChannel:
    """Notes the ids of alarms in a file, or worse."""

    name = "faulty"

    def send(self, alarm: Alarm) -> str | None:
        def well() -> str:
            note("channel", str(alarm.id))
            return "noted"

        return answer("channel", well, {"number": lambda: 7, "long": lambda: "x" * 10_000_000, "object": object})


class FaultyListener:
    """Notes changes in a file, or worse."""

    name = "faulty"

    def on_change(self, changes: Sequence[RunChange]) -> None:
        lines = "\n".join(f"{item.run_id} {item.state.value}" for item in changes)
        answer("listener", lambda: note("listener", lines), {})


@hookimpl
def xwheel_register_routers(config: Config) -> list[Router]:
    return [FaultyRouter()]


@hookimpl
def xwheel_register_schedule_types(config: Config) -> list[ScheduleType]:
    return [FaultyType()]


@hookimpl
def xwheel_register_alarms(config: Config) -> list[AlarmChannel]:
    return [FaultyChannel()]


@hookimpl
def xwheel_register_run_listeners(config: Config) -> list[RunListener]:
    return [FaultyListener()]
