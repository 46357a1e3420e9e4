"""Accounts: who there is, and what each may do."""

from __future__ import annotations

from typing import TypeVar

import falcon
from msgspec import UNSET, Struct
from xwheel.api.http.body import take_body, take_changes, take_query
from xwheel.api.http.headers import MATCH_HEADER, wanted_revision
from xwheel.api.http.resource import reply, reply_page, view_of
from xwheel.api.schema.access import read_grants, roles_of
from xwheel.plugin import FieldError, Operation

from xwheel_accounts.accounts import Ended
from xwheel_accounts.api.messages import (
    AccountChange,
    AccountCreate,
    AccountPage,
    AccountQuery,
    AccountView,
    ChangedAccountView,
    EndedView,
    NewAccountView,
    NewLinkView,
    PasswordReset,
    ResetAccountView,
    SessionItem,
    SessionPage,
    SessionsEnd,
)
from xwheel_accounts.api.resource import AccountBase
from xwheel_accounts.storage import accounts, sessions
from xwheel_accounts.storage.accounts import Account

S = TypeVar("S", bound=Struct)


class Accounts(AccountBase):
    """``/accounts``."""

    @Operation({200: AccountPage}, query=AccountQuery)
    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        """List accounts by id."""
        query = take_query(req, AccountQuery)
        with self._db.read() as conn:
            found = accounts.list_accounts(conn, after_id=query.after, limit=query.limit + 1)
        reply_page(resp, AccountPage, account_view, found, query.limit)

    @Operation({201: NewAccountView}, body=AccountCreate, problems=("conflict", "busy"))
    def on_post(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Make an account; its password is in this answer and never again."""
        body = take_body(req, AccountCreate, self._limit)
        made, password = self._parts.accounts.create(
            body.name,
            read_grants(body.role, body.script, body.groups),
            display_name=body.display_name,
            password=body.password,
            provider=body.provider,
        )
        resp.location = f"/api/v1/accounts/{made.id}"
        role, script, groups = roles_of(made.grants)
        view = view_of(NewAccountView, made, role=role, script=script, groups=groups, password=password or None)
        reply(resp, view, 201)


class AccountResource(AccountBase):
    """``/accounts/{account_id}``."""

    @Operation({200: AccountView}, problems=("not-found",))
    def on_get(self, req: falcon.Request, resp: falcon.Response, account_id: int) -> None:
        """Return an account."""
        del req
        with self._db.read() as conn:
            found = accounts.get_account(conn, account_id)
        _reply(resp, found)

    @Operation(
        {200: ChangedAccountView}, body=AccountChange, headers=(MATCH_HEADER,), problems=("not-found", "conflict")
    )
    def on_patch(self, req: falcon.Request, resp: falcon.Response, account_id: int) -> None:
        """Change what an account may do or is called, disable it, or lift its lock; it counts within a second.

        The sessions and tokens of one that is disabled end.
        """
        changes = take_changes(req, AccountChange, self._limit)
        revision = wanted_revision(req, changes.pop("revision", None))
        if changes.get("locked", False):
            raise FieldError("locked", "can only be false: too many wrong passwords lock an account")
        keep_tokens = changes.pop("keep_tokens", False)
        if keep_tokens and not changes.get("disabled", False):
            raise FieldError("keep_tokens", "says what stays when an account is disabled: send 'disabled', too")
        given = {name: changes.pop(name, UNSET) for name in ("role", "script", "groups")}
        if any(value is not UNSET for value in given.values()):
            with self._db.read() as conn:
                before = accounts.get_account(conn, account_id)
            revision = revision or before.revision  # what was not given is of this one
            role, script, groups = roles_of(before.grants)
            changes["grants"] = read_grants(
                role if given["role"] is UNSET else given["role"],
                script if given["script"] is UNSET else given["script"],
                groups if given["groups"] is UNSET else given["groups"],
            )
        found, ended = self._parts.accounts.change(account_id, changes, revision=revision, keep_tokens=keep_tokens)
        self._parts.forget()
        resp.etag = str(found.revision)
        reply(resp, _with_ended(ChangedAccountView, found, ended))

    @Operation({204: None}, headers=(MATCH_HEADER,), problems=("not-found", "conflict"))
    def on_delete(self, req: falcon.Request, resp: falcon.Response, account_id: int) -> None:
        """Delete an account with its sessions, tokens, links and settings; what it did stays in the audit."""
        self._parts.accounts.delete(account_id, revision=wanted_revision(req, None))
        self._parts.forget()
        resp.status = 204

    @Operation(
        {200: ResetAccountView}, body=PasswordReset, is_body_optional=True, problems=("not-found", "conflict", "busy")
    )
    def on_post_reset(self, req: falcon.Request, resp: falcon.Response, account_id: int) -> None:
        """Set another password, which is in this answer and never again; the account's sessions and tokens end."""
        body = take_body(req, PasswordReset, self._limit, optional=True)
        found, password, ended = self._parts.accounts.reset(account_id, body.password, keep_tokens=body.keep_tokens)
        self._parts.forget()
        reply(resp, _with_ended(ResetAccountView, found, ended, password=password))

    @Operation({201: NewLinkView}, problems=("not-found", "conflict"))
    def on_post_link(self, req: falcon.Request, resp: falcon.Response, account_id: int) -> None:
        """Make a link that signs the account in once, within ten minutes; its secret is in this answer alone."""
        del req
        secret, expires_ms = self._parts.accounts.make_link(account_id)
        resp.location = "/api/v1/session"
        reply(resp, NewLinkView(link_secret=secret, expires_ms=expires_ms), 201)


class AccountSessions(AccountBase):
    """``/accounts/{account_id}/sessions``."""

    @Operation({200: SessionPage}, problems=("not-found",))
    def on_get(self, req: falcon.Request, resp: falcon.Response, account_id: int) -> None:
        """List the sessions of an account, the one that was used last first."""
        del req
        with self._db.read() as conn:
            accounts.get_account(conn, account_id)
            found = sessions.list_sessions(conn, account_id, self._parts.clock.now_ms())
        reply(resp, SessionPage(items=[view_of(SessionItem, item, is_this=False) for item in found]))

    @Operation({200: EndedView}, query=SessionsEnd, problems=("not-found",))
    def on_delete(self, req: falcon.Request, resp: falcon.Response, account_id: int) -> None:
        """End all sessions of an account, and its tokens unless ``keep_tokens`` is set."""
        query = take_query(req, SessionsEnd)
        ended = self._parts.accounts.end_sessions(account_id, keep_tokens=query.keep_tokens)
        self._parts.forget()
        reply(resp, EndedView(sessions_ended=ended.sessions, tokens_ended=ended.tokens))


def account_view(found: Account) -> AccountView:
    """Return what admins see of an account."""
    role, script, groups = roles_of(found.grants)
    return view_of(AccountView, found, role=role, script=script, groups=groups)


def _with_ended(kind: type[S], found: Account, ended: Ended, **more: object) -> S:
    role, script, groups = roles_of(found.grants)
    counts = {"sessions_ended": ended.sessions, "tokens_ended": ended.tokens}
    return view_of(kind, found, role=role, script=script, groups=groups, **counts, **more)


def _reply(resp: falcon.Response, found: Account) -> None:
    resp.etag = str(found.revision)
    reply(resp, account_view(found))
