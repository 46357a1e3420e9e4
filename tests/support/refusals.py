"""Run the command in this process, where it is expected to refuse: an exit status and one line without secrets."""

from __future__ import annotations

import re
import sys

import pytest

from xwheel.cli import main
from xwheel.cli.options import SHOWN_WARNING

LOG_LINE = re.compile(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} INFO .*\n", re.MULTILINE)
COMMANDS = [("server",), ("db", "upgrade"), ("db", "check"), ("token", "list"), ("quickstart", "--seconds", "5")]


def without_log(err: str) -> str:
    """Return what stands on standard error next to the lines of the log, with which a node says what starts."""
    return LOG_LINE.sub("", err)


class Refusals:
    """The ``xwheel`` command; ``server`` does not wait for a database."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._monkeypatch = monkeypatch
        self._capsys = capsys
        monkeypatch.setenv("XWHEEL_DATABASE__WAIT_S", "0")
        # nothing may listen yet; were it otherwise, it would not meet another node of this machine
        monkeypatch.setenv("XWHEEL_API__PORT", "0")
        monkeypatch.setenv("XWHEEL_API__EXECUTOR_PORT", "0")

    def run(self, *words: str, database: str) -> tuple[int, str, str]:
        """Return exit status, standard output and standard error."""
        self._monkeypatch.setattr(sys, "argv", ["xwheel", *words, "--database", database])
        with pytest.raises(SystemExit) as caught:
            main.main()
        out, err = self._capsys.readouterr()
        err = err.removeprefix(f"{SHOWN_WARNING}\n")
        return int(caught.value.code or 0), out, without_log(err)

    def line(self, status: int, *words: str, database: str, secret: str = "") -> str:
        """Return the one line with which the command refuses."""
        found, out, err = self.run(*words, database=database)
        assert found == status, err
        assert out == ""
        assert err.startswith("xwheel: ")
        assert err.count("\n") == 1, err
        assert not secret or secret not in err
        return err.removeprefix("xwheel: ").rstrip("\n")

    def passes(self, *words: str, database: str) -> str:
        """Return what a command prints that does not refuse."""
        status, out, err = self.run(*words, database=database)
        assert status == 0, err
        return out
