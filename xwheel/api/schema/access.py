"""What clients of the management API send and get about tokens and executor secrets."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from xwheel.api.schema.derived import fields_of, page_of
from xwheel.api.schema.fields import ExpiresIn, Id, PageSize, PlainName
from xwheel.api.schema.messages import Input
from xwheel.storage.executor_secrets import StoredSecret
from xwheel.storage.tokens import KnownToken

SECRET_BYTES: Final = 32
DAY_S: Final = 86_400


class TokenCreate(Input, frozen=True, kw_only=True):
    """A new token: for the management API, or only for the jobs of ``group_id``."""

    name: PlainName
    group_id: Id | None = None


class TokenQuery(Input, frozen=True, kw_only=True):
    """Which page of the tokens, by name."""

    after: PlainName | None = None
    limit: PageSize = 50


@fields_of(KnownToken, without=("digest",))
class TokenView(Struct, frozen=True, kw_only=True):
    """A token as clients see it; the secret itself is nowhere."""


@fields_of(KnownToken, without=("digest",))
class NewTokenView(Struct, frozen=True, kw_only=True):
    """A token that was just made; ``token`` is the secret, shown this once."""

    token: str


class SecretCreate(Input, frozen=True, kw_only=True):
    """A new secret for the executors of ``group_id``."""

    name: PlainName
    group_id: Id


class SecretChange(Input, frozen=True, kw_only=True):
    """When a secret ends: in so many seconds, 0 for at once, null for never."""

    expires_in_s: ExpiresIn | None


class SecretRotate(Input, frozen=True, kw_only=True):
    """The next secret of the same group, and for how long the one before stays good."""

    name: PlainName
    expires_in_s: ExpiresIn = DAY_S


class SecretQuery(Input, frozen=True, kw_only=True):
    """Which page of the secrets, by name; of all groups or of one."""

    group_id: Id | None = None
    after: PlainName | None = None
    limit: PageSize = 50


@fields_of(StoredSecret, "name group_id app_name created_ms expires_ms")
class SecretView(Struct, frozen=True, kw_only=True):
    """A secret as clients see it, never its value; ``executors`` counts those that are called with it now."""

    encrypted: bool
    executors: int


@fields_of(StoredSecret, "name group_id app_name created_ms expires_ms")
class NewSecretView(Struct, frozen=True, kw_only=True):
    """A secret that was just made; ``secret`` is its value, shown this once."""

    secret: str


TokenPage = page_of("TokenPage", TokenView, "tokens", key=str)
SecretPage = page_of("SecretPage", SecretView, "secrets", key=str)
