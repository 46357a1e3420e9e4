"""A library that is not installed is named in one line, with the extra that brings it."""

from __future__ import annotations

import subprocess
import sys
import tomllib

import pytest

from tests.support.paths import ROOT
from xwheel.calendars import parse_calendar
from xwheel.errors import ConfigError, ScheduleError
from xwheel.extras import extra

HALTED = "database.url: the driver {0} cannot be loaded (import of {0} halted; None in sys.modules)"


def assert_hint(words: str, library: str, extra_name: str, what: str) -> None:
    """Run a command where a library is not installed."""
    code = (
        f"import sys; sys.modules[{library!r}] = None; sys.argv[1:] = {words.split()}; "
        "from xwheel.__main__ import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"xwheel: {what}: pip install 'xwheel[{extra_name}]'\n"


@pytest.mark.processes
@pytest.mark.parametrize(
    ("words", "library", "extra_name", "what"),
    [
        ("server", "typer", "cli", "the command needs typer, which is not installed"),
        ("server", "sqlalchemy", "server", "a scheduler node needs sqlalchemy, which is not installed"),
        ("db check --database mysql://u@h/d", "pymysql", "mysql", HALTED.format("pymysql")),
        ("db check --database postgresql://u@h/d", "psycopg", "postgresql", HALTED.format("psycopg")),
    ],
)
def test_a_command_without_its_library(words: str, library: str, extra_name: str, what: str) -> None:
    assert_hint(words, library, extra_name, what)


def test_a_calendar_of_holidays_without_their_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "holidays", None)
    with pytest.raises(ScheduleError) as refused:
        parse_calendar({"workdays": "CN/none-that-a-test-before-asked-for"})
    assert str(refused.value) == (
        "calendar.workdays: needs holidays, which is not installed: pip install 'xwheel[calendars]'"
    )
    parse_calendar({"weekdays": "SAT,SUN"})


def test_a_mistake_of_ours_is_no_missing_extra() -> None:
    with pytest.raises(ModuleNotFoundError), extra("server"):
        import xwheel.nothing_of_that_name  # noqa: F401
    with pytest.raises(ConfigError, match=r"needs nothing_of_that_name, .*'xwheel\[server\]'"), extra("server"):
        import nothing_of_that_name.inside  # noqa: F401


def test_the_extra_of_xxl_job_names_our_plugins() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    ours = {tomllib.loads(path.read_text())["project"]["name"] for path in ROOT.glob("plugins/*/pyproject.toml")}
    assert set(project["optional-dependencies"]["xxl"]) <= ours
