"""The reference page says what is asked of events, and answered."""

from __future__ import annotations

import msgspec
import pytest
from xwheel_console.live import messages

from tests.unit.api.openapi.test_pages import API, table_of


def test_every_field_stands_in_the_page_with_its_limit() -> None:
    for row in table_of(messages.EventQuery):
        assert row in API, row


@pytest.mark.parametrize("view", [messages.EventView, messages.EventsView, messages.LiveCountsView])
def test_every_answer_field_is_named(view: type[msgspec.Struct]) -> None:
    for name in view.__struct_fields__:
        assert f"`{name}`" in API, name


def test_the_route_stands_in_the_page() -> None:
    assert "| `GET /events` |" in API
