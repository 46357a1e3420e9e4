"""What the management API takes and gives about jobs that code declares."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Final

from msgspec import Meta, Struct
from xwheel.api.schema import fields as limits
from xwheel.api.schema.derived import changes_to, page_of
from xwheel.api.schema.messages import Input, JobCreate
from xwheel.model.jobs import DECLARABLE

from xwheel_jobs_as_code.declarations.ownership import MAX_RELEASE, DeclarationState
from xwheel_jobs_as_code.declarations.plan import SyncAction

MAX_JOBS: Final = 1000
SAID: Final = (*DECLARABLE, "handler", "schedule_type", "schedule_conf")
"""What a declaration may say of its job."""

Release = Annotated[str, Meta(min_length=1, max_length=MAX_RELEASE)]
Digest = Annotated[
    str, Meta(min_length=64, max_length=64, pattern=r"\A[0-9a-f]{64}\Z", extra={"hint": "hexadecimal digits"})
]
Instance = Annotated[str, Meta(max_length=64)]
Place = Annotated[str, Meta(max_length=1024)]
FieldName = Annotated[str, Meta(min_length=1, max_length=64)]
Reason = Annotated[str, Meta(max_length=4096)]


@changes_to(JobCreate, without=[name for name in JobCreate.__struct_fields__ if name not in SAID])
class DeclaredInput(Input, frozen=True, kw_only=True):
    """A job as code declares it: its name, the function that it stands at, and what is said of it."""

    name: limits.Name
    place: Place = ""


class DeclaredItem(Struct, frozen=True, kw_only=True):
    """A job as code declares it: ``name``, ``place`` (module and function), and what is said of it.

    That is fields of a new job but ``group_id``, ``enabled``, ``glue_type``, ``glue_source`` and ``anchor_ms``. What is
    wrong is a problem of that job alone, in the answer.
    """

    name: limits.Name


class BrokenInput(Input, frozen=True, kw_only=True):
    """A declaration that cannot be read where it stands; its job stays as it is."""

    name: limits.Name
    place: Place = ""
    field: FieldName
    reason: Reason


class DeclarationSync(Input, frozen=True, kw_only=True):
    """What a release of an application declares.

    ``instance`` is that of the executor that calls, empty for a person's command. Without ``jobs`` it is a sign of
    life, which changes nothing; the answer says whether the jobs are wanted. A ``dry_run`` changes nothing either.
    """

    EXAMPLE: ClassVar[Any] = {
        "app_name": "shop",
        "release": "1.4.0",
        "digest": "0" * 64,
        "jobs": [
            {
                "name": "report",
                "place": "shop.jobs:report",
                "handler": "report",
                "schedule_type": "CRON",
                "schedule_conf": "0 0 2 * * ?",
                "timezone": "Asia/Shanghai",
                "max_retries": 3,
            }
        ],
    }

    app_name: limits.PlainName
    release: Release
    digest: Digest
    instance: Instance = ""
    dry_run: bool = False
    jobs: Annotated[tuple[DeclaredItem, ...], Meta(max_length=MAX_JOBS)] | None = None
    broken: Annotated[tuple[BrokenInput, ...], Meta(max_length=MAX_JOBS)] = ()


class JobRelease(Input, frozen=True, kw_only=True):
    """Fields of a job that code shall no longer decide, none for the job as a whole; ``undo`` gives them back.

    Only at ``revision`` unless null.
    """

    EXAMPLE: ClassVar[Any] = {"fields": ["schedule_conf"]}

    fields: Annotated[tuple[FieldName, ...], Meta(max_length=64)] = ()
    undo: bool = False
    revision: limits.Revision | None = None


class DeclarationKey(Struct, frozen=True, kw_only=True):
    """A release of an application, and the digest of what it declares."""

    release: str
    digest: str


class FieldChangeView(Struct, frozen=True, kw_only=True):
    """A field that differs; ``old`` is null for a new job."""

    field: str
    old: object
    new: object


class SyncStepView(Struct, frozen=True, kw_only=True):
    """What is done to a job; ``job_id`` is null for one that a dry run would create."""

    action: SyncAction
    name: str
    job_id: int | None
    changes: list[FieldChangeView]


class SyncProblem(Struct, frozen=True, kw_only=True):
    """A declaration that cannot be carried out; its job stays as it was."""

    name: str
    place: str
    field: str
    reason: str


class SyncReport(Struct, frozen=True, kw_only=True):
    """What became of a sync.

    ``standing`` says whether the caller's declarations own the jobs. If not, ``other`` is what does or comes first: as
    long as one of its executors is live, or until ``until_ms``. ``needs_jobs`` asks an executor to send its jobs.
    ``conflicts`` are other declarations of live executors under the owner's release.
    """

    app_name: str
    standing: DeclarationState
    other: DeclarationKey | None
    until_ms: int | None
    needs_jobs: bool
    steps: list[SyncStepView]
    problems: list[SyncProblem]
    conflicts: list[DeclarationKey]


class BuildView(Struct, frozen=True, kw_only=True):
    """What some live executors declare, and where that stands."""

    release: str
    digest: str
    standing: DeclarationState
    executors: int


class DeclarationView(Struct, frozen=True, kw_only=True):
    """Whose declarations the jobs of a group follow.

    ``seen_ms`` is when one of its executors last said so, ``synced_ms`` when all its jobs were last compared.
    """

    group_id: int
    app_name: str
    release: str
    digest: str
    seen_ms: int | None
    synced_ms: int | None
    is_in_conflict: bool
    builds: list[BuildView]


DeclarationPage = page_of(
    "DeclarationPage", DeclarationView, "groups whose applications declare jobs, which may be short"
)
