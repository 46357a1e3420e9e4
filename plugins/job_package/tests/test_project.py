"""What an author types: a new project, its tests, its wheel."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner
from xwheel.plugin import FieldError, XwheelError

from xwheel_job_package.command import app
from xwheel_job_package.project import build_wheel, make_project


def test_a_new_projects_tests_pass_and_its_wheel_has_its_job(tmp_path: Path) -> None:
    run = CliRunner()
    made = run.invoke(app, ["new", str(tmp_path / "shop_jobs")])
    assert made.exit_code == 0
    tests = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=tmp_path / "shop_jobs",
        env={"PYTHONPATH": str(tmp_path / "shop_jobs"), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "1 passed" in tests.stdout, tests.stdout + tests.stderr
    built = run.invoke(app, ["build", str(tmp_path / "shop_jobs"), "--into", str(tmp_path / "dist"), "--no-isolation"])
    assert built.exit_code == 0, built.output
    assert "shop-jobs 0.1.0: 1 jobs, 0 disabled" in built.output
    assert "shop_jobs.jobs.nightly  0 0 2 * * ?" in built.output
    assert [path.name for path in (tmp_path / "dist").iterdir()] == ["shop_jobs-0.1.0-py3-none-any.whl"]


@pytest.mark.parametrize("name", ["Shop", "9shop", "shop-jobs", "a" * 51, "shop.jobs"])
def test_a_name_that_is_none_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(FieldError, match="NAME: must be 1 to 50 small letters"):
        make_project(tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_what_is_there_stays(tmp_path: Path) -> None:
    (tmp_path / "shop").mkdir()
    with pytest.raises(FieldError, match="is there already"):
        make_project(tmp_path / "shop")


def test_a_project_that_cannot_be_built_says_why(tmp_path: Path) -> None:
    with pytest.raises(FieldError, match=r"has no pyproject\.toml: 'xwheel package new' makes a project"):
        build_wheel(tmp_path, tmp_path / "dist")
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'x'\n")
    with pytest.raises(XwheelError, match=r"pip cannot build .*\n(.*\n)*.*version"):
        build_wheel(tmp_path, tmp_path / "dist", is_isolated=False)
