"""Servers that tests may break: started once for all of them, in each worker process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.databases import BACKENDS, CleanDatabases


@pytest.fixture(scope="session", params=sorted(BACKENDS))
def breakable(request: pytest.FixtureRequest) -> Iterator[CleanDatabases]:
    """A server of each kind, whatever ``--backend`` names."""
    with BACKENDS[request.param]() as base:
        databases = CleanDatabases(base, request.param)
        yield databases
        databases.close()


@pytest.fixture
def server_url(breakable: CleanDatabases) -> str:
    """The URL of an empty database at this version's schema."""
    return breakable.url(0)
