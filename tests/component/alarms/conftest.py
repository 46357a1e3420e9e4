"""A node whose clock stands still, with the channels ``pager`` and ``sms`` and one executor."""

from __future__ import annotations

import pytest

from tests.support.alarms import Recorder
from tests.support.node import HandNode
from tests.support.rows import NOW
from xwheel.clock import ManualClock
from xwheel.storage.database.engine import Database


@pytest.fixture
def pager() -> Recorder:
    return Recorder()


@pytest.fixture
def node(db: Database, pager: Recorder) -> HandNode:
    made = HandNode(db, ManualClock(NOW), channels=[pager, Recorder("sms")])
    made.group()
    made.register("http://127.0.0.1:9001")
    return made
