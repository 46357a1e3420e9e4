"""The suite for commands of plugins says what is wrong with them."""

from __future__ import annotations

from pathlib import Path

import pytest

from xwheel_devtools.testing import check_commands

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


class Toys:
    """Sample commands."""

    name = "toys"
    help = "Toys of a node."
    module = "toys_of_a_test"
    is_one = False


def test_the_suite_finds_what_is_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "toys_of_a_test.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    check_commands(Toys())
    wrong = Toys()
    for field, value, words in (
        ("name", "db", "xwheel itself has 'xwheel db'"),
        ("name", "cron/next", "xwheel itself has 'xwheel cron next'"),
        ("name", "job", "xwheel-commands .* has 'xwheel job'"),
        ("name", "calendar/list", "xwheel itself has 'xwheel calendar list'"),
        ("name", "toy/find", "no group of commands 'xwheel toy'"),
        ("name", "job/a/b", "one / if it is a command of a group"),
        ("name", "A b", "small letters|no blanks"),
        ("module", "no.such.module", "cannot be loaded"),
        ("module", "json", "must be a typer.Typer"),
        ("help", " ", "help must be one sentence"),
        ("is_one", True, "has no command toys"),
    ):
        setattr(wrong, field, value)
        with pytest.raises(AssertionError, match=words):
            check_commands(wrong)
        setattr(wrong, field, getattr(Toys, field))
