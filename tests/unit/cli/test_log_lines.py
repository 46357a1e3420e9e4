"""Finding U6: the settings of the log, and the small options that everybody tries first."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest
from typer.testing import CliRunner

from xwheel import __version__
from xwheel.cli import main
from xwheel.cli.log_lines import JsonFormatter, log_from
from xwheel.config import build_config
from xwheel.errors import ConfigError

RECORD = logging.LogRecord("xwheel.x", logging.WARNING, "", 1, "it said %s", ("\x1b[2J\nforged",), None)


@pytest.fixture
def root() -> Iterator[logging.Logger]:
    logger = logging.getLogger()
    handlers, level = logger.handlers[:], logger.level
    yield logger
    logger.handlers[:] = handlers
    logger.setLevel(level)


def test_u6_the_level_and_the_zone_of_the_log_are_settings(root: logging.Logger) -> None:
    log_from(logging.INFO, build_config({"log": {"level": "error", "timezone": "Asia/Shanghai"}}))
    (handler,) = root.handlers
    assert root.level == logging.ERROR
    RECORD.created = 0.5
    assert handler.format(RECORD).startswith("1970-01-01 08:00:00.500+08:00 WARNING ")
    log_from(logging.INFO, build_config({}))
    assert root.level == logging.INFO


def test_u6_a_line_of_json_is_one_object(root: logging.Logger) -> None:
    log_from(logging.INFO, build_config({"log": {"format": "json", "timezone": "UTC"}}))
    (handler,) = root.handlers
    assert isinstance(handler.formatter, JsonFormatter)
    RECORD.created = 0.5
    line = handler.format(RECORD)
    assert line.isprintable()
    found = json.loads(line)
    assert found["message"] == "it said \x1b[2J\nforged"
    assert (found["time"], found["level"]) == ("1970-01-01T00:00:00.500+00:00", "WARNING")
    assert found["process"] == os.getpid()


def test_lines_of_many_processes_say_whose_they_are(root: logging.Logger) -> None:
    for config in (None, build_config({})):
        for of_many in (True, False):
            logging.getLogger().handlers.clear()
            log_from(logging.INFO, config, of_many=of_many)
            (handler,) = root.handlers
            assert (f" WARNING {os.getpid()} MainThread xwheel.x: " in handler.format(RECORD)) == of_many


@pytest.mark.parametrize(
    ("name", "value"), [("level", "loud"), ("format", "xml"), ("timezone", "Mars"), ("timezone", "/etc/passwd")]
)
def test_u6_a_bad_setting_of_the_log_is_named(name: str, value: str) -> None:
    with pytest.raises(ConfigError, match=f"log.{name}: "):
        build_config({"log": {name: value}})


def test_u6_the_short_help_and_the_version() -> None:
    runner = CliRunner()
    assert runner.invoke(main.app, ["--version"]).output == f"{__version__}\n"
    assert runner.invoke(main.app, ["-h"]).output == runner.invoke(main.app, ["--help"]).output
    for words in (["db"], ["db", "check"], ["plugins"]):
        done = runner.invoke(main.app, [*words, "-h"])
        assert done.exit_code == 0
        assert "Usage: " in done.output


def completions(line: str) -> set[str]:
    """Return what the shell offers, asked as bash asks after ``xwheel --install-completion``."""
    environment = {
        **os.environ,
        "_XWHEEL_COMPLETE": "complete_bash",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(line.split()) - 1),
    }
    code = "import sys; sys.argv = ['xwheel']; from xwheel.__main__ import main; main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=environment)
    return set(done.stdout.split())


@pytest.mark.processes
@pytest.mark.parametrize(
    ("line", "wanted"),
    [("xwheel serv", {"server"}), ("xwheel db ch", {"check"}), ("xwheel db check --data", {"--database"})],
)
def test_u6_the_shell_completes_commands_options_and_values(line: str, wanted: set[str]) -> None:
    assert completions(line) == wanted
