"""Which jobs run after which."""

from __future__ import annotations

import falcon

from xwheel.api.body import take_body
from xwheel.api.jobs import MATCH_HEADER, wanted_revision
from xwheel.api.messages import ChildrenChange
from xwheel.api.operation import operation
from xwheel.api.resource import Resource, reply, view_of
from xwheel.api.views import ChildItem, FamilyView
from xwheel.model import ChildLink
from xwheel.storage import children, jobs


class Children(Resource):
    """``/jobs/{job_id}/children``."""

    @operation({200: FamilyView}, problems=("not-found",))
    def on_get(self, req: falcon.Request, resp: falcon.Response, job_id: int) -> None:
        """Return which jobs run after a job, and after which ones it runs itself."""
        del req
        self._reply(resp, job_id)

    @operation(
        {200: FamilyView}, body=ChildrenChange, headers=(MATCH_HEADER,), problems=("not-found", "conflict")
    )
    def on_put(self, req: falcon.Request, resp: falcon.Response, job_id: int) -> None:
        """Replace the jobs that run after a job."""
        body = take_body(req, ChildrenChange, self._limit)
        links = [
            ChildLink(parent_id=job_id, child_id=child.child_id, param=child.param) for child in body.children
        ]
        self._parts.family.set_children(job_id, links, revision=wanted_revision(req, body.revision))
        self._reply(resp, job_id)

    def _reply(self, resp: falcon.Response, job_id: int) -> None:
        with self._db.read() as conn:
            job = jobs.get_job(conn, job_id)
            below = children.children_of(conn, [job_id])
            above = children.parents_of(conn, [job_id])
        resp.etag = str(job.revision)
        view = FamilyView(
            children=[view_of(ChildItem, link) for link in below],
            parents=[link.parent_id for link in above],
            revision=job.revision,
        )
        reply(resp, view)
