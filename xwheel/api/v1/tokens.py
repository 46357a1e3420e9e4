"""Tokens: who may use the management API, and who only the jobs of one executor group."""

from __future__ import annotations

import secrets
from typing import Annotated, Final

import falcon
from msgspec import Meta, Struct

from xwheel.api.http.body import read_fields, take_body, take_query
from xwheel.api.http.resource import Resource, by_name, naming, reply, reply_page, view_of
from xwheel.api.openapi.operation import operation
from xwheel.api.schema.derived import fields_of
from xwheel.api.schema.fields import Id, PageSize
from xwheel.api.schema.messages import Input
from xwheel.errors import NotFoundError
from xwheel.storage import tokens

SECRET_BYTES: Final = 32

TokenName = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=64,
        pattern=r"\A[A-Za-z0-9][A-Za-z0-9._-]*\Z",
        extra={"hint": "letters, digits, dot, dash and underscore, a letter or digit first"},
    ),
]


class TokenCreate(Input, frozen=True, kw_only=True):
    """A new token: for the management API, or only for the jobs of ``group_id``."""

    name: TokenName
    group_id: Id | None = None


class TokenQuery(Input, frozen=True, kw_only=True):
    """Which page of the tokens, by name."""

    after: TokenName | None = None
    limit: PageSize = 50


class TokenPath(Input, frozen=True, kw_only=True):
    """A token's name in a path."""

    name: TokenName


@fields_of(tokens.KnownToken, without=("digest",))
class TokenView(Struct, frozen=True, kw_only=True):
    """A token as clients see it; the secret itself is nowhere."""


@fields_of(tokens.KnownToken, without=("digest",))
class NewTokenView(Struct, frozen=True, kw_only=True):
    """A token that was just made; ``token`` is the secret, shown this once."""

    token: str


class TokenPage(Struct, frozen=True, kw_only=True):
    """A page of tokens; ``next`` is the ``after`` of the following one, null on the last."""

    items: list[TokenView]
    next: str | None = None


class Tokens(Resource):
    """``/tokens``."""

    @operation({200: TokenPage}, query=TokenQuery)
    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        """List tokens by name."""
        query = take_query(req, TokenQuery)
        with self._db.read() as conn:
            known = tokens.list_tokens(conn)
        reply_page(resp, TokenPage, TokenView, by_name(known, query.after), query.limit, key="name")

    @operation({201: NewTokenView}, body=TokenCreate, problems=("conflict",))
    def on_post(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Make a token; its secret is in this answer and never again."""
        body = take_body(req, TokenCreate, self._limit)
        secret = secrets.token_urlsafe(SECRET_BYTES)
        now_ms = self._parts.clock.now_ms()
        with naming("group_id", "group"):
            made = self._db.transaction(
                lambda conn: tokens.insert_token(conn, body.name, secret, now_ms, group_id=body.group_id)
            )
        resp.location = f"/api/v1/tokens/{made.name}"
        reply(resp, view_of(NewTokenView, made, token=secret), 201)


class Token(Resource):
    """``/tokens/{name}``."""

    @operation({200: TokenView}, problems=("not-found", "invalid-field"))
    def on_get(self, req: falcon.Request, resp: falcon.Response, name: str) -> None:
        """Return a token, without its secret."""
        del req
        wanted = _name(name)
        with self._db.read() as conn:
            found = next((token for token in tokens.list_tokens(conn) if token.name == wanted), None)
        if found is None:
            raise NotFoundError("token", wanted)
        reply(resp, view_of(TokenView, found))

    @operation({204: None}, problems=("not-found", "conflict", "invalid-field"))
    def on_delete(self, req: falcon.Request, resp: falcon.Response, name: str) -> None:
        """Delete a token; within a second nobody gets in with it."""
        del req
        wanted = _name(name)
        self._db.transaction(lambda conn: tokens.delete_token(conn, wanted))
        resp.status = 204


def _name(name: str) -> str:
    return read_fields(TokenPath, {"name": name}).name
