"""What a search takes, and what is refused; the page of the API has it."""

from __future__ import annotations

from typing import Any

import pytest
from xwheel_run_logs.messages import LogSearch

from tests.unit.api.http.test_body import values_at
from tests.unit.api.test_pages import API, table_of
from xwheel.api.http.body import InputError, read_fields, rules_of

RULES = rules_of(LogSearch)


def test_every_field_stands_in_the_page_with_its_limit() -> None:
    for row in table_of(LogSearch):
        assert row in API, row


@pytest.mark.parametrize("name", RULES)
def test_fields_have_limits(name: str) -> None:
    good, bad = values_at(RULES[name])
    assert good
    assert bad
    for value in good:
        values: dict[str, Any] = {"text": "word", name: value}
        assert getattr(read_fields(LogSearch, values), name) == value
    for value in (*bad, 1.5, {}, [], True):
        with pytest.raises(InputError) as refused:
            read_fields(LogSearch, {"text": "word", name: value})
        assert (refused.value.field, refused.value.reason) == (name, f"must be {RULES[name].words}")


def test_a_text_is_needed() -> None:
    with pytest.raises(InputError) as refused:
        read_fields(LogSearch, {})
    assert refused.value.field == "text"
