"""Executors as they registered, which is what routing goes by, and the groups that they belong to."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from sqlalchemy import Connection, Row, and_, bindparam, delete, exists, func, insert, not_, or_, select, update
from sqlalchemy.exc import IntegrityError

from xwheel.errors import ConflictError
from xwheel.model import NO_SECRET, SHARED_SECRET, EnteredAddress, ExecutorGroup, RegisteredExecutor
from xwheel.storage.database.bulk import update_many
from xwheel.storage.database.direct import Prepared
from xwheel.storage.database.rows import insert_row, one_row
from xwheel.storage.schema.tables import (
    IS_SENT,
    api_token,
    entered_address,
    executor,
    executor_group,
    executor_secret,
    job,
    open_run,
)

REGISTERED: Final = (
    "group_id", "address", "registered_as", "kind", "generation", "instance", "boot", "seen_ms", "secret_id", "by_hand",
    "release", "declared",
)  # fmt: skip
"""Columns of an executor's row that hold what it registered with, besides its labels."""

MAX_ADDRESSES: Final = 2000  # each address that people entered is asked every ten seconds, by one node
_PROVES_LESS: Final = func.coalesce(executor.c.secret_id, SHARED_SECRET) <= SHARED_SECRET
"""It registered with the token that all share, or with a group's digest-only one, and with no executor secret."""

_IS_NAMED: Final = exists().where(
    entered_address.c.group_id == executor.c.group_id,
    entered_address.c.address == executor.c.address,
    entered_address.c.secret_id > SHARED_SECRET,
)
"""A person entered the address with an executor secret."""

_EXECUTORS = Prepared(
    select(executor)
    .where(or_(executor.c.by_hand, not_(_PROVES_LESS), not_(_IS_NAMED)))
    .order_by(executor.c.group_id, executor.c.address)
)
_LIMITS = Prepared(select(executor_group.c.id, executor_group.c.app_name, executor_group.c.max_running))

# what is registered at an address of a group
_HERE = and_(executor.c.group_id == bindparam("of_group"), executor.c.address == bindparam("at"))
_AT_ADDRESS = select(executor).where(_HERE)
_CHANGE, _ADD = update(executor).where(_HERE), insert(executor)

_ADDRESSES = select(*(entered_address.c[name] for name in ("group_id", "address", "secret_id", "error")))


def save_executor(conn: Connection, item: RegisteredExecutor) -> RegisteredExecutor:
    """Write a registration: a new row, or the changed facts of the row with the same group and address.

    An instance is one journal, which one process holds: at its former address there is none any more.
    """
    values = {name: getattr(item, name) for name in REGISTERED}
    values["labels"] = json.dumps(dict(item.labels), ensure_ascii=False) if item.labels else None
    place = {"of_group": item.group_id, "at": item.address}
    before = conn.execute(_AT_ADDRESS, place).one_or_none()
    if item.by_hand or (before is not None and before.by_hand):
        values["earlier_secret_id"] = None  # what a person names was not proven
    elif before is not None and before.secret_id not in (None, item.secret_id):
        values["earlier_secret_id"] = before.secret_id
    if conn.execute(_CHANGE, {**values, **place}).rowcount == 0:
        conn.execute(_ADD, values)
    if item.instance:
        moved = and_(executor.c.instance == item.instance, executor.c.address != item.address)
        conn.execute(delete(executor).where(executor.c.group_id == item.group_id, moved))
    row = conn.execute(_AT_ADDRESS, place).one()
    return _record(dict(row._mapping), item.suspect_until_ms)


def find_executor(conn: Connection, group_id: int, address: str) -> RegisteredExecutor | None:
    """Return what registered at an address of a group, or is there by hand, or None."""
    row = conn.execute(_AT_ADDRESS, {"of_group": group_id, "at": address}).one_or_none()
    return None if row is None else _record(dict(row._mapping))


def is_named(conn: Connection, address: str, group_id: int | None = None) -> bool:
    """Return whether a person entered an address with an executor secret, for a group or for any."""
    query = select(entered_address.c.id).where(
        entered_address.c.address == address, entered_address.c.secret_id > SHARED_SECRET
    )
    if group_id is not None:
        query = query.where(entered_address.c.group_id == group_id)
    return conn.execute(query.limit(1)).first() is not None


def taken_elsewhere(
    conn: Connection, group_id: int, addresses: Collection[str], since_ms: int, *, secret_id: int | None = None
) -> list[str]:
    """Return those of the addresses that an executor of another group has that was seen since then.

    An executor that registered with a group's token keeps out only those that do so, too: whose ``secret_id`` is
    NO_SECRET.
    """
    query = select(executor.c.address).where(
        executor.c.address.in_(addresses), executor.c.group_id != group_id, executor.c.seen_ms >= since_ms
    )
    if secret_id != NO_SECRET:
        query = query.where(func.coalesce(executor.c.secret_id, SHARED_SECRET) != NO_SECRET)
    return sorted(set(conn.execute(query).scalars())) if addresses else []


def delete_executor(
    conn: Connection, group_id: int, address: str, *, by_hand: bool = False, proves_less: bool = False
) -> int:
    """Take an executor out that registered itself, or one that is there by hand; return how many rows went.

    With ``proves_less`` one stays that registered with an executor secret.
    """
    same = and_(executor.c.group_id == group_id, executor.c.address == address)
    gone = delete(executor).where(same, executor.c.by_hand == by_hand)
    return conn.execute(gone.where(_PROVES_LESS) if proves_less else gone).rowcount


def list_addresses(conn: Connection, group_ids: Collection[int] | None = None) -> list[EnteredAddress]:
    """Return the addresses that people entered, for some groups or for all, sorted within each group."""
    query = _ADDRESSES.order_by(entered_address.c.group_id, entered_address.c.address)
    if group_ids is not None:
        query = query.where(entered_address.c.group_id.in_(sorted(group_ids)))
    return [EnteredAddress(**row._mapping) for row in conn.execute(query)]


def is_entered(conn: Connection, group_id: int, address: str, secret_id: int) -> bool:
    """Return whether a person entered an address for a group with this secret."""
    key = entered_address.c
    query = select(key.id).where(key.group_id == group_id, key.address == address, key.secret_id == secret_id)
    return conn.execute(query).first() is not None


def replace_addresses(conn: Connection, group_id: int, wanted: Mapping[str, int]) -> None:
    """Make these the addresses of a group, each with the id of its secret.

    What was entered otherwise is called no more: its executor goes, unless it registered itself. Where a secret is
    named, what registered with less than one goes too. Raises ConflictError: there would be more than
    :data:`MAX_ADDRESSES` in all groups; NotFoundError: the group does not exist.
    """
    get_group(conn, group_id, lock=True)
    known = {item.address: item.secret_id for item in list_addresses(conn, [group_id])}
    gone = [address for address, secret_id in known.items() if wanted.get(address) != secret_id]
    here = entered_address.c.group_id == group_id
    if gone:
        conn.execute(delete(entered_address).where(here, entered_address.c.address.in_(gone)))
        mine = and_(executor.c.group_id == group_id, executor.c.by_hand, executor.c.address.in_(gone))
        conn.execute(delete(executor).where(mine))
    named = [address for address, secret_id in wanted.items() if secret_id > SHARED_SECRET]
    if named:
        less = and_(executor.c.by_hand.is_(False), _PROVES_LESS)
        mine = and_(executor.c.group_id == group_id, executor.c.address.in_(named))
        conn.execute(delete(executor).where(mine, less))
    new = [address for address, secret_id in wanted.items() if known.get(address) != secret_id]
    if new:
        values = {"group_id": group_id, "error": ""}
        rows = [{**values, "address": address, "secret_id": wanted[address]} for address in new]
        conn.execute(insert(entered_address), rows)
        if conn.execute(select(func.count()).select_from(entered_address)).scalar_one() > MAX_ADDRESSES:
            raise ConflictError(
                f"all groups together may have {MAX_ADDRESSES} addresses by hand: let executors register themselves"
            )


def update_address_error(conn: Connection, item: EnteredAddress, error: str) -> None:
    """Note why no run goes to an address that a person entered, or that runs go there."""
    same = and_(entered_address.c.group_id == item.group_id, entered_address.c.address == item.address)
    conn.execute(update(entered_address).where(same).values(error=error))


def find_secret_user(conn: Connection, secret_id: int) -> EnteredAddress | None:
    """Return an address by hand that is called with a secret, or None."""
    row = conn.execute(_ADDRESSES.where(entered_address.c.secret_id == secret_id).limit(1)).one_or_none()
    return None if row is None else EnteredAddress(**row._mapping)


def list_executors(conn: Connection) -> list[RegisteredExecutor]:
    """Return all executors, sorted by address within their group: the order that shards follow."""
    return ExecutorReader().read(conn)


class ExecutorReader:
    """Reads all executors again and again: a row that is as it was is the same record, which costs a tenth."""

    def __init__(self) -> None:
        self._known: dict[tuple[Any, ...], RegisteredExecutor] = {}

    def read(self, conn: Connection) -> list[RegisteredExecutor]:
        """Return all executors, as :func:`list_executors` does.

        What proved less than the secret that a person named for its address is none, whichever node wrote it.
        """
        rows = [tuple(row) for row in _EXECUTORS.fetch(conn, {})]
        names = executor.c.keys()
        self._known = {row: self._known.get(row) or _record(dict(zip(names, row, strict=True))) for row in rows}
        return list(self._known.values())


def update_beats(conn: Connection, beats: Sequence[tuple[int, int]]) -> int:
    """Write the last beats, ``(executor id, seen_ms)``, in one statement; return how many rows were there."""
    return update_many(conn, executor, ("seen_ms",), beats)


def sweep_executors(conn: Connection, before_ms: int) -> int:
    """Delete executors not seen since; the statement itself compares, so that a beat just written counts."""
    return conn.execute(delete(executor).where(executor.c.seen_ms < before_ms)).rowcount


def count_runs(conn: Connection) -> dict[str, int]:
    """Return how many runs are dispatching or running at each address; every open row has a time of its next check."""
    query = select(open_run.c.address, func.count()).where(IS_SENT).group_by(open_run.c.address)
    return {row[0]: row[1] for row in conn.execute(query) if row[0] is not None}


def insert_group(
    conn: Connection, *, app_name: str, title: str, now_ms: int, max_running: int = 0, glue_types: Sequence[str] = ()
) -> ExecutorGroup:
    """Create a group. Raises ConflictError: the app name is taken."""
    values = {
        "app_name": app_name,
        "title": title,
        "max_running": max_running,
        "glue_types": _names(glue_types),
        "created_ms": now_ms,
        "updated_ms": now_ms,
    }
    try:
        group_id = insert_row(conn, executor_group, values)
    except IntegrityError as error:
        raise ConflictError(f"a group with app name {app_name} exists already") from error
    return get_group(conn, group_id)


def get_group(conn: Connection, group_id: int, *, lock: bool = False) -> ExecutorGroup:
    """Return a group; ``lock`` holds its row until the transaction ends. Raises NotFoundError: it does not exist."""
    query = select(executor_group).where(executor_group.c.id == group_id)
    return _group(one_row(conn, query, "group", group_id, lock=lock))


def get_groups(conn: Connection, ids: Collection[int]) -> dict[int, ExecutorGroup]:
    """Return groups by id; unknown ids are missing."""
    query = select(executor_group).where(executor_group.c.id.in_(sorted(ids)))
    return {row.id: _group(row) for row in conn.execute(query)}


def find_group(conn: Connection, app_name: str) -> ExecutorGroup | None:
    """Return the group with this app name, or None."""
    row = conn.execute(select(executor_group).where(executor_group.c.app_name == app_name)).one_or_none()
    return None if row is None else _group(row)


def list_groups(
    conn: Connection, *, prefix: str = "", after_id: int = 0, limit: int = 1000, groups: Collection[int] | None = None
) -> list[ExecutorGroup]:
    """Return groups by id whose app name begins with a text; only those among ``groups`` unless None."""
    query = select(executor_group).where(executor_group.c.id > after_id)
    if groups is not None:
        query = query.where(executor_group.c.id.in_(sorted(groups)))
    if prefix:
        query = query.where(func.substr(executor_group.c.app_name, 1, len(prefix)) == prefix)
    return [_group(row) for row in conn.execute(query.order_by(executor_group.c.id).limit(limit))]


def list_limits(conn: Connection) -> list[tuple[int, str, int]]:
    """Return id, app name and limit of running runs of all groups."""
    return [(group_id, app_name, most) for group_id, app_name, most in _LIMITS.fetch(conn, {})]


def update_group(conn: Connection, group_id: int, changes: Mapping[str, Any], now_ms: int) -> ExecutorGroup:
    """Change a group's title, limit or glue types; the app name is its identity and stays.

    Raises NotFoundError: it does not exist.
    """
    values = {**changes, "updated_ms": now_ms}
    if "glue_types" in values:
        values["glue_types"] = _names(values["glue_types"])
    conn.execute(update(executor_group).where(executor_group.c.id == group_id).values(values))
    return get_group(conn, group_id)


def delete_group(conn: Connection, group_id: int) -> None:
    """Delete a group without jobs, its executors, its tokens and secrets.

    Raises NotFoundError: it does not exist; ConflictError: it still has jobs.
    """
    get_group(conn, group_id)
    has_jobs = select(job.c.id).where(job.c.group_id == group_id, job.c.deleted_ms.is_(None)).limit(1)
    if conn.execute(has_jobs).first() is not None:
        raise ConflictError(f"group {group_id} still has jobs: delete them first")
    for table in (executor, entered_address, api_token, executor_secret):
        conn.execute(delete(table).where(table.c.group_id == group_id))
    conn.execute(delete(executor_group).where(executor_group.c.id == group_id))


def _group(row: Row[Any]) -> ExecutorGroup:
    names = tuple(json.loads(row.glue_types)) if row.glue_types else ()
    return ExecutorGroup(**{**row._mapping, "glue_types": names})


def _names(glue_types: Sequence[str]) -> str | None:
    return json.dumps(list(glue_types)) if glue_types else None


def _record(row: Mapping[str, Any], suspect_until_ms: int = 0) -> RegisteredExecutor:
    labels = json.loads(row["labels"]) if row["labels"] else {}
    return RegisteredExecutor(**{**row, "labels": labels, "suspect_until_ms": suspect_until_ms})
