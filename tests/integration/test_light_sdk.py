"""What an application installs that embeds an executor: few small packages, and they are enough."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from xwheel_devtools.testing import NodeProcess, wait_until

from tests.support.fresh_env import FreshEnvironment

pytestmark = pytest.mark.long
DISTRIBUTIONS = {
    "xwheel",
    "annotated-types",  # of pydantic
    "certifi",
    "croniter",
    "falcon",
    "msgspec",
    "pluggy",
    "pycurl",
    "pydantic",
    "pydantic-settings",
    "pydantic_core",
    "python-dateutil",  # of croniter
    "python-dotenv",  # of pydantic-settings
    "six",  # of python-dateutil
    "typing-inspection",  # of pydantic
    "typing_extensions",  # of pydantic
    "tzdata",
    "waitress",
}
APPLICATION = """
import json, sys
from pathlib import Path
from xwheel.executor import Executor, current_job, job

@job("greet")
def greet() -> str:
    rooms = {name.split(".")[1] for name in sys.modules if name.startswith("xwheel.")}
    return json.dumps({"param": current_job().param, "rooms": sorted(rooms), "libraries": sorted(
        {"sqlalchemy", "alembic", "pymysql", "psycopg", "holidays", "typer", "rich", "cryptography", "yaml", "requests"}
        & set(sys.modules)
    )})

Executor(
    handlers=[greet], app_name="shop", admin_addresses=[sys.argv[1]], access_token=sys.argv[2], port=0,
    data_dir=Path(sys.argv[3]),
).run_forever()
"""
SERVER_ROOMS = {"accounts", "alarms", "api", "cli", "node", "scheduler", "storage"}


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> FreshEnvironment:
    folder = tmp_path_factory.mktemp("light")
    made = FreshEnvironment(folder / "env")
    made.install_core(folder / "build")
    return made


def test_few_distributions_are_installed(environment: FreshEnvironment) -> None:
    assert environment.distributions() == DISTRIBUTIONS
    assert len(DISTRIBUTIONS) <= 18


def test_what_is_public_can_be_imported_and_loads_nothing_of_a_server(environment: FreshEnvironment) -> None:
    for name in ("", ".plugin", ".cron", ".ring"):
        environment.run("python", "-W", "error", "-c", f"from xwheel{name} import *")
    loaded = environment.run(
        "python", "-W", "error", "-c", "import sys; from xwheel.executor import *; print(*sys.modules)"
    )
    rooms = {name.split(".")[1] for name in loaded.split() if name.startswith("xwheel.")}
    assert {room for room in rooms if not room.startswith("_")} == {
        "clock", "config", "errors", "executor", "guessing", "model", "plugin", "private_files", "ring", "runtime",
        "timer", "wire",
    }  # fmt: skip


def test_an_executor_runs_there_for_a_node_elsewhere(environment: FreshEnvironment, tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(APPLICATION)
    with NodeProcess(tmp_path / "node") as node:
        python = environment.folder / "bin" / "python"
        shop = [python, tmp_path / "shop.py", node.executor_url, node.executor_token, tmp_path / "data"]
        executor = subprocess.Popen(shop, env=environment.variables, cwd=tmp_path)
        try:
            group = node.call("POST", "groups", {"app_name": "shop"})["id"]
            job = {"group_id": group, "name": "greet", "handler": "greet", "param": "world"}
            made = node.call("POST", "jobs", job)["id"]
            wait_until(lambda: node.call("GET", f"groups/{group}/executors")["items"])
            ended = node.wait_for_run(node.start_run(made))
        finally:
            executor.terminate()
            status = executor.wait(30)
    assert (ended["state"], status) == ("succeeded", 0), ended
    said = json.loads(ended["message"])
    assert said["param"] == "world"
    assert not SERVER_ROOMS & set(said["rooms"])
    assert said["libraries"] == []


def test_the_command_says_in_one_line_what_to_install(environment: FreshEnvironment) -> None:
    done = subprocess.run(
        [environment.folder / "bin" / "xwheel", "server"],
        env=environment.variables, timeout=60, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (
        2, "", "xwheel: the command needs typer, which is not installed: pip install 'xwheel[cli]'\n",
    )  # fmt: skip
