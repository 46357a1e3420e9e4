"""Finding U13: a command that an operator waits for loads only what it needs."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from xwheel_devtools.testing.web import WebServer, web_reply

HEAVY = {
    "alembic", "anyio", "asyncio", "babel", "cron_descriptor", "croniter", "cryptography", "falcon", "holidays",
    "jinja2", "mako", "packaging", "pluggy", "psycopg", "pydantic_settings", "pymysql", "requests", "sqlalchemy",
    "urllib3", "waitress", "yaml",
}  # fmt: skip
ROOMS = {"alarms", "api", "config", "executor", "node", "plugin", "scheduler", "storage"}
CODE = """
import sys
from xwheel.__main__ import main
status = 0
try:
    main()
except SystemExit as end:
    status = end.code or 0
rooms = {name.split(".")[1] for name in sys.modules if name.startswith("xwheel.")}
sys.stderr.write(" ".join(sorted({name.split(".")[0] for name in sys.modules} | {f"xwheel.{room}" for room in rooms})))
sys.exit(status)
"""


def loaded(*words: str, **environment: str) -> set[str]:
    """Return the packages that a command loads."""
    done = subprocess.run(
        [sys.executable, "-c", CODE, *words],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, done.stderr
    return set(done.stderr.split())


def check_light(found: set[str], *more: str) -> None:
    assert found & (HEAVY | set(more)) == set()
    assert found & {f"xwheel.{room}" for room in ROOMS} == set()


@pytest.mark.processes
def test_u13_the_version_loads_nothing() -> None:
    check_light(loaded("--version"), "typer", "rich", "msgspec", "pydantic", "pycurl")


@pytest.mark.processes
def test_u13_help_loads_no_command() -> None:
    """Plugins say which commands they bring; the modules of commands are not loaded."""
    found = loaded("--help")
    assert found & (HEAVY | {"rich"}) <= {"asyncio", "packaging", "pluggy", "pydantic_settings"}
    assert found & {f"xwheel.{room}" for room in ROOMS} == {"xwheel.config", "xwheel.plugin"}
    assert {"typer", "xwheel_devtools", "xwheel_jobs_as_code"} <= found
    check_light(loaded("job", "list", "--help"))


@pytest.mark.processes
@pytest.mark.parametrize("command", ["job apply", "sync", "quickstart"])
def test_a_command_of_a_plugin_loads_its_module_alone(command: str) -> None:
    found = loaded(*command.split(), "--help")
    check_light(found)
    assert len({"xwheel_devtools", "xwheel_jobs_as_code", "xwheel_console"} & found) == 1


@pytest.mark.processes
@pytest.mark.parametrize("command", ["run list", "job list", "group list", "job list --json"])
def test_u13_a_call_to_a_node_loads_neither_node_nor_settings(command: str) -> None:
    group = {"id": 1, "app_name": "shop", "title": "", "max_running": 0}
    with WebServer(web_reply(200, {"items": [group] if "group" in command else [], "next": None})) as node:
        found = loaded(*command.split(), XWHEEL_URL=node.url, XWHEEL_TOKEN="t" * 20)
        assert {request.method for request in node.requests} == {"GET"}
    check_light(found)
    assert "pycurl" in found


WITHOUT_A_SERVER = """
import importlib, sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"alembic", "argon2", "cryptography", "croniter", "sqlalchemy", "waitress"}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())
for name in sys.argv[1:]:
    importlib.import_module(name)
"""


@pytest.mark.processes
def test_commands_about_jobs_check_fields_without_the_libraries_of_a_server() -> None:
    """`xwheel[cli]` alone has none of them, and `job create` and `job apply` check before they ask a node."""
    modules = [
        *("xwheel.api.http.body", "xwheel.api.schema.messages", "xwheel_alarms.messages"),
        *(f"xwheel_commands.{name}" for name in ("job", "run", "group", "calendar")),
        *("xwheel_job_versions.commands", "xwheel_reports.commands", "xwheel_why.commands"),
        *("xwheel_alarms.hooks", "xwheel_alarms.command", "xwheel_jobs_as_code.hooks"),
        *("xwheel_jobs_as_code.apply", "xwheel_jobs_as_code.checking", "xwheel_jobs_as_code.sync"),
    ]
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_A_SERVER, *modules], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
