"""Tokens: who may use the management API, and who only the jobs of one executor group."""

from __future__ import annotations

import secrets

import falcon

from xwheel.api.http.body import take_body, take_query
from xwheel.api.http.resource import Resource, by_name, named, naming, reply, reply_page, view_of
from xwheel.api.openapi.operation import Operation
from xwheel.api.schema.access import SECRET_BYTES, NewTokenView, TokenCreate, TokenPage, TokenQuery, TokenView
from xwheel.errors import NotFoundError
from xwheel.storage import tokens


class Tokens(Resource):
    """``/tokens``."""

    @Operation({200: TokenPage}, query=TokenQuery)
    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        """List tokens by name."""
        query = take_query(req, TokenQuery)
        with self._db.read() as conn:
            known = tokens.list_tokens(conn)
        reply_page(resp, TokenPage, TokenView, by_name(known, query.after), query.limit, key="name")

    @Operation({201: NewTokenView}, body=TokenCreate, problems=("conflict",))
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

    @Operation({200: TokenView}, problems=("not-found", "invalid-field"))
    def on_get(self, req: falcon.Request, resp: falcon.Response, name: str) -> None:
        """Return a token, without its secret."""
        del req
        wanted = named(name)
        with self._db.read() as conn:
            found = next((token for token in tokens.list_tokens(conn) if token.name == wanted), None)
        if found is None:
            raise NotFoundError("token", wanted)
        reply(resp, view_of(TokenView, found))

    @Operation({204: None}, problems=("not-found", "conflict", "invalid-field"))
    def on_delete(self, req: falcon.Request, resp: falcon.Response, name: str) -> None:
        """Delete a token; within a second it opens nothing."""
        del req
        wanted = named(name)
        self._db.transaction(lambda conn: tokens.delete_token(conn, wanted))
        resp.status = 204
