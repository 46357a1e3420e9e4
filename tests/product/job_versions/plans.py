"""A call of every function that asks the database about versions, over the rows of :mod:`tests.support.million`."""

from __future__ import annotations

from collections.abc import Iterator

from xwheel_job_versions import storage

from tests.support.plan_cases import MANY, Case


def cases() -> Iterator[Case]:
    """Give all calls."""
    yield Case("versions.storage.find_before", lambda conn: storage.find_before(conn, 5, 2000))
    yield Case("versions.storage.list_versions", lambda conn: storage.list_versions(conn, 5, before=0, limit=MANY))
    yield Case(
        "versions.storage.list_children_changes",
        lambda conn: storage.list_children_changes(conn, 5),
        3100,
        "all versions of one job, of which upkeep.job_versions keeps few",
    )
