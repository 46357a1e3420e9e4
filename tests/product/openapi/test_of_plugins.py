"""What the document says of resources and routes that plugins bring, and of messages of the core."""

from __future__ import annotations

from typing import Any

from tests.component.api.conftest import Api
from tests.component.api.plugins.test_resources import Owned, Toy, app_with, needs_of
from tests.component.api.plugins.test_routes import Clients, route, say
from xwheel.plugin import ResourceRoute


def described_operation(app: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    document = app.simulate_get("/api/v1/openapi.json").json
    return document, document["paths"]["/api/v1/toys/{toy_id}"]["get"]


def test_the_document_describes_resources(api: Api) -> None:
    app = app_with(api, ResourceRoute("/toys/{toy_id:id}", Toy(), needs_of(Owned({}))))
    document, found = described_operation(app)
    assert found["tags"] == ["toys"]
    assert {"name": "toys", "description": "What is played with."} in document["tags"]
    assert found["x-permission"] == "read, the toy's group"
    assert found["parameters"][0]["schema"]["type"] == "integer"
    assert found["responses"]["200"]["content"]["application/json"]["schema"]["$ref"].endswith("/ToyView")


def test_the_document_describes_routes(api: Api) -> None:
    clients = Clients(api, lambda site: [route(say, path="/{toy_id:id}")])
    _, found = described_operation(clients.people)
    assert (found["summary"], found["x-permission"]) == ("Do something", "read, some group")


def test_p4_one_run_makes_up_for_missed_fires_unless_the_job_says_otherwise(api: Api) -> None:
    document = api.call("GET", "openapi.json").json["components"]["schemas"]["JobCreate"]
    assert document["properties"]["misfire_policy"]["default"] == "fire_once"
    assert "one run makes up for missed fires" in document["description"]
