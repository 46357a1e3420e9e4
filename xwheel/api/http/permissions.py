"""What each route needs: the one table that the check of calls, the OpenAPI document, the pages and the tests read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from xwheel.model.access import Permission
from xwheel.plugin.resources import CALLER, PUBLIC, Methods, Need, Of

_READ_SOME: Final = Need(Permission.READ, Of.SOME)
_RUN_SOME: Final = Need(Permission.RUN, Of.SOME)
_EDIT_SOME: Final = Need(Permission.EDIT, Of.SOME)
_ADMIN_SOME: Final = Need(Permission.ADMIN, Of.SOME)
_READ_JOB: Final = Need(Permission.READ, Of.JOB)
_RUN_JOB: Final = Need(Permission.RUN, Of.JOB)
_EDIT_JOB: Final = Need(Permission.EDIT, Of.JOB)
_SCRIPT_JOB: Final = Need(Permission.SCRIPT, Of.JOB)
_READ_RUN: Final = Need(Permission.READ, Of.RUN)
_RUN_RUN: Final = Need(Permission.RUN, Of.RUN)
_ADMIN_GROUP: Final = Need(Permission.ADMIN, Of.GROUP)
_EDIT_ALL: Final = Need(Permission.EDIT, Of.ALL)
_ADMIN_ALL: Final = Need(Permission.ADMIN, Of.ALL)
_RUN_ALL: Final = Need(Permission.RUN, Of.ALL)

PERMISSIONS: Final[Mapping[str, Methods]] = {
    "/health": {"GET": _READ_SOME},
    "/groups": {"GET": _READ_SOME, "POST": _ADMIN_ALL},
    "/groups/{group_id}": {
        "GET": Need(Permission.READ, Of.GROUP),
        "PATCH": _ADMIN_GROUP,
        "DELETE": _ADMIN_GROUP,
    },
    "/groups/{group_id}/executors": {"GET": Need(Permission.READ, Of.GROUP)},
    "/executors": {"GET": _READ_SOME},
    "/jobs": {"GET": _READ_SOME, "POST": _EDIT_SOME},
    "/jobs/recent": {"GET": _READ_SOME},
    "/jobs/csv": {"GET": _READ_SOME},
    "/jobs/{job_id}": {"GET": _READ_JOB, "PATCH": _EDIT_JOB, "DELETE": _EDIT_JOB},
    "/jobs/{job_id}/start": {"POST": _RUN_JOB},
    "/jobs/{job_id}/stop": {"POST": _RUN_JOB},
    "/jobs/{job_id}/copy": {"POST": _EDIT_JOB},
    "/jobs/{job_id}/run": {"POST": _RUN_JOB},
    "/jobs/{job_id}/children": {"GET": _READ_JOB, "PUT": _EDIT_JOB},
    "/jobs/{job_id}/glue": {"GET": _READ_JOB, "POST": _SCRIPT_JOB},
    "/jobs/{job_id}/glue/{number}": {"GET": _READ_JOB},
    "/jobs/{job_id}/glue/{number}/restore": {"POST": _SCRIPT_JOB},
    "/jobs/bulk/start": {"POST": _RUN_SOME},
    "/jobs/bulk/stop": {"POST": _RUN_SOME},
    "/jobs/bulk/run": {"POST": _RUN_SOME},
    "/jobs/bulk/delete": {"POST": _EDIT_SOME},
    "/runs": {"GET": _READ_SOME},
    "/runs/csv": {"GET": _READ_SOME},
    "/runs/{run_id}": {"GET": _READ_RUN},
    "/runs/{run_id}/kill": {"POST": _RUN_RUN},
    "/runs/{run_id}/rerun": {"POST": _RUN_RUN},
    "/runs/{run_id}/log": {"GET": _READ_RUN},
    "/schedule/preview": {"GET": _READ_SOME},
    "/schedule/upcoming": {"GET": _READ_SOME},
    "/schedule/pause": {"GET": _READ_SOME, "PUT": _RUN_ALL, "DELETE": _RUN_ALL},
    "/tokens": {"GET": _ADMIN_SOME, "POST": _ADMIN_SOME},
    "/tokens/{name}": {"GET": _ADMIN_SOME, "DELETE": _ADMIN_SOME},
    "/secrets": {"GET": _ADMIN_SOME, "POST": _ADMIN_SOME},
    "/secrets/{name}": {"GET": _ADMIN_SOME, "PATCH": _ADMIN_SOME, "DELETE": _ADMIN_SOME},
    "/secrets/{name}/rotate": {"POST": _ADMIN_SOME},
    "/calendars": {"GET": _READ_SOME},
    "/calendars/{name}": {"GET": _READ_SOME, "PUT": _EDIT_ALL, "DELETE": _EDIT_ALL},
    "/plugins": {"GET": _READ_SOME},
    "/console/manifest": {"GET": CALLER},
    "/nodes": {"GET": _READ_SOME},
    "/openapi.json": {"GET": PUBLIC},
}
"""Path below the prefix, to method, to what it needs."""
