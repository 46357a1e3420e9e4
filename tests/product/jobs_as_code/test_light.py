"""Commands about jobs from code where ``xwheel[cli]`` is alone, without the libraries of a node."""

from __future__ import annotations

import subprocess
import sys

import pytest

CODE = """
import importlib, sys

for name in ("alembic", "argon2", "cryptography", "croniter", "falcon", "sqlalchemy", "waitress"):
    sys.modules[name] = None
for name in ("declared", "sync", "apply"):
    importlib.import_module(f"xwheel_jobs_as_code.{name}")
from xwheel.config import build_config
from xwheel.plugin.discovery import survey_plugins
survey = survey_plugins(build_config({}))
(info,) = [info for info in survey.plugins.installed if info.origin.name == "jobs_as_code"]
print(info.error, *sorted(info.registers))
print([name for name in sys.modules if name.startswith("xwheel_jobs_as_code.declarations")])
"""


@pytest.mark.processes
def test_they_load_nothing_of_the_part_for_nodes_and_are_no_broken_plugin() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert done.stdout.splitlines() == ["None set of commands", "[]"]
