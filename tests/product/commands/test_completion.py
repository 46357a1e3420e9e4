"""Finding U6: the short help of commands, and what a shell completes."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from tests.unit.cli.test_log_lines import completions
from xwheel.cli import main


def test_u6_the_short_help() -> None:
    for words in (["job"], ["job", "list"], ["glue"], ["pause"]):
        done = CliRunner().invoke(main.app, [*words, "-h"])
        assert done.exit_code == 0
        assert "Usage: " in done.output


@pytest.mark.processes
@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("xwheel ca", {"calendar"}),
        ("xwheel job st", {"start", "stop"}),
        ("xwheel run list --sta", {"--state"}),
        ("xwheel run list --state fa", {"failed"}),
    ],
)
def test_u6_the_shell_completes_commands_options_and_values(line: str, wanted: set[str]) -> None:
    assert completions(line) == wanted
