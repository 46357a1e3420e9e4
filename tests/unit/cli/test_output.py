"""Rows of the core's own commands: aligned words on a pipe, a line below the titles on a terminal."""

from __future__ import annotations

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
