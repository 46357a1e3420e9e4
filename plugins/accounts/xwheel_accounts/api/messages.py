"""What clients of the management API send and get about accounts and their sessions."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from msgspec import UNSET, Meta, Struct, UnsetType
from xwheel.api.schema.access import GroupRoles, GroupRoleView
from xwheel.api.schema.derived import fields_of, page_of
from xwheel.api.schema.fields import After, ExpiresIn, Id, Networks, PageSize, PlainName, Title
from xwheel.api.schema.messages import Input
from xwheel.model.access import Role

from xwheel_accounts.storage.accounts import Account
from xwheel_accounts.storage.sessions import Session

Typed = Annotated[str, Meta(min_length=1, max_length=256)]
"""A password; what it must be is judged where it is set."""


AccountName = Annotated[str, Meta(min_length=1, max_length=64)]
LinkSecret = Annotated[str, Meta(min_length=1, max_length=64)]
SettingName = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=64,
        pattern=r"\A[a-z0-9][a-z0-9._-]*\Z",
        extra={"hint": "small letters, digits, dot, dash and underscore, a letter or digit first"},
    ),
]
MAX_SETTING = 64 * 1024
"""Bytes of a setting as JSON."""

MAX_DEPTH = 32
"""How deep lists and objects of a setting may be nested."""

ACCOUNT_FIELDS = "id name display_name provider must_change disabled locked_ms revision"
ACCOUNT_TIMES = "created_ms updated_ms signed_in_ms password_ms"


class SignInInput(Input, frozen=True, kw_only=True):
    """Who signs in: by name and password, or by a link and neither."""

    EITHER: ClassVar = (("name", "password"), ("link",))
    name: Typed | UnsetType = UNSET
    password: Typed | UnsetType = UNSET
    link: LinkSecret | UnsetType = UNSET


class LinkInput(Input, frozen=True, kw_only=True):
    """A link that no one has signed in with yet."""

    link: LinkSecret


class ConfirmInput(Input, frozen=True, kw_only=True):
    """The password of the account that asks, typed once more."""

    password: Typed


class PasswordChange(Input, frozen=True, kw_only=True):
    """Another password for the account that asks; its tokens end with the one before unless ``keep_tokens`` is set."""

    old_password: Typed
    password: Typed
    keep_tokens: bool = False


class PasswordReset(Input, frozen=True, kw_only=True):
    """Another password for somebody; without one, one is made. ``keep_tokens`` leaves the account's tokens."""

    password: Typed | None = None
    keep_tokens: bool = False


class AccountCreate(Input, frozen=True, kw_only=True):
    """A new account; without a ``password`` one is made, and either way the first sign-in sets another one.

    With another ``provider`` than ``local`` no password is kept here.
    """

    name: AccountName
    display_name: Title = ""
    role: Role | None = None
    script: bool = False
    groups: GroupRoles = ()
    password: Typed | None = None
    provider: PlainName = "local"


class AccountChange(Input, frozen=True, kw_only=True):
    """New values for an account; ``groups`` replace all that it had, ``locked`` can only be lifted.

    The tokens of an account that is disabled end with its sessions; ``keep_tokens`` leaves them for when it is enabled
    again.
    """

    display_name: Title | UnsetType = UNSET
    role: Role | UnsetType | None = UNSET
    script: bool | UnsetType = UNSET
    groups: GroupRoles | UnsetType = UNSET
    disabled: bool | UnsetType = UNSET
    locked: bool | UnsetType = UNSET
    keep_tokens: bool | UnsetType = UNSET
    revision: Id | UnsetType | None = UNSET


class OwnTokenCreate(Input, frozen=True, kw_only=True):
    """A new token of the account that asks; without ``role`` and ``groups`` it may do what the account may."""

    name: PlainName
    role: Role | None = None
    script: bool = False
    groups: GroupRoles = ()
    expires_in_s: ExpiresIn | None = None
    networks: Networks = ()


class AccountQuery(Input, frozen=True, kw_only=True):
    """Which page of the accounts, by id."""

    after: After = 0
    limit: PageSize = 50


@fields_of(Account, ACCOUNT_FIELDS, ACCOUNT_TIMES)
class AccountView(Struct, frozen=True, kw_only=True):
    """An account as admins see it."""

    role: Role | None
    script: bool
    groups: list[GroupRoleView]


@fields_of(Account, ACCOUNT_FIELDS, ACCOUNT_TIMES)
class ChangedAccountView(Struct, frozen=True, kw_only=True):
    """An account that was just changed, and how many of its sessions and tokens that ended."""

    role: Role | None
    script: bool
    groups: list[GroupRoleView]
    sessions_ended: int
    tokens_ended: int


@fields_of(Account, ACCOUNT_FIELDS, ACCOUNT_TIMES)
class NewAccountView(Struct, frozen=True, kw_only=True):
    """An account with a password that was just set; shown this once, null where another provider keeps it."""

    role: Role | None
    script: bool
    groups: list[GroupRoleView]
    password: str | None


@fields_of(Account, ACCOUNT_FIELDS, ACCOUNT_TIMES)
class ResetAccountView(Struct, frozen=True, kw_only=True):
    """An account with another password, shown this once, and how many of its sessions and tokens that ended."""

    role: Role | None
    script: bool
    groups: list[GroupRoleView]
    password: str
    sessions_ended: int
    tokens_ended: int


class SessionsEnd(Input, frozen=True, kw_only=True):
    """Whether the account's tokens stay when its sessions end."""

    keep_tokens: bool = False


class EndedView(Struct, frozen=True, kw_only=True):
    """How many sessions and tokens of an account ended."""

    sessions_ended: int
    tokens_ended: int


class NewLinkView(Struct, frozen=True, kw_only=True):
    """A link that signs in once, until ``expires_ms``; its secret is shown this once."""

    link_secret: str
    expires_ms: int


class LinkOwnerView(Struct, frozen=True, kw_only=True):
    """The account that a link signs in."""

    name: str
    display_name: str


class SettingPath(Input, frozen=True, kw_only=True):
    """The name of a setting, which is part of a path."""

    setting: SettingName


class SettingInput(Input, frozen=True, kw_only=True):
    """What a page keeps."""

    value: Annotated[Any, Meta(extra={"json_bytes": MAX_SETTING, "depth": MAX_DEPTH})]


class SettingsView(Struct, frozen=True, kw_only=True):
    """What pages keep for the account that asks, by name."""

    settings: dict[str, Any]


class SessionView(Struct, frozen=True, kw_only=True):
    """Who calls, and what they may do.

    ``csrf`` goes into the header ``X-Xwheel-CSRF`` of every call of a session that changes something; null for tokens.
    ``expires_ms`` is when a session ends at the latest. With ``asks_password`` the password of the account shows
    that its owner is there; without it, a sign-in of a moment ago.
    """

    kind: str
    name: str
    account_id: int | None
    display_name: str
    role: Role | None
    script: bool
    groups: list[GroupRoleView]
    must_change: bool
    asks_password: bool
    csrf: str | None
    expires_ms: int | None


@fields_of(Session, "id provider created_ms seen_ms expires_ms address agent")
class SessionItem(Struct, frozen=True, kw_only=True):
    """A session of an account; ``is_this`` for the one that asks."""

    is_this: bool


AccountPage = page_of("AccountPage", AccountView, "accounts")
SessionPage = page_of("SessionPage", SessionItem, "sessions")
