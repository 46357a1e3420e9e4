"""Alarms: rules, what became of alarms and of each attempt to tell them, and a test."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

import falcon
from xwheel.api.http.body import InputError, fields_in, take_body, take_changes, take_query
from xwheel.api.http.headers import MATCH_HEADER, wanted_revision
from xwheel.api.http.resource import naming, readable_groups, reply, reply_page, view_of
from xwheel.config.sections import ApiSection
from xwheel.errors import BusyError
from xwheel.plugin import Need, Of, OfObject, Operation, Permission, ResourceRoute

from xwheel_alarms.messages import (
    MAX_RECEIVER_CHARACTERS,
    AlarmPage,
    AlarmQuery,
    AlarmRuleChange,
    AlarmRuleCreate,
    AlarmRulePage,
    AlarmRuleQuery,
    AlarmRuleView,
    AlarmTest,
    AlarmView,
    AttemptPage,
    AttemptQuery,
    AttemptView,
)
from xwheel_alarms.records import AlarmKind, AlarmTarget
from xwheel_alarms.records import AlarmRule as RuleRecord
from xwheel_alarms.rules import AlarmManager
from xwheel_alarms.storage import lists, rules
from xwheel_alarms.storage.lists import AlarmFilter
from xwheel_alarms.storage.rules import RuleFilter


class _Resource:
    def __init__(self, rules: AlarmManager, settings: ApiSection) -> None:
        self._rules = rules
        self._limit = settings.max_body_bytes


class AlarmRules(_Resource):
    """``/alarms/rules``."""

    @Operation({200: AlarmRulePage}, query=AlarmRuleQuery)
    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        """List rules by id."""
        query = take_query(req, AlarmRuleQuery)
        found = self._rules.list_rules(
            RuleFilter(job_id=query.job_id, group_id=query.group_id, groups=readable_groups()),
            after_id=query.after,
            limit=query.limit + 1,
        )
        reply_page(resp, AlarmRulePage, AlarmRuleView, found, query.limit)

    @Operation({201: AlarmRuleView}, body=AlarmRuleCreate, problems=("conflict",))
    def on_post(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Create a rule."""
        body = take_body(req, AlarmRuleCreate, self._limit)
        with _naming_the_owner():
            rule = self._rules.create(_checked(fields_in(body)))
        resp.location = f"/api/v1/alarms/rules/{rule.id}"
        _reply_rule(resp, rule, 201)


class AlarmRuleResource(_Resource):
    """``/alarms/rules/{rule_id}``."""

    @Operation({200: AlarmRuleView}, problems=("not-found",))
    def on_get(self, req: falcon.Request, resp: falcon.Response, rule_id: int) -> None:
        """Return a rule."""
        del req
        _reply_rule(resp, self._rules.get(rule_id))

    @Operation({200: AlarmRuleView}, body=AlarmRuleChange, headers=(MATCH_HEADER,), problems=("not-found", "conflict"))
    def on_patch(self, req: falcon.Request, resp: falcon.Response, rule_id: int) -> None:
        """Change fields of a rule."""
        changes = _checked(take_changes(req, AlarmRuleChange, self._limit))
        revision = wanted_revision(req, changes.pop("revision", None))
        with _naming_the_owner():
            rule = self._rules.update(rule_id, changes, revision=revision)
        _reply_rule(resp, rule)

    @Operation({204: None}, headers=(MATCH_HEADER,), problems=("not-found", "conflict"))
    def on_delete(self, req: falcon.Request, resp: falcon.Response, rule_id: int) -> None:
        """Delete a rule; what it told stays readable."""
        self._rules.delete(rule_id, revision=wanted_revision(req, None))
        resp.status = 204


class Alarms(_Resource):
    """``/alarms``."""

    @Operation({200: AlarmPage}, query=AlarmQuery)
    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        """List alarms, newest first."""
        query = take_query(req, AlarmQuery)
        wanted = AlarmFilter(
            job_id=query.job_id,
            group_id=query.group_id,
            run_id=query.run_id,
            alarm_id=query.notice_id,
            groups=readable_groups(),
        )
        found = self._rules.list_alarms(wanted, before_id=query.after, limit=query.limit + 1)
        reply_page(resp, AlarmPage, AlarmView, found, query.limit)


class AlarmResource(_Resource):
    """``/alarms/{alarm_id}``."""

    @Operation({200: AlarmView}, problems=("not-found",))
    def on_get(self, req: falcon.Request, resp: falcon.Response, alarm_id: int) -> None:
        """Return an alarm."""
        del req
        reply(resp, view_of(AlarmView, self._rules.get_alarm(alarm_id)))


class Attempts(_Resource):
    """``/alarms/attempts``."""

    @Operation({200: AttemptPage}, query=AttemptQuery)
    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        """List attempts to tell alarms, newest first, with what the other sides answered."""
        query = take_query(req, AttemptQuery)
        wanted = AlarmFilter(
            job_id=query.job_id, group_id=query.group_id, alarm_id=query.alarm_id, groups=readable_groups()
        )
        found = self._rules.list_attempts(wanted, before_id=query.after, limit=query.limit + 1)
        reply_page(resp, AttemptPage, AttemptView, found, query.limit)


class AlarmTests(_Resource):
    """``/alarms/test``: at most a quarter of the listener's threads wait for channels at once."""

    def __init__(self, rules: AlarmManager, settings: ApiSection) -> None:
        super().__init__(rules, settings)
        self._places = threading.BoundedSemaphore(max(1, settings.threads // 4))

    @Operation({200: AttemptView}, body=AlarmTest, problems=("conflict", "busy"))
    def on_post(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Send a test through a channel now, and return the attempt with the channel's answer.

        An attempt that failed is an answer, too: its state is ``failed`` and its answer says why.
        """
        body = take_body(req, AlarmTest, self._limit)
        _check_receivers("receivers", body.receivers)
        if not self._places.acquire(blocking=False):
            raise BusyError("too many tests are being sent: try again in a moment")
        try:
            attempt = self._rules.test_send(body.channel, body.receivers)
        finally:
            self._places.release()
        reply(resp, view_of(AttemptView, attempt))


def _checked(values: dict[str, Any]) -> dict[str, Any]:
    """Return fields that were given, as the model's types."""
    for name in ("kinds", "quiet_pass"):
        if name in values:
            values[name] = tuple(AlarmKind(kind) for kind in values[name])
    if "targets" in values:
        targets = [AlarmTarget(channel=item.channel, receivers=item.receivers) for item in values["targets"]]
        _check_receivers("targets", [name for target in targets for name in target.receivers])
        values["targets"] = tuple(targets)
    return values


def _check_receivers(field: str, receivers: list[str] | tuple[str, ...]) -> None:
    if sum(map(len, receivers)) > MAX_RECEIVER_CHARACTERS:
        raise InputError(
            field,
            f"may have receivers of at most {MAX_RECEIVER_CHARACTERS} characters together: use a list or a robot",
            {"max_characters": MAX_RECEIVER_CHARACTERS},
        )


@contextmanager
def _naming_the_owner() -> Iterator[None]:
    with naming("job_id", "job"), naming("group_id", "group"):
        yield


def _reply_rule(resp: falcon.Response, rule: RuleRecord, status: int = 200) -> None:
    resp.etag = str(rule.revision)
    reply(resp, view_of(AlarmRuleView, rule), status)


def _of_rule(conn: Any, fields: Mapping[str, Any]) -> tuple[str, object, int | None]:
    rule = rules.get_rule(conn, fields["rule_id"])
    return "alarm rule", rule.id, rules.group_of(conn, rule)


def _of_alarm(conn: Any, fields: Mapping[str, Any]) -> tuple[str, object, int | None]:
    alarm = lists.get_alarm(conn, fields["alarm_id"])
    return "alarm", alarm.id, alarm.group_id


_RULE: Final = OfObject("the rule's group, or all groups for a rule of all", _of_rule)
_READ: Final = Need(Permission.READ, Of.SOME)
_EDIT: Final = Need(Permission.EDIT, Of.SOME)
_EDIT_RULE: Final = Need(Permission.EDIT, _RULE)


def alarm_routes(manager: AlarmManager, settings: ApiSection) -> Sequence[ResourceRoute]:
    """Return all resources, and what each needs.

    Args:
        manager: Changes rules and shows alarms.
        settings: Limits and threads of the management API.
    """
    one_rule = {"GET": Need(Permission.READ, _RULE), "PATCH": _EDIT_RULE, "DELETE": _EDIT_RULE}
    one_alarm = {"GET": Need(Permission.READ, OfObject("the alarm's group", _of_alarm))}
    return [
        ResourceRoute("/alarms", Alarms(manager, settings), {"GET": _READ}),
        ResourceRoute("/alarms/{alarm_id:id}", AlarmResource(manager, settings), one_alarm),
        ResourceRoute("/alarms/attempts", Attempts(manager, settings), {"GET": _READ}),
        ResourceRoute("/alarms/rules", AlarmRules(manager, settings), {"GET": _READ, "POST": _EDIT}),
        ResourceRoute("/alarms/rules/{rule_id:id}", AlarmRuleResource(manager, settings), one_rule),
        ResourceRoute("/alarms/test", AlarmTests(manager, settings), {"POST": _EDIT}),
    ]
