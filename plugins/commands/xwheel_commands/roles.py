"""Options that say what an account or token may do: a role in all groups, and roles in some."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from xwheel.errors import FieldError, XwheelError
from xwheel.model.access import Role

if TYPE_CHECKING:
    from xwheel.model.access import Grants

    from xwheel_commands.connection import DatabaseOrNode

RoleOption = Annotated[Role | None, typer.Option("--role", help="The role in all groups; without it, in none.")]
ScriptOption = Annotated[
    bool, typer.Option("--script", help="Let an editor change what scripts run, too; an admin may anyway.")
]
GroupRolesOption = Annotated[
    list[str] | None,
    typer.Option(
        "--in",
        metavar="APP=ROLE",
        help="A role in one group, such as orders=editor, or orders=editor+script; may be given several times.",
    ),
]
WITH_SCRIPTS: Final = "+script"
Row = dict[str, Any]


def roles_given(find_group: Callable[[str], Row], role: Role | None, script: bool, groups: Sequence[str] | None) -> Row:
    """Return what options say as fields of the management API.

    Args:
        find_group: Returns the group of an app name.
        role: Role in all groups.
        script: Whether scripts too.
        groups: Roles in some.

    Raises:
        FieldError: One is no ``APP=ROLE``, or names no group.
    """
    found = []
    for text in groups or ():
        app_name, sign, words = text.partition("=")
        name = words.removesuffix(WITH_SCRIPTS)
        if not sign or not app_name or name not in set(Role):
            raise FieldError("--in", f"{text[:64]!r} is not APP=ROLE, with a role of {', '.join(Role)}")
        group_id = find_group(app_name)["id"]
        found.append({"group_id": group_id, "role": name, "script": words.endswith(WITH_SCRIPTS)})
    return {"role": None if role is None else role.value, "script": script, "groups": found}


def grants_given(place: DatabaseOrNode, role: Role | None, script: bool, groups: Sequence[str] | None) -> Grants:
    """Return what options say, with groups of the configured database; raises like :func:`roles_given`."""
    from xwheel.api.schema.access import GroupRole, read_grants

    from xwheel_commands.connection import group_id_of

    with place.open() as db, db.read() as conn:
        fields = roles_given(lambda name: {"id": group_id_of(conn, name)}, role, script, groups)
    rows = tuple(
        GroupRole(group_id=item["group_id"], role=Role(item["role"]), script=item["script"])
        for item in fields["groups"]
    )
    return read_grants(role, script, rows)


def group_names(place: DatabaseOrNode, items: Iterable[Row]) -> dict[int, str]:
    """Return app names by id of the groups in which accounts or tokens have roles; what cannot be read is missing.

    It never raises: what is printed with them may be a secret that is shown this once.
    """
    ids = {grant["group_id"] for item in items for grant in item["groups"]}
    if not ids:
        return {}
    try:
        if place.node is not None:
            return {item["id"]: item["app_name"] for item in place.node.pages("/groups") if item["id"] in ids}
        from xwheel.storage import executors

        with place.open() as db, db.read() as conn:
            return {number: group.app_name for number, group in executors.get_groups(conn, ids).items()}
    except XwheelError:
        return {}


def rights_in_words(item: Row, names: Mapping[int, str]) -> str:
    """Return in words what the view of an account or token says that it may do.

    Args:
        item: The view.
        names: What :func:`group_names` returns.
    """
    words = []
    if item["role"] is not None:
        words.append(f"{_spelled(item)} everywhere")
    for grant in item["groups"]:
        group = names.get(grant["group_id"], f"group {grant['group_id']}")
        words.append(f"{_spelled(grant)} in {group}")
    return ", ".join(words) or "may do nothing"


def _spelled(grant: Row) -> str:
    return f"{grant['role']}{' and scripts' if grant['script'] and grant['role'] == Role.EDITOR else ''}"
