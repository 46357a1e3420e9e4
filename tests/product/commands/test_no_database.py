"""U23: a command that works on a database which is not there says so, names the file, and makes none."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from xwheel.cli import main

COMMANDS = (
    "account list", "account show ann", "account create ann", "account reset ann", "account link ann",
    "token list", "token create ops", "token delete ops",
    "secret list", "secret create one --group orders", "secret rotate one two",
    "audit verify", "db check",
)  # fmt: skip


@pytest.mark.parametrize("words", COMMANDS)
def test_u23_a_command_makes_no_database(
    words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setattr(sys, "argv", ["xwheel", *words.split()])
    with pytest.raises(SystemExit) as caught:
        main.main()
    said = capsys.readouterr().err
    assert (caught.value.code, said.count("\n")) == (main.EXIT_SCHEMA, 1), said
    assert f"there is no database {tmp_path / 'xwheel.db'}" in said
    assert list(tmp_path.iterdir()) == []
