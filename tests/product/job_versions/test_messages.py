"""What calls about versions take and say; the page of the API has it."""

from __future__ import annotations

import msgspec
import pytest
from xwheel_job_versions import messages
from xwheel_job_versions.messages import DiffQuery

from tests.unit.api.http.test_body import values_at
from tests.unit.api.test_pages import API, table_of
from xwheel.api.http.body import InputError, read_fields, rules_of

VIEWS = (messages.JobVersionItem, messages.JobVersionView, messages.FieldDifferenceView, messages.JobDifferenceView)


def test_every_field_stands_in_the_page_with_its_limit() -> None:
    for row in table_of(DiffQuery):
        assert row in API, row


@pytest.mark.parametrize("view", VIEWS)
def test_every_answer_field_is_named(view: type[msgspec.Struct]) -> None:
    for name in view.__struct_fields__:
        assert f"`{name}`" in API, name


def test_a_revision_has_limits() -> None:
    rule = rules_of(DiffQuery)["against"]
    good, bad = values_at(rule)
    for value in good:
        assert read_fields(DiffQuery, {"against": value}).against == value
    for value in (*bad, "5", 1.5, {}, [], True):
        with pytest.raises(InputError) as refused:
            read_fields(DiffQuery, {"against": value})
        assert (refused.value.field, refused.value.reason) == ("against", f"must be {rule.words}")
