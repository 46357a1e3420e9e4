"""``xwheel executor``: with a module's handlers, or with glue types alone."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from xwheel.cli import main
from xwheel.errors import ConfigError
from xwheel.executor import Executor


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Executor]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", list(sys.path))
    monkeypatch.setattr("logging.basicConfig", lambda **_: None)
    found: list[Executor] = []
    monkeypatch.setattr(Executor, "run_forever", lambda self: found.append(self) or True)
    (tmp_path / "xwheel.toml").write_text(
        '[executor]\napp_name = "demo"\nadmin_addresses = ["http://127.0.0.1:1"]\n'
        'access_token = "a-token-for-tests-only"\nallowed_glue_types = ["GLUE_HTTP"]\n'
    )
    return found


def test_an_executor_of_glue_types_needs_no_module(started: list[Executor]) -> None:
    assert CliRunner().invoke(main.app, ["executor", "-c", "xwheel.toml"]).exit_code == 0
    assert len(started) == 1


def test_an_executor_without_handlers_and_glue_types_has_nothing_to_run(started: list[Executor]) -> None:
    result = CliRunner().invoke(main.app, ["executor"])
    assert isinstance(result.exception, ConfigError)
    assert str(result.exception).startswith("there is nothing to run: name a module with @job handlers, or allow")
    assert not started


def test_u1_several_modules_can_be_named(started: list[Executor], tmp_path: Path) -> None:
    for name in ("u1_first", "u1_second"):
        (tmp_path / f"{name}.py").write_text(f"from xwheel.executor import job\n@job('{name}')\ndef run(): ...\n")
    done = CliRunner().invoke(main.app, ["executor", "u1_first", "u1_second", "-c", "xwheel.toml"])
    assert done.exit_code == 0, done.output
    assert started[0]._handlers.names == ["u1_first", "u1_second"]


def test_u10_an_executor_takes_the_folder_of_plugins(started: list[Executor], tmp_path: Path) -> None:
    done = CliRunner().invoke(main.app, ["executor", "-c", "xwheel.toml", "--plugins-dir", str(tmp_path)])
    assert done.exit_code == 0, done.output
    assert started[0]._config.plugins.folder == tmp_path


def test_u10_an_executor_of_its_own_settings_takes_no_folder(started: list[Executor], tmp_path: Path) -> None:
    (tmp_path / "u1_own.py").write_text(
        "from xwheel.executor import Executor\nfrom xwheel.config import load_config\n"
        "from pathlib import Path\nmine = Executor(load_config(Path('xwheel.toml')))\n"
    )
    done = CliRunner().invoke(main.app, ["executor", "u1_own:mine"])
    assert done.exit_code == 0, done.output
    done = CliRunner().invoke(main.app, ["executor", "u1_own:mine", "--plugins-dir", str(tmp_path)])
    assert "an Executor has its own handlers and settings" in str(done.exception)
