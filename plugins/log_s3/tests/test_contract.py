"""The suite on a real server, and several nodes at once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from conftest import SECRET, Make, Server, read_log
from meddling import Meddling
from xwheel_devtools.testing import check_log_store, load_plugin, sample_log_key

CHILD = Path(__file__).with_name("appending_child.py")
LINES = 1000


def test_the_contract_holds(bucket: str, make: Make) -> None:
    check_log_store(make(bucket), make(bucket))


def test_the_contract_holds_without_conditional_writes(bucket: str, make: Make, meddling: Meddling) -> None:
    """A server that takes no notice of the condition, as older ones do."""
    meddling.drops = frozenset({"if-none-match"})
    check_log_store(make(bucket, endpoint_url=meddling.url), make(bucket, endpoint_url=meddling.url))


def test_two_processes_that_append_the_same_lines_leave_each_once(server: Server, bucket: str, make: Make) -> None:
    store, key = make(bucket), sample_log_key()
    children = [
        subprocess.Popen(
            [
                *(sys.executable, str(CHILD), server.url, SECRET, bucket),
                *map(str, (key.run_id, key.created_ms, LINES, size)),
            ],
            stderr=subprocess.PIPE,
            text=True,
        )
        for size in (7, 16)
    ]
    said = [child.communicate(timeout=120)[1] for child in children]
    assert [child.returncode for child in children] == [0, 0], said
    assert read_log(store, key).splitlines() == [f"line {number}" for number in range(1, LINES + 1)]


def test_the_plugin_is_loaded_as_a_node_does() -> None:
    assert "s3" in load_plugin("log_s3").registered("xwheel_register_log_stores")
