"""Executor secrets: what the executors of a group show, and are called with; several at a time, to be replaced."""

from __future__ import annotations

from collections import Counter
from functools import partial
from secrets import token_urlsafe

import falcon

from xwheel.api.http.body import take_body, take_query
from xwheel.api.http.resource import Resource, by_name, named, naming, reply, reply_page, view_of
from xwheel.api.schema import access
from xwheel.errors import HiddenError
from xwheel.model.access import Permission, current_actor
from xwheel.plugin.resources import Operation
from xwheel.runtime.sealing import is_plain
from xwheel.scheduler.audit_trail import AuditTrail
from xwheel.scheduler.executors.registry import ExecutorRegistry
from xwheel.scheduler.executors.secrets import ExecutorSecrets
from xwheel.storage.access import executor_secrets
from xwheel.storage.access.executor_secrets import StoredSecret
from xwheel.storage.database.engine import Connection
from xwheel.storage.database.rows import groups_among


class _Recorded(Resource):
    """A resource that records what becomes of secrets; never a value, or what it is known by."""

    audit: AuditTrail
    registry: ExecutorRegistry
    secrets: ExecutorSecrets

    def users(self) -> Counter[int | None]:
        """Return how many live executors are called with each secret."""
        return Counter(item.secret_id for item in self.registry.all(self.clock.now_ms()))

    def _record(self, conn: Connection, action: str, before: StoredSecret | None, after: StoredSecret | None) -> None:
        found = after or before
        assert found is not None  # noqa: S101 - there is one before or after
        self.audit.record(conn, action, "secret", found.name, group_id=found.group_id, before=before, after=after)


class Secrets(_Recorded):
    """``/secrets``."""

    @Operation({200: access.SecretPage}, query=access.SecretQuery)
    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        """List executor secrets by name, without their values."""
        query = take_query(req, access.SecretQuery)
        with self.db.read() as conn:
            known = executor_secrets.list_secrets(conn)
        groups = groups_among(current_actor().grants.groups_with(Permission.ADMIN), query.group_id)
        found = by_name((item for item in known if groups is None or item.group_id in groups), after=query.after)
        view = partial(_view, users=self.users())
        reply_page(resp, access.SecretPage, view, found, query.limit, key="name")

    @Operation({201: access.NewSecretView}, body=access.SecretCreate, problems=("conflict",))
    def on_post(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Make a secret; its value is in this answer and never again."""
        body = take_body(req, access.SecretCreate, self._limit)
        value = token_urlsafe(access.SECRET_BYTES)
        keys, now_ms = self.secrets.keys, self.clock.now_ms()
        with naming("group_id", "group"):
            current_actor().need(Permission.ADMIN, body.group_id, "group", body.group_id)

            def work(conn: Connection) -> StoredSecret:
                made = executor_secrets.insert_secret(conn, body.name, value, keys, now_ms, group_id=body.group_id)
                self._record(conn, "secret.create", None, made)
                return made

            made = self.db.transaction(work)
        self.secrets.look()
        _reply_new(resp, made, value)


class Secret(_Recorded):
    """``/secrets/{name}``."""

    @Operation({200: access.SecretView}, problems=("not-found", "invalid-field"))
    def on_get(self, _req: falcon.Request, resp: falcon.Response, name: str) -> None:
        """Return a secret, without its value."""
        wanted = named(name)
        with self.db.read() as conn:
            found = _own(conn, wanted)
        reply(resp, _view(found, self.users()))

    @Operation({200: access.SecretView}, body=access.SecretChange, problems=("not-found", "invalid-field"))
    def on_patch(self, req: falcon.Request, resp: falcon.Response, name: str) -> None:
        """Set when a secret ends; executors that have it then are no longer live."""
        wanted = named(name)
        in_s = take_body(req, access.SecretChange, self._limit).expires_in_s
        expires_ms = None if in_s is None else self.clock.now_ms() + 1000 * in_s

        def work(conn: Connection) -> StoredSecret:
            before = _own(conn, wanted)
            after = executor_secrets.retire_secret(conn, wanted, expires_ms)
            self._record(conn, "secret.retire", before, after)
            return after

        found = self.db.transaction(work)
        self.secrets.look()
        reply(resp, _view(found, self.users()))

    @Operation({204: None}, problems=("not-found", "conflict", "invalid-field"))
    def on_delete(self, _req: falcon.Request, resp: falcon.Response, name: str) -> None:
        """Delete a secret; it ends within a second."""
        wanted = named(name)

        def work(conn: Connection) -> None:
            before = _own(conn, wanted)
            executor_secrets.delete_secret(conn, wanted)
            self._record(conn, "secret.delete", before, None)

        self.db.transaction(work)
        self.secrets.look()
        resp.status = 204

    @Operation(
        {201: access.NewSecretView}, body=access.SecretRotate, problems=("not-found", "conflict", "invalid-field")
    )
    def on_post_rotate(self, req: falcon.Request, resp: falcon.Response, name: str) -> None:
        """Make the next secret of the same group, and let this one end later."""
        wanted = named(name)
        body = take_body(req, access.SecretRotate, self._limit)
        value = token_urlsafe(access.SECRET_BYTES)
        keys, now_ms = self.secrets.keys, self.clock.now_ms()

        def work(conn: Connection) -> StoredSecret:
            before = _own(conn, wanted)
            made = executor_secrets.rotate_secret(
                conn, wanted, body.name, value, keys, now_ms, keep_ms=1000 * body.expires_in_s
            )
            self._record(conn, "secret.create", None, made)
            self._record(conn, "secret.retire", before, executor_secrets.get_secret(conn, wanted))
            return made

        made = self.db.transaction(work)
        self.secrets.look()
        _reply_new(resp, made, value)


def _own(conn: Connection, name: str) -> StoredSecret:
    found = executor_secrets.get_secret(conn, name)
    if not current_actor().grants.allows(Permission.ADMIN, found.group_id):
        raise HiddenError("executor secret", name)
    return found


def _view(item: StoredSecret, users: Counter[int | None]) -> access.SecretView:
    return view_of(access.SecretView, item, encrypted=not is_plain(item.sealed), executors=users[item.id])


def _reply_new(resp: falcon.Response, made: StoredSecret, value: str) -> None:
    resp.location = f"/api/v1/secrets/{made.name}"
    reply(resp, view_of(access.NewSecretView, made, secret=value), 201)
