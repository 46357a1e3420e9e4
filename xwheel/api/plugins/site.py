"""What routes of plugins work with: the database, jobs and runs as the management API has them, the audit."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import msgspec

from xwheel.api.http.body import fields_in, read_fields
from xwheel.api.http.resource import run_views
from xwheel.api.parts import ApiParts
from xwheel.api.schema.messages import JobChange, JobCreate
from xwheel.api.v1.jobs import change_job, create_job, job_views
from xwheel.api.v1.schedule import naming_schedule_fields
from xwheel.errors import FieldError, WireError
from xwheel.model import Job, RegisteredExecutor, Run
from xwheel.model.access import Permission, current_actor
from xwheel.model.deeds import Deed
from xwheel.model.runs import OPEN_STATES
from xwheel.plugin.resources import ResourceRoute
from xwheel.plugin.routes import PluginGroup, RecordsDeeds
from xwheel.plugin.run_logs import LogAnswer, ReadsLogs
from xwheel.scheduler.cluster.contract import Lease
from xwheel.scheduler.executors.calls import Answered
from xwheel.storage import executors, jobs
from xwheel.storage.access import executor_secrets
from xwheel.storage.database.engine import Connection
from xwheel.storage.jobs import JobFilter, page_jobs
from xwheel.storage.run_list import RunFilter, page_runs
from xwheel.wire import codec, contract
from xwheel.wire.messages import LogRequest

T = TypeVar("T")

MOST_RUNS: Final = 100
MOST_GROUPS: Final = 100_000


class RouteSite(RecordsDeeds):
    """What routes of plugins work with; ``served`` is what the management API of this process serves."""

    def __init__(self, parts: ApiParts) -> None:
        self._parts = parts
        self.database = parts.db
        self.clock = parts.clock
        self.now_ms = parts.clock.now_ms
        self.forget_tokens = parts.tokens.forget
        self.partitions = _SitePartitions(parts.lease)
        self.jobs = _SiteJobs(parts)
        self.job_writer = parts.job_writer
        self.executors = _SiteExecutors(parts)
        self.served: Sequence[ResourceRoute] = ()

    def resources(self) -> Sequence[ResourceRoute]:
        """Return what the management API serves."""
        return self.served

    def registered(self, hook: str) -> Mapping[str, Any]:
        """Return by name what plugins registered for a hook."""
        return self._parts.plugins.registered(hook)

    def offering(self, contract: type[T]) -> Sequence[T]:
        """Return what plugins bring that can do what a contract says."""
        return self._parts.plugins.offering(contract)

    def record_many(self, conn: Any, deeds: Sequence[Deed]) -> None:
        """Record what is done to many objects."""
        self._parts.audit.record_many(conn, deeds)

    def need(self, permission: Permission, group_id: int | None = None, kind: str = "object", key: object = "") -> None:
        """Make sure that the caller has a permission."""
        current_actor().need(permission, group_id, kind, key)


@dataclass(frozen=True, slots=True)
class _SitePartitions:
    _lease: Lease | None

    def held(self) -> Collection[int]:
        lease = self._lease
        return lease.epochs.keys() if lease is not None and lease.may_act() else ()

    def lock(self, conn: Connection) -> Collection[int]:
        return () if self._lease is None else self._lease.lock(conn).keys()


@dataclass(frozen=True, slots=True)
class _SiteExecutors:
    _parts: ApiParts

    def groups(self) -> list[PluginGroup]:
        with self._parts.db.read() as conn:
            owners = {secret.group_id for secret in executor_secrets.list_secrets(conn)}
            found = executors.list_groups(conn, limit=MOST_GROUPS)
        return [PluginGroup(group.id, group.app_name, group.id in owners) for group in found]

    def is_live(self, group_id: int, address: str) -> bool:
        return self._parts.registry.is_live(group_id, contract.as_registered(address), self._parts.clock.now_ms())

    def live(self, group_id: int | None = None) -> Sequence[RegisteredExecutor]:
        registry, now_ms = self._parts.registry, self._parts.clock.now_ms()
        return registry.all(now_ms) if group_id is None else registry.live(group_id, now_ms)

    def heard_since_ms(self) -> int:
        return self._parts.registry.listens_since_ms

    def note_death(self, address: str) -> None:
        # executors say where they are with or without it, and are known without
        self._parts.registry.note_death(contract.as_registered(address), self._parts.clock.now_ms())

    @property
    def logs(self) -> ReadsLogs:
        return self._parts.logs

    def log_questions(self) -> _SiteLogQuestions:
        return _SiteLogQuestions(self._parts)


class _SiteLogQuestions:
    def __init__(self, parts: ApiParts) -> None:
        self._registry, self._clock, self._calls = parts.registry, parts.clock, parts.calls("logs")

    def ask(self, group_id: int, address: str, run_id: int, created_ms: int, from_line: int) -> bool:
        # the process that listens there gets a token, so it must be an executor that is registered now
        live = self._registry.live(group_id, self._clock.now_ms())
        executor = next((one for one in live if one.address == address), None)
        if executor is None:
            return False
        request = LogRequest(run_id=run_id, created_ms=created_ms, from_line=from_line)
        self._calls.ask(run_id, executor, contract.LOG, codec.encode_log_request(request))
        return True

    def poll(self, timeout_ms: int) -> list[LogAnswer]:
        return [_log_answer(found) for found in self._calls.poll(timeout_ms)]

    def close(self) -> None:
        self._calls.client.close()


def _log_answer(found: Answered) -> LogAnswer:
    assert isinstance(found.key, int)  # noqa: S101 - we made it
    response = found.response
    if response is None or not response.ok:
        return LogAnswer(found.key, None, found.error if response is None else response.message)
    try:
        return LogAnswer(found.key, codec.read_log_data(response.data))
    except WireError as error:
        return LogAnswer(found.key, None, str(error))


@dataclass(frozen=True, slots=True)
class _SiteJobs:
    _parts: ApiParts

    def get(self, job_id: int) -> dict[str, Any]:
        return self._view(self._need(Permission.READ, job_id))

    def find(self, group_id: int, name: str) -> dict[str, Any] | None:
        current_actor().need(Permission.READ, group_id, "group", group_id)
        with self._parts.db.read() as conn:
            found = page_jobs(conn, JobFilter(group_id=group_id, name=name), after_id=0, limit=1).jobs
        return self._view(found[0]) if found else None

    def create(
        self, values: Mapping[str, object], *, unique: bool = True, author: str | None = None, remark: str | None = None
    ) -> dict[str, Any]:
        body, parts = read_fields(JobCreate, dict(values)), self._parts
        return self._view(create_job(parts.jobs, parts.calendars, body, unique=unique, author=author, remark=remark))

    def change(
        self, job_id: int, values: Mapping[str, object], *, revision: int | None = None, unique: bool = True
    ) -> dict[str, Any]:
        fields = fields_in(read_fields(JobChange, dict(values)))
        fields.pop("revision", None)
        if not fields:
            raise FieldError("body", "must change at least one field")
        parts = self._parts
        return self._view(change_job(parts.jobs, parts.calendars, job_id, fields, revision, unique=unique))

    def restore(self, job_id: int, revision: int, *, seen: int | None = None) -> dict[str, Any]:
        with naming_schedule_fields():
            return self._view(self._parts.jobs.restore(job_id, revision, revision=seen))

    def start(self, job_id: int, *, revision: int | None = None) -> dict[str, Any]:
        self._need(Permission.RUN, job_id)
        with naming_schedule_fields():
            return self._view(self._parts.jobs.start(job_id, revision=revision))

    def stop(self, job_id: int, *, revision: int | None = None) -> dict[str, Any]:
        self._need(Permission.RUN, job_id)
        return self._view(self._parts.jobs.stop(job_id, revision=revision))

    def delete(self, job_id: int) -> None:
        self._need(Permission.EDIT, job_id)
        self._parts.jobs.delete(job_id)

    def run(self, job_id: int, *, param: str | None = None, addresses: Sequence[str] = ()) -> dict[str, Any]:
        self._need(Permission.RUN, job_id)
        named = [contract.as_registered(address) for address in addresses]
        return self._run_view(self._parts.run_now.run(job_id, param=param, addresses=named))

    def open_runs(self, job_id: int) -> list[dict[str, Any]]:
        self._need(Permission.READ, job_id)
        wanted = RunFilter(job_id=job_id, states=OPEN_STATES)
        with self._parts.db.read() as conn:
            found = page_runs(conn, wanted, limit=MOST_RUNS).runs
            return [_plain(view) for view in run_views(conn, found)]

    def kill(self, run_id: int) -> dict[str, Any]:
        return self._run_view(self._parts.killer.kill(run_id))

    def group_id(self, app_name: str) -> int | None:
        with self._parts.db.read() as conn:
            found = executors.find_group(conn, app_name)
        return None if found is None else found.id

    def _need(self, permission: Permission, job_id: int) -> Job:
        with self._parts.db.read() as conn:
            job = jobs.get_job(conn, job_id)
        current_actor().need(permission, job.group_id, "job", job_id)
        return job

    def _view(self, job: Job) -> dict[str, Any]:
        (view,) = job_views(self._parts.owners, [job], self._parts.clock.now_ms())
        return _plain(view)

    def _run_view(self, run: Run) -> dict[str, Any]:
        with self._parts.db.read() as conn:
            (view,) = run_views(conn, [run])
        return _plain(view)


def _plain(view: msgspec.Struct) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.to_builtins(view)
    return found
