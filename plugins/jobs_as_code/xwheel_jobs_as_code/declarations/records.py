"""What code says of which job: fields that it owns, and those that people released from it."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Connection, Row, delete, insert, select, update
from xwheel.storage.database.rows import IN_LIMIT, in_parts
from xwheel.storage.schema.tables import job

from xwheel_jobs_as_code.declarations.tables import declared_job

MAX_PROBLEM: Final = 512
MAX_PLACE: Final = 255
LISTS: Final = ("fields", "released")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredJob:
    """What code says of a job that is there.

    Attributes:
        place: Module and function.
        fields: What code says of it, released or not.
        released: Fields that people released from code.
        is_released: People released the whole job.
        is_retired: Code does not declare it any more, and stopped it.
        was_started: Whether it fired until then.
        problem: Why what code says now cannot be done, or empty; what it said before holds.
    """

    job_id: int
    group_id: int
    place: str = ""
    fields: tuple[str, ...] = ()
    released: tuple[str, ...] = ()
    is_released: bool = False
    is_retired: bool = False
    was_started: bool = False
    problem: str = ""
    updated_ms: int = 0

    @property
    def is_owned(self) -> bool:
        """Whether code decides that the job is there, and what it is called."""
        return not (self.is_released or self.is_retired)

    @property
    def owned(self) -> frozenset[str]:
        """The fields that only code may change."""
        if not self.is_owned:
            return frozenset()
        return frozenset({"name", *self.fields}).difference(self.released)


def get_declared(conn: Connection, ids: Collection[int]) -> dict[int, DeclaredJob]:
    """Return what code says of jobs, by id; those that it never declared are missing."""
    query = select(declared_job)
    rows = in_parts(conn, sorted(ids), IN_LIMIT, lambda part: query.where(declared_job.c.job_id.in_(list(part))))
    return {row.job_id: _declared(row) for row in rows}


def list_declared(conn: Connection, group_id: int) -> dict[int, DeclaredJob]:
    """Return what code says of all jobs of a group, by id."""
    query = select(declared_job).where(declared_job.c.group_id == group_id)
    return {row.job_id: _declared(row) for row in conn.execute(query.order_by(declared_job.c.job_id))}


def find_by_names(conn: Connection, group_id: int, names: Collection[str]) -> dict[str, list[int]]:
    """Return the ids of a group's jobs that have these names and are not deleted; names that no job has are missing."""
    query = select(job.c.id, job.c.name).where(job.c.group_id == group_id, job.c.deleted_ms.is_(None))
    found: dict[str, list[int]] = {}
    for row in in_parts(
        conn, sorted(names), IN_LIMIT, lambda part: query.where(job.c.name.in_(list(part))).order_by(job.c.id)
    ):
        found.setdefault(row.name, []).append(row.id)
    return found


def insert_declared(conn: Connection, items: Sequence[DeclaredJob]) -> None:
    """Write what code says of jobs of which it said nothing before; their group's owner is locked."""
    if items:
        conn.execute(insert(declared_job), [{"job_id": item.job_id, **_values(item)} for item in items])


def save_declared(conn: Connection, item: DeclaredJob) -> None:
    """Write what code says of a job whose row is locked."""
    values = _values(item)
    same = declared_job.c.job_id == item.job_id
    if conn.execute(update(declared_job).where(same).values(values)).rowcount == 0 and not _is_there(conn, item.job_id):
        conn.execute(insert(declared_job).values(job_id=item.job_id, **values))


def delete_declared(conn: Connection, ids: Iterable[int]) -> None:
    """Forget what code said of jobs that are deleted; their rows are locked."""
    conn.execute(delete(declared_job).where(declared_job.c.job_id.in_(sorted(ids))))


def _values(item: DeclaredJob) -> dict[str, Any]:
    """Return what is said as its columns take it."""
    values = {name: getattr(item, name) for name in DeclaredJob.__dataclass_fields__ if name != "job_id"}
    values |= {name: json.dumps(sorted(values[name])) for name in LISTS}
    return {**values, "place": item.place[:MAX_PLACE], "problem": item.problem[:MAX_PROBLEM]}


def _is_there(conn: Connection, job_id: int) -> bool:
    """Return whether there is a row: an update that changes nothing counts none on some servers."""
    return conn.execute(select(declared_job.c.job_id).where(declared_job.c.job_id == job_id)).first() is not None


def _declared(row: Row[Any]) -> DeclaredJob:
    values = dict(row._mapping)
    values |= {name: tuple(json.loads(values[name])) for name in LISTS}
    values |= {name: bool(values[name]) for name in ("is_released", "is_retired", "was_started")}
    return DeclaredJob(**values)
