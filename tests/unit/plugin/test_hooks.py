"""Hooks that distributions bring: plugins register by them, checked as by those of xwheel itself."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from xwheel.config import build_config
from xwheel.errors import PluginError
from xwheel.plugin import hookimpl
from xwheel.plugin.discovery import Plugins, load_plugins
from xwheel.plugin.hookspecs import HOOKS, all_hooks

HOOK = "xwheel_register_toy_shops"
SHOPS = """
from typing import Protocol
from xwheel.errors import PluginError
from xwheel.plugin import Hook

class Shop(Protocol):
    name: str
    shelves: int = 3

    def sell(self, toy: str) -> int: ...

class Delivers(Protocol):
    def deliver(self, toy: str, place: str) -> None: ...

def check(shop):
    if shop.shelves > 9:
        raise PluginError(f"toy shop {shop.name}: too many shelves")

HOOKS = {
    "xwheel_register_toy_shops": Hook(
        kind="toy shop", contract=Shop, words="Return shops.", more=(Delivers,), check=check, max_name=8
    )
}
"""
PutHooks = Callable[[str, str], None]


@pytest.fixture
def put_hooks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PutHooks]:
    """Put a distribution with hooks on the path."""

    def put(name: str, source: str) -> None:
        folder = tmp_path / name
        info = folder / f"{name}-1.2.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.2\n")
        (info / "entry_points.txt").write_text(f"[xwheel.hooks]\n{name} = {name}:HOOKS\n")
        (folder / f"{name}.py").write_text(source)
        monkeypatch.syspath_prepend(str(folder))
        monkeypatch.delitem(sys.modules, name, raising=False)
        all_hooks.cache_clear()

    yield put
    all_hooks.cache_clear()


def shop(**more: Any) -> Any:
    return SimpleNamespace(**{"name": "corner", "sell": lambda toy: 1, **more})


def load(*shops: object) -> Plugins:
    @hookimpl
    def register() -> Any:
        return shops

    return load_plugins(build_config({}), {"mine": SimpleNamespace(**{HOOK: register})})


def test_what_is_registered_by_a_hook_of_a_distribution_has_the_defaults_of_its_contract(put_hooks: PutHooks) -> None:
    put_hooks("acme_shops", SHOPS)
    found = load(shop())
    assert found.registered(HOOK)["corner"].shelves == 3
    (info,) = (info for info in found.installed if info.origin.name == "mine")
    assert info.registers == {"toy shop": ["corner"]}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"sell": lambda: 1}, r"is no toy shop: sell\(\) cannot be called as sell\(toy\)"),
        ({"deliver": lambda toy: None}, r"cannot be called as deliver\(toy, place\)"),
        ({"shelves": 10}, "toy shop corner: too many shelves"),
        ({"name": "on the corner"}, "a toy shop's name has 1 to 8 characters and no blanks"),
        ({"name": "atthecorner"}, "a toy shop's name has 1 to 8 characters"),
    ],
)
def test_what_is_registered_by_it_is_checked_as_for_all_hooks(
    put_hooks: PutHooks, change: dict[str, Any], words: str
) -> None:
    put_hooks("acme_shops", SHOPS)
    with pytest.raises(PluginError, match=f"plugin mine .*{HOOK}: .*{words}"):
        load(shop(**change))


def test_a_hook_that_no_distribution_brings_is_unknown() -> None:
    all_hooks.cache_clear()
    with pytest.raises(PluginError, match=f"(?s)plugin mine.*{HOOK}.*known hooks: .*xwheel_register_routers"):
        load(shop())


@pytest.mark.parametrize(
    "source",
    [
        "raise SystemExit('no')",
        "HOOKS = None",
        "HOOKS = {'xwheel_register_toys': 5}",
        SHOPS + "HOOKS = {'xwheel_register_routers': HOOKS['xwheel_register_toy_shops']}",
        SHOPS + "HOOKS = {'xwheel_register_ways': Hook(kind='router', contract=Shop, words='Shops.')}",
        SHOPS + "HOOKS = {'toy_shops': HOOKS['xwheel_register_toy_shops']}",
    ],
)
def test_hooks_that_cannot_be_used_are_logged_and_hide_no_others(
    put_hooks: PutHooks, caplog: pytest.LogCaptureFixture, source: str
) -> None:
    put_hooks("acme_shops", SHOPS)
    put_hooks("broken_shops", source)
    assert all_hooks().keys() >= {*HOOKS, HOOK}
    assert all_hooks()["xwheel_register_routers"].kind == "router"
    assert caplog.text.count("broken_shops = broken_shops:HOOKS of xwheel.hooks: ") == 1
