"""Finding U5: tables fit the terminal, ids are never cut, states have a word, a sign and a colour."""

from __future__ import annotations

import re

import pytest
from rich.cells import cell_len
from xwheel_commands import table
from xwheel_commands.table import ALWAYS, Column, marked, print_table

import xwheel.cli.output

COLUMNS = (
    Column("ID", ALWAYS),
    Column("JOB", 8, least=16),
    Column("STATE", ALWAYS, is_state=True),
    Column("ORIGIN", 2),
    Column("DUE", 7),
    Column("REASON", 6, least=16),
    Column("JOB ID", is_wide=True),
)
ROW = (9_007_199_254_740_991, "orders/" + "中文" * 20, "failed", "schedule", "2026-11-22 21:00:05", "x" * 60, 12)
SGR = re.compile(r"\x1b\[[0-9;]*m")


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for module in (table, xwheel.cli.output):
        monkeypatch.setattr(module, "is_terminal", lambda: True)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    return monkeypatch


def printed(capsys: pytest.CaptureFixture[str], *, is_wide: bool = False) -> tuple[list[str], str]:
    print_table(COLUMNS, [ROW], is_wide=is_wide)
    out, err = capsys.readouterr()
    return out.splitlines(), err


@pytest.mark.parametrize("width", [40, 60, 80, 100, 132])
def test_u5_a_table_fits_and_ids_stay_whole(
    terminal: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], width: int
) -> None:
    terminal.setenv("COLUMNS", str(width))
    lines, _ = printed(capsys)
    plain = [SGR.sub("", line) for line in lines]
    room = max(width, 48)  # what is never left out needs this much
    assert all(cell_len(line) <= room for line in plain), plain
    assert str(ROW[0]) in plain[-1]
    assert "failed" in plain[-1]


def test_u5_what_matters_least_goes_first(terminal: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    terminal.setenv("COLUMNS", "80")
    lines, err = printed(capsys)
    assert SGR.sub("", lines[0]).split() == ["ID", "JOB", "STATE", "DUE"]
    assert err == "left out: ORIGIN, REASON; --wide shows all\n"
    terminal.setenv("COLUMNS", "110")
    assert "REASON" in printed(capsys)[0][0]


def test_u5_wide_shows_all_columns_whole(terminal: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    terminal.setenv("COLUMNS", "80")
    lines, err = printed(capsys, is_wide=True)
    assert SGR.sub("", lines[0]).split()[-2:] == ["JOB", "ID"]
    assert str(ROW[1]) in lines[-1]
    assert (lines[-1].endswith("12"), err) == (True, "")


def test_u5_a_pipe_gets_words_alone(capsys: pytest.CaptureFixture[str]) -> None:
    lines, err = printed(capsys)
    assert (err, len(lines)) == ("", 2)
    assert not SGR.search("".join(lines))
    assert "✘" not in lines[1]
    assert lines[1].split() == [str(item) for item in " ".join(map(str, ROW[:-1])).split()]
    assert marked("failed") == "failed"


def test_u5_a_state_has_a_sign_and_a_colour(terminal: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert "\x1b[31m✘ failed" in printed(capsys)[0][-1]
    assert marked("succeeded") == "\x1b[32m✔ succeeded\x1b[0m"
    terminal.setenv("NO_COLOR", "1")
    lines, _ = printed(capsys)
    assert "✘ failed" in lines[-1]
    assert not SGR.search("".join(lines))
    assert marked("succeeded") == "✔ succeeded"
    assert marked("<what is no state>") == "<what is no state>"


def test_s7_names_in_a_table_move_no_terminal(terminal: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("NAME", Column("STATE", ALWAYS, is_state=True)), [("a\x1b]52;c;x\x07\x1b[2J", "\x1b[31mfailed")])
    out = capsys.readouterr().out
    assert "a\\x1b]52;c;x\\x07\\x1b[2J" in out
    assert "\\x1b[31mfailed" in out
    assert set(SGR.sub("", out)) & {"\x1b", "\x07"} == set()
