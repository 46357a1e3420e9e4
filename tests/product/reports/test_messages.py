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

RULES = rules_of(ReportQuery)
VIEWS = (messages.CountsView, messages.BucketView, messages.ReportView, messages.OverviewView)


def test_every_field_stands_in_the_page_with_its_limit() -> None:
    for row in table_of(ReportQuery):
        assert row in API, row


@pytest.mark.parametrize("view", VIEWS)
def test_every_answer_field_is_named(view: type[msgspec.Struct]) -> None:
    for name in view.__struct_fields__:
        assert f"`{name}`" in API, name


@pytest.mark.parametrize("name", RULES)
def test_fields_have_limits(name: str) -> None:
    good, bad = values_at(RULES[name])
    assert good
    for value in good:
        values: dict[str, Any] = {name: value}
        assert msgspec.to_builtins(read_fields(ReportQuery, values))[name] == value
    for value in (*bad, 1.5, {}, [], True):
        with pytest.raises(InputError) as refused:
            read_fields(ReportQuery, {name: value})
        assert (refused.value.field, refused.value.reason) == (name, f"must be {RULES[name].words}")


def test_an_unknown_field_is_refused() -> None:
    with pytest.raises(InputError) as refused:
        read_fields(ReportQuery, {"bye": ReportBy.DAY})
    assert refused.value.field == "bye"
