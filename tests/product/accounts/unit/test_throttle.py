"""How long an attempt to sign in waits, as another node sees it."""

from __future__ import annotations

import pytest
from xwheel_accounts.storage.sessions import Failures
from xwheel_accounts.throttle import OF_ADDRESS, STEP_MS, after_failure, wait_ms

NOW = 1_700_000_000_000


def failed(times: int, now_ms: int = NOW) -> Failures:
    known = Failures()
    for _ in range(times):
        known = after_failure(known, now_ms, OF_ADDRESS)
    return known


@pytest.mark.parametrize("behind_ms", [0, 1, 900, STEP_MS + 1])
def test_what_is_forgiven_keeps_no_one_waiting_on_a_node_whose_clock_is_behind(behind_ms: int) -> None:
    assert wait_ms(failed(OF_ADDRESS.free - 1), NOW - behind_ms) == 0


@pytest.mark.parametrize(("behind_ms", "waits_ms"), [(0, 1000), (900, 1900), (STEP_MS + 1, 0)])
def test_the_pause_after_too_many_is_seen_on_both(behind_ms: int, waits_ms: int) -> None:
    assert wait_ms(failed(OF_ADDRESS.free), NOW - behind_ms) == waits_ms
    assert wait_ms(failed(OF_ADDRESS.free), NOW + 1000) == 0
