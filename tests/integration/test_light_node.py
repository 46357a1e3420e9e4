"""What a node loads that has nothing to change in its database: each library costs memory for as long as it runs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.processes

NODE = """
import sys
from xwheel.config import build_config
from xwheel.node.node import Node

ports = {"port": 0, "executor_port": 0}
node = Node(build_config({"database": {"url": sys.argv[1]}, "api": ports}), announce=lambda secret: None)
node.start()
assert node.stop()
print(*sys.modules)
"""
SELDOM = {
    "alembic", "mako", "pygments",  # to change a schema
    "cryptography",  # to seal secrets
    "pydantic_settings",  # to read settings from the environment
    "rich",  # to print tables
}  # fmt: skip


def loaded_by_node(url: str) -> set[str]:
    """Run a node for a moment; return the modules that it loaded."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", NODE, url], capture_output=True, text=True, check=True, timeout=120
    )
    return set(done.stdout.split())


def test_a_node_loads_what_it_needs_at_rest(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'node.db'}"
    assert "alembic" in loaded_by_node(url)  # its first start makes the tables
    found = loaded_by_node(url)
    assert {name.partition(".")[0] for name in found} & SELDOM == set()
    assert {name for name in found if name.startswith("sqlalchemy.dialects.")} <= {
        name for name in found if name.startswith(("sqlalchemy.dialects.sqlite", "sqlalchemy.dialects._typing"))
    }
