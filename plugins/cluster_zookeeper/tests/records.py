"""Records as tests want them: what is not said does not matter."""

from __future__ import annotations

from typing import Any

from xwheel_cluster_zookeeper.model import (
    Assignment,
    Drain,
    JobRecord,
    JobState,
    JobStatus,
    NodeRecord,
    Result,
    Role,
    Wanted,
    drain_key,
    job_key,
)


def node(name: str = "a", **changes: Any) -> NodeRecord:
    known: dict[str, Any] = {
        "path": "",
        "node_id": name,
        "host": "host",
        "address": f"http://127.0.0.1/{name}",
        "pid": 1,
        "role": Role.SLAVE,
    }
    return NodeRecord(**{**known, **changes})


def drain(name: str = "a", **changes: Any) -> Drain:
    return Drain(**{"key": drain_key(name), "node_id": name, "since_ms": 1, "by": "anna", **changes})


def job(number: int = 1, **changes: Any) -> JobRecord:
    known: dict[str, Any] = {
        "key": job_key(number, "acme.jobs", "hello"),
        "job_id": number,
        "group_name": "acme.jobs",
        "job_name": "hello",
        "source": "{}",
        "wanted": Wanted.STARTED,
        "operation": "Start",
        "op_seq": 1,
    }
    return JobRecord(**{**known, **changes})


def assignment(number: int = 1, path: str = "node-0000000000", **changes: Any) -> Assignment:
    known: dict[str, Any] = {
        "key": job_key(number, "acme.jobs", "hello"),
        "job_id": number,
        "node_id": "a",
        "node_path": path,
        "epoch": 1,
        "op_seq": 1,
    }
    return Assignment(**{**known, **changes})


def status(number: int = 1, **changes: Any) -> JobStatus:
    known: dict[str, Any] = {
        "key": job_key(number, "acme.jobs", "hello"),
        "job_state": JobState.STARTUP,
        "result": Result.SUCCESS,
        "op_seq": 1,
        "epoch": 1,
        "node_id": "a",
    }
    return JobStatus(**{**known, **changes})
