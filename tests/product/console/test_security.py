"""Who gets events: every role and credential, as the table of the routes says."""

from __future__ import annotations

import gzip

import pytest

from tests.component.api.conftest import Api
from tests.security.test_matrix import METHODS, STRANGERS
from tests.security.test_roles import FORBIDDEN, GOOD, Credentials, Matrix, table
from tests.support.callers import Callers
from tests.support.job_calls import Tenant
from tests.support.route_calls import CALLS, RouteCall, World
from xwheel.plugin import Need, Of, Permission

PATH = "/events"
NEED = Need(Permission.READ, Of.SOME)


@pytest.fixture(autouse=True)
def known_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CALLS, ("GET", PATH), lambda _world, _group_id: RouteCall(path=PATH))


def test_whoever_may_read_a_group_may_ask(api: Api) -> None:
    assert dict(table(api)[PATH]) == {"GET": NEED}


def test_every_role_gets_what_the_table_says(api: Api) -> None:
    matrix = Matrix(World(api), Callers(api))
    matrix.judge(PATH, "GET", NEED)
    assert not matrix.wrong, "\n".join(matrix.wrong)
    assert matrix.counted[FORBIDDEN] >= 1
    assert matrix.counted[GOOD] > 10


def test_every_credential_gets_what_the_table_says(api: Api) -> None:
    judge = Credentials(api, World(api), Callers(api))
    judge.judge(PATH, "GET", NEED)
    assert not judge.wrong, "\n".join(judge.wrong)


@pytest.mark.parametrize("headers", STRANGERS.values(), ids=STRANGERS)
def test_it_knows_nobody_but_the_right_token(
    api: Api, orders: Tenant, billing: Tenant, headers: dict[str, str]
) -> None:
    before = api.rows()
    for method in METHODS:
        answer = api.management.simulate_request(method, f"/api/v1{PATH}", headers=headers, body=b"{}")
        assert answer.status_code in (401, 429), method
        assert answer.headers["www-authenticate"] == 'Bearer realm="xwheel"'
    assert api.rows() == before


def test_large_answers_are_packed_for_nobody(api: Api) -> None:
    """Each open page asks once a second: packing would take more time than it saves."""
    cursor = api.call("GET", "events").json["next"]
    api.running(*range(1, 100), check_ms=1)
    api.clock.advance(3000)
    options = {"params": {"after": cursor}, "headers": {"Accept-Encoding": "gzip"}}
    found = api.call("GET", "events", **options)
    assert len(found.content) > 1500
    assert "content-encoding" not in found.headers
    runs = api.call("GET", "runs", **options | {"params": {}})
    assert gzip.decompress(runs.content)
