"""Rows of the core's own commands: aligned words on a pipe, a line below the titles on a terminal."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from xwheel.cli import output

ROWS = [("router", "中文"), ("a\x1b[2J", None)]


def test_a_pipe_gets_aligned_words(capsys: pytest.CaptureFixture[str]) -> None:
    output.print_rows(("KIND", "NAME"), ROWS)
    assert capsys.readouterr().out == "KIND      NAME\nrouter    中文\na\\x1b[2J  -\n"


def test_a_terminal_gets_a_line_and_colours_if_it_has_them(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(output, "is_terminal", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    output.print_rows(("KIND", "NAME"), ROWS, lambda number, text: f"<{text}>" if number else text)
    assert capsys.readouterr().out.splitlines() == [
        "\x1b[1mKIND      NAME\x1b[0m",
        "────────  ────",
        "router    <中文>",
        "a\\x1b[2J  <-   >",
    ]
    monkeypatch.setenv("TERM", "dumb")
    output.print_rows(("KIND", "NAME"), [], lambda *_: "never")
    assert capsys.readouterr().out == "KIND  NAME\n────  ────\n"


@pytest.mark.processes
@pytest.mark.parametrize(("encoding", "shown"), [("latin-1", b"\xe9 ??"), ("gbk", b"\xa8\xa6 \xd6\xd0\xce\xc4")])
def test_u26_letters_that_a_terminal_lacks_end_no_command(encoding: str, shown: bytes) -> None:
    """A name with letters of both: of Latin-1 the Chinese ones are missing, and a bird of both."""
    code = (
        "import typer; from xwheel.cli import main\n"
        "main.app = lambda: typer.echo('\\xe9 \\u4e2d\\u6587 \\U0001f426')\n"
        "main.main()"
    )
    variables = {**os.environ, "PYTHONIOENCODING": encoding}
    done = subprocess.run([sys.executable, "-c", code], env=variables, capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, shown + b" ?\n", b"")
