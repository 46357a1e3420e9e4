"""A call of every function of :mod:`xwheel.storage.job_versions`; see :mod:`tests.support.plan_cases`."""

from __future__ import annotations

from collections.abc import Iterator

from tests.support.plan_cases import MANY, Case
from tests.support.rows import NOW
from xwheel.model.versions import JobVersion
from xwheel.storage import job_versions


def cases() -> Iterator[Case]:
    """Give all calls."""
    version = JobVersion(
        job_id=5,
        revision=10**6,
        at_ms=NOW,
        actor_kind="node",
        actor="",
        action="edit",
        reason="",
        glue_version=0,
        definition={},
    )
    yield Case("job_versions.insert_versions", lambda conn: job_versions.insert_versions(conn, [version]))
    yield Case("job_versions.get_version", lambda conn: job_versions.get_version(conn, 5, 7))
    yield Case("job_versions.page_ids", lambda conn: job_versions.page_ids(conn, 2000, MANY))
    yield Case("job_versions.find_many", lambda conn: job_versions.find_many(conn, range(4000, 4000 + MANY), 100))
    yield Case("job_versions.delete_until", lambda conn: job_versions.delete_until(conn, {5: 30, 6: 1}))
    yield Case("job_versions.delete_of", lambda conn: job_versions.delete_of(conn, range(4000, 4000 + MANY)))
