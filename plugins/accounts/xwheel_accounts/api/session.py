"""Signing in and out, and what everybody may do about themselves: password, sessions, tokens."""

from __future__ import annotations

import secrets
from typing import Final

import falcon
from msgspec import UNSET
from xwheel.api.http.body import InputError, rules_of, take_body, take_query
from xwheel.api.http.resource import by_name, named, reply, reply_page, view_of
from xwheel.api.schema.access import SECRET_BYTES, NewTokenView, TokenPage, read_grants, roles_of
from xwheel.api.schema.messages import NameQuery
from xwheel.api.v1.access.tokens import new_token_view, token_view
from xwheel.errors import ForbiddenError, NotFoundError
from xwheel.model.access import Actor, ActorKind, Permission, acting, current_actor
from xwheel.plugin import CallHead, Operation
from xwheel.storage.access import tokens

from xwheel_accounts.api.messages import (
    ConfirmInput,
    EndedView,
    LinkInput,
    LinkOwnerView,
    OwnTokenCreate,
    PasswordChange,
    SessionItem,
    SessionPage,
    SessionView,
    SignInInput,
)
from xwheel_accounts.api.resource import AccountBase
from xwheel_accounts.browsers import COOKIE, HOST_COOKIE, Browsers
from xwheel_accounts.parts import AccountParts
from xwheel_accounts.sessions import SessionElsewhereError, csrf_token
from xwheel_accounts.storage import accounts, sessions
from xwheel_accounts.storage.accounts import Account

CREDENTIAL: Final = "session "


class SessionResource(AccountBase):
    """``/session``."""

    def __init__(self, parts: AccountParts) -> None:
        super().__init__(parts)
        self._browsers = Browsers(secure_cookies=parts.config.secure_cookies)

    @Operation({201: SessionView}, body=SignInInput, problems=("unauthorized", "throttled", "busy", "forbidden"))
    def on_post(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Sign in: the answer sets the session's cookie. A session that the call came with ends."""
        head = self._head(req)
        self._browsers.check_origin(head)
        body = take_body(req, SignInInput, self._limit)
        access, address = self._parts, head.address
        link = None if body.link is UNSET else body.link
        account = self._judge(body, link, address)
        self._end_present(head)
        secret, expires_ms = access.sessions.begin(account, address, req.user_agent or "", link=link)
        self._browsers.set_cookie(head, resp, secret, access.config.session_s)
        known = access.sessions.find(secret, address)
        if known is None:
            raise NotFoundError("session", account.name)  # it was disabled in this very moment
        resp.location = "/api/v1/session"
        reply(resp, self._view(known.actor(address), account, csrf_token(secret), expires_ms), 201)

    @Operation({200: LinkOwnerView}, body=LinkInput, problems=("unauthorized", "throttled", "forbidden"))
    def on_post_link(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Return whose link it is, so that a browser can ask before it signs in; the link stays good."""
        head = self._head(req)
        self._browsers.check_origin(head)
        body = take_body(req, LinkInput, self._limit)
        account = self._parts.sign_in.judge_link(body.link, head.address)
        reply(resp, LinkOwnerView(name=account.name, display_name=account.display_name))

    @Operation(
        {204: None}, body=ConfirmInput, problems=("unauthorized", "throttled", "busy", "forbidden", "identity-provider")
    )
    def on_post_confirm(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Show by the account's password that its owner is there.

        For ten minutes from now this session may make and widen what lets somebody in: tokens, secrets, accounts,
        passwords and links. A wrong password counts as one that was wrong at signing in.
        """
        body = take_body(req, ConfirmInput, self._limit)
        actor = current_actor()
        session_id = _need_session(actor)
        self._parts.sign_in.confirm(own_account(actor), session_id, body.password, actor.address)
        self._parts.sessions.forget()
        resp.status = 204

    @Operation({200: SessionView})
    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Return who calls, by session or token, and what they may do."""
        actor, account, csrf, expires_ms = current_actor(), None, None, None
        if actor.account_id is not None:
            with self._db.read() as conn:
                account = accounts.get_account(conn, actor.account_id)
        secret = None if _session_id(actor) is None else self._browsers.cookie_of(self._head(req))
        if secret is not None:
            known = self._parts.sessions.find(secret, actor.address)
            if known is not None:
                expires_ms = known.session.created_ms + 1000 * self._parts.config.session_s
            csrf = csrf_token(secret)
        reply(resp, self._view(actor, account, csrf, expires_ms))

    @Operation({204: None}, problems=("forbidden",))
    def on_delete(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Sign out: this session ends, and the answer takes its cookie away."""
        actor = current_actor()
        session_id = _session_id(actor)
        if session_id is None or actor.account_id is None:
            raise ForbiddenError(Permission.READ, "a token has no session that could end: delete the token")
        self._parts.sessions.end(session_id, actor.account_id)
        self._browsers.unset_cookie(self._head(req), resp)
        resp.status = 204

    def _judge(self, body: SignInInput, link: str | None, address: str) -> Account:
        """Return the account of the one who signs in, by link or else by name and password.

        Raises:
            InputError: Neither is there, or both are.
            SignInError: It is wrong.
        """
        name, password = body.name, body.password
        if link is not None:
            if name is not UNSET or password is not UNSET:
                raise InputError("link", "must stand alone, without name and password")
            return self._parts.sign_in.judge_link(link, address)
        if name is UNSET or password is UNSET:
            field = "name" if name is UNSET else "password"
            rule = rules_of(SignInInput)[field]
            raise InputError(field, f"is required without a link and must be {rule.words}", rule.limit)
        return self._parts.sign_in.judge(name, password, address)

    def _view(self, actor: Actor, account: Account | None, csrf: str | None, expires_ms: int | None) -> SessionView:
        role, script, groups = roles_of(actor.grants)
        return SessionView(
            kind=actor.kind.value,
            name=actor.name,
            account_id=actor.account_id,
            display_name="" if account is None else account.display_name,
            role=role,
            script=script,
            groups=groups,
            must_change=account is not None and account.must_change,
            asks_password=account is not None and self._parts.sign_in.takes_password(account),
            csrf=csrf,
            expires_ms=expires_ms,
        )

    def _head(self, req: falcon.Request) -> CallHead:
        return self._parts.proxies.head_of(req, (COOKIE, HOST_COOKIE))

    def _end_present(self, head: CallHead) -> None:
        secret = self._browsers.cookie_of(head)
        try:
            known = None if secret is None else self._parts.sessions.find(secret, head.address)
        except SessionElsewhereError:
            return
        if known is not None:
            actor = known.actor(head.address)
            with acting(actor):
                self._parts.sessions.end(known.session.id, known.account.id)


class OwnPassword(AccountBase):
    """``/me/password``."""

    @Operation({200: EndedView}, body=PasswordChange, problems=("forbidden", "throttled", "unauthorized", "busy"))
    def on_put(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Set another password; all other sessions of the account end, and its tokens unless ``keep_tokens`` is set."""
        body = take_body(req, PasswordChange, self._limit)
        access, actor = self._parts, current_actor()
        session_id = _need_session(actor)
        own = access.accounts.own_account()
        judged = access.sign_in.judge_again(own, body.old_password, actor.address, field="old_password")
        ended = access.accounts.change_password(
            judged, body.password, session_id=session_id, keep_tokens=body.keep_tokens
        )
        access.forget()
        reply(resp, EndedView(sessions_ended=ended.sessions, tokens_ended=ended.tokens))


class OwnSessions(AccountBase):
    """``/me/sessions``."""

    @Operation({200: SessionPage}, problems=("forbidden",))
    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        """List the sessions of the account that asks, the one that was used last first."""
        del req
        actor = current_actor()
        with self._db.read() as conn:
            found = sessions.list_sessions(conn, own_account(actor), self._parts.clock.now_ms())
        this = _session_id(actor)
        reply(resp, SessionPage(items=[view_of(SessionItem, item, is_this=item.id == this) for item in found]))


class OwnSession(AccountBase):
    """``/me/sessions/{session_id}``."""

    @Operation({204: None}, problems=("forbidden", "not-found"))
    def on_delete(self, req: falcon.Request, resp: falcon.Response, session_id: int) -> None:
        """End a session of the account that asks."""
        del req
        actor = current_actor()
        _need_session(actor)
        self._parts.sessions.end(session_id, own_account(actor))
        resp.status = 204


class OwnTokens(AccountBase):
    """``/me/tokens``."""

    @Operation({200: TokenPage}, query=NameQuery, problems=("forbidden",))
    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        """List the tokens of the account that asks, by name."""
        query, account_id = take_query(req, NameQuery), own_account(current_actor())
        with self._db.read() as conn:
            known = [item for item in tokens.list_tokens(conn) if item.account_id == account_id]
        reply_page(resp, TokenPage, token_view, by_name(known, query.after), query.limit, key="name")

    @Operation({201: NewTokenView}, body=OwnTokenCreate, problems=("conflict", "forbidden", "unauthorized"))
    def on_post(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Make a token of one's own; it may never do more than its account, and its secret is in this answer alone."""
        body = take_body(req, OwnTokenCreate, self._limit)
        actor = current_actor()
        account_id = own_account(actor)
        session_id = _need_session(actor)
        grants = actor.grants
        if body.role is not None or body.groups:
            grants = read_grants(body.role, body.script, body.groups)
        secret = secrets.token_urlsafe(SECRET_BYTES)
        made = self._parts.token_changes.create(
            body.name,
            secret,
            grants,
            account_id=account_id,
            expires_in_s=body.expires_in_s,
            networks=body.networks,
            check=lambda conn: self._parts.sign_in.check_session(conn, account_id, session_id),
        )
        resp.location = f"/api/v1/me/tokens/{made.name}"
        reply(resp, new_token_view(made, secret), 201)


class OwnToken(AccountBase):
    """``/me/tokens/{name}``."""

    @Operation({204: None}, problems=("forbidden", "not-found", "invalid-field"))
    def on_delete(self, req: falcon.Request, resp: falcon.Response, name: str) -> None:
        """Delete a token of one's own; within a second it opens nothing."""
        del req
        actor = current_actor()
        wanted, account_id = named(name), own_account(actor)
        if actor.credential != f"token {wanted}":  # which may end itself
            _need_session(actor)
        self._parts.token_changes.delete(wanted, account_id=account_id)
        resp.status = 204


def own_account(actor: Actor) -> int:
    """Return the id of the account that acts.

    Raises:
        ForbiddenError: It is none.
    """
    if actor.account_id is None:
        raise ForbiddenError(Permission.READ, "a service's token belongs to no account")
    return actor.account_id


def _need_session(actor: Actor) -> int:
    """Return the id of the session that acts; what needs one must not be done with a token: its finder would stay in.

    Raises:
        ForbiddenError: There is none.
    """
    session_id = _session_id(actor)
    if session_id is None:
        raise ForbiddenError(Permission.READ, "this takes a session: sign in with name and password")
    return session_id


def _session_id(actor: Actor) -> int | None:
    if not actor.credential.startswith(CREDENTIAL) or actor.kind is not ActorKind.ACCOUNT:
        return None
    return int(actor.credential.removeprefix(CREDENTIAL))
