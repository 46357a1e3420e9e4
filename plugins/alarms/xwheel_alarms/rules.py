"""Check, save and show alarm rules; show alarms and attempts; send tests."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final

from xwheel.clock import Clock
from xwheel.cron import zone
from xwheel.errors import ConflictError, FieldError, ForbiddenError, RevisionError, ScheduleError
from xwheel.model.access import Permission, current_actor
from xwheel.plugin import PluginDatabase
from xwheel.storage import executors, jobs

from xwheel_alarms.channels import AlarmChannels
from xwheel_alarms.delivery import send_test
from xwheel_alarms.records import RULE_KINDS, AlarmAttempt, AlarmKind, AlarmRow, AlarmRule, AlarmWhen
from xwheel_alarms.storage import lists, rules
from xwheel_alarms.storage.lists import AlarmFilter
from xwheel_alarms.storage.rules import RuleFilter

MAX_RULES: Final = 2000
MAX_TARGETS: Final = 20
MAX_RECEIVERS: Final = 50
RECEIVER_LENGTH: Final = 255
CHANNEL_LENGTH: Final = 64
LONGEST_WINDOW_S: Final = 86_400
LONGEST_WAIT_S: Final = 31 * 86_400
SHORTEST_NOT_RUN_S: Final = 10
OF_DAY: Final = re.compile(r"([01]\d|2[0-3]):[0-5]\d")
DEFAULTS: Final[Mapping[str, Any]] = {
    "name": "",
    "job_id": None,
    "group_id": None,
    "when": AlarmWhen.LAST,
    "targets": (),
    "window_s": 300,
    "recovery": True,
    "quiet_from": "",
    "quiet_to": "",
    "quiet_timezone": "UTC",
    "quiet_pass": (),
    "not_run_s": 0,
    "still_running_s": 0,
    "enabled": True,
}
"""Fields of a new rule that are not given; ``kinds`` must be."""


class AlarmManager:
    """Changes alarm rules and shows alarms. Every method may be called by any thread.

    Args:
        db: The database.
        clock: Where time comes from.
        channels: The installed channels.
        record: Records a change in the audit, in the transaction that makes it.
        refresh: Called after a change, so that this node knows it at once.
    """

    def __init__(
        self,
        db: PluginDatabase,
        clock: Clock,
        channels: AlarmChannels,
        record: Callable[..., None],
        refresh: Callable[[], None],
    ) -> None:
        self._db = db
        self._clock = clock
        self._channels = channels
        self._write_down = record
        self._refresh = refresh

    def create(self, values: Mapping[str, Any]) -> AlarmRule:
        """Create a rule.

        Args:
            values: Fields of :class:`~xwheel_alarms.records.AlarmRule`; ``kinds`` is needed, the others have
                :data:`DEFAULTS`. Kinds and targets are tuples of the model's types.

        Raises:
            FieldError: A value is not acceptable.
            NotFoundError: The job or the group does not exist, or the actor may not read it.
            ForbiddenError: The actor may not edit there; a rule for all jobs takes that in all groups.
            ConflictError: There are as many rules as there may be.
        """
        now_ms = self._clock.now_ms()
        row = {**DEFAULTS, **_sorted(values), "revision": 1, "created_ms": now_ms, "updated_ms": now_ms}
        if "kinds" not in row:
            raise FieldError("kinds", "is missing: say what the rule is for")
        check_rule(AlarmRule(id=0, **row), self._channels.names)

        def work(conn: Any) -> AlarmRule:
            _check_owner(conn, row["job_id"], row["group_id"])
            if rules.count_rules(conn) >= MAX_RULES:
                raise ConflictError(f"there are {MAX_RULES} alarm rules already: use rules of groups, or of all jobs")
            made = rules.insert_rule(conn, row)
            self._record(conn, "alarm_rule.create", None, made)
            return made

        rule = self._db.transaction(work)
        self._refresh()
        return rule

    def update(self, rule_id: int, changes: Mapping[str, Any], *, revision: int | None = None) -> AlarmRule:
        """Change fields of a rule.

        Args:
            rule_id: The rule.
            changes: New values, as for :meth:`create`.
            revision: The revision that the caller has seen; None to overwrite whatever is there.

        Raises:
            NotFoundError: The rule, or the job or group that it is to be for, does not exist.
            ForbiddenError: The actor may not edit where the rule is, or where it is to be.
            RevisionError: It is at another revision.
            FieldError: A value is not acceptable.
        """
        now_ms = self._clock.now_ms()
        changes = _sorted(changes)

        def work(conn: Any) -> AlarmRule:
            rule = _lock(conn, rule_id, revision)
            merged = dataclasses.replace(rule, **changes)
            # a rule whose channel was uninstalled can still be disabled
            check_rule(merged, {*self._channels.names, *(target.channel for target in rule.targets)})
            if (merged.job_id, merged.group_id) != (rule.job_id, rule.group_id):
                _check_owner(conn, merged.job_id, merged.group_id)
            values = {**changes, "revision": rule.revision + 1, "updated_ms": now_ms}
            saved = rules.update_rule(conn, rule_id, values)
            self._record(conn, "alarm_rule.edit", rule, saved)
            return saved

        rule = self._db.transaction(work)
        self._refresh()
        return rule

    def delete(self, rule_id: int, *, revision: int | None = None) -> None:
        """Delete a rule; its alarms stay readable, and what it holds back is dropped with that reason.

        Raises:
            NotFoundError: The rule does not exist.
            RevisionError: It is at another revision.
        """

        def work(conn: Any) -> None:
            rule = _lock(conn, rule_id, revision)
            self._record(conn, "alarm_rule.delete", rule, None)
            rules.delete_rule(conn, rule_id)

        self._db.transaction(work)
        self._refresh()

    def get(self, rule_id: int) -> AlarmRule:
        """Return a rule.

        Raises:
            NotFoundError: It does not exist.
        """
        with self._db.read() as conn:
            return rules.get_rule(conn, rule_id)

    def list_rules(self, wanted: RuleFilter, *, after_id: int = 0, limit: int = 100) -> list[AlarmRule]:
        """Return a page of rules, by id, with ids greater than ``after_id``."""
        with self._db.read() as conn:
            return rules.list_rules(conn, wanted, after_id=after_id, limit=limit)

    def get_alarm(self, alarm_id: int) -> AlarmRow:
        """Return an alarm.

        Raises:
            NotFoundError: It does not exist.
        """
        with self._db.read() as conn:
            return lists.get_alarm(conn, alarm_id)

    def list_alarms(self, wanted: AlarmFilter, *, before_id: int | None = None, limit: int = 100) -> list[AlarmRow]:
        """Return a page of alarms, newest first, with ids less than ``before_id``."""
        with self._db.read() as conn:
            return lists.list_alarms(conn, wanted, before_id=before_id, limit=limit)

    def list_attempts(
        self, wanted: AlarmFilter, *, before_id: int | None = None, limit: int = 100
    ) -> list[AlarmAttempt]:
        """Return a page of attempts, newest first, with ids less than ``before_id``; ``run_id`` filters nothing."""
        with self._db.read() as conn:
            return lists.list_attempts(conn, wanted, before_id=before_id, limit=limit)

    def test_send(self, channel: str, receivers: Sequence[str] = ()) -> AlarmAttempt:
        """Send a test through a channel, now, on this node; it is kept as an alarm of kind ``test``.

        Returns:
            The attempt, with the channel's answer; a failed one is a result too.

        Raises:
            FieldError: The channel is not installed.
            ConflictError: Another test of it is under way.
        """
        if channel not in self._channels.names:
            known = ", ".join(self._channels.names) or "none, install a plugin that brings one"
            raise FieldError("channel", f"{channel[:64]!r} is not installed; installed: {known}")

        def record(conn: Any, alarm_id: int) -> None:
            said = {"channel": channel, "receivers": list(receivers)}
            self._write_down(conn, "alarm.test", "alarm", alarm_id, after=said)

        return send_test(self._db, self._channels, self._clock.now_ms(), channel, receivers, record)

    def _record(self, conn: Any, action: str, before: AlarmRule | None, after: AlarmRule | None) -> None:
        rule = after or before
        assert rule is not None  # noqa: S101 - there is one before or after
        group_id = rules.group_of(conn, rule)
        self._write_down(conn, action, "alarm_rule", rule.id, group_id=group_id, before=before, after=after)


def _lock(conn: Any, rule_id: int, revision: int | None) -> AlarmRule:
    rule = rules.get_rule(conn, rule_id, lock=True)
    current_actor().need(Permission.EDIT, rules.group_of(conn, rule), "alarm rule", rule_id)
    if revision is not None and rule.revision != revision:
        raise RevisionError("alarm rule", rule_id, rule.revision, revision)
    return rule


def _check_owner(conn: Any, job_id: int | None, group_id: int | None) -> None:
    actor = current_actor()
    if job_id is None and group_id is None and not actor.grants.allows(Permission.EDIT):
        raise ForbiddenError(
            Permission.EDIT, "a rule for all jobs takes the permission edit in all groups: name a job or a group"
        )
    if job_id is not None:
        actor.need(Permission.EDIT, jobs.get_job(conn, job_id).group_id, "job", job_id)
    if group_id is not None:
        actor.need(Permission.EDIT, group_id, "group", group_id)
        executors.get_group(conn, group_id)


def _sorted(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values with kinds in one order, each once."""
    return {
        name: tuple(sorted(set(value))) if name in {"kinds", "quiet_pass"} else value for name, value in values.items()
    }


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
            raise FieldError("targets", f"channel {target.channel[:64]!r} is not installed; installed: {known}")
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
            raise FieldError("targets", f"a receiver is a printable text of 1 to {RECEIVER_LENGTH} characters")


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
            raise FieldError(field, "must be a time of day such as 22:00; give quiet_from and quiet_to, or neither")
    if rule.quiet_from == rule.quiet_to:
        raise FieldError("quiet_to", "must differ from quiet_from")
    try:
        zone(rule.quiet_timezone)
    except ScheduleError as error:
        raise FieldError("quiet_timezone", error.reason) from error


def _between(field: str, value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        raise FieldError(field, f"must be {least} to {most}, not {value}")
