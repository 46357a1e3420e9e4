"""What a declaration may say of its job."""

from __future__ import annotations

from xwheel_jobs_as_code.declarations.messages import SAID

from xwheel.api.schema.messages import JobCreate
from xwheel.model.jobs import DECLARABLE


def test_what_may_be_declared_is_what_the_api_takes() -> None:
    kept = {"group_id", "name", "enabled", "glue_type", "glue_source", "anchor_ms"}
    assert set(SAID) == set(JobCreate.__struct_fields__) - kept
    assert set(DECLARABLE) < set(SAID)
