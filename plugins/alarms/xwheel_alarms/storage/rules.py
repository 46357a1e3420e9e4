"""Alarm rules."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from sqlalchemy import Connection, Row, delete, exists, func, select, update
from xwheel.storage.database.rows import insert_row, one_row
from xwheel.storage.schema.tables import job

from xwheel_alarms.records import AlarmKind, AlarmRule, AlarmTarget, AlarmWhen
from xwheel_alarms.tables import alarm_rule

RuleVersion = tuple[int, int, int]


class RuleFilter(NamedTuple):
    """Which rules are wanted; None wants all.

    Attributes:
        job_id: Rules of this one job.
        group_id: Rules of this group and of its jobs.
        groups: Rules of these groups and of their jobs, and none for all jobs.
    """

    job_id: int | None = None
    group_id: int | None = None
    groups: Collection[int] | None = None


def insert_rule(conn: Connection, values: Mapping[str, Any]) -> AlarmRule:
    """Insert a rule; the values are every field of one but its id."""
    return get_rule(conn, insert_row(conn, alarm_rule, _values(values)))


def get_rule(conn: Connection, rule_id: int, *, lock: bool = False) -> AlarmRule:
    """Return a rule.

    Raises:
        NotFoundError: It does not exist.
    """
    query = select(alarm_rule).where(alarm_rule.c.id == rule_id)
    return _rule(one_row(conn, query, "alarm rule", rule_id, lock=lock))


def group_of(conn: Connection, rule: AlarmRule) -> int | None:
    """Return the group that a rule is for, or in which its job is, a deleted one too; None for a rule for all jobs."""
    if rule.job_id is None:
        return rule.group_id
    return conn.execute(select(job.c.group_id).where(job.c.id == rule.job_id)).scalar_one_or_none()


def update_rule(conn: Connection, rule_id: int, values: Mapping[str, Any]) -> AlarmRule:
    """Change fields of a rule."""
    conn.execute(update(alarm_rule).where(alarm_rule.c.id == rule_id).values(_values(values)))
    return get_rule(conn, rule_id)


def delete_rule(conn: Connection, rule_id: int) -> None:
    """Delete a rule; what it raised stays readable."""
    conn.execute(delete(alarm_rule).where(alarm_rule.c.id == rule_id))


def delete_orphans(conn: Connection) -> int:
    """Delete the rules of jobs that are gone for good; return how many."""
    gone = select(alarm_rule.c.id).where(alarm_rule.c.job_id.is_not(None))
    gone = gone.where(~exists().where(job.c.id == alarm_rule.c.job_id))
    # few, and mostly none: read first, so that there is mostly nothing to write
    ids = list(conn.execute(gone).scalars())
    if ids:
        conn.execute(delete(alarm_rule).where(alarm_rule.c.id.in_(ids)))
    return len(ids)


def count_rules(conn: Connection) -> int:
    """Return how many rules there are."""
    return int(conn.execute(select(func.count()).select_from(alarm_rule)).scalar_one())


def list_rules(conn: Connection, wanted: RuleFilter, *, after_id: int = 0, limit: int = 100) -> list[AlarmRule]:
    """Return a page of rules by id."""
    query = select(alarm_rule).where(alarm_rule.c.id > after_id)
    if wanted.job_id is not None:
        query = query.where(alarm_rule.c.job_id == wanted.job_id)
    if wanted.group_id is not None:
        mine = select(job.c.id).where(job.c.id == alarm_rule.c.job_id, job.c.group_id == wanted.group_id)
        query = query.where((alarm_rule.c.group_id == wanted.group_id) | mine.exists())
    if wanted.groups is not None:
        some = sorted(wanted.groups)
        mine = select(job.c.id).where(job.c.id == alarm_rule.c.job_id, job.c.group_id.in_(some))
        query = query.where(alarm_rule.c.group_id.in_(some) | mine.exists())
    return [_rule(row) for row in conn.execute(query.order_by(alarm_rule.c.id).limit(limit))]


def rules_version(conn: Connection) -> RuleVersion:
    """Return something that changes whenever a rule does: count, greatest id and the sum of revisions."""
    columns = func.count(), func.max(alarm_rule.c.id), func.sum(alarm_rule.c.revision)
    count, newest, revisions = conn.execute(select(*columns)).one()
    return int(count), int(newest or 0), int(revisions or 0)


def _values(values: Mapping[str, Any]) -> dict[str, Any]:
    row = dict(values)
    for name in ("kinds", "quiet_pass"):
        if name in row:
            row[name] = json.dumps([str(kind) for kind in row[name]])
    if "targets" in row:
        targets = [{"channel": item.channel, "receivers": list(item.receivers)} for item in row["targets"]]
        row["targets"] = json.dumps(targets, ensure_ascii=False)
    if "when" in row:
        row["when"] = str(row["when"])
    return row


def _rule(row: Row[Any]) -> AlarmRule:
    values = dict(row._mapping)
    for name in ("kinds", "quiet_pass"):
        values[name] = tuple(AlarmKind(kind) for kind in json.loads(values[name]))
    values["targets"] = tuple(
        AlarmTarget(channel=item["channel"], receivers=tuple(item["receivers"]))
        for item in json.loads(values["targets"])
    )
    values["when"] = AlarmWhen(values["when"])
    return AlarmRule(**values)
