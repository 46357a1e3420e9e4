"""A stranger's plugins: the page "Write a plugin in ten minutes", run as it stands, with nothing of this checkout."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.executors import wait_until
from tests.support.fresh_env import FreshEnvironment
from tests.support.ports import free_port
from tests.support.tutorials import Tutorial

PAGE = "tutorial/first-plugin.md"
WAIT_S = 120
LISTENS = "(executor API on)"


@pytest.fixture
def tutorial(tmp_path: Path) -> Iterator[Tutorial]:
    environment = FreshEnvironment(tmp_path / "env", "server")
    environment.install_core(tmp_path / "build")
    folder = tmp_path / "work"
    folder.mkdir()
    # the page's router must not choose what FIRST would
    ports = dict(zip(("8080", "8081", "9998", "9999"), sorted(free_port() for _ in range(4)), strict=True))
    words = {name: str(port) for name, port in ports.items()}
    variables = {
        **environment.variables,
        "PYTHONUNBUFFERED": "1",
        "XDG_CONFIG_HOME": str(tmp_path / "home"),
        "XWHEEL_API__PORT": words["8080"],
        "XWHEEL_API__EXECUTOR_PORT": words["8081"],
    }
    made = Tutorial(PAGE, folder, variables, words)
    yield made
    made.close()


@pytest.mark.nightly
@pytest.mark.timeout(900)  # it builds and installs five wheels, and starts a node three times
def test_a_strangers_plugins(tutorial: Tutorial) -> None:
    folders, install, check, listing, serve, prepare, first, second, *use = tutorial.shells
    create, look, fail, tell, wrong, remove, save, several, new = use
    mistake, missing = (text.strip() for text in tutorial.outputs)
    done_well(tutorial.type(folders))
    tutorial.save_files()
    done_well(tutorial.type(install))
    assert done_well(tutorial.type(check)) == "all three hold\n"
    listed = done_well(tutorial.type(listing))
    for word in ("NEARBY", "acme-nearby", "acme-file-alarm", "GLUE_SQL", "acme-sql-glue"):
        assert word in listed

    server = tutorial.start(serve, "server.log")
    tutorial.said("server.log", LISTENS)
    done_well(tutorial.type(prepare))
    tutorial.start(second, "second.log")
    tutorial.start(first, "first.log")
    for log in ("first.log", "second.log"):
        tutorial.said(log, "(is registered)")

    done_well(tutorial.type(create))
    rows = wait_until(lambda: len(found := succeeded(tutorial, look)) > 2 and found, WAIT_S)
    near = tutorial.adapt("http://127.0.0.1:9999")
    assert all("1 rows changed" in row and row.endswith(near) for row in rows)
    done_well(tutorial.type(fail))
    told = wait_until(lambda: tutorial.type(tell).stdout, WAIT_S)
    assert "Job 2 (tidy) failed" in told
    assert "no such table: nowhere" in told

    assert mistake in done_well(tutorial.type(wrong)).splitlines()

    tutorial.stop(server)
    done_well(tutorial.type(remove))
    server = tutorial.start(serve, "server.log")
    tutorial.said("server.log", f"(?s){LISTENS}.*{LISTENS}")
    wait_until(lambda: " refused " in tutorial.type(look).stdout, WAIT_S)
    wait_until(lambda: missing in tutorial.type(tell).stdout, WAIT_S)
    done = tutorial.type(save)
    assert "route_strategy: 'NEARBY' is not installed; known: FIRST, LAST, " in done.stderr

    tutorial.stop(server)
    done_well(tutorial.type("pip uninstall --yes acme-file-alarm"))
    tutorial.start(serve, "server.log")
    tutorial.said("server.log", f"(?s){LISTENS}.*{LISTENS}.*{LISTENS}")
    done_well(tutorial.type(several))
    done_well(tutorial.type(new))
    for name in ("my_notes", "my_calls", "my_words", "my_router"):
        assert (tutorial.folder / name / "pyproject.toml").exists()
    rule = fail.splitlines()[0]
    assert "'file' is not installed" in tutorial.type(f"{rule} || true").stderr


def succeeded(tutorial: Tutorial, look: str) -> list[str]:
    return [row for row in done_well(tutorial.type(look)).splitlines() if " succeeded " in row]


def done_well(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
