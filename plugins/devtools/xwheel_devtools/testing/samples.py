"""Complete records for tests of plugins; every field can be replaced."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib.metadata import entry_points, requires
from typing import Any, Final

import msgspec
from xwheel.api.schema.messages import JobCreate
from xwheel.config import build_config
from xwheel.model import PARTITIONS, ExecutorGroup, Job, Origin, RegisteredExecutor, Run, RunState
from xwheel.model.jobs import draft_job
from xwheel.plugin import RouteContext
from xwheel.plugin.discovery import CORE, ENTRY_POINT_GROUP, Plugins, load_plugins
from xwheel_alarms import Alarm, AlarmKind

SAMPLE_MS: Final = 1_767_225_600_000
"""2026-01-01T00:00:00Z."""


def load_plugin(name: str, options: Mapping[str, Any] | None = None) -> Plugins:
    """Load an installed plugin and those of the core, without any other.

    Args:
        name: The plugin's entry point.
        options: Its table of options, as it would stand in ``[plugins.options.NAME]``.

    Raises:
        PluginError: It is not installed or not usable.
        ConfigError: An option is not acceptable.
    """
    settings = {"disabled": sorted(strangers() - {name}), "options": {name: dict(options or {})}}
    return load_plugins(build_config({"plugins": settings}))


def strangers() -> set[str]:
    """Return the names of the plugins that are installed here and that ``xwheel[server]`` does not bring."""
    brought = brought_by(CORE, "server")
    return {
        entry.name
        for entry in entry_points(group=ENTRY_POINT_GROUP)
        if entry.dist is not None and entry.dist.name not in brought
    }


@cache
def brought_by(name: str, extra: str) -> frozenset[str]:
    """Return a distribution with what one of its extras brings of ours, as it says itself."""
    from packaging.requirements import Requirement

    found = {name}
    for wanted in map(Requirement, requires(name) or ()):
        if wanted.marker is None or not wanted.marker.evaluate({"extra": extra}):
            continue
        if wanted.name == name:
            found = found.union(*(brought_by(name, more) for more in wanted.extras))
        elif wanted.name.startswith(f"{CORE}-"):
            found.add(wanted.name)
    return frozenset(found)


def sample_group(**changes: Any) -> ExecutorGroup:
    """Return an executor group."""
    values = {
        "id": 1,
        "app_name": "shop",
        "title": "Shop workers",
        "max_running": 0,
        "created_ms": SAMPLE_MS,
        "updated_ms": SAMPLE_MS,
    }
    return ExecutorGroup(**{**values, **changes})


def sample_job(**changes: Any) -> Job:
    """Return a job."""
    message = JobCreate(
        group_id=1,
        name="nightly report",
        schedule_type="CRON",
        schedule_conf="0 0 3 * * ?",
        handler="report",
        enabled=True,
    )
    values = {"id": 1, "next_fire_ms": SAMPLE_MS + 10_800_000, **changes}
    job = draft_job(msgspec.structs.asdict(message), SAMPLE_MS)
    return msgspec.structs.replace(job, **{"partition": values["id"] % PARTITIONS, **values})


def sample_run(**changes: Any) -> Run:
    """Return a failed run of :func:`sample_job`."""
    run_id = changes.get("id", 100)
    run = Run(
        id=run_id,
        job_id=1,
        group_id=1,
        partition=1,
        origin=Origin.SCHEDULE,
        origin_key=SAMPLE_MS,
        shard_index=0,
        shard_total=1,
        root_id=run_id,
        chain_id=run_id,
        chain_depth=0,
        attempt=1,
        retries_left=0,
        state=RunState.FAILED,
        epoch=0,
        due_ms=SAMPLE_MS,
        planned_ms=SAMPLE_MS,
        created_ms=SAMPLE_MS,
        param=None,
        reason="",
        address="http://10.0.0.1:9999",
        instance=None,
        dispatched_ms=SAMPLE_MS + 5,
        accepted_ms=SAMPLE_MS + 9,
        finished_ms=SAMPLE_MS + 1500,
        check_ms=None,
        kill_requested=False,
        result_code=500,
        message="disk is full",
        skip_last_ms=None,
        skip_count=0,
    )
    return msgspec.structs.replace(run, **changes)


def sample_alarm(**changes: Any) -> Alarm:
    """Return an alarm about :func:`sample_run`."""
    values: dict[str, Any] = {
        "id": 7,
        "kind": AlarmKind.FAILED,
        "at_ms": SAMPLE_MS + 1500,
        "title": "nightly report failed",
        "text": "nightly report failed\njob 1 nightly report, run 100, on http://10.0.0.1:9999\ndisk is full",
        "reason": "disk is full",
        "job": sample_job(),
        "group": sample_group(),
        "run": sample_run(),
        "count": 1,
        "receivers": (),
    }
    return Alarm(**{**values, **changes})


def sample_executors(count: int, **changes: Any) -> list[RegisteredExecutor]:
    """Return live executors ``http://10.0.0.1:9999``, ``http://10.0.0.2:9999`` and so on."""
    found = []
    for number in range(1, count + 1):
        address = f"http://10.0.{number // 256}.{number % 256}:9999"
        values: dict[str, Any] = {
            "id": number,
            "group_id": 1,
            "address": address,
            "registered_as": address,
            "kind": "xwheel",
            "generation": 4,
            "instance": f"instance-{number}",
            "boot": f"boot-{number}",
            "seen_ms": SAMPLE_MS,
            "suspect_until_ms": 0,
        }
        found.append(RegisteredExecutor(**{**values, **changes}))
    return sorted(found, key=lambda item: item.address)


def sample_route_context(
    executors: Sequence[RegisteredExecutor],
    job: Job | None = None,
    *,
    beat: Callable[[str], bool] | None = None,
    idle_beat: Callable[[str], bool] | None = None,
    **more: Any,
) -> RouteContext:
    """Return what a router may look at; an address without an answer is alive and idle.

    Args:
        executors: Those it may choose.
        job: For which job; :func:`sample_job` if None.
        beat: Answers for addresses.
        idle_beat: The same, for idle beats.
        more: Further fields of :class:`~xwheel.plugin.RouteContext`.
    """
    return RouteContext(
        job=job or sample_job(), executors=executors, beat=beat or _yes, idle_beat=idle_beat or _yes, **more
    )


def _yes(address: str) -> bool:
    del address
    return True
