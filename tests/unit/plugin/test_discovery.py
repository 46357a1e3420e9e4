"""Plugins come through entry points only; what is wrong with one stops the start and names it."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.unit.plugin.conftest import Install
from xwheel.cli.main import app
from xwheel.config import build_config
from xwheel.errors import ConfigError, DuplicateNameError, PluginError, UnknownNameError
from xwheel.plugin.discovery import load_glue_types, load_plugins

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


def test_the_shipped_plugins_come_through_the_same_door() -> None:
    plugins = load_plugins(build_config({}))
    assert {"NONE", "CRON", "FIX_RATE", "ONCE"} <= set(plugins.schedule_types)
    assert {"FIRST", "LAST", "ROUND", "RANDOM", "SHARDING_BROADCAST"} <= set(plugins.routers)
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


STRICT = """
from pydantic import SecretStr
from xwheel.plugin import PluginOptions, hookimpl, read_options
class Options(PluginOptions):
    url: SecretStr
    limit: int = 5
    headers: dict[str, str] = {}
    public = ("headers",)
class Mine:
    name = "shout"
    def on_change(self, changes): ...
@hookimpl
def xwheel_register_run_listeners(config):
    read_options(config, "acme", Options)
    return [Mine()]
"""
STRAY = STRICT.replace('"acme"', '"acne"').replace("url: SecretStr", "")

# a hook that returns what follows, in a module that begins with what stands before it
HEAD = "from xwheel.plugin import hookimpl\n"
ROUTE = "route = lambda self, context: ..."
WRAPPER = HEAD + "@hookimpl(wrapper=True)\ndef xwheel_register_routers(config): return (yield)"
CLASS = "class Mine:\n    name = {name!r}\n    asks = {asks!r}\n    {method}\n"


def router(name: object = "MINE", asks: object = False, method: str = "def route(self, context): ...") -> str:
    return CLASS.format(name=name, asks=asks, method=method) + HOOK + "routers(config): return [Mine()]"


@pytest.mark.parametrize(
    ("source", "error", "words"),
    [
        ("import nothing_of_that_name", PluginError, "cannot be loaded: ModuleNotFoundError: No module named 'noth"),
        ("raise SystemExit('no licence')", PluginError, "cannot be loaded: SystemExit: no licence"),
        ("def broken(:", PluginError, "cannot be loaded: SyntaxError"),
        (HOOK + "rooters(config): return []", PluginError, "unknown hook 'xwheel_register_rooters'.*known hooks: "),
        (HOOK + "routers(konfig): return []", PluginError, "hook of a wrong form: .*konfig"),
        (HOOK + "routers(config, clock): return []", PluginError, "hook of a wrong form: .*clock"),
        (HEAD + "def xwheel_register_routers(config): return []", PluginError, "routers is not marked with @hookimpl"),
        (HEAD, PluginError, "has no hook: mark functions such as"),
        (WRAPPER, PluginError, "wraps a hook"),
        (HOOK + "routers(config): return [3]", PluginError, "of int is no router: name must be str, not missing"),
        (HOOK + "routers(config): pass", PluginError, "fails in xwheel_register_routers: TypeError"),
        (HOOK + "routers(config): raise KeyError('url')", PluginError, "KeyError: 'url'"),
        (
            HOOK + "routers(options): return [options['url']]",
            PluginError,
            r"KeyError: 'url' \(in .*\); is plugins.options.acme.url missing in the settings\?",
        ),
        (HOOK + "routers(config):\n    import missing_thing", PluginError, "fails in .*ModuleNotFoundError"),
        (STRAY, PluginError, "reads plugins.options.acne: its own"),
        (router(name=5), PluginError, "of Mine is no router: name must be str, not int"),
        (router(name=""), PluginError, "a router's name has 1 to 64 characters and no blanks, not ''"),
        (router(name="MY ROUTER"), PluginError, "1 to 64 characters and no blanks, not 'MY ROUTER'"),
        (router(name="R" * 65), PluginError, "1 to 64 characters"),
        (router(asks="yes"), PluginError, "of Mine is no router: asks must be bool, not str"),
        (router(method="route = 5"), PluginError, r"the method route\(context\) is missing"),
        (router(method="def root(self, context): ..."), PluginError, r"the method route\(context\) is missing"),
        (router(method="def route(self): ..."), PluginError, r"route\(\) cannot be called as route\(context\)"),
        (router(method="async def route(self, context): ..."), PluginError, "must be a plain method, not an async one"),
        (router(method=f"{ROUTE}\n    check = lambda self: ..."), PluginError, r"called as check\(options\)"),
        (router().replace("Mine()", "Mine"), PluginError, r"class Mine is no router: route\(self, context\) cannot"),
        (ROUTER.format(name="FIRST"), DuplicateNameError, "router 'FIRST' is registered by .* and by "),
    ],
)  # fmt: skip
def test_a_broken_plugin_stops_the_start_and_is_named(
    install: Install, source: str, error: type[Exception], words: str
) -> None:
    install(source)
    with pytest.raises(error, match=words) as caught:
        load_plugins(build_config({}))
    assert "acme-acme 1.2 (entry point acme = acme_module_acme)" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("requires", "words"),
    [
        ("nothing-of-that-name>=2", "it needs nothing-of-that-name>=2, which is not installed"),
        ("pluggy>=900", "it needs pluggy>=900, but pluggy .* is installed"),
        ("xwheel<0.1", "it needs xwheel<0.1, but xwheel .* is installed"),
    ],
)
def test_a_plugin_without_what_it_needs_is_named(install: Install, requires: str, words: str) -> None:
    install(ROUTER.format(name="NEAREST"), requires=requires)
    with pytest.raises(PluginError, match=words) as caught:
        load_plugins(build_config({}))
    assert "acme-acme 1.2 (entry point acme = acme_module_acme)" in str(caught.value)


@pytest.mark.parametrize(
    "requires", ["xwheel>=0.1", "nothing-of-that-name; extra == 'dev'", "nothing; python_version < '3'"]
)
def test_what_a_plugin_needs_elsewhere_is_no_matter(install: Install, requires: str) -> None:
    install(ROUTER.format(name="NEAREST"), requires=requires)
    assert "NEAREST" in load_plugins(build_config({})).routers


def test_one_name_from_two_distributions_stops_the_start(install: Install, tmp_path: Path) -> None:
    install(ROUTER.format(name="NEAREST"))
    install(ROUTER.format(name="FARTHEST"), "other")
    (info,) = (tmp_path / "other").glob("*.dist-info")
    (info / "entry_points.txt").write_text("[xwheel]\nacme = acme_module_other\n")
    both = "plugin acme comes from acme-(acme|other) 1.2 .* and from acme-(acme|other) 1.2 "
    with pytest.raises(DuplicateNameError, match=both):
        load_plugins(build_config({}))
    load_plugins(build_config({"plugins": {"disabled": ["acme"]}}))


def test_one_module_under_two_names_stops_the_start(install: Install, tmp_path: Path) -> None:
    install(ROUTER.format(name="NEAREST"))
    install(ROUTER.format(name="FARTHEST"), "other")
    (info,) = (tmp_path / "other").glob("*.dist-info")
    (info / "entry_points.txt").write_text("[xwheel]\nother = acme_module_acme\n")
    with pytest.raises(PluginError, match="entry point acme are one and the same module"):
        load_plugins(build_config({}))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "plugins.options.acme.url is missing"),
        ({"url": "u", "limits": 5}, "plugins.options.acme.limits is not an option; did you mean limit?"),
        ({"url": "u", "limit": "5"}, "plugins.options.acme.limit: must be a whole number"),
    ],
)
def test_a_wrong_option_stops_the_start_and_its_plugin_is_named(
    install: Install, options: dict[str, object], words: str
) -> None:
    install(STRICT)
    with pytest.raises(ConfigError, match=words) as caught:
        load_plugins(build_config({"plugins": {"options": {"acme": options}}}))
    assert "acme-acme 1.2 (entry point acme = acme_module_acme)" in str(caught.value)
    # an executor asks for glue types alone
    load_glue_types(build_config({"plugins": {"options": {"acme": options}}}))


def test_the_list_of_plugins_shows_what_is_installed_and_no_secret(install: Install) -> None:
    install(STRICT)
    install(ROUTER.format(name="NEAREST"), "bcme")
    install("raise RuntimeError('loaded')", "ccme")
    settings = {
        "disabled": ["ccme"],
        "options": {
            "acme": {"url": "https://hush", "headers": {"Authorization": "hush", "X-Kind": "a"}},
            "bcme": {"any": "hush"},
            "ccme": {"any": "hush"},
        },
    }
    loaded = load_plugins(build_config({"plugins": settings}))
    found = {info.origin.name: info for info in loaded.installed}
    assert found["acme"].registers == {"run listener": ["shout"]}
    assert found["acme"].options == {
        "url": "**********",
        "limit": 5,
        "headers": {"Authorization": "**********", "X-Kind": "a"},
    }
    assert found["bcme"].registers == {"router": ["NEAREST"]}
    assert found["bcme"].options == {"any": "**********"}
    assert (found["acme"].enabled, found["bcme"].enabled, found["ccme"].enabled) == (True, True, False)
    assert found["ccme"].registers == {}
    assert found["routers"].origin.is_core
    assert "BEAN" in found["glue_bean"].registers["glue type"]
    assert "hush" not in repr(loaded.installed)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"options": {"routers": {"url": 5}}}, "plugins.options.routers.url: routers has no options"),
        ({"disabled": ["ghost"]}, "'ghost', which is not installed"),
    ],
)
def test_settings_for_a_plugin_that_is_not_there_stop_the_start(settings: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        load_plugins(build_config({"plugins": settings}))


def test_an_unknown_name_is_refused_with_the_known_ones() -> None:
    plugins = load_plugins(build_config({}))
    with pytest.raises(UnknownNameError, match="no glue type is called 'GLUE_COBOL'; known: BEAN"):
        plugins.glue_types["GLUE_COBOL"]
    assert plugins.glue_types.get("GLUE_COBOL") is None


def test_the_command_lists_what_is_there_and_what_is_not(install: Install, tmp_path: Path) -> None:
    install(STRICT)
    install(ROUTER.format(name="NEAREST"), "bcme")
    install("raise RuntimeError('loaded')", "ccme")
    settings = tmp_path / "xwheel.toml"
    settings.write_text('[plugins]\ndisabled = ["ccme"]\n[plugins.options.acme]\nurl = "https://hush"\nlimit = 7\n')
    done = CliRunner().invoke(app, ["plugins", "--config", str(settings)])
    assert done.exit_code == 0, done.output
    lines = [" ".join(line.split()) for line in done.output.splitlines()]
    assert lines[0] == "KIND NAME FROM"
    assert "run listener shout acme-acme 1.2 (entry point acme = acme_module_acme)" in lines
    assert "router NEAREST acme-bcme 1.2 (entry point bcme = acme_module_bcme)" in lines
    assert "option plugins.options.acme.limit = 7" in lines
    assert 'option plugins.options.acme.url = "**********"' in lines
    assert "disabled: ccme of acme-ccme 1.2" in lines
    assert "hush" not in done.output
