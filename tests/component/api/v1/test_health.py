"""What a load balancer and an operator may ask without a token."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.component.api.conftest import Api
from tests.support.databases import drop_tables
from xwheel.api.schema.health import HealthCounts, HealthReport, LoopHealthView
from xwheel.storage.schema import migrate


def test_a_healthy_node_says_so_and_nothing_more(api: Api) -> None:
    for path in ("/healthz", "/readyz"):
        answer = api.management.simulate_get(path)
        assert (answer.status_code, answer.json) == (200, {"status": "ok"})


def test_loops_that_stand_still_are_named(api: Api) -> None:
    api.asked.report = HealthReport(stale_loops=("claim", "tick"))
    answer = api.management.simulate_get("/healthz")
    assert (answer.status_code, answer.json) == (503, {"status": "failing", "failing": ["claim", "tick"]})


def test_a_node_without_leases_is_alive_but_not_ready(api: Api) -> None:
    api.asked.report = HealthReport(holds_leases=False)
    assert api.management.simulate_get("/healthz").status_code == 200
    answer = api.management.simulate_get("/readyz")
    assert (answer.status_code, answer.json) == (503, {"status": "failing", "failing": ["leases"]})


def test_a_database_that_does_not_answer_makes_the_node_unready_and_stays_alive(
    api: Api, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def fail(db: object) -> str:
        raise OSError("no route to the secret host")

    monkeypatch.setattr(migrate, "current_revision", fail)
    answer = api.management.simulate_get("/readyz")
    assert (answer.status_code, answer.json) == (503, {"status": "failing", "failing": ["database"]})
    assert api.management.simulate_get("/healthz").status_code == 200


def test_another_schema_makes_the_node_unready(api: Api) -> None:
    assert api.management.simulate_get("/readyz").status_code == 200
    drop_tables(api.db)
    api.clock.advance(1000)
    answer = api.management.simulate_get("/readyz")
    assert (answer.status_code, answer.json["failing"]) == (503, ["schema"])
    migrate.upgrade(api.db)
    api.clock.advance(1000)
    assert api.management.simulate_get("/readyz").status_code == 200


def test_the_database_is_asked_once_a_second(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    known = migrate.current_revision
    monkeypatch.setattr(migrate, "current_revision", lambda db: asked.append(1) or known(db))
    for _ in range(20):
        api.management.simulate_get("/readyz")
    assert len(asked) == 1


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
def test_health_is_only_read(api: Api, path: str) -> None:
    answer = api.management.simulate_post(path)
    assert (answer.status_code, answer.json["type"]) == (405, "urn:xwheel:problem:method-not-allowed")
    assert "GET" in answer.headers["allow"]


def test_a_token_is_told_how_the_node_fares_and_what_it_counted(api: Api) -> None:
    api.asked.report = HealthReport(
        stale_loops=["claim"],
        holds_leases=False,
        partitions=21,
        loops=[LoopHealthView(name="claim", ok=False, age_ms=12_000, failures=3)],
        counts=HealthCounts(
            deadlocks=1, retries=2, broken_connections=3, clock_steps=4, connections_refused=5, connections_cut=6
        ),
        missing_plugins=["acme"],
        executor_port=8091,
    )
    answer = api.call("GET", "health")
    assert answer.status_code == 200
    assert answer.json == {
        "status": "failing",
        "role": "node",
        "failing": ["claim", "leases"],
        "partitions": 21,
        "missing_plugins": ["acme"],
        "executor_port": 8091,
        "counts": {
            "deadlocks": 1,
            "retries": 2,
            "broken_connections": 3,
            "clock_steps": 4,
            "connections_refused": 5,
            "connections_cut": 6,
        },
        "loops": [{"name": "claim", "ok": False, "age_ms": 12_000, "failures": 3}],
    }
    api.asked.report = HealthReport()
    assert api.call("GET", "health").json["status"] == "ok"
