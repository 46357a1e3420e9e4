"""XXL-JOB's job calls (its fourth generation): a group's token sees and changes the jobs of that group, and no others.

Upstream, any group's token commands all jobs. Here a job of another group does not exist.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

import msgspec
from xwheel.api.http.body import read_fields, rules_of
from xwheel.api.schema.messages import JobChange, JobCreate, RunRequest
from xwheel.errors import ConflictError, FieldError, HiddenError, NotFoundError, OwnedByCodeError, WireError
from xwheel.model import Job
from xwheel.plugin import GroupCall, GroupReply, KeepsMails, PluginSite
from xwheel.storage import jobs
from xwheel.wire import contract

from xwheel_xxl_calls import spelling
from xwheel_xxl_calls.rate import RateLimiter
from xwheel_xxl_calls.spelling import JobDefinition

logger = logging.getLogger(__name__)

ADD_JOB: Final = "addJob"
UPDATE_JOB: Final = "updateJob"
REMOVE_JOB: Final = "removeJob"
START_JOB: Final = "startJob"
STOP_JOB: Final = "stopJob"
TRIGGER_JOB: Final = "triggerJob"

TOO_MANY: Final = 502
"""Code of what is over the limit; the same number as a run past its time limit."""

PER_SECOND: Final = 100
"""Calls that one token may make, as upstream grants to all callers together."""

EDITS: Final = 3
"""Tries of an update while others edit the same job."""

AUTHOR: Final = "author: "
ALARM_EMAIL: Final = "alarmEmail: "
KEPT: Final = "alarmEmail is kept in the job's description, no mail is sent to it"
NO_SCHEDULE: Final = "NONE"
BEAN: Final = "BEAN"


class JobAnswers:
    """Answers the six job calls.

    Args:
        site: What they work with.
        timezone: Of new jobs; an IANA name.
    """

    def __init__(self, site: PluginSite, timezone: str) -> None:
        self._site = site
        self._timezone = timezone
        self._limiter = RateLimiter(site.clock, PER_SECOND)
        self.calls: Mapping[str, Callable[[GroupCall, bytes], GroupReply]] = {
            ADD_JOB: self._add,
            UPDATE_JOB: self._update,
            REMOVE_JOB: self._remove,
            START_JOB: self._start,
            STOP_JOB: self._stop,
            TRIGGER_JOB: self._trigger,
        }
        """What answers each, given its body."""

    def answer(self, call: GroupCall) -> GroupReply:
        """Answer a call.

        Raises:
            XwheelError: Whatever is refused.
        """
        if not self._limiter.allow(call.actor.name):
            message = f"too many requests, try again later: a token may make {PER_SECOND} job calls a second"
            return GroupReply(code=TOO_MANY, message=message)
        with _as_the_wire_spells():
            return self.calls[call.name](call, call.read())

    def _add(self, call: GroupCall, body: bytes) -> GroupReply:
        wanted = spelling.decode_new_job(body)
        if wanted.group_id not in (None, call.group_id):
            raise FieldError("group_id", f"there is no group {wanted.group_id}; yours is {call.group_id}")
        has_script = wanted.glue_type != BEAN and bool(wanted.source.strip())
        values = {
            **_values(wanted),
            "group_id": call.group_id,
            "glue_type": wanted.glue_type,
            "timezone": self._timezone,
            "description": _described("", wanted),
        }
        if has_script:
            values["glue_source"] = wanted.source
        made = self._site.jobs.create(values, unique=False, author=wanted.author, remark=wanted.remark)
        job_id = int(made["id"])
        _log(call, job_id)
        note = self._keep_mails(job_id, wanted.alarm_email)
        return GroupReply(message=_note(wanted, note, has_script), content=str(job_id))

    def _update(self, call: GroupCall, body: bytes) -> GroupReply:
        job_id, wanted = spelling.decode_job_update(body)
        for others in reversed(range(EDITS)):
            try:
                self._edit(call, job_id, wanted)
                break
            except ConflictError:  # somebody edits it too: a part of the description would be theirs
                if not others:
                    raise
        _log(call, job_id)
        return GroupReply(message=_note(wanted, self._keep_mails(job_id, wanted.alarm_email)))

    def _edit(self, call: GroupCall, job_id: int, wanted: JobDefinition) -> None:
        """Change a job if no one else changes it meanwhile.

        Raises:
            ConflictError: Somebody does.
        """
        job = self._own(call, job_id)
        # the zone stays as well: XXL-JOB knows none, so it cannot mean to change it
        values = {**_values(wanted), "description": _described(job.description, wanted)}
        if wanted.route_strategy != job.route_strategy:
            values["route_options"] = ""  # they were for the other one, and XXL-JOB knows none
        self._site.jobs.change(job_id, values, revision=job.revision, unique=False)

    def _remove(self, call: GroupCall, body: bytes) -> GroupReply:
        job_id = spelling.decode_job_id(body)
        try:
            self._site.jobs.delete(self._own(call, job_id).id)
        except NotFoundError as error:
            if error.kind != "job":
                raise
            return GroupReply()  # gone already, as upstream answers
        _log(call, job_id)
        return GroupReply()

    def _start(self, call: GroupCall, body: bytes) -> GroupReply:
        job = self._own(call, spelling.decode_job_id(body))
        if job.schedule_type == NO_SCHEDULE:
            raise FieldError("schedule_type", f"job {job.id} has none ({NO_SCHEDULE}), so it cannot be started")
        self._site.jobs.start(job.id)
        _log(call, job.id)
        return GroupReply()

    def _stop(self, call: GroupCall, body: bytes) -> GroupReply:
        job = self._own(call, spelling.decode_job_id(body))
        self._site.jobs.stop(job.id)
        _log(call, job.id)
        return GroupReply()

    def _trigger(self, call: GroupCall, body: bytes) -> GroupReply:
        wanted = spelling.decode_job_trigger(body)
        job = self._own(call, wanted.job_id)
        request = read_fields(RunRequest, {"param": wanted.param})
        addresses = self._registered(job, wanted.addresses)
        run = self._site.jobs.run(job.id, param=request.param, addresses=addresses)
        _log(call, job.id, f" as run {run['id']}")
        return GroupReply()

    def _keep_mails(self, job_id: int, addresses: str) -> str:
        """Let alarms of a job be mailed to addresses, or no longer, and return what to tell the caller, if anything."""
        for keeper in self._site.offering(KeepsMails):  # it is only asked for
            return keeper.keep_mails(job_id, addresses)
        return KEPT if addresses else ""

    def _own(self, call: GroupCall, job_id: int) -> Job:
        """Return a job of the caller's group; one that moves meanwhile is refused where it is locked.

        Raises:
            NotFoundError: There is none, or it is another group's: the answers are the same.
        """
        with self._site.database.read() as conn:
            job = jobs.get_job(conn, job_id)
        if job.group_id != call.group_id:
            raise HiddenError("job", job_id)
        return job

    def _registered(self, job: Job, spelled: Sequence[str]) -> Sequence[str]:
        """Return the addresses among which a run's executor is chosen; none for no wish.

        Raises:
            WireError: One is not that of a live executor of the group.
        """
        wanted = [contract.normalise_address(text, "addressList") for text in spelled]
        for address in wanted:
            if not self._site.executors.is_live(job.group_id, address):
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
    lines += [label + value for label, value in ((AUTHOR, wanted.author), (ALARM_EMAIL, wanted.alarm_email)) if value]
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
        raise FieldError(spelling.wire_name(error.field), error.reason) from error
    except OwnedByCodeError as error:
        raise OwnedByCodeError(spelling.wire_name(error.field), error.reason) from error


def _log(call: GroupCall, job_id: int, more: str = "") -> None:
    logger.info("token %s of group %s: %s job %d%s", call.actor.name, call.app_name, call.name, job_id, more)
