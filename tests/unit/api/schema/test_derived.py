"""Views follow records, and changes follow what makes an object."""

from __future__ import annotations

import msgspec
import pytest
from msgspec import UNSET, Struct

from tests.support.rows import NOW, make_job
from xwheel.api.http.body import fields_in
from xwheel.api.http.resource import view_of
from xwheel.api.schema.derived import changes_to, fields_of
from xwheel.api.schema.messages import GroupCreate, Input, JobChange, JobCreate
from xwheel.api.schema.views import JobView
from xwheel.model import ExecutorGroup, Job
from xwheel.model.jobs import ScheduleState


@fields_of(ExecutorGroup, "title id", created_ms=int, without=("app_name",))
class Short(Struct, frozen=True, kw_only=True):
    """Some fields of a group."""

    running: int


@changes_to(GroupCreate, without=("app_name",))
class Renaming(Input, frozen=True, kw_only=True):
    """A change."""

    revision: int = 0


def test_a_view_has_fields_of_the_record_and_its_own() -> None:
    assert Short.__struct_fields__ == ("title", "id", "running")
    assert Short.__doc__ == "Some fields of a group."
    group = ExecutorGroup(id=3, app_name="a", title="t", max_running=0, created_ms=NOW, updated_ms=NOW)
    assert msgspec.structs.asdict(view_of(Short, group, running=2)) == {
        "title": "t", "id": 3, "running": 2,
    }  # fmt: skip


def test_a_view_of_a_field_that_is_not_there_is_refused() -> None:
    with pytest.raises(KeyError):
        fields_of(ExecutorGroup, "nothing")


def test_every_field_of_a_change_may_be_left_out() -> None:
    assert Renaming.__struct_fields__ == ("title", "max_running", "addresses", "glue_types", "revision")
    assert fields_in(Renaming()) == {"revision": 0}
    assert msgspec.structs.asdict(Renaming())["title"] is UNSET
    with pytest.raises(msgspec.ValidationError, match="unknown field"):
        msgspec.convert({"app_name": "x"}, Renaming)


def test_what_a_jobs_author_sets_is_seen_and_can_be_changed() -> None:
    authored = set(JobCreate.__struct_fields__)
    assert authored - {"glue_source"} <= set(Job.__struct_fields__)
    seen = set(JobView.__struct_fields__) - {"state", "declared"}
    assert seen == set(Job.__struct_fields__) - {"partition", "awaits_root"}
    assert set(JobChange.__struct_fields__) == authored - {"group_id", "enabled"} | {"revision"}
    view = view_of(JobView, make_job(param="p"), state=ScheduleState.DONE, declared=None)
    assert view.param == "p"  # type: ignore[attr-defined]
