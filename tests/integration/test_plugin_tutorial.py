"""The page "Your first plugin, in fifteen minutes", run as it stands."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.test_third_party_plugins import done_well
from tests.support.executors import wait_until
from tests.support.ports import free_port
from tests.support.tutorials import Tutorial

PAGE = "tutorial/one-file-plugin.md"
WAIT_S = 60


@pytest.fixture
def tutorial(tmp_path: Path) -> Iterator[Tutorial]:
    folder = tmp_path / "work"
    folder.mkdir(mode=0o755)
    words = {port: str(free_port()) for port in ("8080", "8081", "9999")}
    variables = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONUNBUFFERED": "1",
        "XDG_CONFIG_HOME": str(tmp_path / "home"),
        "XWHEEL_API__PORT": words["8080"],
        "XWHEEL_API__EXECUTOR_PORT": words["8081"],
    }
    made = Tutorial(PAGE, folder, variables, words)
    yield made
    made.close()


@pytest.mark.long
def test_u10_a_beginners_plugin(tutorial: Tutorial) -> None:
    make, check, tidy_up, test, serve, prepare, execute, use, tell, wrong = tutorial.shells
    checked, broken = tutorial.outputs
    done_well(tutorial.type(f"umask 022; {make}"))
    tutorial.save_files()
    done_well(tutorial.type("chmod -R go-w my_plugins"))
    assert done_well(tutorial.type(check)) == checked
    done_well(tutorial.type(tidy_up))
    assert "2 passed" in done_well(tutorial.type(test))

    tutorial.start(serve, "server.log")
    tutorial.said("server.log", "(executor API on)")
    assert tutorial.said("server.log", "(plugins of my_plugins: shop)")
    done_well(tutorial.type(prepare))
    tutorial.start(execute, "executor.log")
    tutorial.said("executor.log", "(is registered)")
    done_well(tutorial.type(use))
    told = wait_until(lambda: tutorial.type(tell).stdout, WAIT_S)
    assert "OSError: the disk is full" in told

    said = done_well(tutorial.type(f"umask 022; {wrong}"))
    assert "LAST_ONE" in said
    assert broken.replace("FOLDER", str(tutorial.folder)) in said
