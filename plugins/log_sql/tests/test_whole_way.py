"""From a handler's lines to a reader, through a node that keeps logs in tables."""

from __future__ import annotations

from pathlib import Path

from xwheel_devtools.testing import check_logs_outlast


def test_logs_outlast_their_executor(tmp_path: Path) -> None:
    check_logs_outlast(tmp_path, XWHEEL_RUN_LOGS__STORE="sql")
