"""The page about embedded mode, run as it stands: its files, its commands, its web servers."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.executors import wait_until
from tests.support.ports import free_port
from tests.support.tutorials import Tutorial

PAGE = "tutorial/embedded.md"
LEADS = r"(?m)^xwheel: process \d+ leads; XWHEEL_URL=(\S+) XWHEEL_TOKEN_FILE=\S+/token$"


@pytest.fixture
def tutorial(tmp_path: Path) -> Iterator[Tutorial]:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    home = str(tmp_path / "home")
    variables = {**os.environ, "PATH": path, "PYTHONUNBUFFERED": "1", "XDG_CONFIG_HOME": home}
    made = Tutorial(PAGE, tmp_path, variables, {"8000": str(free_port())})
    made.save_files()
    yield made
    made.close()


@pytest.mark.long
@pytest.mark.processes
def test_u8_five_lines_and_asyncio(tutorial: Tutorial) -> None:
    hello, look, loop, *_ = tutorial.shells
    (shown,) = tutorial.outputs
    assert re.match(LEADS, shown)
    process = tutorial.start(hello, "hello.log")
    tutorial.said("hello.log", LEADS)
    tutorial.said("hello.log", r"(?m)^(hello, world)$")
    done = tutorial.type(look)
    assert done.returncode == 0, done.stderr
    assert "greet" in done.stdout
    tutorial.stop(process)

    done = tutorial.type(loop)
    assert done.returncode == 0, done.stderr
    assert "succeeded report about sales\n" in done.stdout
    assert "polled; again a second after the end\n" in done.stdout


@pytest.mark.long
@pytest.mark.parametrize("number", range(3), ids=["flask", "django", "fastapi"])
def test_web_applications(tutorial: Tutorial, number: int) -> None:
    serve, ask = tutorial.shells[3:][number].splitlines()
    tutorial.start(serve, "site.log")
    tutorial.said("site.log", LEADS)

    def asked() -> dict[str, int]:
        done = tutorial.type(ask)
        return dict(json.loads(done.stdout)) if done.returncode == 0 else {}

    assert wait_until(asked)["run_id"] > 0
    tutorial.said("site.log", "(tidied up)")


def test_every_listing_is_run(tutorial: Tutorial) -> None:
    assert len(tutorial.shells) == 6
    assert set(tutorial.files) == {
        "hello.py", "loop.py", "flask_site.py", "django_site.py", "gunicorn_django.py", "fastapi_site.py"
    }  # fmt: skip
