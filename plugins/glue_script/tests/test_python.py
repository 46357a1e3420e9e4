"""Python scripts with pinned requirements: environments of their own, made once, and complete or not at all."""

from __future__ import annotations

import base64
import hashlib
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from xwheel.plugin import ExecutorError
from xwheel_devtools.testing import ExecutorSite, wait_until

from xwheel_glue_script.requirements import Wanted, read_requirements

MakeSite = Callable[..., ExecutorSite]


def write_wheel(folder: Path, name: str, version: str) -> None:
    """Write a wheel of one module that knows its version."""
    folder.mkdir(exist_ok=True)
    info = f"{name}-{version}.dist-info"
    files = {
        f"{name}.py": f"VERSION = {version!r}\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = ""
    for path, text in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
        record += f"{path},sha256={digest},{len(text.encode())}\n"
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as wheel:
        for path, text in {**files, f"{info}/RECORD": f"{record}{info}/RECORD,,\n"}.items():
            wheel.writestr(path, text)


@pytest.fixture
def wheels(tmp_path: Path) -> Path:
    folder = tmp_path / "wheels"
    for version in ("1.0", "2.0", "3.0"):
        write_wheel(folder, "pinned_demo", version)
    return folder


def options(wheels: Path, **more: Any) -> dict[str, Any]:
    return {"pip_args": ["--no-index", "--find-links", str(wheels)], **more}


def script(body: str, *requirements: str, more: str = "") -> str:
    lines = "".join(f'#   "{item}",\n' for item in requirements)
    return f"# /// script\n# dependencies = [\n{lines}# ]\n{more}# ///\n{body}\n"


def environments(site: ExecutorSite) -> list[str]:
    return sorted(path.name for path in (site.folder / "glueenv").iterdir() if path.is_dir())


def test_two_versions_run_at_once(make_site: MakeSite, wheels: Path, tmp_path: Path) -> None:
    """Each waits until the other one has started too."""
    site = make_site(options(wheels))
    body = (
        "import pathlib, sys, time, pinned_demo\n"
        "here = pathlib.Path(sys.argv[1])\n"
        "(here / pinned_demo.VERSION).touch()\n"
        "while len(list(here.iterdir())) < 2:\n    time.sleep(0.02)\n"
        "print('ran with', pinned_demo.VERSION)"
    )
    meet = tmp_path / "meet"
    meet.mkdir()
    for run_id, version in ((1, "1.0"), (2, "2.0")):
        source = script(body, f"pinned_demo=={version}")
        assert site.start(source, run_id, glue_type="GLUE_PYTHON", param=str(meet)).code == 200
    assert [site.outcome(1), site.outcome(2)] == [(200, ""), (200, "")]
    assert site.log(1).endswith("ran with 1.0\n")
    assert site.log(2).endswith("ran with 2.0\n")
    assert "building an environment with pinned_demo==1.0" in site.log(1)


def test_an_environment_is_made_once_however_many_want_it(make_site: MakeSite, wheels: Path) -> None:
    site = make_site(options(wheels))
    source = script("import pinned_demo; print(pinned_demo.VERSION)", "pinned_demo==1.0")
    for run_id in (1, 2, 3):
        site.start(source, run_id, glue_type="GLUE_PYTHON")
    assert [site.outcome(run_id)[0] for run_id in (1, 2, 3)] == [200, 200, 200]
    assert sum("building an environment" in site.log(run_id) for run_id in (1, 2, 3)) == 1
    assert len(environments(site)) == 1


def test_a_requirement_that_cannot_be_installed_fails_the_run(make_site: MakeSite, wheels: Path) -> None:
    site = make_site(options(wheels))
    code, message = site.run(script("print('never')", "pinned_demo==9.9"), glue_type="GLUE_PYTHON")
    assert code == 500
    assert message.startswith("requirements cannot be installed (status 1): ")
    assert "No matching distribution found" in message
    assert "\n" not in message
    assert "No matching distribution found" in site.log()
    assert environments(site) == []


def test_too_many_environments_are_deleted_but_none_in_use(make_site: MakeSite, wheels: Path, tmp_path: Path) -> None:
    site = make_site(options(wheels, environments=1))
    go = tmp_path / "go"
    waiting = "import os, time, pinned_demo\nprint('up', flush=True)\n"
    waiting += f"while not os.path.exists({str(go)!r}):\n    time.sleep(0.02)"
    site.start(script(waiting, "pinned_demo==1.0"), 1, glue_type="GLUE_PYTHON")
    wait_until(lambda: "up\n" in site.log(1))
    first = environments(site)
    assert site.run(script("import pinned_demo", "pinned_demo==2.0"), 2, glue_type="GLUE_PYTHON") == (200, "")
    assert set(first) < set(environments(site))
    go.touch()
    assert site.outcome(1) == (200, "")
    assert site.run(script("import pinned_demo", "pinned_demo==3.0"), 3, glue_type="GLUE_PYTHON") == (200, "")
    assert len(environments(site)) == 1
    assert site.run(script("import pinned_demo", "pinned_demo==1.0"), 4, glue_type="GLUE_PYTHON") == (200, "")


def test_a_killed_installation_leaves_nothing_half_done(make_site: MakeSite, wheels: Path, tmp_path: Path) -> None:
    slow = tmp_path / "slow-python"
    slow.write_text(f'#!/bin/sh\ncase "$1" in -c) echo 3.11.0;; *) touch "{tmp_path}/up"; sleep 600;; esac\n')
    slow.chmod(0o755)
    site = make_site(options(wheels, interpreters={"GLUE_PYTHON": str(slow)}))
    site.start(script("print(1)", "pinned_demo==1.0"), glue_type="GLUE_PYTHON")
    wait_until((tmp_path / "up").exists)
    site.kill()
    assert site.outcome()[0] == 500
    assert not list((site.folder / "glueenv").rglob(".ready"))


def test_a_script_without_a_block_runs_at_once(site: ExecutorSite) -> None:
    body = "import sys\nprint('out'); print('err', file=sys.stderr); print('\\udcff')"
    assert site.run(body, glue_type="GLUE_PYTHON") == (200, "")
    assert site.log().split("\n")[:2] == ["out", "err"]
    assert not (site.folder / "glueenv").exists()


def test_what_a_script_wants_is_read_as_pep_723_says() -> None:
    assert read_requirements("print(1)\n") is None
    assert read_requirements("# /// other\n# x = 1\n# ///\n") is None
    assert read_requirements("# /// script\n# dependencies = []\n# ///\n") is None
    source = '#!/usr/bin/python\n# /// script\r\n# requires-python = ">=3.11"\n# dependencies = ["b>1", "a"]\n# ///\n'
    assert read_requirements(source) == Wanted(("a", "b>1"), ">=3.11")


@pytest.mark.parametrize(
    ("block", "words"),
    [
        ("# dependencies = [", "is not TOML"),
        ('# dependencies = "requests"', "must be a list"),
        ('# dependencies = ["--index-url=http://evil"]', "is no requirement"),
        ('# dependencies = ["-r other.txt"]', "is no requirement"),
        ("# dependencies = [5]", "is no requirement"),
        ('# dependencies = ["a b"]', "is no requirement"),
        ('# requires-python = "three"', "requires-python: 'three' is no range"),
        ("# dependencies = [" + '"a",' * 101 + "]", "at most 100"),
    ],
)
def test_a_block_that_says_something_else_is_refused(block: str, words: str) -> None:
    with pytest.raises(ExecutorError) as caught:
        read_requirements(f"# /// script\n{block}\n# ///\n")
    assert words in str(caught.value)


def test_two_blocks_are_refused() -> None:
    block = "# /// script\n# dependencies = []\n# ///\n"
    with pytest.raises(ExecutorError, match="two blocks"):
        read_requirements(f"{block}\n{block}")


def test_a_python_that_is_too_old_is_named(site: ExecutorSite) -> None:
    source = '# /// script\n# requires-python = ">=4"\n# ///\nprint(1)\n'
    code, message = site.run(source, glue_type="GLUE_PYTHON")
    assert (code, message.startswith("requires-python: the script wants >=4, ")) == (500, True)
