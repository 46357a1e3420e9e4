"""R48 on running nodes: the clock is wrong, is set right, and every schedule goes on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

import pytest
from xwheel_devtools.testing import NodeProcess, wait_until

from tests.faults.injectors.clocks import WallClock
from tests.support.databases import BACKENDS, create_database, upgrade
from xwheel.clock import wall_ms
from xwheel.storage.database.engine import Database

DAY_MS: Final = 86_400_000
KINDS: Final = {
    "CRON": "0/2 * * * * ?",
    "UNIX_CRON": "* * * * *",
    "FIX_RATE": "2",
    "FIX_DELAY": "2",
    "DAILY_INTERVAL": "from=00:00 to=23:59:59 every=2s",
}
GOES_ON_S: Final = 120
"""The node sees the step within six seconds and waits for half a minute; crontab fires each minute."""


@contextmanager
def node_under(clock: WallClock, backend: str, folder: Path) -> Iterator[NodeProcess]:
    """Run a node whose database has this clock; the node's own is the machine's unless both are one."""
    with ExitStack() as stack:
        settings = clock.environment
        if backend != "sqlite":
            base = stack.enter_context(BACKENDS[backend](environment=clock.environment))
            create_database(base, backend, "xwheel_clock")
            db = Database(base + "xwheel_clock")
            upgrade(db)
            db.close()
            settings = {"XWHEEL_DATABASE__URL": base + "xwheel_clock"}
        yield stack.enter_context(NodeProcess(folder, **settings))


def fires_of(node: NodeProcess, job_id: int, since_ms: int) -> int:
    """How many of a job's fires were planned for an instant since then, and tried."""
    items = node.call("GET", f"runs?job_id={job_id}&limit=200")["items"]
    now_ms = wall_ms()
    sent = [run for run in items if run["state"] not in {"planned", "skipped", "cancelled"}]
    return sum(since_ms < run["planned_ms"] <= now_ms for run in sent)


def make_jobs(node: NodeProcess) -> dict[str, int]:
    """Make a job of each schedule type, for a group without executors: each fire is refused, which ends it."""
    group_id = node.call("POST", "groups", {"app_name": "nobody", "title": "nobody"})["id"]
    made: dict[str, int] = {}
    for kind, conf in KINDS.items():
        fields: dict[str, Any] = {"schedule_type": kind, "schedule_conf": conf, "handler": "hello", "enabled": True}
        made[kind] = node.call("POST", "jobs", {"group_id": group_id, "name": kind, **fields})["id"]
    return made


@pytest.mark.long(80)
@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    ("backend", "days"),
    [
        ("sqlite", 1),
        *(pytest.param("sqlite", days, marks=pytest.mark.nightly) for days in (-1, 366, -366)),
        *(pytest.param(backend, days, marks=pytest.mark.nightly) for backend in sorted(BACKENDS) for days in (1, -366)),
    ],
)
def test_every_schedule_goes_on_once_the_clock_is_right(tmp_path: Path, backend: str, days: int) -> None:
    with WallClock(days * DAY_MS) as clock, node_under(clock, backend, tmp_path / "node") as node:
        made = make_jobs(node)
        quick = [job_id for kind, job_id in made.items() if kind != "UNIX_CRON"]
        wait_until(lambda: all(node.call("GET", f"runs?job_id={job_id}")["items"] for job_id in quick))
        clock.set(0)
        since_ms = wall_ms()
        wanted = {job_id: 3 if job_id in quick else 1 for job_id in made.values()}
        wait_until(lambda: all(fires_of(node, item, since_ms) >= least for item, least in wanted.items()), GOES_ON_S)
