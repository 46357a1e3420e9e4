"""S1: one address in two groups, and addresses that no executor may have."""

from __future__ import annotations

import pytest

from tests.support.node import HandNode
from xwheel.clock import ManualClock
from xwheel.errors import WireError
from xwheel.model import NO_SECRET, SHARED_SECRET
from xwheel.storage.database.engine import Database

ADDRESS = "http://10.0.0.7:9999"


def live(node: HandNode, group_id: int) -> list[str]:
    return [item.address for item in node.scheduler.core.registry.live(group_id, node.clock.now_ms())]


def test_s1_an_address_of_one_group_is_refused_to_another_until_it_is_gone(node: HandNode) -> None:
    other = node.group("other")
    node.register(ADDRESS, secret_id=SHARED_SECRET)
    with pytest.raises(WireError, match="registryValue.*security.shared_addresses") as caught:
        node.register(ADDRESS, app_name="other", secret_id=SHARED_SECRET)
    assert "demo" not in str(caught.value)
    assert live(node, other) == []
    node.scheduler.core.registry.remove("demo", ADDRESS)
    node.register(ADDRESS, app_name="other", secret_id=SHARED_SECRET)
    assert live(node, other) == [ADDRESS]
    node.clock.advance(121_000)
    node.register(ADDRESS, secret_id=SHARED_SECRET)
    assert ADDRESS in live(node, 1)


def test_a_groups_token_keeps_nobody_away_who_proved_a_secret(node: HandNode) -> None:
    other = node.group("other")
    node.register(ADDRESS, secret_id=NO_SECRET)
    node.register(ADDRESS, app_name="other", secret_id=SHARED_SECRET)
    assert live(node, other) == [ADDRESS]
    third = node.group("third")
    with pytest.raises(WireError):
        node.register(ADDRESS, app_name="third", secret_id=NO_SECRET)
    assert live(node, third) == []


def test_a_setting_allows_an_address_in_two_groups(db: Database) -> None:
    node = HandNode(db, ManualClock(1_767_225_600_000), security={"shared_addresses": True})
    groups = [node.group(name) for name in ("one", "two")]
    for name in ("one", "two"):
        node.register(ADDRESS, app_name=name)
    assert [live(node, group) for group in groups] == [[ADDRESS], [ADDRESS]]


def test_s1_a_registration_with_an_address_of_nobody_is_refused_and_written_nowhere(db: Database) -> None:
    node = HandNode(db, ManualClock(1_767_225_600_000), api={"executor_host": "0.0.0.0"})
    group_id = node.group()
    for address in ("http://127.0.0.1:9999", "http://169.254.169.254:80", "http://[::ffff:10.0.0.1]:80"):
        with pytest.raises(WireError, match="registryValue"):
            node.register(address)
    assert live(node, group_id) == []
