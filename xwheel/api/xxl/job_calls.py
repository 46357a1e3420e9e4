"""XXL-JOB's job calls (its fourth generation): a group's token sees and changes the jobs of that group, and no others.

Upstream, any group's token commands all jobs. Here a job of another group does not exist.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import msgspec

from xwheel import cron
from xwheel.api.http.auth import Caller
from xwheel.api.http.body import fields_in, read_fields, rules_of
from xwheel.api.http.rate import RateLimiter
from xwheel.api.http.resource import ApiParts
from xwheel.api.schema.messages import JobChange, JobCreate, RunRequest
from xwheel.api.v1.jobs import new_source
from xwheel.api.v1.schedule import naming_schedule_fields
from xwheel.errors import (
    ConfigError,
    ConflictError,
    FieldError,
    HiddenError,
    NotFoundError,
    OwnedByCodeError,
    WireError,
)
from xwheel.model import Job
from xwheel.plugin.contracts import KeepsMails
from xwheel.plugin.validation import guarded
from xwheel.storage import jobs
from xwheel.wire import contract
from xwheel.wire.codec import job_calls
from xwheel.wire.codec.job_calls import JobDefinition
from xwheel.wire.messages import Response

logger = logging.getLogger(__name__)

PER_SECOND: Final = 100
"""Calls that one token may make, as upstream grants to all callers together."""

EDITS: Final = 3
"""Tries of an update while others edit the same job."""

AUTHOR: Final = "author: "
ALARM_EMAIL: Final = "alarmEmail: "
NO_SCHEDULE: Final = "NONE"
BEAN: Final = "BEAN"
MAILS_KEPT: Final = "alarmEmail is kept in the job's description, no mail is sent to it"


class JobCalls:
    """The six job calls, by name.

    Args:
        parts: What they work with.

    Raises:
        ConfigError: The time zone of new jobs does not exist.
    """

    def __init__(self, parts: ApiParts) -> None:
        self._parts = parts
        self._limiter = RateLimiter(parts.clock, PER_SECOND)
        self._timezone = parts.config.job_openapi_timezone
        try:
            cron.zone(self._timezone)
        except FieldError as error:
            raise ConfigError(f"api.job_openapi_timezone: {error.reason}") from error
        self._calls: dict[str, Callable[[Caller, bytes], Response]] = {
            contract.ADD_JOB: self._add,
            contract.UPDATE_JOB: self._update,
            contract.REMOVE_JOB: self._remove,
            contract.START_JOB: self._start,
            contract.STOP_JOB: self._stop,
            contract.TRIGGER_JOB: self._trigger,
        }

    @property
    def names(self) -> Sequence[str]:
        """What can be called."""
        return tuple(self._calls)

    def answer(self, name: str, caller: Caller, read: Callable[[], bytes]) -> Response:
        """Answer a call.

        Args:
            name: One of :attr:`names`.
            caller: Whose jobs it is about.
            read: Reads the body; not called if the caller may not call.

        Raises:
            XwheelError: Whatever is refused.
        """
        if caller.is_executor:
            raise WireError(
                f"{contract.TOKEN_HEADER}: the token of executors opens no job calls; send one of the jobs' group "
                f"(xwheel token create NAME --group APP) and name the group in {contract.APP_NAME_HEADER}"
            )
        if not self._limiter.allow(caller.name):
            message = f"too many requests, try again later: a token may make {PER_SECOND} job calls a second"
            return Response(code=contract.TOO_MANY, message=message)
        with _as_the_wire_spells():
            return self._calls[name](caller, read())

    def _add(self, caller: Caller, body: bytes) -> Response:
        wanted = job_calls.decode_new_job(body)
        if wanted.group_id not in (None, caller.group_id):
            raise FieldError("group_id", f"there is no group {wanted.group_id}; yours is {caller.group_id}")
        has_script = wanted.glue_type != BEAN and bool(wanted.source.strip())
        values = {
            **_values(wanted),
            "group_id": caller.group_id,
            "glue_type": wanted.glue_type,
            "timezone": self._timezone,
            "description": _described("", wanted),
        }
        if has_script:
            values["glue_source"] = wanted.source
        message = read_fields(JobCreate, values)
        given = fields_in(message)
        given.pop("enabled")
        source = new_source(given.pop("glue_source"), wanted.author or caller.name, wanted.remark)
        with naming_schedule_fields():
            job = self._parts.jobs.create(given, source=source)
        _log(caller, contract.ADD_JOB, job.id)
        note = self._keep_mails(job.id, wanted.alarm_email)
        return Response(code=contract.OK, message=_note(wanted, note, has_script), data=str(job.id))

    def _update(self, caller: Caller, body: bytes) -> Response:
        job_id, wanted = job_calls.decode_job_update(body)
        for others in reversed(range(EDITS)):
            try:
                self._edit(caller, job_id, wanted)
                break
            except ConflictError:  # somebody edits it too: a part of the description would be theirs
                if not others:
                    raise
        _log(caller, contract.UPDATE_JOB, job_id)
        return Response(code=contract.OK, message=_note(wanted, self._keep_mails(job_id, wanted.alarm_email)))

    def _keep_mails(self, job_id: int, addresses: str) -> str:
        """Let the first plugin that can mail alarms to addresses; return what to tell the caller, or an empty text."""
        for keeper in self._parts.plugins.offering(KeepsMails):
            return guarded("keep_mails()", lambda: keeper.keep_mails(job_id, addresses))  # noqa: B023 - called at once
        return MAILS_KEPT if addresses.strip() else ""

    def _edit(self, caller: Caller, job_id: int, wanted: JobDefinition) -> None:
        """Change a job if no one else changes it meanwhile.

        Raises:
            ConflictError: Somebody does.
        """
        job = self._own(caller, job_id)
        # the zone stays as well: XXL-JOB knows none, so it cannot mean to change it
        values = {**_values(wanted), "description": _described(job.description, wanted)}
        if wanted.route_strategy != job.route_strategy:
            values["route_options"] = ""  # they were for the other one, and XXL-JOB knows none
        changes = fields_in(read_fields(JobChange, values))
        with naming_schedule_fields():
            self._parts.jobs.edit(job_id, changes, revision=job.revision)

    def _remove(self, caller: Caller, body: bytes) -> Response:
        job_id = job_calls.decode_job_id(body)
        try:
            self._parts.jobs.delete(self._own(caller, job_id).id)
        except NotFoundError as error:
            if error.kind != "job":
                raise
            return Response(code=contract.OK)  # gone already, as upstream answers
        _log(caller, contract.REMOVE_JOB, job_id)
        return Response(code=contract.OK)

    def _start(self, caller: Caller, body: bytes) -> Response:
        job = self._own(caller, job_calls.decode_job_id(body))
        if job.schedule_type == NO_SCHEDULE:
            raise FieldError(
                "schedule_type", f"job {job.id} has none ({NO_SCHEDULE}), so it cannot be started"
            )
        with naming_schedule_fields():
            self._parts.jobs.start(job.id)
        _log(caller, contract.START_JOB, job.id)
        return Response(code=contract.OK)

    def _stop(self, caller: Caller, body: bytes) -> Response:
        job = self._own(caller, job_calls.decode_job_id(body))
        self._parts.jobs.stop(job.id)
        _log(caller, contract.STOP_JOB, job.id)
        return Response(code=contract.OK)

    def _trigger(self, caller: Caller, body: bytes) -> Response:
        wanted = job_calls.decode_job_trigger(body)
        job = self._own(caller, wanted.job_id)
        request = read_fields(RunRequest, {"param": wanted.param})
        addresses = self._registered(job, wanted.addresses)
        run = self._parts.run_now.run(job.id, param=request.param, addresses=addresses)
        _log(caller, contract.TRIGGER_JOB, job.id, f" as run {run.id}")
        return Response(code=contract.OK)

    def _own(self, caller: Caller, job_id: int) -> Job:
        """Return a job of the caller's group; one that moves meanwhile is refused where it is locked.

        Raises:
            NotFoundError: There is none, or it is another group's: the answers are the same.
        """
        with self._parts.db.read() as conn:
            job = jobs.get_job(conn, job_id)
        if job.group_id != caller.group_id:
            raise HiddenError("job", job_id)
        return job

    def _registered(self, job: Job, spelled: Sequence[str]) -> Sequence[str]:
        """Return the addresses among which a run's executor is chosen; none for no wish.

        Raises:
            WireError: One is not that of a live executor of the group.
        """
        wanted = [contract.normalise_address(text, "addressList") for text in spelled]
        for address in wanted:
            if not self._parts.is_live(job.group_id, address):
                raise WireError(f"addressList: {address} is no live executor of the job's group")
        return wanted


def _values(wanted: JobDefinition) -> dict[str, Any]:
    """Return what is the same for a new job and a changed one."""
    common = rules_of(JobChange).keys() - {"glue_type"}  # which a change does not give
    values = {name: value for name, value in msgspec.to_builtins(wanted).items() if name in common}
    # upstream forms leave the last expression there
    return values if wanted.schedule_type != NO_SCHEDULE else {**values, "schedule_conf": ""}


def _described(description: str, wanted: JobDefinition) -> str:
    """Return a description with author and alarm addresses, which have no place of their own here.

    Raises:
        FieldError: There is no room for them.
    """
    before = description.split("\n") if description else []
    lines = [line for line in before if not line.startswith((AUTHOR, ALARM_EMAIL))]
    lines += [
        label + value
        for label, value in ((AUTHOR, wanted.author), (ALARM_EMAIL, wanted.alarm_email))
        if value
    ]
    text = "\n".join(lines)
    limit = rules_of(JobCreate)["description"].limit["max_length"]
    if isinstance(limit, int) and len(text) > limit:
        raise FieldError(
            "author", f"is kept with alarmEmail in the job's description, which may have {limit} characters"
        )
    return text


def _note(wanted: JobDefinition, mails: str, is_source_kept: bool = False) -> str:
    """Return what became of fields that have no effect here; empty if there is nothing to say."""
    notes = [mails] if mails else []
    if wanted.has_source and not is_source_kept:
        notes.append("glueSource and glueRemark are not kept")
    if wanted.schedule_type == NO_SCHEDULE and wanted.schedule_conf.strip():
        notes.append("scheduleConf is not kept for scheduleType NONE")
    return "; ".join(["Success", *notes]) if notes else ""


@contextmanager
def _as_the_wire_spells() -> Iterator[None]:
    """Name fields as the caller spelled them.

    Raises:
        FieldError: Instead of one with our name of the field.
    """
    try:
        yield
    except FieldError as error:
        raise FieldError(job_calls.wire_name(error.field), error.reason) from error
    except OwnedByCodeError as error:
        raise OwnedByCodeError(job_calls.wire_name(error.field), error.reason) from error


def _log(caller: Caller, call: str, job_id: int, more: str = "") -> None:
    logger.info("token %s of group %s: %s job %d%s", caller.name, caller.app_name, call, job_id, more)
