"""Plugins come through entry points only; what is wrong with one stops the start and names it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from xwheel.config import build_config
from xwheel.errors import ConfigError, DuplicateNameError, PluginError, UnknownNameError
from xwheel.plugin.manager import load_plugins

Install = Callable[[str, str], None]

HOOK = "from xwheel.plugin import hookimpl\n@hookimpl\ndef xwheel_register_"

ROUTER = """
from xwheel.plugin import hookimpl
class Mine:
    name = {name!r}
    asks = False
    def route(self, context):
        return context.executors[:1]
@hookimpl
def xwheel_register_routers(config):
    options = config.plugin("acme")
    return [Mine()]
"""


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Put a distribution with one module and one entry point on the path."""

    def put(source: str, entry: str = "acme") -> None:
        folder = tmp_path / entry
        info = folder / f"acme_{entry}-1.2.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: acme-{entry}\nVersion: 1.2\n")
        (info / "entry_points.txt").write_text(f"[xwheel]\n{entry} = acme_module_{entry}\n")
        (folder / f"acme_module_{entry}.py").write_text(source)
        monkeypatch.syspath_prepend(str(folder))
        monkeypatch.delitem(sys.modules, f"acme_module_{entry}", raising=False)

    return put


def test_the_shipped_plugins_come_through_the_same_door() -> None:
    plugins = load_plugins(build_config({}))
    assert {"NONE", "CRON", "FIX_RATE", "ONCE"} <= set(plugins.schedule_types)
    assert {"FIRST", "LAST", "ROUND", "RANDOM", "SHARDING_BROADCAST"} == set(plugins.routers)
    assert "BEAN" in plugins.glue_types
    assert "entry point routers" in plugins.routers.owners["FIRST"]


def test_a_strangers_plugin_is_found(install: Install) -> None:
    install(ROUTER.format(name="NEAREST"))
    plugins = load_plugins(build_config({"plugins": {"options": {"acme": {"url": "x"}}}}))
    assert plugins.routers["NEAREST"].name == "NEAREST"
    assert plugins.routers.owners["NEAREST"].startswith("acme-acme 1.2")


def test_a_disabled_plugin_is_not_loaded(install: Install) -> None:
    install("raise RuntimeError('loaded')")
    plugins = load_plugins(build_config({"plugins": {"disabled": ["acme", "glue_bean"]}}))
    assert "BEAN" not in plugins.glue_types


@pytest.mark.parametrize(
    ("source", "error", "words"),
    [
        ("import nothing_of_that_name", PluginError, "acme-acme 1.2 .*cannot be loaded: ModuleNotFoundError"),
        (HOOK + "rooters(config): return []", PluginError, "acme.*rooters"),
        (HOOK + "routers(konfig): return []", PluginError, "acme.*konfig"),
        (HOOK + "routers(config): return [3]", PluginError, "acme.*AttributeError"),
        (HOOK + "routers(config): raise KeyError('url')", PluginError, "acme.*KeyError: 'url'"),
        (ROUTER.format(name="FIRST"), DuplicateNameError, "router 'FIRST' is registered by .* and by "),
    ],
)  # fmt: skip
def test_a_broken_plugin_stops_the_start_and_is_named(
    install: Install, source: str, error: type[Exception], words: str
) -> None:
    install(source)
    with pytest.raises(error, match=words) as caught:
        load_plugins(build_config({}))
    assert "acme-acme 1.2" in str(caught.value)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"options": {"ghost": {}}}, "ghost belongs to no loaded plugin"),
        ({"disabled": ["ghost"]}, "'ghost', which is not installed"),
    ],
)
def test_settings_for_a_plugin_that_is_not_there_stop_the_start(
    settings: dict[str, object], words: str
) -> None:
    with pytest.raises(ConfigError, match=words):
        load_plugins(build_config({"plugins": settings}))


def test_an_unknown_name_tells_the_known_ones() -> None:
    plugins = load_plugins(build_config({}))
    with pytest.raises(UnknownNameError, match="no glue type is called 'GLUE_COBOL'; known: BEAN"):
        plugins.glue_types["GLUE_COBOL"]
    assert plugins.glue_types.get("GLUE_COBOL") is None
