"""The reference page says what is asked of events, and answered."""

from __future__ import annotations

import msgspec
import pytest
from xwheel_console.live import messages

from tests.component.api.conftest import Api
from tests.unit.api.test_pages import API, table_of


def test_every_field_stands_in_the_page_with_its_limit() -> None:
    for row in table_of(messages.EventQuery):
        assert row in API, row


@pytest.mark.parametrize("view", [messages.EventView, messages.EventsView, messages.LiveCountsView])
def test_every_answer_field_is_named(view: type[msgspec.Struct]) -> None:
    for name in view.__struct_fields__:
        assert f"`{name}`" in API, name


def test_the_document_is_served_with_its_chapter(api: Api) -> None:
    document = api.management.simulate_get("/api/v1/openapi.json").json
    assert document["paths"]["/api/v1/events"]["get"]["tags"] == ["events"]
    names = [tag["name"] for tag in document["tags"]]
    assert names.index("events") > names.index("plugins"), "behind those of the core"
    page = api.management.simulate_get("/docs").text
    assert '<details id="get_events">' in page


def test_the_route_stands_in_the_page() -> None:
    assert "| `GET /events` |" in API
