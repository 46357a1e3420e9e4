"""Check a plugin of one file as ``xwheel plugins check`` does: load it alone, and run the suite of each kind on it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from xwheel.config import Config, build_config
from xwheel.plugin.discovery import survey_plugins
from xwheel.plugin.hookspecs import all_hooks
from xwheel.runtime.foreign import ends_in_time

from xwheel_devtools.testing.log_suite import check_log_store
from xwheel_devtools.testing.page_suite import check_pages
from xwheel_devtools.testing.samples import strangers
from xwheel_devtools.testing.subsystem_suite import check_commands, check_routes, check_tables
from xwheel_devtools.testing.suites import (
    check_alarm_channel,
    check_glue_type,
    check_router,
    check_run_listener,
    check_schedule_type,
    sample_alarms,
)

LIMIT_S: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """What a check of an object came to.

    Attributes:
        kind: What it is registered as; ``plugin`` for the file itself.
        name: Its name.
        problem: What is wrong, or empty.
        note: What was not tried, and how to have it tried; or empty.
    """

    kind: str
    name: str
    problem: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trials:
    """What a check may do beyond looking at the form.

    Attributes:
        send: Whether sample alarms are really sent through alarm channels.
        confs: Configurations that a schedule type must understand.
        source: A source that a glue type must build.
        limit_s: How long a suite may take.
    """

    send: bool = False
    confs: Sequence[str] = ()
    source: str = ""
    limit_s: float = LIMIT_S


def check_file(path: Path, config: Config, trials: Trials | None = None) -> list[Checked]:
    """Return what came of each object that a file registers, or what is wrong with the file.

    Args:
        path: The file.
        config: Settings; the file's table of options is taken from there.
        trials: What may be tried.
    """
    name = path.stem
    settings = {"disabled": sorted(strangers()), "options": {name: dict(config.plugin(name))}}
    survey = survey_plugins(build_config({"plugins": settings}), {name: path})
    if survey.errors:
        return [Checked(kind="plugin", name=name, problem=str(error)) for error in survey.errors]
    plugins = survey.plugins
    (info,) = (info for info in plugins.installed if info.origin.name == name and not info.origin.is_installed)
    tables = [plugins.registered(hook) for hook in all_hooks()]
    found = [
        _check(table.kind, one, table[one], trials or Trials())
        for table in tables
        for one in info.registers.get(table.kind, ())
    ]
    return found or [Checked(kind="plugin", name=name, problem="registers nothing: its hooks return no objects")]


def _check(kind: str, name: str, item: object, trials: Trials) -> Checked:
    """Run the suite of a kind, unless it needs what was not given."""
    suites: dict[str, tuple[Callable[[], None], str]] = {
        "router": (lambda: check_router(item), ""),  # type: ignore[arg-type]
        "run listener": (lambda: check_run_listener(item), ""),  # type: ignore[arg-type]
        "alarm channel": (
            lambda: check_alarm_channel(item),  # type: ignore[arg-type]
            "" if trials.send else f"--send sends {len(list(sample_alarms()))} sample alarms through it",
        ),
        "log store": (
            lambda: check_log_store(item),  # type: ignore[arg-type]
            "" if trials.send else "--send writes sample logs into it, and deletes them",
        ),
        "identity provider": (
            lambda: _check_identity_provider(item),
            "" if trials.send else "--send signs strangers in with it, who must be refused",
        ),
        "set of pages": (lambda: check_pages(item), ""),  # type: ignore[arg-type]
        "set of tables": (lambda: check_tables(item), ""),  # type: ignore[arg-type]
        "set of routes": (lambda: _check_routes(item), ""),
        "set of commands": (lambda: check_commands(item), ""),  # type: ignore[arg-type]
        "schedule type": (
            lambda: check_schedule_type(item, trials.confs),  # type: ignore[arg-type]
            "" if trials.confs else "--conf CONF tries a configuration",
        ),
        "glue type": (
            lambda: check_glue_type(item, source=trials.source),  # type: ignore[arg-type]
            "" if trials.source else "--source FILE tries a source",
        ),
    }
    suite, note = suites[kind]
    problem = "" if note else _run(suite, trials.limit_s)
    return Checked(kind=kind, name=name, problem=problem, note=note)


def _check_identity_provider(item: object) -> None:
    from xwheel_devtools.testing.identity_suite import check_identity_provider

    check_identity_provider(item)  # type: ignore[arg-type]


def _check_routes(item: object) -> None:
    check_routes(item)  # type: ignore[arg-type]


def _run(suite: Callable[[], None], limit_s: float) -> str:
    """Return what a suite found, or an empty text; it runs on a thread that is left behind if it hangs."""
    said: list[str] = []

    def run() -> None:
        try:
            suite()
        except AssertionError as error:
            said.append(str(error))
        except BaseException as error:
            said.append(f"{type(error).__name__}: {error}")
        else:
            said.append("")

    ends_in_time(run, limit_s, "xwheel-suite")
    return said[0] if said else f"did not come back within {limit_s:g} s"
