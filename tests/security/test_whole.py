"""What is asked of every route of the core is asked of every route of the product."""

from __future__ import annotations

from tests.component.api.conftest import Api
from tests.component.api.http.test_auth import (
    routes_of,
    test_with_the_token_every_route_is_entered,
    test_without_the_token_nothing_is_done,
)
from tests.support.routes import ROUTES

__all__ = ["test_with_the_token_every_route_is_entered", "test_without_the_token_nothing_is_done"]


def test_the_list_of_routes_is_complete(api: Api) -> None:
    assert routes_of(api.management.app) == ROUTES
