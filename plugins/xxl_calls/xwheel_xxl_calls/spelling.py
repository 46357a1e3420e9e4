"""The spelling of the job calls of XXL-JOB's fourth generation, which admins answer and executors never see.

What has a column of ours is translated and left for the API to judge, whose limits are the same for all doors.
What has none (author, alarm addresses) is read and bounded here.
"""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec
from xwheel.errors import WireError
from xwheel.model import MAX_ID, BlockStrategy, MisfirePolicy
from xwheel.wire.codec import MAX_INT, int_in, parse_object, text_in, to_id

MAX_TEXT: Final = 5 * 1024 * 1024
"""Characters of any text; the body limit comes first, and the API has limits of its own."""

MAX_AUTHOR: Final = 64
MAX_ALARM_EMAIL: Final = 255
MAX_REMARK: Final = 255
MAX_ADDRESS_LIST: Final = 4096

SCHEDULE_TYPES: Final = ("NONE", "CRON", "FIX_RATE")
MISFIRES: Final = {"DO_NOTHING": MisfirePolicy.SKIP, "FIRE_ONCE_NOW": MisfirePolicy.FIRE_ONCE}
BLOCK_STRATEGIES: Final = tuple(str(strategy) for strategy in BlockStrategy)

_SPELLING: Final = {
    "group_id": "jobGroup",
    "schedule_type": "scheduleType",
    "schedule_conf": "scheduleConf",
    "misfire_policy": "misfireStrategy",
    "route_strategy": "executorRouteStrategy",
    "block_strategy": "executorBlockStrategy",
    "glue_type": "glueType",
    "glue_source": "glueSource",
    "handler": "executorHandler",
    "param": "executorParam",
    "timeout_s": "executorTimeout",
    "max_retries": "executorFailRetryCount",
    "addresses": "addressList",
}


class JobDefinition(msgspec.Struct, frozen=True, kw_only=True):
    """What ``addJob`` and ``updateJob`` say of a job.

    Attributes:
        group_id: None if the caller names none.
        glue_type: Empty in an update, which keeps what the job has.
        source: A script's source; empty in an update.
        remark: A word on the source; empty in an update.
        has_source: Whether the caller sent a source or a remark, also in an update.
    """

    group_id: int | None
    name: str
    author: str
    alarm_email: str
    schedule_type: str
    schedule_conf: str
    misfire_policy: MisfirePolicy
    route_strategy: str
    block_strategy: str
    handler: str
    param: str
    timeout_s: int
    max_retries: int
    glue_type: str
    has_source: bool
    source: str = ""
    remark: str = ""


class JobTrigger(msgspec.Struct, frozen=True, kw_only=True):
    """Run a job once.

    Attributes:
        param: Replaces the job's own; a missing one is an empty one, as upstream has it.
        addresses: As spelled, between commas or on lines of their own; empty for all executors of the group.
    """

    job_id: int
    param: str
    addresses: tuple[str, ...]


def wire_name(field: str) -> str:
    """Return how the wire spells a field of ours, or the field itself."""
    return _SPELLING.get(field, field)


def decode_new_job(body: bytes) -> JobDefinition:
    """Read ``addJob``.

    Raises:
        WireError: A field is missing, of the wrong type or none of its names; the message names it.
    """
    return _definition(parse_object(body), is_new=True)


def decode_job_update(body: bytes) -> tuple[int, JobDefinition]:
    """Read ``updateJob``: the job's id and its new definition. Raises like :func:`decode_new_job`."""
    item = parse_object(body)
    return to_id("id", item.get("id")), _definition(item, is_new=False)


def decode_job_id(body: bytes) -> int:
    """Read ``removeJob``, ``startJob`` or ``stopJob``. Raises like :func:`decode_new_job`."""
    return to_id("id", parse_object(body).get("id"))


def decode_job_trigger(body: bytes) -> JobTrigger:
    """Read ``triggerJob``. Raises like :func:`decode_new_job`."""
    item = parse_object(body)
    words = re.split(r"[,\r\n]", text_in(item, "addressList", MAX_ADDRESS_LIST))
    return JobTrigger(
        job_id=to_id("id", item.get("id")),
        param=text_in(item, "executorParam", MAX_TEXT),
        addresses=tuple(word.strip() for word in words if word.strip()),
    )


def _definition(item: dict[str, Any], *, is_new: bool) -> JobDefinition:
    source = text_in(item, "glueSource", MAX_TEXT)
    remark = text_in(item, "glueRemark", MAX_REMARK if is_new else MAX_TEXT)
    return JobDefinition(
        group_id=_group_in(item) if is_new else None,
        name=text_in(item, "name", MAX_TEXT),
        author=_line_in(item, "author", MAX_AUTHOR),
        alarm_email=_line_in(item, "alarmEmail", MAX_ALARM_EMAIL),
        schedule_type=_one_of(item, "scheduleType", SCHEDULE_TYPES),
        schedule_conf=text_in(item, "scheduleConf", MAX_TEXT),
        misfire_policy=MISFIRES[_one_of(item, "misfireStrategy", tuple(MISFIRES))],
        route_strategy=text_in(item, "executorRouteStrategy", MAX_TEXT),
        block_strategy=_one_of(item, "executorBlockStrategy", BLOCK_STRATEGIES),
        handler=text_in(item, "executorHandler", MAX_TEXT).strip(),
        param=text_in(item, "executorParam", MAX_TEXT),
        timeout_s=_number_in(item, "executorTimeout"),
        max_retries=_number_in(item, "executorFailRetryCount"),
        glue_type=text_in(item, "glueType", MAX_TEXT) if is_new else "",
        source=source if is_new else "",
        remark=remark.strip() if is_new else "",
        has_source=bool(source.strip() or remark.strip()),
    )


def _group_in(item: dict[str, Any]) -> int | None:
    return None if item.get("jobGroup") is None else int_in(item, "jobGroup", MAX_ID, low=-MAX_INT)


def _number_in(item: dict[str, Any], name: str) -> int:
    # wider than what is allowed: the API states the limit
    return int_in(item, name, MAX_INT, low=-MAX_INT)


def _one_of(item: dict[str, Any], name: str, known: tuple[str, ...]) -> str:
    value = text_in(item, name, MAX_TEXT)
    if value not in known:
        given = f", not {value[:MAX_AUTHOR]!r}" if value else ""
        raise WireError(f"{name}: must be one of {', '.join(known)}{given}")
    return value


def _line_in(item: dict[str, Any], name: str, limit: int) -> str:
    value = text_in(item, name, limit).strip()
    if not value.isprintable():
        raise WireError(f"{name}: must not contain line breaks or control characters")
    return value
