"""What commands ask a node to learn when a schedule fires."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from xwheel.api.schema.messages import JobCreate, PreviewQuery

SCHEDULE_FIELDS: Final = tuple(name for name in PreviewQuery.__struct_fields__ if name in JobCreate.__struct_fields__)
"""Fields of jobs on which it depends when they fire."""


def preview_params(job: Mapping[str, Any], count: int) -> dict[str, Any]:
    """Return the query that asks when a job's schedule fires."""
    params: dict[str, Any] = {"count": count}
    for field in SCHEDULE_FIELDS:
        value = job.get(field)
        if isinstance(value, list):
            value = ",".join(value) or None
        if value is not None:
            params[field] = value
    return params
