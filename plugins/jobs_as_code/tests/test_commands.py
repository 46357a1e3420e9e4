"""The commands are where xwheel looks for them, and say what they do."""

from __future__ import annotations

import pytest
from xwheel.cli.lazy import load_group
from xwheel.cli.plugin_commands import CommandPlace
from xwheel_commands import Command
from xwheel_devtools.testing import check_commands

from xwheel_jobs_as_code.hooks import COMMANDS


def test_they_keep_the_names_that_scripts_have() -> None:
    assert [item.name for item in COMMANDS] == ["job/apply", "job/export", "sync", "job/release", "group/declarations"]


@pytest.mark.parametrize("item", COMMANDS, ids=lambda item: item.name)
def test_each_can_be_loaded_and_has_one_help(item: Command) -> None:
    check_commands(item)
    group = load_group(CommandPlace(item.module, item.help))
    assert str(group.commands[item.name.rpartition("/")[2]].help).partition("\n\n")[0] == item.help
