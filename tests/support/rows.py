"""Rows for tests: complete records whose every field can be replaced."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from xwheel_devtools.testing import sample_job, sample_run
from xwheel_devtools.testing.samples import SAMPLE_MS

from xwheel.model import Job, RegisteredExecutor, Run, RunState

NOW = SAMPLE_MS


def make_job(**changes: Any) -> Job:
    ours = {
        "name": "job",
        "schedule_type": "FIX_RATE",
        "schedule_conf": "1",
        "handler": "demo",
        "next_fire_ms": NOW,
    }
    return sample_job(**{**ours, **changes})


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
    planned = {
        "id": run_id,
        "origin_key": run_id,
        "root_id": run_id,
        "chain_id": changes.get("root_id", run_id),
        "state": RunState.PLANNED,
        "address": None,
        "dispatched_ms": None,
        "accepted_ms": None,
        "finished_ms": None,
        "result_code": None,
        "message": "",
    }
    return sample_run(**{**planned, **changes})


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
