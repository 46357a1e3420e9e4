"""A call of every function that asks the database about logs, over the rows of :mod:`tests.support.million`."""

from __future__ import annotations

from collections.abc import Iterator

from xwheel_run_logs import storage

from tests.support.million import BUSY_JOB, QUIET_JOB, RUNS
from tests.support.plan_cases import ALL, MANY, PAST, Case
from tests.support.rows import NOW

AT_ONCE = ("logs.storage.list_due",)
"""Asked by a loop of every node, also while the tables have not been analyzed since they grew."""


def cases() -> Iterator[Case]:
    """Give all calls, each named after its function and, behind a colon, what is special."""
    rows = [storage.RunLogRow(RUNS + item, 1, 1, NOW, "file", False, NOW, storage.FOR_EVER) for item in range(MANY)]
    yield Case("logs.storage.find_owners", lambda conn: storage.find_owners(conn, PAST))
    yield Case("logs.storage.find_log", lambda conn: storage.find_log(conn, 5))
    yield Case("logs.storage.add_logs", lambda conn: storage.add_logs(conn, rows))
    yield Case("logs.storage.end_logs", lambda conn: storage.end_logs(conn, range(1, MANY)))
    for partitions, now_ms in ((ALL, NOW + 10**9), ([5], NOW + 10**9), (ALL, NOW + 10)):
        yield Case("logs.storage.list_due", lambda conn, p=partitions, n=now_ms: storage.list_due(conn, p, n, MANY))
    later = [(item, NOW) for item in range(1, MANY)]
    yield Case("logs.storage.put_off", lambda conn: storage.put_off(conn, later))
    yield Case("logs.storage.find_left", lambda conn: storage.find_left(conn, 5000, MANY))
    yield Case("logs.storage.let_go", lambda conn: storage.let_go(conn, PAST))
    yield Case("logs.storage.list_old", lambda conn: storage.list_old(conn, NOW + 10**9, MANY))
    yield Case("logs.storage.list_retentions", lambda conn: storage.list_retentions(conn, 5000, MANY))
    for job_id in (BUSY_JOB, QUIET_JOB):
        yield Case("logs.storage.shorten", lambda conn, j=job_id: storage.shorten(conn, j, 1, NOW, MANY))
    yield Case("logs.storage.postpone", lambda conn: storage.postpone(conn, later))
    yield Case("logs.storage.delete_logs", lambda conn: storage.delete_logs(conn, range(1, MANY)))
