"""Executor groups, and their live executors."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial

import falcon
import msgspec

from xwheel.api.http.body import take_body, take_changes, take_query
from xwheel.api.http.resource import Resource, readable_groups, reply, reply_page, view_of
from xwheel.api.schema.messages import AddressInput, ExecutorQuery, GroupChange, GroupCreate, GroupQuery
from xwheel.api.schema.views import AddressView, ExecutorPage, ExecutorView, GroupPage, GroupView
from xwheel.errors import ConflictError, FieldError, WireError
from xwheel.model import NO_SECRET, ExecutorGroup, RegisteredExecutor
from xwheel.plugin.discovery import Plugins
from xwheel.plugin.resources import Operation
from xwheel.scheduler.audit_trail import AuditTrail
from xwheel.scheduler.executors.registry import ExecutorRegistry
from xwheel.storage import executors, jobs, plugin_rows
from xwheel.storage.access import executor_secrets
from xwheel.storage.database.engine import Connection
from xwheel.storage.database.rows import groups_among
from xwheel.wire import contract


class ShowsGroups(Resource):
    """A resource that answers with groups, which it also changes."""

    audit: AuditTrail
    plugins: Plugins
    registry: ExecutorRegistry

    def views(self, conn: Connection, groups: Sequence[ExecutorGroup]) -> dict[int, GroupView]:
        """Return what clients see of groups, by id."""
        names = {item.id: item.name for item in executor_secrets.list_secrets(conn)}
        live = {(item.group_id, item.address) for item in self.registry.all(self.clock.now_ms())}
        entered: dict[int, list[AddressView]] = {group.id: [] for group in groups}
        for item in executors.list_addresses(conn, entered.keys()) if groups else ():
            view = AddressView(
                address=item.address,
                secret=names.get(item.secret_id),
                live=(item.group_id, item.address) in live,
                error=item.error,
            )
            entered[item.group_id].append(view)
        return {group.id: view_of(GroupView, group, addresses=entered[group.id]) for group in groups}

    def wanted(self, conn: Connection, group_id: int, addresses: Sequence[AddressInput]) -> dict[str, int]:
        """Return the secret's id of each address as the registry spells it.

        Raises FieldError for an address that cannot be an executor's, stands there twice, names no live secret of the
        group, or is added with one while an executor of another group has it.
        """
        now_ms = self.clock.now_ms()
        known = {
            item.name: item.id
            for item in executor_secrets.list_secrets(conn)
            if item.group_id == group_id and item.is_live(now_ms)
        }
        wanted: dict[str, int] = {}
        for item in addresses:
            try:
                address = contract.normalise_address(item.address, "addresses")
                self.registry.check_address(address)
            except WireError as error:
                words = str(error).removeprefix("addresses: ").removeprefix(f"{contract.ADDRESS_FIELD}: ")
                raise FieldError("addresses", words) from error
            if address in wanted:
                raise FieldError("addresses", f"name {address} twice")
            name = item.secret
            if name is not None and name not in known:
                names = ", ".join(sorted(known)) or "none yet: make one with POST /secrets"
                raise FieldError(
                    "addresses",
                    f"{address}: {name} is no live executor secret of this group; there is {names}. The token that "
                    "all executors share cannot be named",
                )
            wanted[address] = NO_SECRET if name is None else known[name]
        if taken := self.registry.taken_elsewhere(conn, group_id, wanted, now_ms):
            raise FieldError(
                "addresses",
                f"{taken[0]} is registered in another executor group: enter it once its executor is gone there, or set "
                "security.shared_addresses",
            )
        return wanted


class Groups(ShowsGroups):
    """``/groups``."""

    @Operation({200: GroupPage}, query=GroupQuery)
    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        """List groups by id."""
        query = take_query(req, GroupQuery)
        with self.db.read() as conn:
            found = executors.list_groups(
                conn, prefix=query.app_name or "", after_id=query.after, limit=query.limit + 1, groups=readable_groups()
            )
            views = self.views(conn, found)
        reply_page(resp, GroupPage, lambda group: views[group.id], found, query.limit)

    @Operation({201: GroupView}, body=GroupCreate, problems=("conflict",))
    def on_post(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Create a group."""
        body = take_body(req, GroupCreate, self._limit)
        now_ms = self.clock.now_ms()

        def work(conn: Connection) -> tuple[int, GroupView]:
            group = executors.insert_group(
                conn,
                app_name=body.app_name,
                title=body.title or body.app_name,
                max_running=body.max_running,
                glue_types=_glue_types(body.glue_types),
                now_ms=now_ms,
            )
            if body.addresses:
                executors.replace_addresses(conn, group.id, self.wanted(conn, group.id, body.addresses))
            after = _shown(conn, group, True)
            self.audit.record(conn, "group.create", "group", group.id, group_id=group.id, after=after)
            return group.id, self.views(conn, [group])[group.id]

        group_id, view = self.db.transaction(work)
        resp.location = f"/api/v1/groups/{group_id}"
        reply(resp, view, 201)


class Group(ShowsGroups):
    """``/groups/{group_id}`` and its executors."""

    @Operation({200: GroupView}, problems=("not-found",))
    def on_get(self, _req: falcon.Request, resp: falcon.Response, group_id: int) -> None:
        """Return a group."""
        with self.db.read() as conn:
            view = self.views(conn, [executors.get_group(conn, group_id)])[group_id]
        reply(resp, view)

    @Operation({200: GroupView}, body=GroupChange, problems=("not-found", "conflict"))
    def on_patch(self, req: falcon.Request, resp: falcon.Response, group_id: int) -> None:
        """Change a group's title or limit, or replace its addresses entered by hand or its glue types."""
        changes = take_changes(req, GroupChange, self._limit)
        addresses: Sequence[AddressInput] | None = changes.pop("addresses", None)
        now_ms = self.clock.now_ms()
        if "glue_types" in changes:
            changes["glue_types"] = _glue_types(changes["glue_types"])

        wanted: dict[str, int] = {}

        def work(conn: Connection) -> GroupView:
            group = executors.get_group(conn, group_id, lock=True)
            if "glue_types" in changes:
                self._keep_used(conn, group, changes["glue_types"])
            before = _shown(conn, group, addresses is not None)
            group = executors.update_group(conn, group_id, changes, now_ms)
            if addresses is not None:
                wanted.clear()  # this may be done twice
                wanted.update(self.wanted(conn, group_id, addresses))
                executors.replace_addresses(conn, group_id, wanted)
            after = _shown(conn, group, addresses is not None)
            self.audit.record(conn, "group.edit", "group", group_id, group_id=group_id, before=before, after=after)
            return self.views(conn, [group])[group.id]

        view = self.db.transaction(work)
        if addresses is not None:
            self.registry.follow_entered(group_id, wanted)
        reply(resp, view)

    def _keep_used(self, conn: Connection, group: ExecutorGroup, names: Collection[str]) -> None:
        """Raise ConflictError if glue types are taken away that jobs of the group, and no plugin, have."""
        gone = set(group.glue_types) - set(names) - set(self.plugins.glue_types)
        user = jobs.find_glue_user(conn, group.id, gone) if gone else None
        if user is not None:
            raise ConflictError(
                f"job {user.id} ({user.name}) of this group is {user.glue_type}: delete it first, or give it another "
                "glue type"
            )

    @Operation({204: None}, problems=("not-found", "conflict"))
    def on_delete(self, _req: falcon.Request, resp: falcon.Response, group_id: int) -> None:
        """Delete a group without jobs."""

        def work(conn: Connection) -> None:
            before = _shown(conn, executors.get_group(conn, group_id, lock=True), True)
            self.audit.record(conn, "group.delete", "group", group_id, group_id=group_id, before=before)
            executors.delete_group(conn, group_id)
            plugin_rows.delete_of_group(conn, self.plugins.tables, group_id)

        self.db.transaction(work)
        resp.status = 204

    @Operation({200: ExecutorPage}, problems=("not-found",))
    def on_get_executors(self, _req: falcon.Request, resp: falcon.Response, group_id: int) -> None:
        """List all live executors of a group, suspects last."""
        with self.db.read() as conn:
            executors.get_group(conn, group_id)
        live = self.registry.live(group_id, self.clock.now_ms())
        reply(resp, ExecutorPage(items=[_executor_view(self.registry, item) for item in live]))


class Executors(Resource):
    """``/executors``."""

    registry: ExecutorRegistry

    @Operation({200: ExecutorPage}, query=ExecutorQuery)
    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        """List the live executors of all groups or of one, by id."""
        query = take_query(req, ExecutorQuery)
        live = self.registry.all(self.clock.now_ms())
        groups = groups_among(readable_groups(), query.group_id)
        found = sorted(
            (item for item in live if item.id > query.after and (groups is None or item.group_id in groups)),
            key=lambda item: item.id,
        )
        reply_page(resp, ExecutorPage, partial(_executor_view, self.registry), found, query.limit)


def _executor_view(registry: ExecutorRegistry, executor: RegisteredExecutor) -> ExecutorView:
    secret, earlier = registry.secret_names(executor)
    return view_of(
        ExecutorView,
        executor,
        labels=dict(executor.labels),
        secret=secret,
        earlier_secret=earlier,
        source="by_hand" if executor.by_hand else "registered",
    )


def _shown(conn: Connection, group: ExecutorGroup, has_addresses: bool) -> dict[str, object]:
    """Return what the audit shows of a group; of an address that was entered by hand, which secret it gets."""
    shown = msgspec.to_builtins(group)
    if has_addresses:
        names = {item.id: item.name for item in executor_secrets.list_secrets(conn)}
        found = executors.list_addresses(conn, [group.id])
        shown["addresses"] = {item.address: names.get(item.secret_id) for item in found}
    return dict(shown)


def _glue_types(names: Sequence[str]) -> tuple[str, ...]:
    """Return the names, each once; raises FieldError for the one whose jobs name a handler, and have no source."""
    if "BEAN" in names:
        raise FieldError("glue_types", "BEAN needs no list: a job of it names a handler, and has no source")
    return tuple(dict.fromkeys(names))
