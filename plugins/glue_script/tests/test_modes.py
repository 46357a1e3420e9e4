"""Finding S4: scripts, environments and locks are for the executor's account alone, whatever the umask."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from test_python import options, script, wheels
from xwheel_devtools.testing import ExecutorSite

MakeSite = Callable[..., ExecutorSite]
__all__ = ["wheels"]  # the fixture


@pytest.fixture(params=[0o000, 0o022, 0o077], ids=lambda mask: f"umask-{mask:03o}")
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def open_ones(folder: Path) -> dict[str, str]:
    """Return what is open to others, with its mode."""
    found = {}
    for path in (folder, *folder.rglob("*")):
        mode = path.lstat().st_mode
        if not stat.S_ISLNK(mode) and mode & 0o077:
            found[str(path)] = f"{stat.S_IMODE(mode):04o}"
    return found


def test_s4_scripts_and_environments_are_private(make_site: MakeSite, wheels: Path, umask: int) -> None:
    site = make_site(options(wheels))
    assert site.run("umask") == (200, "")
    assert site.log().strip() == f"{umask:04o}"  # the script itself has what the executor has
    assert open_ones(site.folder) == {}
    if umask:
        return  # what is private where nothing is masked is private with any mask: an environment is made once
    code, message = site.run(script("import pinned_demo", "pinned_demo==1.0"), 2, glue_type="GLUE_PYTHON")
    assert (code, message) == (200, ""), site.log(2)
    assert {path.name for path in site.folder.iterdir()} >= {"gluesource", "glueenv", "logs", "journal.db"}
    assert open_ones(site.folder) == {}


@pytest.mark.skipif(
    os.geteuid() != 0 and not os.environ.get("REQUIRE_SERVERS"), reason="only root may take another account"
)
@pytest.mark.parametrize("mode", [0o755, 0o700])
def test_s4_another_account_passes_through_our_private_folder(make_site: MakeSite, mode: int) -> None:
    """It reaches its script and lists nothing; where a folder above does not let it pass, the message says so."""
    with tempfile.TemporaryDirectory() as name:
        home = Path(name, "scripts")
        Path(name).chmod(mode)
        site = make_site({"run_as": "nobody", "directory": str(home)})
        code, message = site.run(f"ls {home} || ls {home}/gluesource || echo neither")
        if mode == 0o700:
            assert code == 500
            assert "chmod o+x" in message
            return
        assert (code, message) == (200, "")
        assert site.log().splitlines()[-1] == "neither"
        assert open_ones(Path(name)) == {name: "0755", str(home): "0711", str(home / "gluesource"): "0711"}
