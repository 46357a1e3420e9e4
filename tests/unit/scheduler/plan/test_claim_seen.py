"""Cursors are written only if no job was changed since it was read."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from sqlalchemy import update

from tests.support.node import HandNode
from tests.support.rows import NOW
from xwheel.storage import jobs
from xwheel.storage.database.engine import Connection
from xwheel.storage.schema.tables import job as table


def change(**values: object) -> Callable[[Connection, int], object]:
    return lambda conn, job_id: conn.execute(update(table).where(table.c.id == job_id).values(**values))


@pytest.mark.parametrize(
    ("meddle", "is_written"),
    [
        (lambda *_: None, True),
        (change(param="new"), True),
        (change(revision=7), False),
        (change(next_fire_ms=NOW + 7), False),
        (change(next_fire_ms=None), False),
        (change(enabled=False), False),
    ],
    ids=["nothing", "other column", "revision", "moved", "no next fire", "stopped"],
)
def test_cursors_are_written_only_over_what_was_seen(
    node: HandNode, meddle: Callable[[Connection, int], object], is_written: bool
) -> None:
    ids = [node.job(schedule_conf="1").id for _ in range(3)]
    with node.db.read() as conn:
        seen = jobs.get_jobs(conn, ids)
    cursors = [jobs.JobCursor(item, NOW + 9000, NOW, None, True, "") for item in ids]

    def write(conn: Connection) -> bool:
        meddle(conn, ids[1])
        return jobs.update_seen_fires(conn, cursors, seen)

    assert node.db.transaction(write) is is_written
    assert (node.load(ids[1]).next_fire_ms == NOW + 9000) is is_written
