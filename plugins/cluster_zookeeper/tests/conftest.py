"""Real ZooKeeper, one server for all tests of a session, with a tree of its own for each."""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

sys.path.append(str(Path(__file__).resolve().parents[3]))
sys.path.append(str(Path(__file__).resolve().parents[2] / "job_package" / "tests"))

from tests.support.zookeeper import Servers, is_installed, zookeeper

from xwheel_cluster_zookeeper.backend import ClusterBackend
from xwheel_cluster_zookeeper.memory import MemoryBackend, MemoryStore
from xwheel_cluster_zookeeper.model import Mode
from xwheel_cluster_zookeeper.paths import Paths
from xwheel_cluster_zookeeper.zookeeper import ZooKeeperBackend

# examples may be slow on a busy machine
settings.register_profile("xwheel", deadline=None, max_examples=100, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("xwheel")
# these want a browser: 'make console' runs them where Playwright is
collect_ignore = [] if find_spec("playwright") else ["pages"]

SESSION_S = 3.0
OPEN_S = 20.0
Members = Callable[..., ClusterBackend]


def needed() -> None:
    """Skip where ZooKeeper is not installed, but not where all servers are wanted."""
    if not is_installed() and not os.environ.get("REQUIRE_SERVERS"):
        pytest.skip("ZooKeeper is not installed: apt-get install zookeeper")


@pytest.fixture(scope="session")
def server() -> Iterator[Servers]:
    needed()
    with zookeeper() as found:
        yield found


@pytest.fixture
def root() -> str:
    """Return a path that no other test uses."""
    return f"/{secrets.token_hex(6)}/xwheel"


@pytest.fixture
def zookeeper_members(server: Servers, root: str) -> Iterator[Members]:
    """Give a function that makes members of one cluster in ZooKeeper."""
    with ExitStack() as stack:

        def make(**options: Any) -> ZooKeeperBackend:
            paths = Paths(root, options.pop("mode", Mode.MASTER_SLAVE))
            found = ZooKeeperBackend(server.hosts, paths, session_s=SESSION_S, **options)
            stack.callback(found.close)
            assert found.open(OPEN_S)
            return found

        yield make


@pytest.fixture
def memory_members() -> Members:
    """Return a function that makes members of one cluster in memory."""
    store = MemoryStore()

    def make() -> MemoryBackend:
        found = MemoryBackend(store)
        found.open(0)
        return found

    return make


@pytest.fixture(params=["memory", "zookeeper"])
def members(request: pytest.FixtureRequest) -> Members:
    """Return a function that makes members of one cluster, in either store."""
    found: Members = request.getfixturevalue(f"{request.param}_members")
    return found
