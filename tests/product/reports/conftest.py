"""A node whose clock stands still, with a group and an executor."""

from __future__ import annotations

import pytest

from tests.support.node import HandNode
from tests.support.rows import NOW
from xwheel.clock import ManualClock
from xwheel.storage.database.engine import Database


@pytest.fixture
def node(db: Database) -> HandNode:
    node = HandNode(db, ManualClock(NOW))
    node.group()
    node.register("http://127.0.0.1:9001")
    return node
