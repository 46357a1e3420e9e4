"""Refuse alarm rules that cannot work. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final

from xwheel.cron import zone
from xwheel.errors import FieldError, ScheduleError
from xwheel.model.alarms import RULE_KINDS, AlarmKind, AlarmRule

MAX_TARGETS: Final = 20
MAX_RECEIVERS: Final = 50
RECEIVER_LENGTH: Final = 255
CHANNEL_LENGTH: Final = 64
LONGEST_WINDOW_S: Final = 86_400
LONGEST_WAIT_S: Final = 31 * 86_400
SHORTEST_NOT_RUN_S: Final = 10
OF_DAY: Final = re.compile(r"([01]\d|2[0-3]):[0-5]\d")


def check_rule(rule: AlarmRule, channels: Collection[str]) -> None:
    """Refuse a rule that could never tell what it says, or that names what is not there.

    Args:
        rule: The rule.
        channels: Names of the installed channels.

    Raises:
        FieldError: Names the field and what is allowed.
    """
    if rule.job_id is not None and rule.group_id is not None:
        raise FieldError("group_id", "give job_id or group_id, not both; neither makes a rule for all jobs")
    _check_kinds(rule)
    if len(rule.targets) > MAX_TARGETS:
        raise FieldError("targets", f"at most {MAX_TARGETS} are allowed, not {len(rule.targets)}")
    for target in rule.targets:
        if len(target.channel) > CHANNEL_LENGTH:
            raise FieldError("targets", f"the name of a channel has at most {CHANNEL_LENGTH} characters")
        if target.channel not in channels:
            known = ", ".join(sorted(channels)) or "none, install a plugin that brings one"
            raise FieldError(
                "targets", f"channel {target.channel[:64]!r} is not installed; installed: {known}"
            )
        _check_receivers(target.receivers)
    _between("window_s", rule.window_s, 0, LONGEST_WINDOW_S)
    _check_waits(rule)
    _check_quiet(rule)


def _check_kinds(rule: AlarmRule) -> None:
    allowed = ", ".join(sorted(RULE_KINDS))
    if not rule.kinds:
        raise FieldError("kinds", f"at least one is needed; allowed: {allowed}")
    for field, kinds, extra in (
        ("kinds", rule.kinds, frozenset[AlarmKind]()),
        ("quiet_pass", rule.quiet_pass, frozenset({AlarmKind.RECOVERED})),
    ):
        for kind in kinds:
            if kind not in RULE_KINDS | extra:
                raise FieldError(field, f"{kind} cannot be asked for; allowed: {allowed}")


def _check_receivers(receivers: Collection[str]) -> None:
    if len(receivers) > MAX_RECEIVERS:
        raise FieldError("targets", f"at most {MAX_RECEIVERS} receivers are allowed, not {len(receivers)}")
    for receiver in receivers:
        if not receiver.strip() or not receiver.isprintable() or len(receiver) > RECEIVER_LENGTH:
            raise FieldError(
                "targets", f"a receiver is a printable text of 1 to {RECEIVER_LENGTH} characters"
            )


def _check_waits(rule: AlarmRule) -> None:
    for field, kind, seconds, least in (
        ("not_run_s", AlarmKind.NOT_RUN, rule.not_run_s, SHORTEST_NOT_RUN_S),
        ("still_running_s", AlarmKind.STILL_RUNNING, rule.still_running_s, 1),
    ):
        if kind in rule.kinds:
            _between(field, seconds, least, LONGEST_WAIT_S)
        elif seconds:
            raise FieldError(field, f"is only for rules whose kinds name {kind}")


def _check_quiet(rule: AlarmRule) -> None:
    if not (rule.quiet_from or rule.quiet_to):
        if rule.quiet_pass:
            raise FieldError("quiet_pass", "is only for rules with quiet hours")
        return
    for field, text in (("quiet_from", rule.quiet_from), ("quiet_to", rule.quiet_to)):
        if not OF_DAY.fullmatch(text):
            raise FieldError(
                field, "must be a time of day such as 22:00; give quiet_from and quiet_to, or neither"
            )
    if rule.quiet_from == rule.quiet_to:
        raise FieldError("quiet_to", "must differ from quiet_from")
    try:
        zone(rule.quiet_timezone)
    except ScheduleError as error:
        raise FieldError("quiet_timezone", error.reason) from error


def _between(field: str, value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        raise FieldError(field, f"must be {least} to {most}, not {value}")
