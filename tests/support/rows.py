"""Rows for tests: complete records whose every field can be replaced."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec

from xwheel.api.schema.messages import JobCreate
from xwheel.model import PARTITIONS, Job, Origin, RegisteredExecutor, Run, RunState
from xwheel.model.jobs import draft_job

NOW = 1_767_225_600_000  # 2026-01-01T00:00:00Z


def make_job(**changes: Any) -> Job:
    message = JobCreate(
        group_id=1, name="job", schedule_type="FIX_RATE", schedule_conf="1", handler="demo", enabled=True
    )
    values = {"id": 1, "next_fire_ms": NOW, **changes}
    job = draft_job(msgspec.structs.asdict(message), NOW)
    return msgspec.structs.replace(job, **{"partition": values["id"] % PARTITIONS, **values})


def job_values(**changes: Any) -> dict[str, Any]:
    """What :meth:`JobManager.create` wants."""
    job = make_job(**changes)
    names = (
        "group_id name description schedule_type schedule_conf timezone anchor_ms start_ms end_ms misfire_policy "
        "misfire_threshold_ms route_strategy block_strategy glue_type handler param timeout_s max_retries "
        "block_scope retry_backoff retry_delay_ms retry_delays_ms retry_max_delay_ms retry_jitter_pct delivery "
        "recover_lost join_mode retention_days log_retention_days wait_for_executor_s jitter_ms "
        "calendar_exclude calendar_require route_options"
    )
    return {name: getattr(job, name) for name in names.split()}


def make_run(run_id: int, **changes: Any) -> Run:
    """Return a planned run."""
    run = Run(
        id=run_id,
        job_id=1,
        group_id=1,
        partition=1,
        origin=Origin.SCHEDULE,
        origin_key=run_id,
        shard_index=0,
        shard_total=1,
        root_id=run_id,
        chain_id=changes.get("root_id", run_id),
        chain_depth=0,
        attempt=1,
        retries_left=0,
        state=RunState.PLANNED,
        epoch=0,
        due_ms=NOW,
        planned_ms=NOW,
        created_ms=NOW,
        param=None,
        reason="",
        address=None,
        instance=None,
        dispatched_ms=None,
        accepted_ms=None,
        finished_ms=None,
        check_ms=None,
        kill_requested=False,
        result_code=None,
        message="",
        skip_last_ms=None,
        skip_count=0,
    )
    return msgspec.structs.replace(run, **changes)


def make_executor(address: str = "http://127.0.0.1:9999", **changes: Any) -> RegisteredExecutor:
    executor = RegisteredExecutor(
        id=1,
        group_id=1,
        address=address,
        registered_as=f"{address}/",
        kind="xwheel",
        generation=3,
        instance="instance-1",
        boot="boot-1",
        seen_ms=NOW,
        suspect_until_ms=0,
    )
    return replace(executor, **changes)
