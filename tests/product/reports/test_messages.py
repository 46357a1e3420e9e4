"""What a report takes and what figures say; the page of the API has it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from xwheel_reports import messages
from xwheel_reports.messages import ReportBy, ReportQuery

from tests.unit.api.http.test_body import values_at
from tests.unit.api.test_pages import API, table_of
from xwheel.api.http.body import InputError, read_fields, rules_of
from xwheel.api.schema.messages import Input

INPUTS: tuple[type[Input], ...] = (ReportQuery, messages.RecentQuery, messages.UpcomingQuery)
VIEWS = (
    *(messages.CountsView, messages.BucketView, messages.ReportView, messages.OverviewView),
    *(messages.RecentRun, messages.RecentItem, messages.RecentView, messages.UpcomingItem),
)


@pytest.mark.parametrize("kind", INPUTS)
def test_every_field_stands_in_the_page_with_its_limit(kind: type[Input]) -> None:
    for row in table_of(kind):
        assert row in API, row


@pytest.mark.parametrize("view", VIEWS)
def test_every_answer_field_is_named(view: type[msgspec.Struct]) -> None:
    for name in view.__struct_fields__:
        assert f"`{name}`" in API, name


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind in INPUTS for name in rules_of(kind)])
def test_fields_have_limits(kind: type[Input], name: str) -> None:
    rule = rules_of(kind)[name]
    good, bad = values_at(rule)
    assert good
    for value in good:
        values: dict[str, Any] = {name: value}
        found = getattr(read_fields(kind, values), name)
        assert msgspec.json.encode(found) == msgspec.json.encode(value)
    for value in (*bad, 1.5, {}, True):
        with pytest.raises(InputError) as refused:
            read_fields(kind, {name: value})
        assert (refused.value.field, refused.value.reason) == (name, f"must be {rule.words}")


def test_an_unknown_field_is_refused() -> None:
    with pytest.raises(InputError) as refused:
        read_fields(ReportQuery, {"bye": ReportBy.DAY})
    assert refused.value.field == "bye"
