"""Whose packages are: each project belongs to executor groups, or to all; who has none of them sees nothing of it.

What belongs to no group is for those alone who have their rights everywhere.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from msgspec.structs import replace
from sqlalchemy import delete, insert, or_, select, update
from xwheel.plugin import (
    Actor,
    Deed,
    FieldError,
    ForbiddenError,
    NotFoundError,
    Permission,
    PluginGroup,
    PluginSite,
    RouteRefusedError,
)

from xwheel_job_package.tables import OWNER, PACKAGE, PROJECT

ALL: Final = "*"
"""How all groups are named, those too that are made later."""

MOST_GROUPS: Final = 100
Reach = frozenset[int] | None
"""Ids of the groups in which somebody may do something; None for all, and for what belongs to none."""


@dataclass(frozen=True, slots=True)
class Owned:
    """Whose a project is.

    Attributes:
        everywhere: Whether all groups have it.
        groups: Ids of those that have it otherwise, in the order in which they were named.
    """

    everywhere: bool = False
    groups: tuple[int, ...] = ()

    def is_of(self, group_id: int) -> bool:
        """Return whether a group has it."""
        return self.everywhere or group_id in self.groups

    def meets(self, reach: Reach) -> bool:
        """Return whether somebody has rights in one of its groups."""
        if reach is None:
            return True
        return bool(reach) if self.everywhere else not reach.isdisjoint(self.groups)

    def is_within(self, reach: Reach) -> bool:
        """Return whether somebody has rights in all of its groups."""
        if reach is None:
            return True
        return not self.everywhere and bool(self.groups) and reach.issuperset(self.groups)

    def is_same(self, other: Owned, living: frozenset[int]) -> bool:
        """Return whether another says the same, of groups that are not gone."""
        same = living.intersection(self.groups) == living.intersection(other.groups)
        return self.everywhere == other.everywhere and same


def reach_of(actor: Actor, permission: Permission) -> Reach:
    """Return where somebody may do what needs a permission."""
    return actor.grants.groups_with(permission)


def is_within_reach(reach: Reach) -> Any:
    """Return the condition of a query for packages of which somebody may know."""
    if reach is None:
        return PACKAGE.c.project.is_not(None)
    named = select(OWNER.c.project).where(OWNER.c.group_id.in_(sorted(reach)))
    shared = select(PROJECT.c.project).where(PROJECT.c.everywhere.is_(True))
    return or_(PACKAGE.c.project.in_(named), PACKAGE.c.project.in_(shared)) if reach else PACKAGE.c.id < 0


def read_owned(conn: Any, project: str, *, lock: bool = False) -> Owned | None:
    """Return whose a project is; None if there is no such project.

    Args:
        conn: A connection.
        project: The project's name.
        lock: Whether no one else changes it until the transaction ends.
    """
    query = select(PROJECT.c.everywhere).where(PROJECT.c.project == project)
    everywhere = conn.scalar(query.with_for_update() if lock else query)
    if everywhere is None:
        # of a node of an older version
        is_there = conn.scalar(select(PACKAGE.c.id).where(PACKAGE.c.project == project).limit(1))
        return None if is_there is None else Owned()
    groups = select(OWNER.c.group_id).where(OWNER.c.project == project).order_by(OWNER.c.place)
    return Owned(bool(everywhere), tuple(conn.scalars(groups)))


def write_owned(conn: Any, project: str, owned: Owned) -> None:
    """Write whose a project is; of two that write a new one at once, one fails with an ``IntegrityError``."""
    known = update(PROJECT).where(PROJECT.c.project == project).values(everywhere=owned.everywhere)
    if conn.scalar(select(PROJECT.c.project).where(PROJECT.c.project == project)) is None:
        conn.execute(insert(PROJECT).values(project=project, everywhere=owned.everywhere))
    else:
        conn.execute(known)
    conn.execute(delete(OWNER).where(OWNER.c.project == project))
    rows = [{"project": project, "group_id": one, "place": place} for place, one in enumerate(owned.groups)]
    if rows:
        conn.execute(insert(OWNER), rows)


def forget_project(conn: Any, project: str) -> None:
    """Forget whose a project was once its last version is gone: its name is free."""
    if conn.scalar(select(PACKAGE.c.id).where(PACKAGE.c.project == project).limit(1)) is None:
        conn.execute(delete(OWNER).where(OWNER.c.project == project))
        conn.execute(delete(PROJECT).where(PROJECT.c.project == project))


def record_in_groups(site: PluginSite, conn: Any, deed: Deed, *owned: Owned) -> None:
    """Record what is done to a project: a row in each of its groups, for those who read the audit there.

    What belongs to all groups, or to none, has one for those alone who read the audit everywhere.

    Args:
        site: The node.
        conn: The connection of the transaction that does it.
        deed: What is done.
        owned: The owners of the project. If they change: the owners before, and the owners after.
    """
    groups: list[int | None] = list(dict.fromkeys(group_id for one in owned for group_id in one.groups))
    if not groups or any(one.everywhere for one in owned):
        groups.append(None)
    site.record_many(conn, [replace(deed, group_id=group_id) for group_id in groups])


def is_of_group(conn: Any, package_id: int, group_id: int) -> bool:
    """Return whether jobs of a group may be of a package, and its executors may have it.

    For who makes or changes a job with a source that names a package: False too where there is no such package, so that
    one that may not be known is refused in the words of one that is not there.
    """
    project = conn.scalar(select(PACKAGE.c.project).where(PACKAGE.c.id == package_id))
    owned = None if project is None else read_owned(conn, project)
    return owned is not None and owned.is_of(group_id)


class Owners:
    """Who may know of packages, and who may do what with them.

    Args:
        site: The node.
    """

    def __init__(self, site: PluginSite) -> None:
        self._site = site

    def is_of_group(self, package_id: int, group_id: int) -> bool:
        """Return whether jobs of a group may be of a package; see the function of this name."""
        with self._site.database.read() as conn:
            return is_of_group(conn, package_id, group_id)

    def need(
        self, package_id: int, actor: Actor, permission: Permission = Permission.READ, *, in_all: bool = False
    ) -> str:
        """Return the project of a package if somebody has a permission in one of its groups, or in all of them.

        Raises:
            NotFoundError: There is no such package, or they may not know of it.
            ForbiddenError: They may know of it, and no more.
        """
        with self._site.database.read() as conn:
            project = conn.scalar(select(PACKAGE.c.project).where(PACKAGE.c.id == package_id))
        if project is None:
            raise NotFoundError("package", package_id)
        self.need_project(project, actor, permission, in_all=in_all, kind="package", key=package_id)
        return str(project)

    def need_project(
        self,
        project: str,
        actor: Actor,
        permission: Permission = Permission.READ,
        *,
        in_all: bool = False,
        kind: str = "project",
        key: object = None,
    ) -> Owned:
        """Return whose a project is; raises like :meth:`need`."""
        owned = self.get(project)
        key = project if key is None else key
        if owned is None or not owned.meets(reach_of(actor, Permission.READ)):
            raise NotFoundError(kind, key)
        reach = reach_of(actor, permission)
        if not (owned.is_within(reach) if in_all else owned.meets(reach)):
            where = "all of its groups" if in_all else "one of its groups"
            raise ForbiddenError(permission, f"{kind} {key}: this takes the permission {permission} in {where}")
        return owned

    def need_of_executor(self, package_id: int, group_id: int | None) -> None:
        """Make sure that an executor may have a package: it showed its group's secret, or with None the shared one.

        The shared one stands for the groups that have no secret of their own.

        Raises:
            NotFoundError: It may not, or there is none.
        """
        with self._site.database.read() as conn:
            project = conn.scalar(select(PACKAGE.c.project).where(PACKAGE.c.id == package_id))
            owned = None if project is None else read_owned(conn, project)
        if owned is not None and not owned.everywhere:
            shown = {group_id} if group_id is not None else set()
            if group_id is None:
                shown = {group.id for group in self._site.executors.groups() if not group.has_secret}
            owned = owned if not shown.isdisjoint(owned.groups) else None
        if owned is None:
            raise NotFoundError("package", package_id)

    def get(self, project: str) -> Owned | None:
        """Return whose a project is, without groups that are gone; None if there is no such project."""
        with self._site.database.read() as conn:
            owned = read_owned(conn, project)
        return None if owned is None else self._living(owned)

    def _living(self, owned: Owned) -> Owned:
        there = self.living()
        return Owned(owned.everywhere, tuple(one for one in owned.groups if one in there))

    def living(self) -> frozenset[int]:
        """Return the ids of all groups that there are."""
        return frozenset(group.id for group in self._site.executors.groups())

    def show(self, conn: Any, projects: Collection[str], actor: Actor) -> dict[str, dict[str, Any]]:
        """Return of projects the names of those of their groups that somebody may read, and what they may do."""
        reach, admin = reach_of(actor, Permission.READ), reach_of(actor, Permission.ADMIN)
        known = {group.id: group.app_name for group in self._site.executors.groups()}
        wanted = sorted(set(projects))
        query = select(PROJECT.c.project, PROJECT.c.everywhere).where(PROJECT.c.project.in_(wanted))
        everywhere = {row.project: bool(row.everywhere) for row in conn.execute(query)}
        groups: dict[str, list[int]] = {}
        owners = select(OWNER.c.project, OWNER.c.group_id).where(OWNER.c.project.in_(wanted))
        for row in conn.execute(owners.order_by(OWNER.c.place)):
            if row.group_id in known:
                groups.setdefault(row.project, []).append(row.group_id)
        found = {}
        for name in wanted:
            owned = Owned(everywhere.get(name, False), tuple(groups.get(name, ())))
            shown = [known[one] for one in owned.groups if reach is None or one in reach]
            found[name] = {
                "groups": [ALL] if owned.everywhere else shown,
                "may_read_files": owned.meets(admin),
                "may_manage": owned.is_within(admin),
            }
        return found

    def named(self, names: Sequence[str], actor: Actor) -> Owned:
        """Return the groups that somebody names as a package's, in all of which they need the right of an admin.

        Raises:
            FieldError: One is not there, as far as they may know.
            ForbiddenError: They are no admin there.
        """
        admin, reach = reach_of(actor, Permission.ADMIN), reach_of(actor, Permission.READ)
        if list(names) == [ALL]:
            if admin is not None:
                raise ForbiddenError(Permission.ADMIN, "groups: all groups take the permission admin in all groups")
            return Owned(everywhere=True)
        known = {group.app_name: group.id for group in self._site.executors.groups()}
        found: dict[int, None] = {}
        for name in names:
            group_id = known.get(name)
            if group_id is None or (reach is not None and group_id not in reach):
                raise FieldError("groups", f"there is no executor group {name[:64]}; {ALL} alone is for all groups")
            if admin is not None and group_id not in admin:
                raise ForbiddenError(
                    Permission.ADMIN, f"groups: {name} takes the permission {Permission.ADMIN} in that group"
                )
            found[group_id] = None
        if not 0 < len(found) <= MOST_GROUPS:
            raise FieldError("groups", f"must name 1 to {MOST_GROUPS} executor groups, or {ALL} for all")
        return Owned(groups=tuple(found))

    def default(self, actor: Actor, usual: str) -> Owned:
        """Return the groups of a new project whose uploader names none.

        It is the only group in which they are an admin; the store's usual one for those who are it in all groups.

        Raises:
            FieldError: They have to name some.
        """
        admin = reach_of(actor, Permission.ADMIN)
        if admin is not None and len(admin) == 1:
            return Owned(groups=tuple(admin))
        group = self._named(usual)
        if group is None and admin is None:
            text = f"there is no executor group {usual}: 'xwheel group create {usual}' makes it, or name others"
            raise RouteRefusedError(409, "no_group", text, field="groups")
        if group is None or (admin is not None and group.id not in admin):
            raise FieldError("groups", "say which of your groups the package is of: you are an admin of several")
        return Owned(groups=(group.id,))

    def decide(self, project: str, wanted: Owned | None, actor: Actor, usual: str) -> Owned:
        """Return whose a project is to be after an upload: a new version has the groups of those before it.

        Raises:
            RouteRefusedError: ``project_taken``: it is of groups that the uploader may not know of; ``groups_differ``.
            ForbiddenError: The uploader is not an admin in all of its groups.
            FieldError: A new project has to name its groups.
        """
        owned, admin = self.get(project), reach_of(actor, Permission.ADMIN)
        if owned is None or (admin is None and owned == Owned()):
            return wanted if wanted is not None else self.default(actor, usual)
        if not owned.meets(reach_of(actor, Permission.READ)):
            raise taken(project)
        if not owned.is_within(admin):
            text = f"{project}: a new version takes the permission {Permission.ADMIN} in all groups of the project"
            raise ForbiddenError(Permission.ADMIN, text)
        if wanted is not None and not wanted.is_same(owned, self.living()):
            text = (
                f"{project} is of other groups, which its versions share: leave groups out, or change them with "
                f"'xwheel package groups {project} --group NAME' first"
            )
            raise RouteRefusedError(409, "groups_differ", text, field="groups")
        return owned

    def group_of_jobs(self, owned: Owned, usual: str) -> int | None:
        """Return the group in which jobs of a package are made: the usual one if it has it, else the first."""
        group = self._named(usual)
        if group is not None and owned.is_of(group.id):
            return group.id
        return owned.groups[0] if owned.groups else None

    def _named(self, app_name: str) -> PluginGroup | None:
        return next((group for group in self._site.executors.groups() if group.app_name == app_name), None)

    def usable(self, actor: Actor) -> Mapping[str, Any]:
        """Return what somebody may name as the groups of a package."""
        admin = reach_of(actor, Permission.ADMIN)
        found = [group for group in self._site.executors.groups() if admin is None or group.id in admin]
        return {"groups": [group.app_name for group in found], "may_all_groups": admin is None}


def taken(project: str) -> RouteRefusedError:
    """Return why a name is refused, without a word about whose it is."""
    text = f"the name {project} is taken: give your project another one"
    return RouteRefusedError(409, "project_taken", text, field="body")
