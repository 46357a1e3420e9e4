"""Questions of the loops: when what waits in the database is due, or a number that changes with it.

Each selects one number, or NULL. The partitions are those that the lease rows give to the node ``owner``, so that the
statement is always the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeAlias

from sqlalchemy import BindParameter, Column, ColumnElement, Dialect, Select, String, bindparam, func, select

from xwheel.storage.schema import tables

Question: TypeAlias = Select[Any]

_OWNER: Final[BindParameter[Any]] = bindparam("owner", type_=String)
_LEASE, _SECRET, _ENTERED = tables.partition_lease.c, tables.executor_secret.c, tables.entered_address.c
_OPEN: Final = tables.open_run.c


def first_of(column: Column[Any], partition: Column[Any], *rules: ColumnElement[bool]) -> Question:
    """Return the question for the least of a column in the node's partitions.

    An index must begin with the partition and what ``rules`` compare with constants, then the column. Each partition is
    asked in the order of that index: a planner that expects many rows would read the whole table.
    """
    first = select(column).where(partition == _LEASE.partition, column.is_not(None), *rules)
    each = first.order_by(column).limit(1).correlate(tables.partition_lease).scalar_subquery()
    return select(func.min(each)).where(_LEASE.owner == _OWNER)


PLANNED: Final = first_of(_OPEN.due_ms, _OPEN.partition, _OPEN.epoch == 0, tables.IS_PLANNED)
"""When the first planned row is due that no node adopted."""

FIRE: Final = first_of(tables.job.c.next_fire_ms, tables.job.c.partition)

CHECK: Final = select(func.min(_OPEN.check_ms)).where(tables.IS_SENT)
"""When the first open run of all partitions is checked."""

NODES: Final = (
    select(func.count()).select_from(tables.node).where(tables.node.c.id != _OWNER),
    # epochs only rise, and with each new holder
    select(func.sum(_LEASE.epoch) * 1000 + func.count(_LEASE.owner)),
)

CALENDARS: Final = select(func.count() + func.sum(tables.calendar.c.updated_ms))

ADDRESSES: Final = select(func.sum(_ENTERED.id + _ENTERED.secret_id) * 1000 + func.count())

REGISTRY: Final = (
    # each registration and each flush of beats writes when an executor was seen
    select(func.count() + func.sum(tables.executor.c.seen_ms)),
    select(func.sum(tables.executor_group.c.id + tables.executor_group.c.updated_ms)),
    select(func.sum(_SECRET.id + _SECRET.created_ms + func.coalesce(_SECRET.expires_ms, 0))),
)


def spell_out(asked: Sequence[Question], owner: str, dialect: Dialect) -> str:
    """Return one statement for all questions, whose only row has their answers in this order."""
    whole = select(*(item.scalar_subquery().label(f"c{n}") for n, item in enumerate(asked)))
    return str(whole.params(owner=owner).compile(dialect=dialect, compile_kwargs={"literal_binds": True}))
