"""The reference pages say what the code does: every route, field, limit and kind of failure."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.support.paths import DOCS
from tests.support.routes import ROUTES
from xwheel import calendars
from xwheel.api.http.body import rules_of
from xwheel.api.http.errors import TABLE
from xwheel.api.schema import messages, views
from xwheel.api.v1.calendars import MAX_CALENDAR_BYTES
from xwheel.config.sections import ApiSection

REFERENCE = DOCS / "reference"
API = (REFERENCE / "api.md").read_text(encoding="utf-8")
ERRORS = (REFERENCE / "errors.md").read_text(encoding="utf-8")


def default_of(kind: type[messages.Input], name: str) -> str:
    field = next(field for field in msgspec.structs.fields(kind) if field.name == name)
    default: Any = field.default
    if field.required:
        return "required"
    if default is msgspec.UNSET:
        return "stays" if kind.__name__.endswith("Change") else "none"
    return {"": "empty", "()": "empty", "None": "null", "False": "false"}.get(str(default), str(default))


def table_of(kind: type[messages.Input]) -> list[str]:
    """Return the rows that a message's table in the page must have."""
    return [
        f"| `{name}` | {rule.words.replace('|', '/')} | {default_of(kind, name)} |"
        for name, rule in rules_of(kind).items()
    ]


@pytest.mark.parametrize(
    "kind",
    [
        messages.GroupCreate,
        messages.JobCreate,
        messages.RunRequest,
        messages.Rerun,
        messages.JobCopy,
        messages.JobRevision,
        messages.ChildrenChange,
        messages.GlueSave,
        messages.GlueRestore,
        messages.BulkRun,
        messages.GroupQuery,
        messages.ExecutorQuery,
        messages.JobQuery,
        messages.RunQuery,
        messages.LogQuery,
        messages.PreviewQuery,
        messages.NameQuery,
        messages.NamePath,
    ],
)
def test_every_field_stands_in_the_page_with_its_limit(kind: type[messages.Input]) -> None:
    for row in table_of(kind):
        assert row in API, row


def test_every_route_stands_in_the_page() -> None:
    for method, path in ROUTES:
        shown = path.removeprefix("/api/v1").replace("/groups/1", "/groups/{group_id}")
        shown = shown.replace("/jobs/1", "/jobs/{job_id}").replace("/runs/1", "/runs/{run_id}")
        shown = shown.replace("/calendars/1", "/calendars/{name}").replace("/tokens/1", "/tokens/{name}")
        shown = shown.replace("/secrets/1", "/secrets/{name}")
        shown = shown.replace("/glue/1", "/glue/{number}").replace("/alarms/1", "/alarms/{alarm_id}")
        shown = shown.replace("/rules/1", "/rules/{rule_id}").replace("/accounts/1", "/accounts/{account_id}")
        shown = shown.replace("/settings/1", "/settings/{setting}")
        shown = shown.replace("/sessions/1", "/sessions/{session_id}").replace("/versions/1", "/versions/{revision}")
        assert f"| `{method} {shown}` |" in API, (method, shown)


@pytest.mark.parametrize("view", [kind for name, kind in vars(views).items() if name.endswith(("View", "Item"))])
def test_every_answer_field_is_named(view: type[msgspec.Struct]) -> None:
    for name in view.__struct_fields__:
        assert f"`{name}`" in API, name


def test_every_kind_of_failure_stands_in_the_page() -> None:
    slugs = {(slug, status) for _, status, slug, _ in TABLE}
    slugs |= {("unknown-route", 404), ("method-not-allowed", 405), ("bad-request", 400), ("internal", 500)}
    for slug, status in slugs:
        assert f"| `{slug}` | {status}" in ERRORS, slug


def test_the_entries_of_a_calendar_stand_in_the_page() -> None:
    for key in calendars.KEYS:
        assert f"| `{key}` |" in API, key


def test_the_size_limit_is_told() -> None:
    assert f"{MAX_CALENDAR_BYTES:,} bytes" in API
    assert f"{ApiSection().max_body_bytes // 1024 // 1024} MiB" in API
