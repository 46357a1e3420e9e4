"""What commands talk to: a node over its management API, or the configured database; each with its options.

A command whose first parameter is a :class:`NodeApi` or a :class:`ConfiguredDatabase` is made by :func:`connected`,
which puts the options of that class behind the command's own.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import cached_property, wraps
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import quote

from xwheel.cli.connection import BEFORE_LOGINS, node_client, read_logins
from xwheel.cli.options import (
    ConfigOption,
    DatabaseOption,
    JsonOption,
    PlainJsonOption,
    TokenOption,
    configure,
    given,
    given_reason,
)
from xwheel.errors import FieldError, NotFoundError

from xwheel_commands.arguments import NodeOption, ReasonOption, UrlOption
from xwheel_commands.printer import Printer

if TYPE_CHECKING:
    from msgspec import Struct
    from xwheel.access.rights import Rights
    from xwheel.config import Config
    from xwheel.model.access import Actor
    from xwheel.plugin.discovery import Plugins
    from xwheel.runtime.sealing import KeyRing
    from xwheel.scheduler.audit_trail import AuditTrail
    from xwheel.storage.database.engine import Connection, Database
    from xwheel.wire.http.rest import RestClient

T = TypeVar("T")
MAX_PAGE: Final = 1000
MAX_ID_DIGITS: Final = 16
SHOWN_MATCHES: Final = 5
NULL: Final = "null"
SETTINGS: Final = ("XWHEEL_CONFIG", "XWHEEL_DATABASE__URL")
"""What of the environment says that the database of the settings is meant."""


def connected(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command for Typer that has the options of its first parameter's class behind its own."""
    first, *own = inspect.signature(command, eval_str=True).parameters.values()
    further = list(inspect.signature(first.annotation, eval_str=True).parameters.values())

    @wraps(command)
    def run(**given: Any) -> None:
        command(first.annotation(**{item.name: given.pop(item.name) for item in further}), **given)

    # Typer gives all of them by name, whatever the command's own are
    named = [item.replace(kind=inspect.Parameter.KEYWORD_ONLY) for item in (*own, *further)]
    run.__signature__ = inspect.Signature(named)  # type: ignore[attr-defined]
    run.__annotations__ = {item.name: item.annotation for item in [*own, *further]}
    return run


class NodeApi(Printer):
    """A node's management API, and how its answers are printed.

    Args:
        url: Where it listens.
        token_file: The file with the token.
        as_json: Print answers as JSON, with the API's fields.
    """

    def __init__(self, url: UrlOption = None, token_file: TokenOption = None, as_json: JsonOption = False) -> None:
        super().__init__(as_json)
        self._url = url
        self._token_file = token_file
        self._reason = ""
        self._job_names: dict[int, str] = {}

    @cached_property
    def _client(self) -> RestClient:
        """A client of the node that options or environment name.

        Raises:
            ConfigError: There is no token, or the URL is none.
        """
        client = node_client(self._url, self._token_file)
        self.tell_place(f"node {client.base_url}")
        return client

    @property
    def base_url(self) -> str:
        """Where the node's management API is, without a path."""
        return self._client.base_url

    def allow(self, answer_s: float) -> None:
        """Let answers take this many seconds: for calls that do much at once."""
        self._client.allow(answer_s)

    def call(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        params: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Any:
        """Make a call below ``/api/v1`` and return the answer; raises like :meth:`RestClient.call`."""
        if method != "GET" and (why := given_reason.get() or self._reason):
            headers = {**(headers or {}), "Xwheel-Reason": quote(why, safe="")}
        return self._client.call(method, f"/api/v1{path}", body, params=params, headers=headers)

    def pages(
        self, path: str, params: Mapping[str, Any] | None = None, *, limit: int | None = None
    ) -> Iterator[dict[str, Any]]:
        """Yield the items of a list, page by page, up to ``limit``."""
        return islice(self._items(path, dict(params or {}), limit), limit)

    def _items(self, path: str, params: dict[str, Any], limit: int | None) -> Iterator[dict[str, Any]]:
        params["limit"] = min(limit or MAX_PAGE, MAX_PAGE)
        while True:
            page = self.call("GET", path, params=params)
            yield from page["items"]
            if page["next"] is None:
                return
            params["after"] = page["next"]

    def group(self, text: str) -> dict[str, Any]:
        """Return a group by app name or, if none has it, by id.

        Raises:
            NotFoundError: There is none.
        """
        if not text:
            raise FieldError("GROUP", "must be an app name or an id")
        for group in self.pages("/groups", {"app_name": text}):
            if group["app_name"] == text:
                return group
        if is_id(text):
            found: dict[str, Any] = self.call("GET", f"/groups/{text}")
            return found
        raise NotFoundError("group", text)

    def job(self, text: str) -> dict[str, Any]:
        """Return a job by id, by ``app_name/name``, or by a name that only one job has.

        Raises:
            NotFoundError: There is none.
            FieldError: Several have that name.
        """
        if is_id(text):
            try:
                found: dict[str, Any] = self.call("GET", f"/jobs/{text}")
            except NotFoundError as error:
                raise self._told_how(error, text, "read as an id") from error
            return found
        matches = self._jobs_named(text, SHOWN_MATCHES + 1)
        if len(matches) > 1:
            ids = ", ".join(str(job["id"]) for job in matches[:SHOWN_MATCHES])
            more = " and more" if len(matches) > SHOWN_MATCHES else ""
            raise FieldError("JOB", f"several jobs are called {text[:128]}: give an id, one of {ids}{more}")
        return matches[0]

    def job_of_runs(self, text: str) -> int:
        """Return the id of a job whose runs are wanted, spelled as for :meth:`job`; it may be deleted.

        Raises:
            NotFoundError: There is none, and none of its runs.
            FieldError: Several have that name.
        """
        try:
            return int(self.job(text)["id"])
        except NotFoundError:
            if is_id(text):
                if self.call("GET", "/runs", params={"job_id": text, "limit": 1})["items"]:
                    return int(text)
                raise
        ids = [str(job["id"]) for job in self._jobs_named(text, SHOWN_MATCHES, deleted="true")]
        if len(ids) > 1:
            raise FieldError(
                "JOB", f"several deleted jobs are called {text[:128]}: give an id, such as {', '.join(ids)}"
            )
        return int(ids[0])

    def _jobs_named(self, text: str, limit: int, **params: Any) -> list[dict[str, Any]]:
        """Return jobs by name or ``app_name/name``; raises NotFoundError if there is none."""
        app_name, slash, name = text.partition("/")
        params["name"] = name if slash else text
        try:
            if slash:
                params["group_id"] = self.group(app_name)["id"]
            if found := list(self.pages("/jobs", params, limit=limit)):
                return found
            raise NotFoundError("job", text[:128])
        except NotFoundError as error:
            raise (self._told_how(error, text, "read as APP/NAME") if slash else error) from None

    def _told_how(self, error: NotFoundError, text: str, how: str) -> NotFoundError:
        """Return an error that says how to give the job whose name is the whole text.

        If there is no such job, it is the error that was given. The job is not taken by itself: a command must not
        change another job than last time.
        """
        named = [self.job_name(job["id"]) for job in self.pages("/jobs", {"name": text}, limit=SHOWN_MATCHES)]
        if not named:
            return error
        return NotFoundError("job", f"{text[:128]} ({how}; the job of that name is {' or '.join(named)})")

    @cached_property
    def group_names(self) -> dict[int, str]:
        """App names of all groups, by id."""
        return {group["id"]: group["app_name"] for group in self.pages("/groups")}

    def job_name(self, job_id: int | None) -> str:
        """Return ``APP/NAME`` of a job; its id if it is deleted, nothing for None."""
        if job_id is None:
            return ""
        if job_id not in self._job_names:
            try:
                job = self.call("GET", f"/jobs/{job_id}")
                app_name = self.group_names.get(job["group_id"], job["group_id"])
                self._job_names[job_id] = f"{app_name}/{job['name']}"
            except NotFoundError:
                self._job_names[job_id] = f"{job_id} (deleted)"
        return self._job_names[job_id]

    @staticmethod
    def run_owner(run: Mapping[str, Any]) -> str:
        """Return ``APP/NAME`` of a run's job, or its id where nodes do not say."""
        return f"{run['app_name']}/{run['job_name']}" if run.get("job_name") else str(run["job_id"])

    def job_and_group(self, job: str | None, group: str | None) -> dict[str, Any]:
        """Return the ids of a job and of a group, as the API's fields; those that are not None."""
        return given(
            job_id=None if job is None else self.job(job)["id"],
            group_id=None if group is None else self.group(group)["id"],
        )


class ChangeApi(NodeApi):
    """A node's management API for commands that change something.

    Args:
        url: Where it listens.
        token_file: The file with the token.
        as_json: Print answers as JSON, with the API's fields.
        reason: Why it is changed.
    """

    def __init__(
        self,
        url: UrlOption = None,
        token_file: TokenOption = None,
        as_json: JsonOption = False,
        reason: ReasonOption = None,
    ) -> None:
        super().__init__(url, token_file, as_json)
        self._reason = reason or ""


class ConfiguredDatabase(Printer):
    """The database of the settings, for commands that work whether a node runs or not.

    Args:
        config_path: The file with the settings.
        url: The database, in place of that of the settings.
        as_json: Print JSON.
    """

    def __init__(
        self, config_path: ConfigOption = None, url: DatabaseOption = None, as_json: PlainJsonOption = False
    ) -> None:
        super().__init__(as_json)
        self._config_path = config_path
        self._url = url

    @cached_property
    def config(self) -> Config:
        """The settings."""
        return configure(self._config_path, self._url)

    def keys(self) -> KeyRing:
        """Return the keys of the configured file."""
        from xwheel.runtime.sealing import read_keys

        return read_keys(self.config.security.key_file)

    @cached_property
    def plugins(self) -> Plugins:
        """What of plugins counts for what commands do to a database: who acts, and what records it.

        Raises:
            PluginError: One cannot be loaded: it could be the one that records what is done.
            ConfigError: An option of one that brings such is not acceptable.
        """
        from xwheel.plugin.discovery import survey_plugins

        hooks = ("xwheel_register_tables", "xwheel_register_gates", "xwheel_register_recorders")
        survey = survey_plugins(self.config, hooks=hooks)
        for error in survey.errors:
            raise error
        return survey.plugins

    def rights(self) -> Rights:
        """Return what knows whose tokens are."""
        from xwheel.access.rights import Rights

        return Rights(self.plugins.gates)

    @contextmanager
    def open(self) -> Iterator[Database]:
        """Open the database, which must be there already, for as long as a block lasts; its audit names this user."""
        from xwheel.model.access import acting
        from xwheel.storage.database.address import parse, place_of
        from xwheel.storage.database.startup import open_database

        tables = self.plugins.tables
        self.tell_place(f"database {place_of(parse(self.config.database.url))}")
        with closing(open_database(self.config, create=False, tables=tables)) as db, acting(command_actor()):
            yield db

    def change(self, work: Callable[[Connection, AuditTrail], T]) -> T:
        """Return what work returns that is done in one transaction, with what records it."""
        with self.open() as db:
            audit = self.audit(db)
            return db.transaction(lambda conn: work(conn, audit))

    def audit(self, db: Database) -> AuditTrail:
        """Return where it is recorded what a command does to the database itself."""
        from xwheel.clock import SystemClock
        from xwheel.scheduler.audit_trail import AuditTrail

        return AuditTrail(self.plugins, db, SystemClock())


def command_actor() -> Actor:
    """Return who acts when a command works on the database itself: the user of the system, on this machine."""
    import pwd
    import socket

    from xwheel.model.access import ALL, Actor, ActorKind

    number = os.getuid()
    try:
        name = pwd.getpwuid(number).pw_name
    except KeyError:
        name = f"uid {number}"
    sudo = os.environ.get("SUDO_USER", "")
    credential = f"command, sudo by {sudo}" if sudo else "command"
    return Actor(
        kind=ActorKind.COMMAND,
        name=name,
        grants=ALL,
        credential=credential,
        address=socket.gethostname(),
        reason=given_reason.get(),
    )


class DatabaseOrNode(ConfiguredDatabase):
    """What has accounts, tokens and secrets: the node that all commands talk to, or the database of the settings.

    It is the node if an option names one, and the database if an option names that or its settings. Else the
    environment and then a login say so, as for commands that ask nodes alone. Where they name no node, it is the
    database.

    Args:
        config_path: The file with the settings.
        url: The database, in place of that of the settings.
        node_url: The node's management API.
        token_file: The file with the token for it.
        as_json: Print JSON.
    """

    def __init__(
        self,
        config_path: ConfigOption = None,
        url: DatabaseOption = None,
        node_url: NodeOption = None,
        token_file: TokenOption = None,
        as_json: PlainJsonOption = False,
    ) -> None:
        super().__init__(config_path, url, as_json)
        if url is not None and node_url is not None:
            raise FieldError("--url", "give --url or --database, not both")
        names_node = node_url is not None or token_file is not None
        names_database = url is not None or config_path is not None
        self.node = NodeApi(node_url, token_file) if names_node or not (names_database or _means_database()) else None

    def page_url(self) -> str:
        """Return where a browser finds the node; raises ConfigError if the settings do not say."""
        from xwheel_commands.files import url_of

        return url_of(self.config) if self.node is None else self.node.base_url


def _means_database() -> bool:
    """Return whether commands that no option tells where they work mean the database of the settings."""
    if any(map(os.environ.get, BEFORE_LOGINS)):
        return False
    return any(map(os.environ.get, SETTINGS)) or not read_logins().latest


def group_id_of(conn: Connection, app_name: str) -> int:
    """Return the id of the group that ``--group`` names; raises FieldError if there is none."""
    from xwheel.storage import executors

    found = executors.find_group(conn, app_name)
    if found is None:
        raise FieldError("--group", f"there is no executor group {app_name[:64]!r}")
    return found.id


def is_id(text: str) -> bool:
    """Return whether a text is an id rather than a name."""
    return text.isascii() and text.isdecimal() and len(text) <= MAX_ID_DIGITS and not text.startswith("0")


def segment(text: str) -> str:
    """Return a name as one piece of a path."""
    return quote(text, safe="")


def set_values(
    kind: type[Struct], pairs: Sequence[str], taken: Mapping[str, str], required: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Return the fields that ``--set`` gives, checked by the API's own rules.

    Args:
        kind: The message that they become part of.
        pairs: What stands after each ``--set``.
        taken: Fields that another option gives, and which.
        required: Required fields among those, with any text that passes.

    Raises:
        FieldError: One is unknown, stands twice or is outside its limit.
    """
    import msgspec
    from xwheel.api.http.body import OR_NULL, read_fields, rules_of

    rules = rules_of(kind)
    texts: dict[str, str] = {}
    for pair in pairs:
        field, sign, text = pair.partition("=")
        if not sign:
            raise FieldError("--set", f"takes FIELD=VALUE, not {pair[:40]!r}")
        if field in taken:
            raise FieldError(field, f"is given by {taken[field]}")
        if field in texts:
            raise FieldError(field, "is set twice")
        texts[field] = text
    nulls = {
        field for field, text in texts.items()
        if text == NULL and field in rules and rules[field].words.endswith(OR_NULL)
    }  # fmt: skip
    filled = {field: text for field, text in texts.items() if field not in nulls}
    plain = msgspec.to_builtins(read_fields(kind, {**(required or {}), **filled}, strict=False))
    return {field: None if field in nulls else plain[field] for field in texts}
