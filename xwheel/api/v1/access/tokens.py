"""Tokens of services: who may use the management API, and who only the jobs of one executor group."""

from __future__ import annotations

import secrets
from functools import partial

import falcon

from xwheel.access.rights import Rights
from xwheel.access.tokens import TokenManager
from xwheel.api.http.body import take_body, take_query
from xwheel.api.http.resource import Resource, by_name, named, naming, reply, reply_page, view_of
from xwheel.api.schema import access
from xwheel.api.schema.messages import NameQuery
from xwheel.errors import NotFoundError
from xwheel.model.access import ALL, Actor, Permission, Role, current_actor
from xwheel.plugin.resources import Operation
from xwheel.storage.access import tokens
from xwheel.storage.access.tokens import KnownToken


class Tokens(Resource):
    """``/tokens``."""

    rights: Rights
    token_changes: TokenManager

    @Operation({200: access.TokenPage}, query=NameQuery)
    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        """List tokens by name."""
        query, actor = take_query(req, NameQuery), current_actor()
        with self.db.read() as conn:
            found = self.rights.with_owners(conn, tokens.list_tokens(conn))
        known = [item for item in found if _may_see(actor, item)]
        reply_page(resp, access.TokenPage, token_view, by_name(known, query.after), query.limit, key="name")

    @Operation({201: access.NewTokenView}, body=access.TokenCreate, problems=("conflict",))
    def on_post(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Make a token; its secret is in this answer and never again."""
        body = take_body(req, access.TokenCreate, self._limit)
        secret = secrets.token_urlsafe(access.SECRET_BYTES)
        grants = access.read_grants(body.role, body.script, body.groups) if body.role or body.groups else ALL
        with naming("group_id", "group"):
            made = self.token_changes.create(
                body.name,
                secret,
                grants,
                group_id=body.group_id,
                expires_in_s=body.expires_in_s,
                networks=body.networks,
            )
        resp.location = f"/api/v1/tokens/{made.name}"
        reply(resp, new_token_view(made, secret), 201)


class Token(Resource):
    """``/tokens/{name}``."""

    rights: Rights
    token_changes: TokenManager

    @Operation({200: access.TokenView}, problems=("not-found", "invalid-field"))
    def on_get(self, _req: falcon.Request, resp: falcon.Response, name: str) -> None:
        """Return a token, without its secret."""
        wanted = named(name)
        with self.db.read() as conn:
            (found,) = self.rights.with_owners(conn, [tokens.get_token(conn, wanted)])
        if not _may_see(current_actor(), found):
            raise NotFoundError("token", wanted)
        reply(resp, token_view(found))

    @Operation({204: None}, problems=("not-found", "conflict", "invalid-field"))
    def on_delete(self, _req: falcon.Request, resp: falcon.Response, name: str) -> None:
        """Delete a token; within a second it opens nothing."""
        wanted, actor = named(name), current_actor()
        self.token_changes.delete(wanted, may=partial(_may_see, actor))
        resp.status = 204


def token_view(found: KnownToken) -> access.TokenView:
    """Return what clients see of a token."""
    role, script, groups = _roles(found)
    return view_of(access.TokenView, found, role=role, script=script, groups=groups)


def new_token_view(found: KnownToken, secret: str) -> access.NewTokenView:
    """Return what the client that made a token sees of it, once."""
    role, script, groups = _roles(found)
    return view_of(access.NewTokenView, found, role=role, script=script, groups=groups, token=secret)


def _roles(found: KnownToken) -> tuple[Role | None, bool, list[access.GroupRoleView]]:
    return access.roles_of(found.grants) if found.group_id is None else (None, False, [])


def _may_see(actor: Actor, found: KnownToken) -> bool:
    """Return whether a token is of the actor's to see and to end: it opens nothing that the actor has not."""
    if found.group_id is not None:
        return actor.grants.allows(Permission.ADMIN, found.group_id)
    return actor.grants.allows(Permission.ADMIN) or (
        found.account_id is None
        and all(actor.grants.allows(Permission.ADMIN, group_id) for group_id in found.grants.groups)
        and found.grants.everywhere is None
    )
