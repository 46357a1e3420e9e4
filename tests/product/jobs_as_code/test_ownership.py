"""Which release owns: the highest that lives, the first of two alike, and none in haste."""

from __future__ import annotations

from collections.abc import Collection

import pytest
from hypothesis import given
from hypothesis import strategies as st
from xwheel_jobs_as_code.declarations.ownership import (
    DeclarationState,
    Declared,
    Owner,
    OwnershipDecision,
    check_release,
    conflicts,
    decide,
    states_of,
)

from xwheel.errors import FieldError

NOW = 1_000_000
GONE_MS = 90_000
ONE, TWO = Declared("1.0", "a"), Declared("2.0", "b")
OTHER = Declared("2.0", "c")
NO_OWNER = Owner()


def judge(
    caller: Declared,
    owner: Owner = NO_OWNER,
    live: Collection[Declared] = (),
    *,
    now_ms: int = NOW,
    is_executor: bool = True,
) -> OwnershipDecision:
    return decide(caller, owner, live, now_ms, is_executor=is_executor, gone_ms=GONE_MS)


@pytest.mark.parametrize("text", ["1", "417", "1.4.2", "v2.0", "2026.11.23", "1.4.0rc1", "1.4.1.dev3+gabc123"])
def test_releases_are_versions(text: str) -> None:
    assert check_release(text) == text


@pytest.mark.parametrize("text", ["", "main", "3fa9c1e", "1.0-SNAPSHOT", "9" * 65, "1 0"])
def test_what_cannot_be_compared_is_refused_with_the_way_out(text: str) -> None:
    with pytest.raises(FieldError, match=r"release: must be a version that rises.*2026\.11\.23"):
        check_release(text)


def test_the_highest_live_release_owns() -> None:
    assert judge(ONE).standing is DeclarationState.OWNS
    assert judge(TWO, Owner(ONE, NOW), [ONE]).standing is DeclarationState.OWNS
    assert judge(ONE, Owner(TWO, NOW), [ONE, TWO]) == (DeclarationState.WAITS, TWO, True, 0)
    # numbers, not letters
    assert judge(Declared("1.9", "a"), Owner(Declared("1.10", "b"), NOW), [Declared("1.10", "b")]).standing is (
        DeclarationState.WAITS
    )


def test_a_lower_one_takes_over_once_the_higher_one_is_gone_for_long_enough() -> None:
    owner = Owner(TWO, NOW)
    assert judge(ONE, owner, [ONE], now_ms=NOW + GONE_MS - 1) == (DeclarationState.WAITS, TWO, False, NOW + GONE_MS)
    assert judge(ONE, owner, [ONE], now_ms=NOW + GONE_MS).standing is DeclarationState.OWNS
    # its last sync is long ago, and one of its executors beats on
    assert judge(ONE, owner, [ONE, TWO], now_ms=NOW + 10 * GONE_MS).standing is DeclarationState.WAITS


def test_nobody_is_missing_while_no_node_can_hear_them() -> None:
    owner, began_ms = Owner(TWO, NOW - 10 * GONE_MS), NOW - 1000

    def after_an_outage(now_ms: int) -> OwnershipDecision:
        return decide(ONE, owner, [ONE], now_ms, is_executor=True, gone_ms=GONE_MS, listens_since_ms=began_ms)

    assert after_an_outage(NOW) == (DeclarationState.WAITS, TWO, False, began_ms + GONE_MS)
    assert after_an_outage(began_ms + GONE_MS).standing is DeclarationState.OWNS


def test_the_same_release_with_other_jobs_is_a_conflict_that_the_first_one_wins() -> None:
    assert judge(OTHER, Owner(TWO, NOW), [TWO, OTHER]) == (DeclarationState.CONFLICTS, TWO, True, 0)
    assert judge(TWO, Owner(TWO, NOW), [TWO, OTHER]).standing is DeclarationState.OWNS
    assert states_of(Owner(TWO, NOW), [TWO, OTHER, ONE]) == {
        TWO: DeclarationState.OWNS,
        OTHER: DeclarationState.CONFLICTS,
        ONE: DeclarationState.WAITS,
    }
    assert conflicts(Owner(TWO, NOW), [TWO, OTHER, ONE]) == [OTHER]
    # the first one is gone, for long enough
    assert judge(OTHER, Owner(TWO, NOW), [OTHER], now_ms=NOW + 1).standing is DeclarationState.CONFLICTS
    assert judge(OTHER, Owner(TWO, NOW), [OTHER], now_ms=NOW + GONE_MS).standing is DeclarationState.OWNS


def test_versions_that_mean_the_same_are_the_same_release() -> None:
    alike = Declared("2.0.0+build7", "x")
    assert judge(alike, Owner(TWO, NOW), [TWO]).standing is DeclarationState.CONFLICTS


def test_a_command_writes_only_where_no_other_executor_lives() -> None:
    assert judge(ONE, is_executor=False).standing is DeclarationState.OWNS
    assert judge(TWO, Owner(ONE, NOW), [ONE], is_executor=False) == (DeclarationState.WAITS, ONE, True, 0)
    assert judge(OTHER, Owner(TWO, NOW), [TWO], is_executor=False).standing is DeclarationState.CONFLICTS
    assert judge(TWO, Owner(TWO, NOW), [TWO, ONE], is_executor=False).standing is DeclarationState.OWNS
    # what another command wrote before is no executor
    assert judge(ONE, Owner(TWO, None), is_executor=False).standing is DeclarationState.OWNS
    assert judge(OTHER, Owner(TWO, None), is_executor=False).standing is DeclarationState.OWNS


def test_what_an_old_or_broken_executor_says_keeps_nobody_away() -> None:
    assert judge(ONE, Owner(), [Declared("main", "x")]).standing is DeclarationState.OWNS
    assert states_of(Owner(ONE, NOW), [Declared("main", "x")]) == {}


releases = st.sampled_from(["1", "1.0", "1.1", "2.0rc1", "2.0"])
declared = st.builds(Declared, releases, st.sampled_from("ab"))


@given(live=st.lists(declared, min_size=1, max_size=6, unique=True), turns=st.lists(st.integers(0, 5)))
def test_whoever_calls_in_whatever_order_the_owner_changes_only_upwards(live: list[Declared], turns: list[int]) -> None:
    owner = Owner()
    for number, turn in enumerate([*turns, *range(len(live))]):
        caller = live[turn % len(live)]
        verdict = judge(caller, owner, live, now_ms=NOW + number)
        if verdict.standing is DeclarationState.OWNS:
            if owner.declared is not None and owner.declared != caller:
                # never from one to another of the same release, and never down
                assert judge(owner.declared, Owner(caller, NOW), live).standing is DeclarationState.WAITS
            owner = Owner(caller, NOW + number)
        else:
            assert verdict.other in live
    assert owner.declared in live
    assert judge(owner.declared, owner, live).standing is DeclarationState.OWNS
    for item in live:
        assert (judge(item, owner, live).standing is DeclarationState.OWNS) == (item == owner.declared)


@given(owner=declared, live=st.lists(declared, max_size=4, unique=True), caller=declared, age=st.integers(0, 200_000))
def test_a_command_is_never_let_in_where_an_executor_would_not_be(
    owner: Declared, live: list[Declared], caller: Declared, age: int
) -> None:
    known = Owner(owner, NOW - age)
    if judge(caller, known, live, is_executor=False).standing is DeclarationState.OWNS:
        assert judge(caller, known, live).standing is DeclarationState.OWNS
