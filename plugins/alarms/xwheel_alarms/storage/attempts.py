"""Attempts to send alarms: those that wait, and the result of each."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, delete, insert, select
from xwheel.storage.database.bulk import any_of, update_many
from xwheel.storage.database.rows import insert_row

from xwheel_alarms.records import AlarmAttempt, AlarmTarget, AttemptState
from xwheel_alarms.storage.lists import ATTEMPT_COLUMNS, attempt_of, storable
from xwheel_alarms.tables import alarm, alarm_attempt, alarm_episode

ANSWER_LENGTH: Final = 1000


class NewAttempt(NamedTuple):
    """An attempt that is to be made, or one that failed before it began; then it has an answer.

    Attributes:
        due_ms: When to make it; None for one that failed.
        answer: Why.
    """

    alarm_id: int
    job_id: int | None
    group_id: int | None
    partition: int
    target: AlarmTarget
    number: int
    due_ms: int | None
    answer: str = ""


class EndedAttempt(NamedTuple):
    """The result of an attempt.

    Attributes:
        started_ms: When the channel was called; None if it was not.
        took_ms: How long that took; None as well.
    """

    id: int
    state: AttemptState
    started_ms: int | None
    took_ms: int | None
    answer: str


def insert_attempts(conn: Connection, attempts: Sequence[NewAttempt]) -> None:
    """Write attempts that are to be made, and some that failed before they began."""
    if attempts:
        conn.execute(insert(alarm_attempt), [_values(item) for item in attempts])


def insert_ended(conn: Connection, attempt: NewAttempt, ended: EndedAttempt) -> int:
    """Write an attempt together with its result; return its id."""
    values = {
        **_values(attempt),
        "state": str(ended.state),
        "started_ms": ended.started_ms,
        "took_ms": ended.took_ms,
        "answer": storable(ended.answer, ANSWER_LENGTH),
    }
    return insert_row(conn, alarm_attempt, values)


def find_due_attempts(
    conn: Connection, partitions: Collection[int], channel: str, now_ms: int, limit: int
) -> list[AlarmAttempt]:
    """Return attempts through one channel that are due, in no order."""
    query = select(*ATTEMPT_COLUMNS).where(
        alarm_attempt.c.partition.in_(sorted(partitions)),
        alarm_attempt.c.open_channel == channel,
        alarm_attempt.c.due_ms <= now_ms,
    )
    return [attempt_of(row) for row in conn.execute(query.limit(limit))]


def find_orphans(
    conn: Connection, partitions: Collection[int], channels: Collection[str], limit: int
) -> list[AlarmAttempt]:
    """Return attempts that wait for a channel which is none of these."""
    query = select(*ATTEMPT_COLUMNS).where(
        alarm_attempt.c.partition.in_(sorted(partitions)),
        alarm_attempt.c.open_channel > "",
        alarm_attempt.c.open_channel.not_in(sorted(channels)),
    )
    return [attempt_of(row) for row in conn.execute(query.limit(limit))]


def lock_attempts(conn: Connection, ids: Collection[int]) -> dict[int, AlarmAttempt]:
    """Lock those of the attempts that still wait, in id order."""
    query = select(*ATTEMPT_COLUMNS).where(any_of(conn, alarm_attempt.c.id, sorted(ids)))
    rows = conn.execute(query.order_by(alarm_attempt.c.id).with_for_update())
    found = (attempt_of(row) for row in rows)
    return {item.id: item for item in found if item.state is AttemptState.WAITING}


def update_attempts(conn: Connection, ended: Sequence[EndedAttempt]) -> int:
    """Write the results of locked attempts."""
    columns = ("state", "started_ms", "took_ms", "answer", "open_channel", "due_ms")
    rows = [
        (item.id, str(item.state), item.started_ms, item.took_ms, storable(item.answer, ANSWER_LENGTH), None, None)
        for item in ended
    ]
    return update_many(conn, alarm_attempt, columns, rows)


def delete_alarms(conn: Connection, before_ms: int, limit: int) -> int:
    """Delete alarms of before an instant with their attempts, of the oldest ones; return how many alarms went.

    One that is still to be grouped stays. Ids are nearly in the order of time, so that no index is needed.
    """
    query = select(alarm.c.id, alarm.c.last_ms, alarm.c.due_ms).where(alarm.c.id > 0)
    query = query.order_by(alarm.c.id).limit(limit)
    ids = [row.id for row in conn.execute(query) if row.last_ms < before_ms and row.due_ms is None]
    if not ids:
        return 0
    conn.execute(delete(alarm_attempt).where(any_of(conn, alarm_attempt.c.alarm_id, ids)))
    return conn.execute(delete(alarm).where(any_of(conn, alarm.c.id, ids))).rowcount


def delete_episodes(conn: Connection, before_ms: int, limit: int) -> int:
    """Delete episodes that changed last before an instant; return how many rows went."""
    query = select(alarm_episode.c.id).where(alarm_episode.c.touched_ms < before_ms)
    ids: list[Any] = list(conn.execute(query.order_by(alarm_episode.c.touched_ms).limit(limit)).scalars())
    return conn.execute(delete(alarm_episode).where(any_of(conn, alarm_episode.c.id, sorted(ids)))).rowcount


def _values(item: NewAttempt) -> dict[str, Any]:
    return {
        "alarm_id": item.alarm_id,
        "job_id": item.job_id,
        "group_id": item.group_id,
        "partition": item.partition,
        "channel": item.target.channel,
        "open_channel": None if item.due_ms is None else item.target.channel,
        "receivers": json.dumps(list(item.target.receivers), ensure_ascii=False),
        "number": item.number,
        "state": str(AttemptState.FAILED if item.due_ms is None else AttemptState.WAITING),
        "due_ms": item.due_ms,
        "started_ms": None,
        "took_ms": None,
        "answer": storable(item.answer, ANSWER_LENGTH),
    }
