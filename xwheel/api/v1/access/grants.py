"""Grants as clients of the management API send and see them."""

from __future__ import annotations

from xwheel.api.schema.access import GroupRole, GroupRoleView
from xwheel.errors import FieldError
from xwheel.model.access import Grant, Grants, Role


def read_grants(
    role: Role | None, script: bool, groups: tuple[GroupRole, ...] | list[GroupRoleView]
) -> Grants:
    """Return grants as they were sent.

    Raises:
        FieldError: A group is named twice.
    """
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
