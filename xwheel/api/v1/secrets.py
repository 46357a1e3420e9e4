"""Executor secrets: what the executors of a group show, and are called with; several at a time, to be replaced."""

from __future__ import annotations

import secrets
from collections import Counter
from functools import partial
from typing import Annotated, Final

import falcon
from msgspec import Meta, Struct

from xwheel.api.http.body import read_fields, take_body, take_query
from xwheel.api.http.resource import ApiParts, Resource, by_name, naming, reply, reply_page, view_of
from xwheel.api.openapi.operation import operation
from xwheel.api.schema.derived import fields_of
from xwheel.api.schema.fields import YEAR_S, Id, PageSize
from xwheel.api.schema.messages import Input
from xwheel.api.v1.tokens import SECRET_BYTES, TokenName
from xwheel.runtime.sealing import is_plain
from xwheel.storage import executor_secrets
from xwheel.storage.executor_secrets import StoredSecret

DAY_S: Final = 86_400

ExpiresIn = Annotated[int, Meta(ge=0, le=YEAR_S)]


class SecretCreate(Input, frozen=True, kw_only=True):
    """A new secret for the executors of ``group_id``."""

    name: TokenName
    group_id: Id


class SecretChange(Input, frozen=True, kw_only=True):
    """When a secret ends: in so many seconds, 0 for at once, null for never."""

    expires_in_s: ExpiresIn | None


class SecretRotate(Input, frozen=True, kw_only=True):
    """The next secret of the same group, and for how long the one before stays good."""

    name: TokenName
    expires_in_s: ExpiresIn = DAY_S


class SecretQuery(Input, frozen=True, kw_only=True):
    """Which page of the secrets, by name; of all groups or of one."""

    group_id: Id | None = None
    after: TokenName | None = None
    limit: PageSize = 50


class SecretPath(Input, frozen=True, kw_only=True):
    """A secret's name in a path."""

    name: TokenName


@fields_of(StoredSecret, "name group_id app_name created_ms expires_ms")
class SecretView(Struct, frozen=True, kw_only=True):
    """A secret as clients see it, never its value; ``executors`` counts those that are called with it now."""

    encrypted: bool
    executors: int


@fields_of(StoredSecret, "name group_id app_name created_ms expires_ms")
class NewSecretView(Struct, frozen=True, kw_only=True):
    """A secret that was just made; ``secret`` is its value, shown this once."""

    secret: str


class SecretPage(Struct, frozen=True, kw_only=True):
    """A page of secrets; ``next`` is the ``after`` of the following one, null on the last."""

    items: list[SecretView]
    next: str | None = None


class Secrets(Resource):
    """``/secrets``."""

    @operation({200: SecretPage}, query=SecretQuery)
    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        """List executor secrets by name, without their values."""
        query = take_query(req, SecretQuery)
        with self._db.read() as conn:
            known = executor_secrets.list_secrets(conn)
        found = by_name(
            (item for item in known if query.group_id in (None, item.group_id)), after=query.after
        )
        view = partial(_view, users=_users(self._parts))
        reply_page(resp, SecretPage, view, found, query.limit, key="name")

    @operation({201: NewSecretView}, body=SecretCreate, problems=("conflict",))
    def on_post(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Make a secret; its value is in this answer and never again."""
        body = take_body(req, SecretCreate, self._limit)
        value = secrets.token_urlsafe(SECRET_BYTES)
        keys, now_ms = self._parts.secrets.keys, self._parts.clock.now_ms()
        with naming("group_id", "group"):
            made = self._db.transaction(
                lambda conn: executor_secrets.insert_secret(
                    conn, body.name, value, keys, now_ms, group_id=body.group_id
                )
            )
        self._parts.secrets.look()
        _reply_new(resp, made, value)


class Secret(Resource):
    """``/secrets/{name}``."""

    @operation({200: SecretView}, problems=("not-found", "invalid-field"))
    def on_get(self, req: falcon.Request, resp: falcon.Response, name: str) -> None:
        """Return a secret, without its value."""
        del req
        wanted = _name(name)
        with self._db.read() as conn:
            found = executor_secrets.get_secret(conn, wanted)
        reply(resp, _view(found, _users(self._parts)))

    @operation({200: SecretView}, body=SecretChange, problems=("not-found", "invalid-field"))
    def on_patch(self, req: falcon.Request, resp: falcon.Response, name: str) -> None:
        """Set when a secret ends; executors that have it then are no longer live."""
        wanted = _name(name)
        in_s = take_body(req, SecretChange, self._limit).expires_in_s
        expires_ms = None if in_s is None else self._parts.clock.now_ms() + 1000 * in_s
        found = self._db.transaction(lambda conn: executor_secrets.retire_secret(conn, wanted, expires_ms))
        self._parts.secrets.look()
        reply(resp, _view(found, _users(self._parts)))

    @operation({204: None}, problems=("not-found", "invalid-field"))
    def on_delete(self, req: falcon.Request, resp: falcon.Response, name: str) -> None:
        """Delete a secret; it ends within a second."""
        del req
        wanted = _name(name)
        self._db.transaction(lambda conn: executor_secrets.delete_secret(conn, wanted))
        self._parts.secrets.look()
        resp.status = 204

    @operation({201: NewSecretView}, body=SecretRotate, problems=("not-found", "conflict", "invalid-field"))
    def on_post_rotate(self, req: falcon.Request, resp: falcon.Response, name: str) -> None:
        """Make the next secret of the same group, and let this one end later."""
        wanted = _name(name)
        body = take_body(req, SecretRotate, self._limit)
        value = secrets.token_urlsafe(SECRET_BYTES)
        keys, now_ms = self._parts.secrets.keys, self._parts.clock.now_ms()
        made = self._db.transaction(
            lambda conn: executor_secrets.rotate_secret(
                conn, wanted, body.name, value, keys, now_ms, keep_ms=1000 * body.expires_in_s
            )
        )
        self._parts.secrets.look()
        _reply_new(resp, made, value)


def _users(parts: ApiParts) -> Counter[int | None]:
    """Return how many live executors are called with each secret."""
    return Counter(item.secret_id for item in parts.registry.all(parts.clock.now_ms()))


def _view(item: StoredSecret, users: Counter[int | None]) -> SecretView:
    return view_of(SecretView, item, encrypted=not is_plain(item.sealed), executors=users[item.id])


def _reply_new(resp: falcon.Response, made: StoredSecret, value: str) -> None:
    resp.location = f"/api/v1/secrets/{made.name}"
    reply(resp, view_of(NewSecretView, made, secret=value), 201)


def _name(name: str) -> str:
    return read_fields(SecretPath, {"name": name}).name
