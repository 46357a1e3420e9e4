"""What calls about versions of jobs take and give."""

from __future__ import annotations

from msgspec import Struct
from xwheel.api.schema import fields
from xwheel.api.schema.derived import fields_of, page_of
from xwheel.api.schema.messages import Input
from xwheel.model.versions import JobVersion


class DiffQuery(Input, frozen=True, kw_only=True):
    """With which revision a version is compared; without one, with the version before it."""

    against: fields.Revision | None = None


@fields_of(JobVersion, without=("definition",))
class JobVersionItem(Struct, frozen=True, kw_only=True):
    """A version of a job, in a list: from ``revision`` on it was so, until the next one."""


class JobVersionView(JobVersionItem, frozen=True, kw_only=True):
    """A version of a job; what it was made under an older xwheel may lack fields of today.

    ``children`` are those that it had, with the templates of their parameters.
    """

    definition: dict[str, object]
    children: list[dict[str, object]]


class FieldDifferenceView(Struct, frozen=True, kw_only=True):
    """A field that differs; null also for a version that does not have it."""

    field: str
    before: object
    after: object


class JobDifferenceView(Struct, frozen=True, kw_only=True):
    """What differs between two versions of a job.

    ``against`` is null if there is no version before. ``source`` is a unified diff of the script, empty if that is the
    same, and null if one of the two sources is not kept any more.
    """

    job_id: int
    against: int | None
    revision: int
    fields: list[FieldDifferenceView]
    source: str | None


JobVersionPage = page_of("JobVersionPage", JobVersionItem, "versions, newest first")
