"""The audit: who did what, when, from where, and why."""

from __future__ import annotations

import falcon
import msgspec
from xwheel.api.http.body import InputError, take_query
from xwheel.api.http.csv_file import MEDIA, reply_csv
from xwheel.api.http.resource import reply, view_of
from xwheel.model.access import Permission, current_actor
from xwheel.plugin import Operation

from xwheel_accounts.api.audit_messages import AuditPage, AuditQuery, AuditSearch, AuditView
from xwheel_accounts.api.resource import AccountBase
from xwheel_accounts.audit.records import AuditRow
from xwheel_accounts.storage.audit_list import AuditFilter, AuditKey, page_audit


class Audit(AccountBase):
    """``/audit``, also as a file."""

    @Operation({200: AuditPage}, query=AuditQuery)
    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        """List what was done, newest first: in the groups whose admin the caller is, and in no group by all's."""
        query = take_query(req, AuditQuery)
        before = None
        if query.after is not None:
            at_ms, _, row_id = query.after.partition("-")
            before = AuditKey(int(at_ms), int(row_id))
        items, following = self._page(query, before, query.limit)
        after = None if following is None else f"{following.at_ms}-{following.id}"
        reply(resp, AuditPage(items=items, next=after))

    @Operation({200: None}, query=AuditSearch, media=MEDIA)
    def on_get_csv(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Return what was done as a CSV file, newest first, 10,000 rows at most."""
        query = take_query(req, AuditSearch)
        reply_csv(resp, "audit", AuditView, lambda after, limit: self._page(query, after, limit))

    def _page(self, query: AuditSearch, before: AuditKey | None, limit: int) -> tuple[list[AuditView], AuditKey | None]:
        if query.object_id is not None and query.object_kind is None:
            raise InputError("object_kind", "is needed with object_id: ids of jobs and of groups are alike")
        given = {name: getattr(query, name) for name in AuditFilter._fields if name != "groups"}
        wanted = AuditFilter(**given, groups=current_actor().grants.groups_with(Permission.ADMIN))
        with self._db.read() as conn:
            page = page_audit(conn, wanted, before=before, limit=limit)
        return [_view(row) for row in page.rows], page.next


def _view(row: AuditRow) -> AuditView:
    try:
        detail = msgspec.json.decode(row.detail, type=dict)
    except msgspec.MsgspecError:  # somebody changed it in the database: 'xwheel audit verify' names the row
        detail = {"unreadable": row.detail}
    return view_of(AuditView, row, detail=detail)
