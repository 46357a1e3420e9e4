"""A scheduler node's tables in SQLite, its jobs in memory, and a clock that stands still."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from sqlalchemy import create_engine, insert, select
from world import START_MS as NOW
from xwheel.plugin import NotFoundError, PluginGroup
from xwheel_job_package.operations import JobOperations, Wish
from xwheel_job_package.outbox import Outbox
from xwheel_job_package.tables import FOUND, JOB, OPERATION, OWNER, PACKAGE, PROJECT, metadata


class Jobs:
    """The scheduler's jobs."""

    def __init__(self) -> None:
        self.known: dict[int, dict[str, Any]] = {}

    def get(self, job_id: int) -> dict[str, Any]:
        if job_id not in self.known:
            raise NotFoundError("job", job_id)
        return self.known[job_id]

    def change(self, job_id: int, values: dict[str, Any]) -> dict[str, Any]:
        self.get(job_id).update(values)
        return self.get(job_id)

    def start(self, job_id: int) -> dict[str, Any]:
        return self.change(job_id, {"enabled": True})

    def stop(self, job_id: int) -> dict[str, Any]:
        return self.change(job_id, {"enabled": False})


class Site:
    """What a plugin works with on a scheduler node."""

    def __init__(self, folder: Path, count: int = 1, now_ms: Callable[[], int] = lambda: NOW) -> None:
        self._engine = create_engine(f"sqlite:///{folder / 'site.db'}")
        metadata.create_all(self._engine)
        self.jobs: Any = Jobs()
        self.now_ms = now_ms
        self.seen_dead: list[str] = []
        self.executors: Any = SimpleNamespace(
            note_death=self.seen_dead.append, groups=lambda: [PluginGroup(1, "package-nodes", False)]
        )
        self.database: Any = SimpleNamespace(backend="sqlite", read=self._read, transaction=self._transaction)
        self.operations = JobOperations(self)
        self.outbox = Outbox(self)
        self._transaction(self._fill(count))

    def close(self) -> None:
        self._engine.dispose()

    @contextmanager
    def _read(self) -> Iterator[Any]:
        with self._engine.connect() as conn:
            yield conn

    def _transaction(self, work: Callable[[Any], Any]) -> Any:
        with self._engine.begin() as conn:
            return work(conn)

    def record(self, conn: Any, *args: Any, **more: Any) -> None:
        del conn, args, more

    def need(self, *_: Any) -> None:
        pass

    def _fill(self, count: int) -> Callable[[Any], None]:
        """Make a package with jobs that have a cron and were never started."""

        def work(conn: Any) -> None:
            package = {
                "id": 1,
                "project": "acme",
                "version": "1.0",
                "file": "acme-1.0-py3-none-any.whl",
                "sha256": "a" * 64,
                "signature": "0123456789abcdef:signed",
                "size": 1,
                "container": "Common",
                "state": "stored",
                "uploaded_ms": NOW,
                "uploaded_by": "first",
                "report": "{}",
            }
            conn.execute(insert(PACKAGE).values(package))
            conn.execute(insert(PROJECT).values(project="acme", everywhere=False))
            conn.execute(insert(OWNER).values(project="acme", group_id=1, place=0))
            for number in range(1, count + 1):
                same = {"group_name": "acme.jobs", "name": f"job{number}", "package_id": 1}
                when = {"cron": "0 0 1 * * ?", "misfire": "None", "time_zone": ""}
                conn.execute(insert(FOUND).values(place=number, call="function", **same, **when))
                state = {"job_id": number, "project": "acme", "state": "Shutdown", "version": 1}
                conn.execute(insert(JOB).values(**state, **same, **when))
                self.jobs.known[number] = {"id": number, "group_id": 1, "enabled": False, "route_options": ""}

        return work

    def operate(self, operation: Any, job_id: int = 1, **changes: Any) -> dict[str, Any]:
        """Do what an operator asks for."""
        actor: Any = SimpleNamespace(name="anna")
        return self.operations.apply(job_id, Wish(operation=operation, changes=changes), actor)

    def log(self, job_id: int = 1) -> list[dict[str, Any]]:
        """Return the operations of a job, oldest first."""
        query = select(OPERATION).where(OPERATION.c.job_id == job_id).order_by(OPERATION.c.id)
        with self._read() as conn:
            return [dict(row) for row in conn.execute(query).mappings()]

    def job(self, job_id: int = 1) -> dict[str, Any]:
        return self.operations.get(job_id)

    def states(self, job_id: int = 1) -> list[str]:
        return [json.loads(row["after"])["state"] for row in self.log(job_id)]
