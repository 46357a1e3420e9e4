"""Gates of plugins: what they must look at, and what they may say of callers."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import pytest

from tests.unit.plugin.conftest import Install
from xwheel import hookimpl
from xwheel.config import Config
from xwheel.errors import PluginError
from xwheel.model.access import ALL, Actor, ActorKind, Grant, Grants, Permission, Role
from xwheel.plugin import Gate, KnowsOwners, MakesFirst, TokenOwner
from xwheel.plugin.discovery import load_plugins
from xwheel.plugin.gates import check_gate, checked_actor, checked_grants, checked_owners

ANN = Actor(kind=ActorKind.ACCOUNT, name="ann", grants=Grants(Grant(Role.VIEWER)), credential="badge 7")


@dataclass
class Badges:
    """A gate that a test chooses."""

    name: str = "badges"
    headers: Any = ("x-badge",)
    cookies: Any = ()

    def open(self, site: object) -> object:
        raise NotImplementedError


def test_a_gate_that_looks_at_something_is_one() -> None:
    gate = Badges()
    assert isinstance(gate, Gate)
    assert not isinstance(gate, KnowsOwners | MakesFirst)
    check_gate(gate)


@pytest.mark.parametrize(
    ("headers", "cookies", "words"),
    [
        ((), (), "must look at 1 to 20 headers and cookies"),
        ([f"x-{number}" for number in range(21)], (), "must look at 1 to 20"),
        (("X-Badge",), (), "names of headers must be in small letters"),
        ((5,), (), "must be lists of names"),
        (("x-badge",), ("",), "must be lists of names"),
    ],
)
def test_one_that_would_never_be_asked_is_refused(headers: Any, cookies: Any, words: str) -> None:
    with pytest.raises(PluginError, match=words):
        check_gate(Badges(headers=headers, cookies=cookies))


def given(gate: object) -> Any:
    class Plugin:
        @hookimpl
        def xwheel_register_gates(self) -> Sequence[object]:
            return [gate]

    return load_plugins(Config(), {"badges": Plugin()})


def test_a_gate_is_loaded() -> None:
    assert isinstance(given(Badges()).gates["badges"], Badges)


@pytest.mark.parametrize(
    ("gate", "words"),
    [
        (SimpleNamespace(name="badges", headers=("x-badge",), cookies=()), "the method open"),
        (SimpleNamespace(name="badges", headers=5, cookies=(), open=lambda site: None), "headers must be"),
        (Badges(headers=()), "must look at"),
    ],
)
def test_what_is_no_gate_is_refused_at_the_start(gate: object, words: str) -> None:
    with pytest.raises(PluginError, match=words):
        given(gate)


def test_a_part_of_what_a_gate_may_do_besides_must_be_whole() -> None:
    class Owners(Badges):
        def owners(self, conn: object) -> object:
            raise NotImplementedError

    with pytest.raises(PluginError, match=r"owners\(.* cannot be called as owners\(conn, ids\)"):
        given(Owners())


def test_an_actor_is_taken_with_the_address_that_the_core_knows() -> None:
    assert checked_actor("badges", None, "10.0.0.1") is None
    found = checked_actor("badges", replace(ANN, address="made up"), "10.0.0.1")
    assert found == replace(ANN, address="10.0.0.1")


class Sly(Grants):
    """Grants that decide by themselves."""

    def allows(self, permission: Permission, group_id: int | None = None) -> bool:
        return True


class SlyGrant(Grant):
    """A grant that does."""

    def allows(self, permission: Permission) -> bool:
        return True


class SlyActor(Actor):
    """An actor that does."""


@pytest.mark.parametrize(
    "found",
    [
        "ann",
        True,
        SimpleNamespace(kind=ActorKind.ACCOUNT, name="ann", grants=ALL),
        SlyActor(kind=ActorKind.ACCOUNT, name="ann", grants=ALL),
        replace(ANN, kind=ActorKind.NODE),
        replace(ANN, kind=ActorKind.COMMAND),
        replace(ANN, kind=ActorKind.UNKNOWN),
        # what a group's token may do is checked by the route itself: a gate makes none
        replace(ANN, kind=ActorKind.GROUP),
        replace(ANN, kind="account"),  # type: ignore[arg-type]
        replace(ANN, name=""),
        replace(ANN, name="n" * 256),
        replace(ANN, credential=5),  # type: ignore[arg-type]
        replace(ANN, account_id="7"),  # type: ignore[arg-type]
        replace(ANN, grants=None),  # type: ignore[arg-type]
        replace(ANN, grants=Sly()),
        replace(ANN, grants=Grants(SlyGrant(Role.VIEWER))),
        replace(ANN, grants=Grants(groups={7: SlyGrant(Role.VIEWER)})),
        replace(ANN, grants=Grants(groups={"7": Grant(Role.VIEWER)})),  # type: ignore[dict-item]
        replace(ANN, grants=Grants(Grant("admin"))),  # type: ignore[arg-type]
        replace(ANN, grants=Grants(Grant(Role.EDITOR, "yes"))),  # type: ignore[arg-type]
    ],
    ids=repr,
)
def test_whatever_else_a_gate_says_lets_nobody_in(found: object) -> None:
    with pytest.raises(PluginError, match="gate badges"):
        checked_actor("badges", found, "10.0.0.1")


def test_grants_are_made_again_so_that_later_changes_count_for_nothing() -> None:
    groups = {7: Grant(Role.VIEWER)}
    found = checked_grants("badges", Grants(groups=groups))
    groups[8] = Grant(Role.ADMIN)
    assert found == Grants(groups={7: Grant(Role.VIEWER)})


def test_owners_are_those_that_were_asked_for() -> None:
    known = {1: TokenOwner(name="ann", grants=ALL), 2: TokenOwner(name="bob")}
    assert checked_owners("badges", known, {1, 3}) == {1: known[1]}


@pytest.mark.parametrize(
    "found",
    [
        None,
        [TokenOwner(name="ann")],
        {1: "ann"},
        {1: TokenOwner(name=5)},  # type: ignore[arg-type]
        {1: TokenOwner(name="ann", grants=Sly())},
        {1: TokenOwner(name="ann", is_shut_out=0)},  # type: ignore[arg-type]
    ],
    ids=repr,
)
def test_what_is_no_owner_counts_for_nothing(found: object) -> None:
    with pytest.raises(PluginError, match="gate badges"):
        checked_owners("badges", found, {1})


RECORDER = """
from xwheel import hookimpl

class Recorder:
    name = "{name}"
    def open(self, database):
        raise NotImplementedError

@hookimpl
def xwheel_register_recorders():
    return [Recorder()]
"""


def test_of_all_plugins_one_records(install: Install) -> None:
    others = shipped()
    install(RECORDER.format(name="first"), "first")
    install(RECORDER.format(name="second"), "second")
    alone = Config.model_validate({"plugins": {"disabled": ["second", *others]}})
    assert list(load_plugins(alone).recorders) == ["first"]
    both = Config.model_validate({"plugins": {"disabled": others}})
    with pytest.raises(PluginError, match=r"acme-second .* brings a recorder, and acme-first .* is one already"):
        load_plugins(both)


def test_a_recorder_has_the_name_of_its_plugin(install: Install) -> None:
    config = Config.model_validate({"plugins": {"disabled": shipped()}})
    install(RECORDER.format(name="other"), "first")
    with pytest.raises(PluginError, match="the recorder of plugin first must have its name, not other"):
        load_plugins(config)


def shipped() -> Collection[str]:
    """Return the plugins that record, of those that are installed."""
    found = load_plugins(Config())
    return [info.origin.name for info in found.installed if "recorder" in info.registers]
