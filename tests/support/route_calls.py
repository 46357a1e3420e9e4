"""A good call of every route of the management API, about objects of a group that are there and in the right state.

The calls know nothing of permissions: who may make which one, a test takes from the table of the routes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from itertools import count
from typing import Any, Final

from xwheel_accounts.accounts import LINK_MS
from xwheel_accounts.storage import accounts, links
from xwheel_alarms.records import AlarmKind, AlarmTarget, AttemptState
from xwheel_alarms.storage import alarms, attempts
from xwheel_jobs_as_code.declarations import owners, records
from xwheel_jobs_as_code.declarations.records import DeclaredJob
from xwheel_reports import storage as reports
from xwheel_reports.storage import HOUR_MS, Counts, JobHour

from tests.product.accounts.conftest import PeopleApi
from tests.product.accounts.people import HASHED, PASSWORD, Person
from tests.support.rows import NOW, make_executor, make_run
from xwheel.model import NewSource, Run, RunState
from xwheel.model.access import Grants
from xwheel.storage.access import executor_secrets, tokens
from xwheel.wire.messages import LogData

UNKNOWN: Final = 987_654
"""No object has this id."""

UNKNOWN_ACTOR: Final = "nobody-has-this-name"
DIGEST: Final = "a" * 64


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RouteCall:
    """A call.

    Attributes:
        path: Below the prefix.
        group_id: In which group the object is; None for what belongs to none.
        unknown: The same call about an object that does not exist, if the route is about one.
        key: How the object is named in the call, and so in a refusal.
        refers_to: The route of the object, if the body or a name refers to it and not an id in the path.
        status: Returns the status of an answer; that of the one item of a bulk call.
        own: Makes something of who calls that the call is about, and returns what the path ends with.
        is_last: Who calls is signed out by it, or has another password.
    """

    path: str
    body: object = None
    params: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    group_id: int | None = None
    unknown: RouteCall | None = None
    key: object = None
    refers_to: str = ""
    status: Callable[[Any], int] = lambda answer: int(answer.status_code)
    own: Callable[[Person], object] | None = None
    is_last: bool = False


class World:
    """Objects in groups, made as they are needed.

    Args:
        api: Behind which they are.
    """

    def __init__(self, api: PeopleApi) -> None:
        self.api = api
        self._numbers = count(1)
        api.asked.logs = lambda run, from_line: LogData(
            from_line=from_line, to_line=from_line, content="a line\n", is_end=True
        )
        self.app_names: dict[int, str] = {}

    def name(self) -> str:
        """Return a name that nothing has."""
        return f"name-{next(self._numbers)}"

    def group(self) -> int:
        app_name = self.name()
        group_id = self.api.group(app_name)
        self.app_names[group_id] = app_name
        return group_id

    def job(self, group_id: int, **fields: Any) -> int:
        schedule = {"schedule_type": "FIX_RATE", "schedule_conf": "60"}
        return int(self.api.job(**{"group_id": group_id, "name": self.name(), **schedule, **fields})["id"])

    def script(self, group_id: int) -> int:
        job_id = self.job(group_id, glue_type="SCRIPT", handler="")
        new = NewSource(source="exit 0", author="", remark="")
        self.api.parts.scripts.save(job_id, new)
        return job_id

    def declared(self, group_id: int) -> int:
        job_id = self.job(group_id)
        said = DeclaredJob(job_id=job_id, group_id=group_id, fields=("timezone",))
        self.api.db.transaction(lambda conn: records.insert_declared(conn, [said]))
        return job_id

    def run(self, group_id: int, state: RunState = RunState.RUNNING, job_id: int | None = None) -> Run:
        number = next(self._numbers)
        address = f"http://10.9.9.{group_id % 250}:9999"
        is_open = state is RunState.RUNNING
        run = make_run(
            number,
            job_id=job_id or self.job(group_id),
            group_id=group_id,
            state=state,
            address=address,
            instance="instance-1",
            dispatched_ms=NOW,
            accepted_ms=NOW,
            finished_ms=None if is_open else NOW,
            check_ms=NOW if is_open else None,
        )
        self.api.runs(run)
        return run

    def executor(self, group_id: int) -> None:
        address = f"http://10.9.9.{group_id % 250}:9999"
        facts = make_executor(address, group_id=group_id, instance=f"instance-{group_id}")
        self.api.parts.registry.register(self.app_names[group_id], facts, self.api.clock.now_ms())

    def token(self, group_id: int) -> str:
        name = self.name()
        self.api.db.transaction(
            lambda conn: tokens.insert_token(conn, name, f"secret of {name}", NOW, group_id=group_id)
        )
        return name

    def secret(self, group_id: int) -> str:
        name, keys = self.name(), self.api.parts.secrets.keys
        self.api.db.transaction(
            lambda conn: executor_secrets.insert_secret(conn, name, f"secret of {name}", keys, NOW, group_id=group_id)
        )
        return name

    def calendar(self) -> str:
        name = self.name()
        self.api.calendar(name, dates=["2027-01-01"])
        return name

    def alarm(self, group_id: int) -> int:
        job_id = self.job(group_id)
        new = alarms.NewAlarm(
            rule_id=1, job_id=job_id, group_id=group_id, partition=1, kind=AlarmKind.FAILED, at_ms=NOW
        )
        self.api.db.transaction(lambda conn: alarms.insert_alarms(conn, [new]))
        newest = self.api.call("GET", "alarms", params={"job_id": job_id}).json["items"]
        alarm_id = int(newest[0]["id"])
        attempt = attempts.NewAttempt(alarm_id, job_id, group_id, 1, AlarmTarget(channel="mail"), 1, None, "no")
        ended = attempts.EndedAttempt(0, AttemptState.FAILED, None, None, "no")
        self.api.db.transaction(lambda conn: attempts.insert_ended(conn, attempt, ended))
        return alarm_id

    def rule(self, group_id: int, *, of_job: bool = True) -> int:
        owner = {"job_id": self.job(group_id)} if of_job else {"group_id": group_id}
        answer = self.api.call("POST", "alarms/rules", {"kinds": ["failed"], **owner})
        assert answer.status_code == 201, answer.text
        return int(answer.json["id"])

    def account(self) -> tuple[int, str]:
        """Make an account that may do nothing; return its id and name."""
        name = self.name()
        made = self.api.db.transaction(lambda conn: accounts.insert_account(conn, name, Grants(), NOW, password=HASHED))
        return made.id, name

    def link(self) -> str:
        """Make a link that signs such an account in; return its secret."""
        (number, _), secret = self.account(), f"link of {self.name()}"
        ends_ms = self.api.clock.now_ms() + LINK_MS
        self.api.db.transaction(lambda conn: links.insert_link(conn, secret, number, ends_ms))
        return secret

    def owner(self, group_id: int) -> None:
        """Let a group follow what code declares."""

        def work(conn: Any) -> None:
            owners.insert_owner(conn, group_id)
            owners.update_owner(conn, group_id, {"release": "1.0", "digest": DIGEST})

        self.api.db.transaction(work)

    def report(self, group_id: int) -> None:
        hour_ms, job_id = NOW // HOUR_MS * HOUR_MS, self.job(group_id)
        row = JobHour(job_id, group_id, Counts(succeeded=group_id))
        self.api.db.transaction(lambda conn: reports.replace_hour(conn, hour_ms, [], [row]))

    def fill(self, group_id: int) -> None:
        """Put something of each kind into a group, for the lists."""
        self.executor(group_id)
        self.script(group_id)
        self.run(group_id)
        self.run(group_id, RunState.SUCCEEDED)
        self.token(group_id)
        self.secret(group_id)
        self.alarm(group_id)
        self.rule(group_id)
        self.rule(group_id, of_job=False)
        self.owner(group_id)
        self.report(group_id)


Make = Callable[[World, int], RouteCall]
CALLS: dict[tuple[str, str], Make] = {}
"""Method and route, with its fields, to what makes a good call about a new object of a group."""


def _plain(method: str, path: str, body: object = None, **params: Any) -> None:
    CALLS[method, path] = lambda _world, _group_id: RouteCall(path=path, body=body, params=params)


def _by_id(method: str, path: str, make: Callable[[World, int], int], body: object = None, **params: Any) -> None:
    """Note a call about an object whose id is the first field of the path; a second one is always 1."""

    def call(world: World, group_id: int) -> RouteCall:
        key = make(world, group_id)
        given = body() if callable(body) else body

        def of(number: int) -> RouteCall:
            first, _, rest = path.partition("{")
            filled = f"{first}{number}{rest.partition('}')[2]}".replace("{number}", "1")
            filled = filled.replace("{revision}", "1")
            return RouteCall(path=filled, body=given, params=params)

        return dataclasses.replace(
            of(key), group_id=group_id if "groups/" not in path else key, unknown=of(UNKNOWN), key=key
        )

    CALLS[method, path] = call


def _by_name(method: str, path: str, make: Callable[[World, int], str], body: Any = None) -> None:
    def call(world: World, group_id: int) -> RouteCall:
        key = make(world, group_id)
        given = body(world) if callable(body) else body

        def of(name: str) -> RouteCall:
            return RouteCall(path=path.replace("{name}", name), body=given)

        kind = path.partition("/{name}")[0] + "/{name}"
        return dataclasses.replace(of(key), group_id=group_id, unknown=of(UNKNOWN_ACTOR), key=key, refers_to=kind)

    CALLS[method, path] = call


def _refers(
    method: str,
    path: str,
    refers_to: str,
    make: Callable[[World, int], Any],
    unknown: Any,
    body: Callable[[World, Any], object],
    status: Callable[[Any], int] = lambda answer: int(answer.status_code),
) -> None:
    """Note a call whose body names an object."""

    def call(world: World, group_id: int) -> RouteCall:
        key = make(world, group_id)
        return RouteCall(
            path=path,
            body=body(world, key),
            group_id=group_id,
            unknown=RouteCall(path=path, body=body(world, unknown), status=status),
            key=key,
            refers_to=refers_to,
            status=status,
        )

    CALLS[method, path] = call


def _group(_world: World, group_id: int) -> int:
    return group_id


def _first_item(answer: Any) -> int:
    return int(answer.json["items"][0]["status"]) if answer.status_code == 200 else int(answer.status_code)


for _path in ("/healthz", "/readyz", "/docs", "/docs/reference.css"):
    _plain("GET", _path)
for _path in (
    *("/health", "/groups", "/executors", "/jobs", "/runs", "/reports", "/overview", "/schedule/pause"),
    *("/tokens", "/secrets", "/calendars", "/alarms", "/alarms/attempts", "/alarms/rules", "/plugins"),
    *("/declarations", "/openapi.json", "/audit", "/events", "/nodes", "/schedule/upcoming", "/console/manifest"),
    *("/jobs/csv", "/runs/csv", "/audit/csv"),
):
    _plain("GET", _path)
_plain("GET", "/jobs/recent", job_id="1,2")
_plain("GET", "/schedule/words", job_id="1,2")
_plain("GET", "/schedule/preview", schedule_type="FIX_RATE", schedule_conf="60")
_plain("PUT", "/schedule/pause")
_plain("DELETE", "/schedule/pause")
_plain("POST", "/alarms/test", {"channel": "mail"})
for _path in ("/session", "/me/sessions", "/me/tokens", "/me/settings", "/accounts"):
    _plain("GET", _path)
CALLS["POST", "/session"] = lambda world, _: RouteCall(
    path="/session", body={"name": world.account()[1], "password": PASSWORD}, is_last=True
)
CALLS["POST", "/session/link"] = lambda world, _: RouteCall(path="/session/link", body={"link": world.link()})
CALLS["DELETE", "/session"] = lambda _world, _group_id: RouteCall(path="/session", is_last=True)
CALLS["PUT", "/me/password"] = lambda _world, _group_id: RouteCall(
    path="/me/password", body={"old_password": PASSWORD, "password": "eleven dry llamas hum"}, is_last=True
)
CALLS["DELETE", "/me/sessions/{session_id}"] = lambda _world, _group_id: RouteCall(
    path="/me/sessions/", own=Person.new_session
)
CALLS["DELETE", "/me/tokens/{name}"] = lambda _world, _group_id: RouteCall(path="/me/tokens/", own=Person.new_token)
CALLS["PUT", "/me/settings/{setting}"] = lambda _world, _group_id: RouteCall(
    path="/me/settings/preferences", body={"value": {"theme": "dark"}}
)
CALLS["DELETE", "/me/settings/{setting}"] = lambda _world, _group_id: RouteCall(
    path="/me/settings/", own=Person.new_setting
)
CALLS["POST", "/session/confirm"] = lambda _world, _group_id: RouteCall(
    path="/session/confirm", body={"password": PASSWORD}
)
CALLS["POST", "/me/tokens"] = lambda world, _: RouteCall(path="/me/tokens", body={"name": world.name()})
CALLS["POST", "/accounts"] = lambda world, _: RouteCall(path="/accounts", body={"name": world.name()})
for _method, _end, _body in (
    ("GET", "", None),
    ("PATCH", "", {"display_name": "Another"}),
    ("DELETE", "", None),
    ("POST", "/reset", None),
    ("POST", "/link", None),
    ("GET", "/sessions", None),
    ("DELETE", "/sessions", None),
):
    CALLS[_method, f"/accounts/{{account_id}}{_end}"] = lambda world, _, end=_end, body=_body: RouteCall(
        path=f"/accounts/{world.account()[0]}{end}", body=body
    )
CALLS["POST", "/groups"] = lambda world, _: RouteCall(path="/groups", body={"app_name": world.name()})
CALLS["PUT", "/calendars/{name}"] = lambda world, _: RouteCall(
    path=f"/calendars/{world.calendar()}", body={"dates": ["2027-01-02"]}
)
for _method in ("GET", "DELETE"):
    CALLS[_method, "/calendars/{name}"] = lambda world, _: RouteCall(path=f"/calendars/{world.calendar()}")
_by_id("GET", "/groups/{group_id}", _group)
_by_id("PATCH", "/groups/{group_id}", _group, {"title": "another"})
_by_id("DELETE", "/groups/{group_id}", lambda world, _: world.group())
_by_id("GET", "/groups/{group_id}/executors", _group)
_by_id("GET", "/jobs/{job_id}", World.job)
_by_id("PATCH", "/jobs/{job_id}", World.job, {"description": "another"})
_by_id("DELETE", "/jobs/{job_id}", World.job)
for _action in ("start", "stop", "run"):
    _by_id("POST", f"/jobs/{{job_id}}/{_action}", World.job)
_by_id("POST", "/jobs/{job_id}/copy", World.job)
_by_id("POST", "/jobs/{job_id}/release", World.declared)
_by_id("GET", "/jobs/{job_id}/children", World.job)
_by_id("PUT", "/jobs/{job_id}/children", World.job, {"children": []})
for _end in ("", "/{revision}", "/{revision}/diff"):
    _by_id("GET", f"/jobs/{{job_id}}/versions{_end}", World.job)
_by_id("POST", "/jobs/{job_id}/versions/{revision}/restore", World.job)
_by_id("GET", "/jobs/{job_id}/why", World.job)
_by_id("GET", "/jobs/{job_id}/glue", World.script)
_by_id("POST", "/jobs/{job_id}/glue", World.script, {"source": "exit 1"})
_by_id("GET", "/jobs/{job_id}/glue/{number}", World.script)
_by_id("POST", "/jobs/{job_id}/glue/{number}/restore", World.script)
_by_id("GET", "/runs/{run_id}", lambda world, group_id: world.run(group_id).id)
_by_id("POST", "/runs/{run_id}/kill", lambda world, group_id: world.run(group_id).id)
_by_id("POST", "/runs/{run_id}/rerun", lambda world, group_id: world.run(group_id).id)


def _run_with_log(world: World, group_id: int) -> int:
    if not world.api.parts.registry.live(group_id, world.api.clock.now_ms()):
        world.executor(group_id)
    return world.run(group_id).id


_by_id("GET", "/runs/{run_id}/log", _run_with_log)
_by_id("GET", "/runs/{run_id}/log/search", _run_with_log, text="line")
_by_id("GET", "/alarms/{alarm_id}", World.alarm)
_by_id("GET", "/alarms/rules/{rule_id}", World.rule)
_by_id("PATCH", "/alarms/rules/{rule_id}", World.rule, {"window_s": 5})
_by_id("DELETE", "/alarms/rules/{rule_id}", World.rule)
_by_name("GET", "/tokens/{name}", World.token)
_by_name("DELETE", "/tokens/{name}", World.token)
_by_name("GET", "/secrets/{name}", World.secret)
_by_name("PATCH", "/secrets/{name}", World.secret, {"expires_in_s": 60})
_by_name("DELETE", "/secrets/{name}", World.secret)
_by_name("POST", "/secrets/{name}/rotate", World.secret, lambda world: {"name": world.name()})
_refers(
    "POST",
    "/jobs",
    "/groups/{group_id}",
    _group,
    UNKNOWN,
    lambda world, key: {"group_id": key, "name": world.name(), "handler": "demo"},
)
for _path in ("/tokens", "/secrets"):
    _refers(
        "POST", _path, "/groups/{group_id}", _group, UNKNOWN, lambda world, key: {"group_id": key, "name": world.name()}
    )
_refers(
    "POST",
    "/alarms/rules",
    "/groups/{group_id}",
    _group,
    UNKNOWN,
    lambda _, key: {"group_id": key, "kinds": ["failed"]},
)
for _action in ("start", "stop", "run", "delete"):
    _refers(
        "POST",
        f"/jobs/bulk/{_action}",
        "/jobs/{job_id}",
        World.job,
        UNKNOWN,
        lambda _, key: {"ids": [key]},
        _first_item,
    )
_refers(
    "POST",
    "/declarations/sync",
    "/groups/{group_id}",
    lambda world, group_id: world.app_names[group_id],
    UNKNOWN_ACTOR,
    lambda _, key: {"app_name": key, "release": "1.0", "digest": DIGEST, "jobs": []},
)
