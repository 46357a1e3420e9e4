"""Nodes by the dozen come and go at random: each partition has one holder, and is never long without."""

from __future__ import annotations

import random

import pytest

from tests.faults.many_leases import play


@pytest.mark.nightly
def test_each_partition_has_one_holder_however_64_nodes_come_and_go(server_url: str) -> None:
    """With short leases, so that hundreds of them end: faults hit nodes between any two statements."""
    seed = random.SystemRandom().randrange(2**32)
    world = play(server_url, seed=seed, seconds=40, lease_s=3, renew_s=0.7, every_s=0.3)
    told = f"seed {seed}: {dict(world.counts)}, {world.changes} changes of holders"
    print(told)
    assert not world.findings, f"{told}: {world.findings[:5]}"
    assert sum(world.counts.values()) > 50, told
    assert world.changes > 100, told
