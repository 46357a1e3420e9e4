"""Alarms, from what happened to the notice that is sent.

Lock order: partition, job, run, then alarms by id, then episodes by id, then attempts by id.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, NamedTuple

from msgspec import Struct
from msgspec.structs import astuple
from sqlalchemy import Connection, insert, select
from xwheel.storage.database.bulk import any_of, update_many
from xwheel.storage.database.rows import insert_row

from xwheel_alarms.records import AlarmKind, AlarmRow, AlarmState
from xwheel_alarms.storage.lists import ALARM_COLUMNS, alarm_of, storable
from xwheel_alarms.tables import alarm, alarm_episode

REASON_LENGTH: Final = 512
MESSAGE_LENGTH: Final = 2000
HINTS: Final = 100_000


class NewAlarm(Struct, frozen=True, kw_only=True, gc=False):
    """Something that just happened and that a rule asks for.

    Attributes:
        run_id: The run, or None.
        root_id: Its fire, or None.
        count: How many due times it stands for.
    """

    rule_id: int
    job_id: int
    group_id: int
    partition: int
    kind: AlarmKind
    at_ms: int
    run_id: int | None = None
    root_id: int | None = None
    shard_index: int = 0
    reason: str = ""
    message: str = ""
    count: int = 1


class DueAlarm(NamedTuple):
    """An alarm that is to be grouped, with what only the grouping needs."""

    row: AlarmRow
    root_id: int | None
    shard_index: int


class EpisodeKey(NamedTuple):
    """What a rule sends about a job in one notice."""

    job_id: int
    rule_id: int
    kind: AlarmKind


class Episode(Struct, frozen=True):
    """What was sent lately about a job.

    Attributes:
        id: 0 for one that has no row yet.
        is_open: A notice was sent and the job has not been well since.
        until_ms: Until when further events are counted and not sent.
        held_id: The alarm that counts them, or None.
        root_id: The fire that was sent last.
        shard_index: And its shard.
        touched_ms: When it changed last.
    """

    key: EpisodeKey
    id: int = 0
    is_open: bool = False
    until_ms: int = 0
    held_id: int | None = None
    root_id: int | None = None
    shard_index: int = 0
    touched_ms: int = 0


class AlarmChange(Struct, frozen=True, gc=False):
    """What the grouping writes into an alarm."""

    id: int
    state: AlarmState
    due_ms: int | None
    count: int
    last_ms: int
    run_id: int | None
    reason: str
    message: str
    notice_id: int | None
    note: str


def insert_alarms(conn: Connection, alarms: Sequence[NewAlarm]) -> None:
    """Write what just happened; it is due to be grouped at once."""
    if alarms:
        conn.execute(insert(alarm), rows_of(alarms))


def rows_of(alarms: Sequence[NewAlarm]) -> list[dict[str, Any]]:
    """Return the rows of what just happened."""
    return [
        {
            **{name: getattr(item, name) for name in NewAlarm.__struct_fields__},
            "kind": str(item.kind),
            "reason": storable(item.reason, REASON_LENGTH),
            "message": storable(item.message, MESSAGE_LENGTH),
            "state": str(AlarmState.NEW),
            "last_ms": item.at_ms,
            "due_ms": item.at_ms,
            "notice_id": None,
            "note": "",
        }
        for item in alarms
    ]


def insert_test(conn: Connection, now_ms: int) -> int:
    """Write the alarm of a test, which needs no grouping; return its id."""
    values = {
        "kind": str(AlarmKind.TEST),
        "state": str(AlarmState.TOLD),
        "at_ms": now_ms,
        "last_ms": now_ms,
        "partition": 0,
        "shard_index": 0,
        "count": 1,
        "reason": "",
        "message": "",
        "note": "",
    }
    return insert_row(conn, alarm, values)


def find_due_alarms(conn: Connection, partitions: Collection[int], now_ms: int, limit: int) -> list[tuple[int, int]]:
    """Return ``(alarm, job)`` of what is to be grouped in these partitions, each partition's in order of time."""
    place = (alarm.c.partition, alarm.c.due_ms, alarm.c.id)
    query = select(alarm.c.id, alarm.c.job_id).where(
        alarm.c.partition.in_(sorted(partitions)), alarm.c.due_ms <= now_ms
    )
    return [(row.id, row.job_id) for row in conn.execute(query.order_by(*place).limit(limit))]


def lock_alarms(conn: Connection, ids: Collection[int]) -> list[DueAlarm]:
    """Lock alarms in id order, whatever their state."""
    columns: list[Any] = [*ALARM_COLUMNS, alarm.c.root_id, alarm.c.shard_index]
    query = select(*columns).where(any_of(conn, alarm.c.id, sorted(ids)))
    width = len(ALARM_COLUMNS)
    return [
        DueAlarm(alarm_of(row), row[width], row[width + 1])
        for row in conn.execute(query.order_by(alarm.c.id).with_for_update())
    ]


def update_alarms(conn: Connection, rows: Sequence[AlarmChange]) -> int:
    """Write what the grouping decided about locked alarms."""
    values = [astuple(item) for item in sorted(rows, key=lambda item: item.id)]
    return update_many(conn, alarm, AlarmChange.__struct_fields__[1:], values)


def get_alarms(conn: Connection, ids: Collection[int]) -> dict[int, AlarmRow]:
    """Return alarms by id."""
    rows = conn.execute(select(*ALARM_COLUMNS).where(any_of(conn, alarm.c.id, sorted(ids))))
    return {row.id: alarm_of(row) for row in rows}


def list_merged(conn: Connection, notice_ids: Collection[int], note: str, limit: int) -> list[AlarmRow]:
    """Return what notices count that carries a note, oldest first."""
    query = select(*ALARM_COLUMNS).where(any_of(conn, alarm.c.notice_id, sorted(notice_ids)), alarm.c.note == note)
    return [alarm_of(row) for row in conn.execute(query.order_by(alarm.c.id).limit(limit))]


def find_held(conn: Connection, job_ids: Collection[int]) -> list[int]:
    """Return the alarms that count others for these jobs."""
    query = select(alarm_episode.c.held_id).where(
        any_of(conn, alarm_episode.c.job_id, sorted(job_ids)), alarm_episode.c.held_id.is_not(None)
    )
    return list(conn.execute(query).scalars())


def lock_episodes(conn: Connection, job_ids: Collection[int]) -> dict[EpisodeKey, Episode]:
    """Lock the episodes of jobs, in id order."""
    query = select(alarm_episode).where(any_of(conn, alarm_episode.c.job_id, sorted(job_ids)))
    rows = conn.execute(query.order_by(alarm_episode.c.id).with_for_update())
    found = (_episode(row._mapping) for row in rows)
    return {episode.key: episode for episode in found}


def save_episodes(conn: Connection, episodes: Sequence[Episode]) -> None:
    """Write episodes: new rows, and changes of locked ones."""
    columns = ("is_open", "until_ms", "held_id", "root_id", "shard_index", "touched_ms")
    fresh = [
        {
            **{name: getattr(item, name) for name in columns},
            "job_id": item.key.job_id,
            "rule_id": item.key.rule_id,
            "kind": str(item.key.kind),
        }
        for item in episodes
        if not item.id
    ]
    if fresh:
        conn.execute(insert(alarm_episode), fresh)
    known = [(item.id, *(getattr(item, name) for name in columns)) for item in episodes if item.id]
    update_many(conn, alarm_episode, columns, sorted(known))


def list_open_episodes(conn: Connection, after_ms: int) -> list[Episode]:
    """Return what is not well again of all that changed after an instant; the latest 100,000 at most."""
    # what is closed is left out here: an index on both would be written for every notice
    query = select(alarm_episode).where(alarm_episode.c.touched_ms > after_ms)
    rows = conn.execute(query.order_by(alarm_episode.c.touched_ms.desc()).limit(HINTS))
    return [_episode(row._mapping) for row in rows if row.is_open]


def _episode(row: Mapping[Any, Any]) -> Episode:
    values = dict(row)
    key = EpisodeKey(values.pop("job_id"), values.pop("rule_id"), AlarmKind(values.pop("kind")))
    return Episode(key=key, **values)
