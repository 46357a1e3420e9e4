"""Commands of plugins: loaded when one is typed that xwheel does not know, and named when they are broken."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from xwheel.cli import lazy
from xwheel.cli.main import app
from xwheel.errors import ConfigError, PluginError
from xwheel.plugin import CommandSite

PLUGIN = """
from xwheel import hookimpl

class Toys:
    name = "{name}"
    help = "Toys of a node."
    module = "toys_of_a_test"

@hookimpl
def xwheel_register_commands():
    return [Toys()]
"""
MODULE = '''
import typer
app = typer.Typer()

@app.callback()
def root():
    """Toys."""

@app.command()
def play(context: typer.Context, word: str):
    """Play with a word."""
    typer.echo(f"{word} {type(context.obj).__name__} {context.obj.config().api.threads}")
'''


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return the folder of plugins, from which modules can be imported, too."""
    folder = tmp_path / "plugins"
    folder.mkdir(mode=0o755)
    (tmp_path / "toys_of_a_test.py").write_text(MODULE)
    settings = tmp_path / "xwheel.toml"
    settings.write_text(f'[plugins]\nfolder = "{folder}"\n')
    monkeypatch.setenv("XWHEEL_CONFIG", str(settings))
    monkeypatch.syspath_prepend(str(tmp_path))
    yield folder
    sys.modules.pop("toys_of_a_test", None)


def test_a_command_of_a_plugin_gets_what_it_works_with(home: Path) -> None:
    (home / "toys.py").write_text(PLUGIN.format(name="toys"))
    done = CliRunner().invoke(app, ["toys", "play", "red"])
    assert (done.exit_code, done.output) == (0, "red CommandParts 8\n")
    said = CliRunner().invoke(app, ["toys", "--help"])
    assert "Play with a word." in said.output
    assert CliRunner().invoke(app, ["toyz"]).exit_code == 2


def test_a_module_that_is_broken_is_one_line(home: Path) -> None:
    (home / "toys.py").write_text(PLUGIN.format(name="toys"))
    (home.parent / "toys_of_a_test.py").write_text("raise SystemExit('no')")
    error = CliRunner().invoke(app, ["toys", "play", "red"]).exception
    assert isinstance(error, PluginError)
    assert "plugin toys" in str(error)
    assert "commands of toys_of_a_test cannot be loaded: SystemExit: no" in str(error)


def test_a_name_of_ours_is_refused(home: Path) -> None:
    (home / "toys.py").write_text(PLUGIN.format(name="db"))
    error = CliRunner().invoke(app, ["toys"]).exception
    assert isinstance(error, PluginError)
    assert "xwheel itself has 'xwheel db'" in str(error)


def test_a_group_of_ours_has_a_command_of_a_plugin(home: Path) -> None:
    (home / "toys.py").write_text(PLUGIN.format(name="plugins/play").replace("    help", "    is_one = True\n    help"))
    run = CliRunner().invoke
    assert run(app, ["plugins", "play", "red"]).output == "red CommandParts 8\n"
    assert "Toys of a node." in run(app, ["plugins", "--help"]).output
    assert "Toys of a node." not in run(app, ["--help"]).output
    assert run(app, ["db", "play", "red"]).exit_code == run(app, ["play", "red"]).exit_code == 2


def test_a_shell_completes_commands_of_plugins(home: Path) -> None:
    def completed(words: str) -> list[str]:
        asks = {"_XWHEEL_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
        return CliRunner().invoke(app, [], env=asks, prog_name="xwheel").output.split()

    (home / "toys.py").write_text(PLUGIN.format(name="plain"))
    assert completed("xwheel pl") == ["plugins", "plain"]
    assert completed("xwheel plain p") == ["play"]
    (home / "toys.py").write_text("raise SystemExit('no')")
    assert completed("xwheel pl") == ["plugins"]
    (home.parent / "xwheel.toml").write_text("[api]\nthreads = 0\n")
    assert completed("xwheel pl") == ["plugins"]


def test_a_command_of_ours_in_a_group_is_not_replaced(home: Path) -> None:
    (home / "toys.py").write_text(PLUGIN.format(name="db/check"))
    error = CliRunner().invoke(app, ["db", "toys"]).exception
    assert isinstance(error, PluginError)
    assert "xwheel itself has 'xwheel db check'" in str(error)
    assert "Toys of a node." not in CliRunner().invoke(app, ["db", "--help"]).output


def test_our_own_commands_load_no_plugin(home: Path) -> None:
    (home / "toys.py").write_text("raise SystemExit('loaded')")
    assert CliRunner().invoke(app, ["plugins", "--help"]).exit_code == 0
    done = CliRunner().invoke(app, ["toys"])
    assert done.exit_code == 2
    assert "plugin toys" in done.output


@pytest.fixture
def index(home: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Put a distribution on the path that says where commands are; its plugin cannot be loaded."""

    def put(*lines: str, name: str = "acme") -> None:
        info = home.parent / name / f"{name}-1.2.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.2\n")
        (info / "entry_points.txt").write_text(
            "\n".join([f"[xwheel]\n{name} = no_module_of_{name}", "[xwheel.commands]", *lines])
        )
        monkeypatch.syspath_prepend(str(info.parent))

    return put


GROUP = "toys = toys_of_a_test:app"
ONE = "plugins/play = toys_of_a_test"


def said(*words: str) -> tuple[int, str]:
    """Return the exit status and the output of a command, or the text of what it was refused with."""
    done = CliRunner().invoke(app, words)
    return done.exit_code, str(done.exception) if isinstance(done.exception, PluginError) else done.output


def test_a_command_in_an_index_loads_no_plugin(home: Path, index: Callable[..., None]) -> None:
    (home / "bad.py").write_text("raise SystemExit('loaded')")
    index(GROUP, ONE)
    assert said("toys", "play", "red") == (0, "red CommandParts 8\n")
    assert said("plugins", "play", "red") == (0, "red CommandParts 8\n")
    assert "Toys." in said("toys", "--help")[1]
    # neither in another group nor as a group
    for words in (("play",), ("db", "play"), ("plugins", "toys")):
        status, text = said(*words, "red")
        assert status == 2
        assert "plugin bad" in text


def test_a_module_of_an_index_that_is_broken_is_one_line(home: Path, index: Callable[..., None]) -> None:
    index(GROUP, "play = toys_of_a_test", "toyz = toys_of_a_test")
    assert said("toyz")[1] == ("acme 1.2 (entry point toyz = toys_of_a_test): toys_of_a_test.app has no command toyz")
    sys.modules.pop("toys_of_a_test")
    (home.parent / "toys_of_a_test.py").write_text("raise SystemExit('no')")
    assert said("toys", "play", "red")[1] == (
        "acme 1.2 (entry point toys = toys_of_a_test:app): commands of toys_of_a_test cannot be loaded: SystemExit: no"
    )


@pytest.mark.parametrize("way", ["file", "environment", "lower case"])
def test_an_index_counts_only_where_no_plugin_is_disabled(
    home: Path, index: Callable[..., None], monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    index(GROUP)
    settings = home.parent / "xwheel.toml"
    if way == "file":
        settings.write_text('[plugins]\ndisabled = ["acme"]\n')
    else:
        name = "XWHEEL_PLUGINS__DISABLED"
        monkeypatch.setenv(name if way == "environment" else name.lower(), '["acme"]')
    status, text = said("toys", "play", "red")
    assert status == 2
    assert "No such command" in text


@pytest.mark.parametrize("settings", ["plugins = [", "plugins = 1", None])
def test_an_index_counts_where_settings_cannot_be_read(
    home: Path, index: Callable[..., None], settings: str | None
) -> None:
    """A command that needs them says what is wrong; others, such as those that call a node, need none."""
    index(GROUP)
    path = home.parent / "xwheel.toml"
    path.unlink()
    if settings is not None:
        path.write_text(settings)
    assert "Play with a word." in said("toys", "--help")[1]
    error = CliRunner().invoke(app, ["toys", "play", "red"]).exception
    assert isinstance(error, ConfigError)
    assert str(path) in str(error) or "plugins" in str(error)
    status, text = said("toyz")
    assert status == 2
    assert "commands of plugins are not there" in text
    assert "No such command" in text
    assert "xwheel[cli]" not in text


@pytest.mark.parametrize(
    ("words", "near"), [(("serv",), "'server'"), (("playns",), "'plugins'"), (("db", "upgrad"), "'upgrade'")]
)
def test_u26_a_command_that_nobody_has_names_those_that_look_like_it(words: tuple[str, ...], near: str) -> None:
    status, text = said(*words)
    assert (status, f"Did you mean {near}" in text) == (2, True), text


def test_other_settings_of_plugins_leave_the_index_alone(
    home: Path, index: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "bad.py").write_text("raise SystemExit('loaded')")
    index(GROUP)
    monkeypatch.setenv("XWHEEL_PLUGINS__TOLERATE", '["bad"]')
    assert said("toys", "play", "red") == (0, "red CommandParts 8\n")


def test_where_no_distribution_has_commands_an_unknown_one_is_told_whose_it_may_be(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lazy, "indexed_names", set)
    status, text = said("no-command")
    assert status == 2
    assert "pip install 'xwheel[cli]' brings those that talk to a node" in text
    assert "xwheel[cli]" not in said("plugins", "no-command")[1]


def test_a_command_in_two_indexes_is_looked_for_in_the_plugins(home: Path, index: Callable[..., None]) -> None:
    index(GROUP)
    index(GROUP, name="other")
    status, text = said("toys", "play", "red")
    assert status == 2
    assert "acme 1.2 (entry point acme = no_module_of_acme) cannot be loaded" in text
    (home / "toys.py").write_text(PLUGIN.format(name="toys"))
    assert said("toys", "play", "red") == (0, "red CommandParts 8\n")


def test_an_index_with_a_name_of_ours_is_refused_as_the_plugin_is(home: Path, index: Callable[..., None]) -> None:
    index(GROUP, "db = toys_of_a_test:app")
    (home / "toys.py").write_text(PLUGIN.format(name="db"))
    assert "xwheel itself has 'xwheel db'" in said("toys", "play", "red")[1]


def test_what_commands_get_is_what_is_promised() -> None:
    from xwheel.cli.plugin_commands import CommandParts

    site: CommandSite = CommandParts()
    assert callable(site.node)
