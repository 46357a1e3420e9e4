"""CONSISTENT_HASH against a second implementation, written from the algorithm's description alone."""

from __future__ import annotations

import hashlib
import random
import struct
from collections.abc import Sequence
from dataclasses import replace
from functools import cache

from xwheel.plugin import RegisteredExecutor
from xwheel_devtools.testing import sample_executors, sample_job, sample_route_context

from xwheel_router_extra.hashing import RINGS, ConsistentHash


@cache
def hash_of(text: str) -> int:
    return int(struct.unpack("<I", hashlib.md5(text.encode("utf-8")).digest()[:4])[0])


def expected(job_id: int, addresses: Sequence[str]) -> str:
    """Return the owner of the lowest place that is not below the job's, else of the lowest of all."""
    ring = {hash_of("SHARD-" + address + "-NODE-" + str(i)): address for address in addresses for i in range(100)}
    mine = hash_of(str(job_id))
    after = [place for place in ring if place >= mine]
    return ring[min(after)] if after else ring[min(ring)]


def executors_at(addresses: Sequence[str]) -> list[RegisteredExecutor]:
    made = sample_executors(len(addresses))
    return [
        replace(item, address=spelled.rstrip("/"), registered_as=spelled)
        for item, spelled in zip(made, sorted(addresses), strict=True)
    ]


def choose(router: ConsistentHash, executors: Sequence[RegisteredExecutor], job_id: int) -> str:
    (chosen,) = router.route(sample_route_context(executors, sample_job(id=job_id), now_ms=10))
    return chosen.registered_as


def test_a_thousand_cases_are_as_described() -> None:
    rng = random.Random(7)
    router = ConsistentHash()
    cases = 0
    for size in (1, 2, 3, 5, 8, 13, 21, 34, 55, 100):
        addresses = list(
            {f"http://10.{rng.randrange(256)}.{rng.randrange(256)}.{n}:{rng.randrange(1, 65536)}/" for n in range(size)}
        )
        executors = executors_at(addresses)
        for _ in range(100):
            job_id = rng.choice([rng.randrange(1, 1000), rng.randrange(1, 2**53)])
            assert choose(router, executors, job_id) == expected(job_id, sorted(addresses)), (job_id, addresses)
            cases += 1
    assert cases == 1000


def test_known_places() -> None:
    # by hand: md5("1") begins c4 ca 42 38, md5("12345") 82 7c cb 0e
    assert hash_of("1") == 0x3842CAC4
    assert hash_of("12345") == 0x0ECB7C82


def test_removing_an_address_moves_only_its_jobs() -> None:
    router = ConsistentHash()
    addresses = [f"http://10.0.0.{n}:9999/" for n in range(20)]
    before = {job_id: choose(router, executors_at(addresses), job_id) for job_id in range(1, 2001)}
    gone = addresses.pop(7)
    left = executors_at(addresses)
    after = {job_id: choose(router, left, job_id) for job_id in before}
    moved = {job_id for job_id in before if before[job_id] != after[job_id]}
    assert moved == {job_id for job_id, address in before.items() if address == gone}
    assert 20 < len(moved) < 300


def test_a_suspect_counts_as_gone_and_no_other_job_moves() -> None:
    router = ConsistentHash()
    addresses = [f"http://10.0.0.{n}:9999/" for n in range(10)]
    whole = executors_at(addresses)
    suspect = replace(whole[3], suspect_until_ms=1000)
    suspected = [*whole[:3], *whole[4:], suspect]
    without = [*whole[:3], *whole[4:]]
    for job_id in range(1, 501):
        assert choose(router, suspected, job_id) == choose(router, without, job_id)


def test_rings_are_made_once_for_each_list_and_forgotten_in_the_end() -> None:
    router = ConsistentHash()
    for _ in range(3):
        choose(router, executors_at(["http://a:1/", "http://b:1/"]), 5)
    assert len(router._rings._rings) == 1
    for number in range(2 * RINGS):
        choose(router, executors_at([f"http://h{number}:1/"]), 5)
    assert len(router._rings._rings) == RINGS
    assert len(router._lists) <= 64
