"""What clients of the management API send and get about alarms."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, ClassVar, Final

from msgspec import UNSET, Meta, Struct, UnsetType
from xwheel.api.schema import fields
from xwheel.api.schema.derived import changes_to, fields_of, page_of
from xwheel.api.schema.messages import Input

from xwheel_alarms.records import AlarmAttempt, AlarmRow, AlarmRule, AlarmWhen

MAX_RECEIVER_CHARACTERS: Final = 8000
"""Characters of all receivers of a rule together; with names and quotes they fit MariaDB's TEXT."""

_DAY_S: Final = 86_400


class RuleKind(StrEnum):
    """What an alarm rule may ask for."""

    FAILED = "failed"
    LOST = "lost"
    REFUSED = "refused"
    SKIPPED = "skipped"
    NOT_RUN = "not_run"
    STILL_RUNNING = "still_running"
    SCHEDULE_ERROR = "schedule_error"


class PassKind(StrEnum):
    """What may pass quiet hours."""

    FAILED = "failed"
    LOST = "lost"
    REFUSED = "refused"
    SKIPPED = "skipped"
    NOT_RUN = "not_run"
    STILL_RUNNING = "still_running"
    SCHEDULE_ERROR = "schedule_error"
    RECOVERED = "recovered"


Kinds = Annotated[tuple[RuleKind, ...], Meta(min_length=1, max_length=len(RuleKind))]
PassKinds = Annotated[tuple[PassKind, ...], Meta(max_length=len(PassKind))]
Receiver = Annotated[str, Meta(min_length=1, max_length=255, pattern=fields.VISIBLE, extra={"hint": "printable"})]
Receivers = Annotated[tuple[Receiver, ...], Meta(max_length=50)]
Window = Annotated[int, Meta(ge=0, le=_DAY_S)]
LongTime = Annotated[int, Meta(ge=0, le=31 * _DAY_S)]
TimeOfDay = Annotated[
    str,
    Meta(
        max_length=5,
        pattern=r"\A(([01][0-9]|2[0-3]):[0-5][0-9])?\Z",
        extra={"hint": "a time of day such as 22:00, or empty"},
    ),
]


class AlarmTargetInput(Input, frozen=True, kw_only=True):
    """Where a rule sends alarms: a channel, and receivers in its own words; without any the channel's default."""

    channel: fields.PluginName
    receivers: Receivers = ()


Targets = Annotated[tuple[AlarmTargetInput, ...], Meta(max_length=20)]


class AlarmRuleCreate(Input, frozen=True, kw_only=True):
    """A new rule for one job, for the jobs of a group, or without either for all jobs."""

    EXAMPLE: ClassVar[Any] = {
        "name": "shop: tell the team",
        "group_id": 1,
        "kinds": ["failed", "lost", "not_run"],
        "targets": [{"channel": "email", "receivers": ["ops@example.com"]}],
        "not_run_s": 7200,
        "quiet_from": "22:00",
        "quiet_to": "07:00",
        "quiet_timezone": "Asia/Shanghai",
        "quiet_pass": ["lost"],
    }

    kinds: Kinds
    name: fields.Title = ""
    job_id: fields.Id | None = None
    group_id: fields.Id | None = None
    when: AlarmWhen = AlarmWhen.LAST
    targets: Targets = ()
    window_s: Window = 300
    recovery: bool = True
    quiet_from: TimeOfDay = ""
    quiet_to: TimeOfDay = ""
    quiet_timezone: fields.Timezone = "UTC"
    quiet_pass: PassKinds = ()
    not_run_s: LongTime = 0
    still_running_s: LongTime = 0
    enabled: bool = True


@changes_to(AlarmRuleCreate)
class AlarmRuleChange(Input, frozen=True, kw_only=True):
    """New values for a rule; what is missing stays, and with ``revision`` only that revision is changed."""

    EXAMPLE: ClassVar[Any] = {"window_s": 900}
    IS_CHANGE: ClassVar[Any] = True

    revision: fields.Revision | UnsetType = UNSET


class AlarmTest(Input, frozen=True, kw_only=True):
    """The channel and the receivers that a test is sent to; without receivers the channel's default."""

    EXAMPLE: ClassVar[Any] = {"channel": "email", "receivers": ["ops@example.com"]}

    channel: fields.PluginName
    receivers: Receivers = ()


class AlarmRuleQuery(Input, frozen=True, kw_only=True):
    """Which rules: those of one job, or of a group and of its jobs."""

    job_id: fields.Id | None = None
    group_id: fields.Id | None = None
    after: fields.After = 0
    limit: fields.PageSize = 50


class AlarmQuery(Input, frozen=True, kw_only=True):
    """Which alarms, newest first; ``notice_id`` wants those that a notice counts."""

    job_id: fields.Id | None = None
    group_id: fields.Id | None = None
    run_id: fields.Id | None = None
    notice_id: fields.Id | None = None
    after: fields.Id | None = None
    limit: fields.PageSize = 50


class AttemptQuery(Input, frozen=True, kw_only=True):
    """Which attempts to tell an alarm, newest first."""

    alarm_id: fields.Id | None = None
    job_id: fields.Id | None = None
    group_id: fields.Id | None = None
    after: fields.Id | None = None
    limit: fields.PageSize = 50


class AlarmTargetView(Struct, frozen=True, kw_only=True):
    """Where a rule sends alarms."""

    channel: str
    receivers: tuple[str, ...]


@fields_of(AlarmRule, targets=tuple[AlarmTargetView, ...])
class AlarmRuleView(Struct, frozen=True, kw_only=True):
    """A rule as clients see it."""

    LINK: ClassVar[Any] = ("id", "rule_id")


@fields_of(AlarmRow, without=("partition",))
class AlarmView(Struct, frozen=True, kw_only=True):
    """Something that happened and that a rule asks for; ``due_ms`` is null once it is told, merged or dropped."""


@fields_of(AlarmAttempt, without=("partition",))
class AttemptView(Struct, frozen=True, kw_only=True):
    """One try to tell an alarm through one channel, and what the other side answered."""


AlarmRulePage = page_of("AlarmRulePage", AlarmRuleView, "rules")
AlarmPage = page_of("AlarmPage", AlarmView, "alarms, newest first")
AttemptPage = page_of("AttemptPage", AttemptView, "attempts, newest first")
