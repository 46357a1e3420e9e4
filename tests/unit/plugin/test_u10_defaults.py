"""U10: what a beginner leaves out has a default, and one broken plugin is one line, with a way out."""

from __future__ import annotations

import json
import logging
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import Field
from typer.testing import CliRunner
from xwheel_devtools.testing import check_router, sample_executors, sample_route_context

from tests.unit.plugin.conftest import Install
from xwheel.cli.main import app
from xwheel.config import Config, build_config
from xwheel.errors import DuplicateNameError, PluginError, RouteError
from xwheel.plugin import GlueType, PluginOptions, Router, hookimpl
from xwheel.plugin.discovery import load_glue_types, load_plugins, survey_plugins
from xwheel.plugin.hookspecs import check_object
from xwheel.plugin.validation import chosen_executors

PLAIN = """
from xwheel import hookimpl
class Nearby:
    name = "NEARBY"
    def route(self, context):
        return context.addresses[-1:]
@hookimpl
def xwheel_register_routers(config):
    return [Nearby()]
"""
GLUE = """
from xwheel import hookimpl
class Echo:
    name = "ECHO"
    def build(self, request, handlers):
        return lambda: request.source
@hookimpl
def xwheel_register_glue_types(options, config):
    return [Echo()] * options.get("times", 1)
"""
BROKEN = "import nothing_of_that_name\n"


def plugins_of(given: object, **settings: Any) -> Any:
    return load_plugins(build_config({"plugins": settings}), {"mine": given})


def test_u10_a_router_without_asks_works(install: Install) -> None:
    install(PLAIN)
    router = load_plugins(build_config({})).routers["NEARBY"]
    assert router.asks is False
    check_router(router)


class Slotted:
    __slots__ = ("name",)

    def __init__(self) -> None:
        self.name = "SLOTTED"

    def route(self, context: Any) -> Any:
        return context.addresses


def test_u10_defaults_reach_objects_of_any_form() -> None:
    slotted = Slotted()
    check_object(Router, slotted)
    assert slotted.asks is False  # type: ignore[attr-defined]
    plain = SimpleNamespace(name="PLAIN", route=lambda context: context.addresses)
    check_object(Router, plain)
    assert plain.asks is False
    with pytest.raises(PluginError, match="asks must be bool, not NoneType"):
        check_object(Router, SimpleNamespace(name="PLAIN", asks=None, route=lambda context: []))


def test_u10_a_glue_type_without_takes_source_takes_the_jobs_source(install: Install) -> None:
    install(GLUE)
    assert load_plugins(build_config({})).glue_types["ECHO"].takes_source is True
    inherited = type("Inherited", (GlueType,), {"name": "INHERITED"})()
    assert inherited.takes_source is True


def test_u10_options_are_handed_to_hooks_that_name_them(install: Install) -> None:
    install(GLUE)
    with pytest.raises(DuplicateNameError, match="glue type 'ECHO' is registered twice by acme-acme"):
        load_plugins(build_config({"plugins": {"options": {"acme": {"times": 2}}}}))
    assert not load_glue_types(build_config({"plugins": {"options": {"acme": {"times": 0}}}})).get("ECHO")


class Options(PluginOptions):
    limit: int = 5
    deep: dict[str, int] = Field(default_factory=dict)


@pytest.mark.parametrize("form", ["plain", "model", "default", "none", "text"])
def test_u10_a_hook_gets_what_its_parameters_name(form: str) -> None:
    got: list[Any] = []

    def plain(config: Config, options: dict[str, Any]) -> list[Any]:
        options["limit"] += 1  # its own copy, to the bottom
        options["deep"].clear()
        got.extend((isinstance(config, Config), options))
        return []

    def model(options: Options) -> list[Any]:
        got.append(options.limit)
        return []

    def default(options: Any = None) -> list[Any]:
        got.append(options)
        return []

    def none() -> list[Any]:
        return []

    def text(options: "NotThere") -> list[Any]:  # type: ignore[name-defined]  # noqa: F821, UP037
        got.append(options)
        return []

    hook = hookimpl(specname="xwheel_register_routers")(locals()[form])
    given = SimpleNamespace(xwheel_register=hook)
    config = build_config({"plugins": {"options": {"mine": {"limit": 7, "deep": {"a": 1}}}}})
    assert not survey_plugins(config, {"mine": given}).errors
    assert (
        got
        == {
            "plain": [True, {"limit": 8, "deep": {}}],
            "model": [7],
            "default": [{"limit": 7, "deep": {"a": 1}}],
            "none": [],
            "text": [{"limit": 7, "deep": {"a": 1}}],
        }[form]
    )
    assert config.plugin("mine") == {"limit": 7, "deep": {"a": 1}}


def test_u10_a_model_of_options_refuses_as_ever() -> None:
    @hookimpl
    def xwheel_register_routers(options: Options) -> list[Any]:
        return []

    given = SimpleNamespace(xwheel_register_routers=xwheel_register_routers)
    survey = survey_plugins(build_config({"plugins": {"options": {"mine": {"limits": 7}}}}), {"mine": given})
    assert "plugins.options.mine.limits is not an option; did you mean limit?" in str(survey.errors[0])


def test_u10_a_router_may_return_addresses() -> None:
    executors = sample_executors(3)
    known = {item.address: item for item in executors}
    context = sample_route_context(executors)
    assert context.addresses == list(known)
    context.addresses.clear()  # its own list
    assert len(context.addresses) == 3
    assert chosen_executors(context.addresses[1:], known) == tuple(executors[1:])
    assert chosen_executors([executors[0], executors[1].address], known) == tuple(executors[:2])


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda context: context.addresses[0], r"where a list is due: return \[address\]"),
        (lambda context: ["http://10.9.9.9:1"], "chose http://10.9.9.9:1, which it was not given"),
        (lambda context: context.addresses[:1] * 2, "twice: each executor takes one shard"),
        (lambda context: [context.executors[0], context.addresses[0]], "twice"),
        (lambda context: [], "chose none of 2 executors"),
        (lambda context: "http://10.9.9.9:1", "where a list of executors or addresses is due"),
        (lambda context: [5], "chose 5, which is no executor: choose from context.executors or context.addr"),
        (lambda context: [type("S", (str,), {})(context.addresses[0])], "which is no executor"),
    ],
)
def test_u10_addresses_are_checked_at_the_door(answer: Any, words: str) -> None:
    executors = sample_executors(2)
    known = {item.address: item for item in executors}
    with pytest.raises(RouteError, match=words):
        chosen_executors(answer(sample_route_context(executors)), known)
    router = SimpleNamespace(name="ODD", asks=False, route=answer)
    with pytest.raises(AssertionError, match="router ODD "):
        check_router(router)


def test_u10_the_message_names_plugin_file_attribute_and_way_out(install: Install) -> None:
    install(PLAIN.replace("def route", "def root"))
    with pytest.raises(PluginError) as caught:
        load_plugins(build_config({}))
    said = str(caught.value)
    assert "acme-acme 1.2 (entry point acme = acme_module_acme), xwheel_register_routers: " in said
    assert "an object of Nearby is no router: the method route(context) is missing" in said
    assert "acme_module_acme.py:3)" in said
    assert said.endswith("; to start without it, name acme in plugins.tolerate, or in plugins.disabled for good")


@pytest.mark.parametrize(
    ("source", "place"),
    [
        ("\n\nimport nothing_of_that_name", "acme_module_acme.py:3"),
        ("\ndef broken(:", "acme_module_acme.py:2"),
        (PLAIN.replace("return [Nearby()]", "return [Nearby(5)]"), "acme_module_acme.py:9"),
    ],
)
def test_u10_an_exception_is_placed(install: Install, source: str, place: str) -> None:
    install(source)
    with pytest.raises(PluginError, match=place):
        load_plugins(build_config({}))


class Rude(BaseException):
    pass


class Faulty:
    """An object of a plugin whose name runs code."""

    asks = False

    @property
    def name(self) -> str:
        raise Rude("no")

    def route(self, context: Any) -> Any: ...


def endless() -> Any:
    while True:
        yield Slotted()


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (lambda: [Faulty()], "Rude: no"),
        (endless, "returns more than 1000 objects"),
        (lambda: (_ for _ in ()).throw(Rude("no")), "Rude: no"),
    ],
)
def test_u10_what_a_hook_does_is_contained(made: Any, words: str) -> None:
    @hookimpl
    def xwheel_register_routers() -> Any:
        return made()

    given = SimpleNamespace(xwheel_register_routers=xwheel_register_routers)
    survey = survey_plugins(build_config({}), {"mine": given})
    assert words in str(survey.errors[0])
    assert "FIRST" in survey.plugins.routers


def test_u10_a_broken_plugin_brings_nothing_and_stops_no_other(install: Install) -> None:
    # its first hook is well, its second is not
    install(GLUE.replace("@hookimpl", "class Odd: name = 'ODD'\n@hookimpl", 1) + (
        "@hookimpl\ndef xwheel_register_routers(): return [Odd()]\n"
    ))  # fmt: skip
    install(PLAIN, "bcme")
    survey = survey_plugins(build_config({}))
    assert "route(context) is missing" in str(survey.errors[0])
    assert "ECHO" not in survey.plugins.glue_types
    assert "NEARBY" in survey.plugins.routers
    with pytest.raises(PluginError, match="route.context. is missing"):
        load_plugins(build_config({}))


def test_u10_several_broken_plugins_are_counted(install: Install) -> None:
    install(BROKEN)
    install(BROKEN, "bcme")
    with pytest.raises(PluginError, match=r"acme-acme .*\(and 1 more: 'xwheel plugins' lists all\)"):
        load_plugins(build_config({}))


def test_u10_a_tolerated_plugin_may_be_missing(install: Install, caplog: pytest.LogCaptureFixture) -> None:
    install(BROKEN)
    install(PLAIN, "bcme")
    caplog.set_level(logging.WARNING)
    settings = {"plugins": {"tolerate": ["acme", "ghost"]}}
    plugins = load_plugins(build_config(settings))
    assert sorted(plugins.missing) == ["acme", "ghost"]
    assert "NEARBY" in plugins.routers
    assert "started without plugin acme, as plugins.tolerate allows: acme-acme 1.2" in caplog.text
    assert "started without plugin ghost, as plugins.tolerate allows: it is not installed" in caplog.text
    caplog.clear()
    load_glue_types(build_config(settings))  # so does an executor
    assert "started without plugin acme" in caplog.text


def test_u10_nothing_is_tolerated_unasked(install: Install) -> None:
    install(BROKEN)
    assert build_config({}).plugins.tolerate == []
    with pytest.raises(PluginError):
        load_plugins(build_config({"plugins": {"tolerate": ["bcme"]}}))
    with pytest.raises(PluginError):
        load_glue_types(build_config({}))


def test_u10_the_list_shows_all_plugins_with_their_errors(install: Install) -> None:
    install(BROKEN)
    install(PLAIN, "bcme")
    install(PLAIN.replace("def route", "def root").replace("NEARBY", "OTHER"), "ccme")
    done = CliRunner().invoke(app, ["plugins"])
    assert done.exit_code == 2
    lines = [" ".join(line.split()) for line in done.output.splitlines()]
    assert "router NEARBY acme-bcme 1.2 (entry point bcme = acme_module_bcme)" in lines
    assert sum(line.startswith("broken: ") for line in lines) == 2
    assert any(line.startswith("broken: acme-acme 1.2 ") and "ModuleNotFoundError" in line for line in lines)
    assert any(line.startswith("broken: acme-ccme 1.2 ") and "route(context)" in line for line in lines)
    found = {item["name"]: item for item in json.loads(CliRunner().invoke(app, ["plugins", "--json"]).stdout)}
    assert (found["acme"]["registers"], found["bcme"]["error"]) == ([], "")
    assert "nothing_of_that_name" in found["acme"]["error"]


def test_u10_the_list_survives_settings_that_name_what_is_not_there(
    install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(PLAIN)
    monkeypatch.setenv("XWHEEL_PLUGINS__DISABLED", '["ghost"]')
    monkeypatch.setenv("XWHEEL_PLUGINS__TOLERATE", '["phantom"]')
    done = CliRunner().invoke(app, ["plugins"])
    assert done.exit_code == 2
    assert "NEARBY" in done.output
    assert "plugins.disabled names 'ghost', which is not installed" in done.output
    assert "phantom of plugins.tolerate is not installed" in done.output


def test_u11_a_left_over_table_of_options_is_a_warning_that_names_it(
    install: Install, caplog: pytest.LogCaptureFixture
) -> None:
    install(PLAIN)
    options = {"plugins": {"options": {"acne": {"url": "hush"}, "smoke_signals": {}}}}
    plugins = load_plugins(build_config(options))
    assert "NEARBY" in plugins.routers
    assert "[plugins.options.acne] is left over: no installed plugin is called acne; did you mean acme?" in caplog.text
    assert "[plugins.options.smoke_signals] is left over: no installed plugin is called" in caplog.text
    assert "remove the table, install what it is for, or name its folder in plugins.folder" in caplog.text
    assert "hush" not in caplog.text
