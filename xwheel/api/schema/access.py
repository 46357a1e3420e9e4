"""What clients of the management API send and get about tokens and executor secrets."""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta, Struct

from xwheel.api.schema.derived import fields_of, page_of
from xwheel.api.schema.fields import ExpiresIn, Id, Networks, PageSize, PlainName
from xwheel.api.schema.messages import Input
from xwheel.errors import FieldError
from xwheel.model.access import Grant, Grants, Role
from xwheel.storage.access.executor_secrets import StoredSecret
from xwheel.storage.access.tokens import KnownToken

SECRET_BYTES: Final = 32
DAY_S: Final = 86_400
MAX_GROUP_ROLES: Final = 1000
SHOWN: Final = "name group_id app_name account_id account_name expires_ms networks used_ms created_ms"


class GroupRole(Input, frozen=True, kw_only=True):
    """A role in one group; ``script`` lets an editor change scripts, too."""

    group_id: Id
    role: Role
    script: bool = False


GroupRoles = Annotated[tuple[GroupRole, ...], Meta(max_length=MAX_GROUP_ROLES)]


class TokenCreate(Input, frozen=True, kw_only=True):
    """A new token of a service.

    With ``group_id`` it opens XXL-JOB's calls for the jobs of that group, and nothing else. Else it opens the
    management API: everything of that without ``role`` and ``groups``.
    """

    name: PlainName
    group_id: Id | None = None
    role: Role | None = None
    script: bool = False
    groups: GroupRoles = ()
    expires_in_s: ExpiresIn | None = None
    networks: Networks = ()


class GroupRoleView(Struct, frozen=True, kw_only=True):
    """A role in one group."""

    group_id: int
    role: Role
    script: bool


@fields_of(KnownToken, SHOWN)
class TokenView(Struct, frozen=True, kw_only=True):
    """A token as clients see it; the secret itself is nowhere."""

    role: Role | None
    script: bool
    groups: list[GroupRoleView]


class NewTokenView(TokenView, frozen=True, kw_only=True):
    """A token that was just made; ``token`` is the secret, shown this once."""

    token: str


class SecretCreate(Input, frozen=True, kw_only=True):
    """A new secret for the executors of ``group_id``."""

    name: PlainName
    group_id: Id


class SecretChange(Input, frozen=True, kw_only=True):
    """When a secret ends: in this many seconds, 0 for at once, null for never."""

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


def read_grants(role: Role | None, script: bool, groups: tuple[GroupRole, ...] | list[GroupRoleView]) -> Grants:
    """Return grants as they were sent; raises FieldError if a group is named twice."""
    found: dict[int, Grant] = {}
    for item in groups:
        if item.group_id in found:
            raise FieldError("groups", f"name group {item.group_id} twice")
        found[item.group_id] = Grant(item.role, item.script)
    return Grants(None if role is None else Grant(role, script), found)


def roles_of(grants: Grants) -> tuple[Role | None, bool, list[GroupRoleView]]:
    """Return grants as clients see them: the role in all groups, whether scripts too, and the roles in some."""
    everywhere = grants.everywhere
    groups = [
        GroupRoleView(group_id=group_id, role=grant.role, script=grant.allows_scripts)
        for group_id, grant in sorted(grants.groups.items())
    ]
    if everywhere is None:
        return None, False, groups
    return everywhere.role, everywhere.allows_scripts, groups
