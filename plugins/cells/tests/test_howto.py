"""The commands of ``docs/howto/cells.md``, typed as they stand there."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from sites import Cells

sys.path.append(str(Path(__file__).resolve().parents[3]))

from tests.support.listings import one_listing

PAGE = "docs/howto/cells.md"


def typed(commands: str, folder: Path, **variables: str) -> str:
    """Type commands, which must end well; return what they print."""
    programs = folder / "bin"
    programs.mkdir(exist_ok=True)
    (programs / "xwheel").write_text(f'#!/bin/sh\nexec {sys.executable} -m xwheel "$@"\n')
    (programs / "xwheel").chmod(0o755)
    env = {**os.environ, **variables, "PATH": f"{programs}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["/bin/sh", "-ec", commands], check=False, cwd=folder, env=env, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.skipif(shutil.which("curl") is None and not os.environ.get("REQUIRE_SERVERS"), reason="no curl here")
def test_the_page_on_cells_can_be_followed(cells: Cells) -> None:
    north = cells.cluster()
    north.run("fail")
    database = f"sqlite:///{cells.folder / 'cluster-1' / 'node.db'}"
    typed(one_listing(PAGE, "xwheel token create").text, cells.folder, XWHEEL_DATABASE__URL=database)
    token = cells.folder / "north.token"
    assert stat.S_IMODE(token.stat().st_mode) == 0o600
    front = cells.front(north={"url": north.url, "token_file": str(token)})
    asked, runs = one_listing(PAGE, "curl").text.splitlines()

    def answer(command: str) -> Any:
        words = command.replace("http://127.0.0.1:8080", front.url)
        return json.loads(typed(words, cells.folder, XWHEEL_TOKEN=front.token))

    assert [(item["name"], item["reachable"]) for item in answer(asked)["items"]] == [("here", True), ("north", True)]
    found = answer(runs)
    assert [(row["cell"], row["state"]) for row in found["items"]] == [("north", "failed")]
    assert found["missing"] == []
