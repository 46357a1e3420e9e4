"""What people change and look at about alarms: rules, what became of alarms, a test, and the channels' health."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final, Protocol

from xwheel.alarms.records import ChannelHealth
from xwheel.clock import Clock
from xwheel.errors import ConflictError, FieldError, RevisionError
from xwheel.model.alarms import AlarmAttempt, AlarmRow, AlarmRule, AlarmWhen
from xwheel.storage import executors, jobs
from xwheel.storage.alarms import lists, rules
from xwheel.storage.alarms.lists import AlarmFilter
from xwheel.storage.alarms.rules import RuleFilter
from xwheel.storage.database.engine import Connection, Database

MAX_RULES: Final = 2000
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
"""What a new rule is where its author says nothing; ``kinds`` must be said."""

CheckRule = Callable[[AlarmRule, Collection[str]], None]
"""``check_rule(rule, channels)``: refuses a rule that cannot work."""


class Channels(Protocol):
    """What is asked of those who send."""

    @property
    def names(self) -> Sequence[str]:
        """Names of the installed channels, sorted."""
        ...

    def test(self, channel: str, receivers: Sequence[str]) -> AlarmAttempt:
        """Send a test now and return what came of it."""
        ...

    def health(self) -> list[ChannelHealth]:
        """Return how each channel fares on this node."""
        ...


class AlarmRules:
    """Changes alarm rules and shows alarms. Every method may be called by any thread.

    Args:
        db: The database.
        clock: Where time comes from.
        check: Refuses a rule that cannot work.
        channels: Those who send.
        refresh: Told after a change, so that this node knows it at once.
    """

    def __init__(
        self, db: Database, clock: Clock, check: CheckRule, channels: Channels, refresh: Callable[[], None]
    ) -> None:
        self._db = db
        self._clock = clock
        self._check = check
        self._channels = channels
        self._refresh = refresh

    def create(self, values: Mapping[str, Any]) -> AlarmRule:
        """Create a rule.

        Args:
            values: Fields of :class:`~xwheel.model.alarms.AlarmRule`; ``kinds`` is needed, the others have
                :data:`DEFAULTS`. Kinds and targets are tuples of the model's types.

        Raises:
            FieldError: A value is not acceptable.
            NotFoundError: The job or the group does not exist.
            ConflictError: There are as many rules as there may be.
        """
        now_ms = self._clock.now_ms()
        row = {**DEFAULTS, **_sorted(values), "revision": 1, "created_ms": now_ms, "updated_ms": now_ms}
        if "kinds" not in row:
            raise FieldError("kinds", "is missing: say what the rule is for")
        self._check(AlarmRule(id=0, **row), self._channels.names)

        def work(conn: Connection) -> AlarmRule:
            _check_owner(conn, row["job_id"], row["group_id"])
            if rules.count_rules(conn) >= MAX_RULES:
                raise ConflictError(
                    f"there are {MAX_RULES} alarm rules already: use rules of groups, or of all jobs"
                )
            return rules.insert_rule(conn, row)

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
            RevisionError: It is at another revision.
            FieldError: A value is not acceptable.
        """
        now_ms = self._clock.now_ms()
        changes = _sorted(changes)

        def work(conn: Connection) -> AlarmRule:
            rule = _lock(conn, rule_id, revision)
            merged = dataclasses.replace(rule, **changes)
            # a rule whose channel was uninstalled can still be disabled
            self._check(merged, {*self._channels.names, *(target.channel for target in rule.targets)})
            if (merged.job_id, merged.group_id) != (rule.job_id, rule.group_id):
                _check_owner(conn, merged.job_id, merged.group_id)
            values = {**changes, "revision": rule.revision + 1, "updated_ms": now_ms}
            return rules.update_rule(conn, rule_id, values)

        rule = self._db.transaction(work)
        self._refresh()
        return rule

    def delete(self, rule_id: int, *, revision: int | None = None) -> None:
        """Delete a rule; what it told stays readable, what it holds back is dropped with that reason.

        Raises:
            NotFoundError: The rule does not exist.
            RevisionError: It is at another revision.
        """

        def work(conn: Connection) -> None:
            _lock(conn, rule_id, revision)
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

    def list_alarms(
        self, wanted: AlarmFilter, *, before_id: int | None = None, limit: int = 100
    ) -> list[AlarmRow]:
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
        return self._channels.test(channel, receivers)

    def health(self) -> list[ChannelHealth]:
        """Return how each installed channel fares on this node, by name."""
        return self._channels.health()


def _lock(conn: Connection, rule_id: int, revision: int | None) -> AlarmRule:
    rule = rules.get_rule(conn, rule_id, lock=True)
    if revision is not None and rule.revision != revision:
        raise RevisionError("alarm rule", rule_id, rule.revision, revision)
    return rule


def _check_owner(conn: Connection, job_id: int | None, group_id: int | None) -> None:
    if job_id is not None:
        jobs.get_job(conn, job_id)
    if group_id is not None:
        executors.get_group(conn, group_id)


def _sorted(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values with kinds in one order, each once."""
    return {
        name: tuple(sorted(set(value))) if name in {"kinds", "quiet_pass"} else value
        for name, value in values.items()
    }
