"""One new project of each kind: installed, tested by its own suite, checked by mypy and listed."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from xwheel_devtools.scaffold.project import Kind, write_project

from tests.support.paths import ROOT
from tests.support.plugin_homes import plugin_home

REGISTERED = {
    Kind.ALARM: ("alarm channel", "my_alarm"),
    Kind.ROUTER: ("router", "MY_ROUTER"),
    Kind.GLUE: ("glue type", "MY_GLUE"),
    Kind.SCHEDULE: ("schedule type", "MY_SCHEDULE"),
    Kind.LISTENER: ("run listener", "my_listener"),
    Kind.LOG: ("log store", "my_log"),
    Kind.IDENTITY: ("identity provider", "my_identity"),
    Kind.PAGES: ("set of pages", "xwheel-my-pages"),
    Kind.TABLES: ("set of tables", "my_tables"),
    Kind.ROUTES: ("set of routes", "xwheel-my-routes"),
    Kind.COMMANDS: ("set of commands", "xwheel-my-commands"),
}


def run(*command: object, folder: Path, **variables: str) -> str:
    done = subprocess.run(
        [str(word) for word in command],
        cwd=folder,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.long(40)
@pytest.mark.timeout(900)
def test_new_projects_work_as_they_are(tmp_path: Path) -> None:
    projects = tmp_path / "projects"
    projects.mkdir()
    for kind in Kind:
        write_project(kind, f"my_{kind}", projects, "0.1.0")
    home = tmp_path / "home"
    names = [f"./my_{kind}" for kind in Kind]
    offline = ["--quiet", "--no-index", "--no-deps", "--no-build-isolation", "--disable-pip-version-check"]
    target = ["--no-compile", "--target", home]
    run(sys.executable, "-m", "pip", "install", *offline, *target, *names, folder=projects, PYTHONWARNINGS="ignore")

    path = {"PYTHONPATH": os.pathsep.join([str(home), str(plugin_home("egress"))])}
    # each suite by its own settings, which turn warnings into failures
    said = run(
        sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:xdist", "-W", "error", *names,
        folder=projects, **path,
    )  # fmt: skip
    assert re.search(r"\b29 passed", said), said

    packages = [f"my_{kind}/xwheel_my_{kind}" for kind in Kind]
    # our own cache, which the types' check has filled
    settings = ["--config-file", ROOT / "pyproject.toml", "--cache-dir", ROOT / ".mypy_cache"]
    run(
        sys.executable,
        "-m",
        "mypy",
        *settings,
        *packages,
        folder=projects,
        MYPYPATH=os.pathsep.join(
            map(str, [ROOT, *(ROOT / "plugins" / name for name in ("accounts", "alarms", "egress", "run_logs"))])
        ),
    )

    config = tmp_path / "xwheel.toml"
    config.write_text('[plugins.options.my_alarm]\nurl = "https://chat.example/hush"\n')
    xwheel = Path(sys.executable).with_name("xwheel")
    listed = run(xwheel, "plugins", "--config", config, "--json", folder=tmp_path, **path)
    items = {item["name"]: item for item in json.loads(listed)}
    for kind, (what, name) in REGISTERED.items():
        item = items[f"my_{kind}"]
        assert (item["distribution"], item["version"]) == (f"xwheel-my-{kind}", "0.1.0")
        assert [(one["kind"], one["name"]) for one in item["registers"]] == [(what, name)]
    table = run(xwheel, "plugins", "--config", config, folder=tmp_path, **path)
    assert re.search(r"router +MY_ROUTER +xwheel-my-router 0\.1\.0 \(entry point my_router = ", table), table
    assert 'option plugins.options.my_alarm.url = "**********"' in table
    assert "hush" not in listed + table
