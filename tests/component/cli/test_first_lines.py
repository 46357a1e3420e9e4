"""Finding U6: the lines at the start of a node."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from xwheel_devtools.testing.processes import XwheelProcess

from xwheel import __version__


@pytest.mark.processes
def test_u6_a_node_says_what_it_is(tmp_path: Path) -> None:
    settings = tmp_path / "xwheel.toml"
    settings.write_text('[api]\nport = 0\nexecutor_port = 0\n[database]\nurl = "sqlite:///x.db"\n')
    with XwheelProcess(tmp_path / "node", "server", "--config", str(settings)) as node:
        node.find("executor API on (.*)")
        text = node.output.read_text()
    assert f"'xwheel login --config {settings}' gives commands a token" in text
    with XwheelProcess(tmp_path / "node", "server", "--config", str(settings)) as again:
        again.find("executor API on (.*)")
        assert "xwheel login" not in again.output.read_text()
    assert f"xwheel {__version__}, a scheduler node, on Python 3." in text
    assert f"settings: {settings}" in text
    assert "database: sqlite:///x.db" in text or "database: sqlite+pysqlite:///x.db" in text
    assert re.search(r"plugins: .*xwheel ", text)
    assert "management API on 127.0.0.1:" in text
