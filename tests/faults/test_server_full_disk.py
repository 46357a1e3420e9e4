"""The disk of a real server is really full: a node says so, loses nothing, and goes on once there is room."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import make_url

from tests.faults.test_server_outage import JOBS, PATIENCE_S, assert_few_lines, site_on
from tests.support import databases, servers
from tests.support.databases import BACKENDS, create_database
from tests.support.executors import wait_until
from tests.support.refusals import Refusals
from tests.support.rows import job_values, make_run
from tests.support.small_disk import fill
from xwheel.cli import main
from xwheel.errors import DatabaseRefusedError
from xwheel.model import RunState
from xwheel.storage import runs
from xwheel.storage.database.engine import Database

DISK_MB = {"mariadb": 160, "postgresql": 100}
NOBODYS = 10**9


@pytest.fixture(scope="module", params=sorted(BACKENDS))
def narrow(request: pytest.FixtureRequest) -> Iterator[str]:
    """A server of each kind on a disk of its own; gives its URL without a database."""
    with BACKENDS[request.param](disk_mb=DISK_MB[request.param]) as base:
        create_database(base, request.param, "ready")
        create_database(base, request.param, "bare")
        db = Database(base + "ready")
        databases.upgrade(db)
        db.close()
        yield base


def filler(base: str) -> Path:
    return servers.disk(make_url(base).port or 0) / "filler"


def use_up_files(db: Database) -> None:
    """Fill what the files of runs have room for, with runs that are no one's business."""
    number = NOBODYS
    for size in (1000, 10):  # MariaDB itself aborts when it takes back a text of its own pages without room
        with contextlib.suppress(DatabaseRefusedError):
            while True:
                junk = make_run(number, job_id=NOBODYS, state=RunState.SUCCEEDED, finished_ms=1, message="x" * size)
                db.transaction(lambda conn, junk=junk: runs.insert_runs(conn, [junk]))
                number += 1


@pytest.mark.long
@pytest.mark.nightly_on("postgresql")
def test_a_node_waits_for_room_and_loses_nothing(narrow: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    url = narrow + "ready"
    with site_on(url, url, tmp_path) as site:
        site.make_jobs(7)
        # this one goes on for as long as the test may take, so that there is always something to be planned
        noise = job_values(handler="nobody", schedule_conf="1", anchor_ms=site.node.scheduler.core.clock.now_ms())
        site.node.scheduler.management.jobs.create(noise, enabled=True)
        wait_until(lambda: len(site.seen) >= 2 * JOBS, PATIENCE_S)
        fill(filler(narrow))
        use_up_files(site.admin)
        wait_until(lambda: any("is full" in item.getMessage() for item in caplog.records), PATIENCE_S)
        filler(narrow).unlink()
        site.check()
        assert_few_lines(caplog, site, 2)
    lines = [item.getMessage() for item in caplog.records if "is full" in item.getMessage()]
    assert all("\n" not in line and f"127.0.0.1:{make_url(url).port}" in line for line in lines)


def test_an_upgrade_without_room_says_so_and_can_be_done_again(
    narrow: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    xwheel = Refusals(monkeypatch, capsys)
    fill(filler(narrow))
    try:
        line = xwheel.line(main.EXIT_REFUSED, "db", "upgrade", database=narrow + "bare")
    finally:
        filler(narrow).unlink()
    assert f"the disk of the database at 127.0.0.1:{make_url(narrow).port} is full" in line
    assert line.endswith("make room")
    assert xwheel.passes("db", "upgrade", database=narrow + "bare").startswith("schema: ")
    assert "as needed" in xwheel.passes("db", "check", database=narrow + "bare")
