"""Roles, grants and what actors may do."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xwheel.errors import ForbiddenError, NotFoundError
from xwheel.model.access import (
    ALL,
    NODE,
    NOTHING,
    Actor,
    ActorKind,
    Grant,
    Grants,
    Permission,
    Role,
    acting,
    current_actor,
    either,
)

GRANTS = st.builds(Grant, st.sampled_from(Role), st.booleans())
GROUPS = (None, 1, 2, 3)
SOME = st.builds(Grants, st.none() | GRANTS, st.dictionaries(st.integers(1, 3), GRANTS))


def opened(grants: Grants) -> set[tuple[Permission, int | None]]:
    return {(one, group) for one, group in itertools.product(Permission, GROUPS) if grants.allows(one, group)}


@pytest.mark.parametrize(
    ("grant", "permissions"),
    [
        (Grant(Role.VIEWER), {"read"}),
        (Grant(Role.VIEWER, script=True), {"read"}),
        (Grant(Role.OPERATOR), {"read", "run"}),
        (Grant(Role.EDITOR), {"read", "run", "edit"}),
        (Grant(Role.EDITOR, script=True), {"read", "run", "edit", "script"}),
        (Grant(Role.ADMIN), {"read", "run", "edit", "script", "admin"}),
    ],
)
def test_what_each_role_opens(grant: Grant, permissions: set[str]) -> None:
    assert {one for one in Permission if grant.allows(one)} == permissions


@given(SOME, SOME)
def test_within_is_what_both_open(one: Grants, other: Grants) -> None:
    assert opened(one.within(other)) == opened(one) & opened(other)


@given(SOME, SOME)
def test_covers_is_opens_all_of(one: Grants, other: Grants) -> None:
    assert one.covers(other) == (opened(one) >= opened(other))


ONES = [Grant(role, script) for role in Role for script in (False, True)]
EACH = [None, *ONES]
EVERY = [Grants(everywhere, {} if grant is None else {1: grant}) for everywhere, grant in itertools.product(EACH, EACH)]


def test_n34_each_pair_of_grants_is_covered_and_cut_as_what_it_opens() -> None:
    """All of them: what is drawn at random meets the one that matters once in some hundred runs."""
    opens = [(grants, opened(grants)) for grants in EVERY]
    wrong = [
        (one, other)
        for (one, mine), (other, theirs) in itertools.product(opens, opens)
        if one.covers(other) != (mine >= theirs) or opened(one.within(other)) != mine & theirs
    ]
    assert wrong == []


def test_n34_either_of_two_grants_opens_what_each_does() -> None:
    for one, other in itertools.product(EACH, EACH):
        both = either(one, other)
        assert (both is None) == (one is None and other is None)
        expected = opened(Grants(one)) | opened(Grants(other))
        assert opened(Grants(both)) == expected, (one, other)


@given(SOME)
def test_the_groups_with_a_permission(grants: Grants) -> None:
    for permission in Permission:
        found = grants.groups_with(permission)
        assert (found is None) == grants.allows(permission)
        if found is not None:
            assert found == {group for group in (1, 2, 3) if grants.allows(permission, group)}


def test_what_may_not_be_read_does_not_exist_for_the_actor() -> None:
    actor = Actor(kind=ActorKind.ACCOUNT, grants=Grants(groups={1: Grant(Role.VIEWER)}))
    actor.need(Permission.READ, 1, "job", 7)
    with pytest.raises(ForbiddenError, match="job 7: this takes the permission edit in its group"):
        actor.need(Permission.EDIT, 1, "job", 7)
    for group in (2, None):
        with pytest.raises(NotFoundError, match="job 7 does not exist"):
            actor.need(Permission.EDIT, group, "job", 7)


def test_who_acts_is_the_node_unless_a_block_says_otherwise() -> None:
    assert current_actor() is NODE
    actor = Actor(kind=ActorKind.TOKEN, name="ops", grants=ALL)
    with acting(actor):
        assert current_actor() is actor
    assert (current_actor(), opened(NOTHING)) == (NODE, set())
