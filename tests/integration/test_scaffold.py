"""``xwheel plugins new``: its projects are tidy whatever they are called, and it overwrites nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner
from xwheel_devtools.scaffold.project import MAX_NAME, Kind, write_project

from xwheel.cli.main import app
from xwheel.errors import FieldError

RUFF = Path(sys.executable).with_name("ruff")


def test_every_project_is_tidy_whatever_it_is_called(tmp_path: Path) -> None:
    for number, kind in enumerate(Kind):
        for name in (f"my_{kind}", f"{'abcdefghijklmnop'[number]}", f"{kind}_" + "y" * (MAX_NAME - len(kind) - 1)):
            write_project(kind, name, tmp_path, "0.1.0")
    for command in (["check", "--no-cache"], ["format", "--no-cache", "--check", "--diff"]):
        done = subprocess.run([RUFF, *command, "."], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    "name", ["", "My", "my-channel", "1st", "a__b", "_a", "a_", "class", "x" * 31, "../x", "a.b", "a b", "\u00e9"]
)  # fmt: skip
def test_a_name_that_cannot_be_a_module_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(FieldError, match="NAME: has 1 to 30 small letters"):
        write_project(Kind.ALARM, name, tmp_path, "0.1.0")
    assert not list(tmp_path.iterdir())


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "file").write_text("precious")
    for name in ("mine", "file"):
        with pytest.raises(FieldError, match=f"NAME: .*{name} exists already"):
            write_project(Kind.ROUTER, name, tmp_path, "0.1.0")
    assert (tmp_path / "file").read_text() == "precious"
    assert not list((tmp_path / "mine").iterdir())
    with pytest.raises(FieldError, match="--directory: cannot make .*: No such file or directory"):
        write_project(Kind.ROUTER, "other", tmp_path / "nowhere", "0.1.0")


def test_the_command_tells_what_it_wrote(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["plugins", "new", "alarm", "my_channel", "--directory", str(tmp_path)])
    assert done.exit_code == 0, done.output
    written = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file())
    assert written == [
        "my_channel/README.md",
        "my_channel/pyproject.toml",
        "my_channel/tests/test_my_channel.py",
        "my_channel/xwheel_my_channel/__init__.py",
        "my_channel/xwheel_my_channel/py.typed",
    ]
    assert sorted(done.output.split()) == [str(tmp_path / path) for path in written]
    assert (
        'dependencies = ["pydantic>=2", "xwheel>=0.1,<0.2", "xwheel-alarms>=0.1,<0.2", "xwheel-egress>=0.1,<0.2"]'
        in (tmp_path / "my_channel/pyproject.toml").read_text()
    )
    assert '{"channel": "my_channel"}' in (tmp_path / "my_channel/README.md").read_text()
    assert CliRunner().invoke(app, ["plugins", "new", "pager", "x"]).exit_code == 2
