"""Commands of plugins: loaded when one is typed that xwheel does not know, and named when they are broken."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from xwheel.cli.main import app
from xwheel.errors import PluginError
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
    (home / "toys.py").write_text(PLUGIN.format(name="job"))
    error = CliRunner().invoke(app, ["toys"]).exception
    assert isinstance(error, PluginError)
    assert "xwheel itself has 'xwheel job'" in str(error)


def test_a_group_of_ours_has_a_command_of_a_plugin(home: Path) -> None:
    (home / "toys.py").write_text(
        PLUGIN.format(name="calendar/play").replace("    help", "    is_one = True\n    help")
    )
    run = CliRunner().invoke
    assert run(app, ["calendar", "play", "red"]).output == "red CommandParts 8\n"
    assert "Toys of a node." in run(app, ["calendar", "--help"]).output
    assert "Toys of a node." not in run(app, ["--help"]).output
    assert run(app, ["group", "play", "red"]).exit_code == run(app, ["play", "red"]).exit_code == 2


def test_a_shell_completes_commands_of_plugins(home: Path) -> None:
    def completed(words: str) -> list[str]:
        asks = {"_XWHEEL_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
        return CliRunner().invoke(app, [], env=asks, prog_name="xwheel").output.split()

    (home / "toys.py").write_text(PLUGIN.format(name="toys"))
    assert completed("xwheel to") == ["token", "toys"]
    assert completed("xwheel toys p") == ["play"]
    (home / "toys.py").write_text("raise SystemExit('no')")
    assert completed("xwheel to") == ["token"]
    (home.parent / "xwheel.toml").write_text("[api]\nthreads = 0\n")
    assert completed("xwheel to") == ["token"]


def test_a_command_of_ours_in_a_group_is_not_replaced(home: Path) -> None:
    (home / "toys.py").write_text(PLUGIN.format(name="calendar/list"))
    error = CliRunner().invoke(app, ["calendar", "toys"]).exception
    assert isinstance(error, PluginError)
    assert "xwheel itself has 'xwheel calendar list'" in str(error)
    assert "Toys of a node." not in CliRunner().invoke(app, ["calendar", "--help"]).output


def test_our_own_commands_load_no_plugin(home: Path) -> None:
    (home / "toys.py").write_text("raise SystemExit('loaded')")
    assert CliRunner().invoke(app, ["cron", "--help"]).exit_code == 0
    done = CliRunner().invoke(app, ["toys"])
    assert done.exit_code == 2
    assert "plugin toys" in done.output


def test_what_commands_get_is_what_is_promised() -> None:
    from xwheel.cli.plugin_commands import CommandParts

    site: CommandSite = CommandParts()
    assert callable(site.node)
