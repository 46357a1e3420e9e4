"""What the OpenAPI document says that no type of ours says: chapters, headers, examples, links."""

from __future__ import annotations

from typing import Any, Final

from xwheel.api.http.headers import KEY_HEADER, MATCH, MATCH_HEADER, MAX_KEY, MAX_REASON, REASON_HEADER
from xwheel.calendars import KEYS, MAX_ENTRIES
from xwheel.model import MAX_ID

INTRODUCTION: Final = (
    "Executor groups, jobs, runs and schedules of an xwheel scheduler. Send `Authorization: Bearer` and a management "
    "token. All times are epoch milliseconds, UTC. Unknown fields are refused. Every failure is a problem document "
    "(RFC 9457). To go on in a list, send its `next` as `after`; a page may be short, or empty, while `next` is set."
)
TAGS: Final = {
    "groups": "Executors that share an app name.",
    "executors": "Processes that are registered now.",
    "jobs": "What to run and when.",
    "runs": "What happened and what will.",
    "schedule": "When a schedule would fire, and the pause of all of them.",
    "calendars": "Named days and times that jobs keep out of, or keep to.",
    "nodes": "Scheduler processes, and which partitions each of them holds.",
    "tokens": "Programs that may call.",
    "secrets": "What the executors of a group show, and are called with.",
    "plugins": "What is installed, and what can be chosen by name.",
    "service": "The state of the node, and this document.",
}
_ID: Final[dict[str, Any]] = {"type": "integer", "minimum": 1, "maximum": MAX_ID}
_NAME: Final[dict[str, Any]] = {
    "type": "string",
    "minLength": 1,
    "maxLength": 64,
    "pattern": r"^[A-Za-z0-9][A-Za-z0-9._-]*$",
}
PATH_FIELDS: Final[dict[str, dict[str, Any]]] = {
    "id": _ID,
    "name": _NAME,
    "setting": {**_NAME, "pattern": r"^[a-z0-9][a-z0-9._-]*$"},
}
HEADERS: Final[dict[str, dict[str, Any]]] = {
    MATCH_HEADER: {
        "required": False,
        "description": "Only if the job is at this revision: its `ETag`.",
        "schema": {"type": "string", "pattern": f"^{MATCH}$"},
    },
    KEY_HEADER: {
        "required": False,
        "description": "A second call with the same key for the same job returns the first call's run.",
        "schema": {"type": "string", "minLength": 1, "maxLength": MAX_KEY, "pattern": "^[ -~]+$"},
    },
    REASON_HEADER: {
        "required": False,
        "description": "Why the caller does it, for the audit: at most 500 characters of one line, as UTF-8 with "
        "percent signs.",
        "schema": {
            "type": "string",
            "pattern": "^(?:[ -$&-~]|%(?:[2-6][0-9A-Fa-f]|7[0-9A-Ea-e]))*$",
            "maxLength": MAX_REASON,
        },
    },
}
LINKS: Final = {
    "GroupView": ("id", "group_id"),
    "JobView": ("id", "job_id"),
    "RunView": ("id", "run_id"),
    "CalendarView": ("name", "name"),
    "NewTokenView": ("name", "name"),
    "NewSecretView": ("name", "name"),
}
"""View to the field and the path parameter that takes it."""

EXAMPLES: Final[dict[str, dict[str, Any]]] = {
    "GroupCreate": {"app_name": "shop", "title": "Shop workers"},
    "GroupChange": {"max_running": 20},
    "JobCreate": {
        "group_id": 1,
        "name": "nightly report",
        "schedule_type": "CRON",
        "schedule_conf": "0 0 3 * * ?",
        "timezone": "Asia/Shanghai",
        "handler": "report",
        "max_retries": 2,
        "retry_delay_ms": 60000,
        "enabled": True,
    },
    "JobChange": {"schedule_conf": "0 30 3 * * ?"},
    "JobCopy": {"name": "nightly report, second shop"},
    "GlueSave": {"source": "echo hello\n", "author": "Li Lei", "remark": "say hello"},
    "GlueRestore": {"remark": "the new one was slow"},
    "RunRequest": {"param": "2026-11-01"},
    "Rerun": {},
    "Bulk": {"ids": [1, 2, 3]},
    "BulkRun": {"ids": [1, 2, 3], "param": "2026-11-01"},
    "ChildrenChange": {"children": [{"child_id": 2}, {"child_id": 3, "param": "by hand"}]},
    "TokenCreate": {"name": "deploy"},
    "SecretCreate": {"name": "orders-1", "group_id": 1},
    "SecretChange": {"expires_in_s": 86400},
    "SecretRotate": {"name": "orders-2", "expires_in_s": 86400},
}
_TEXTS: Final[dict[str, Any]] = {"type": "array", "items": {"type": "string"}, "maxItems": MAX_ENTRIES}
CALENDAR: Final[dict[str, Any]] = {
    "title": "Calendar",
    "description": "The entries of a calendar, which add up; docs/reference/api.md tells what each holds.",
    "type": "object",
    "properties": {key: {"type": "string"} if key in {"holidays", "workdays", "weekdays"} else _TEXTS for key in KEYS},
    "additionalProperties": False,
    "minProperties": 1,
    "examples": [{"weekdays": "SAT,SUN", "dates": ["2026-12-24", "2026-12-27..2026-12-31"]}],
}
