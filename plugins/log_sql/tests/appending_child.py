"""Append the lines of a log from the first one on, as a node does."""

from __future__ import annotations

import sys

from xwheel import Config
from xwheel_devtools.testing import sample_log_chunk
from xwheel_run_logs import LogKey

from xwheel_log_sql.options import Options
from xwheel_log_sql.store import SqlLogs

url, run_id, created_ms, lines, size = sys.argv[1], *map(int, sys.argv[2:])
store, key = SqlLogs(Options(url=url), Config()), LogKey(run_id, created_ms)
line = 1
while line <= lines:
    texts = [f"line {number}" for number in range(line, min(line + size, lines + 1))]
    (line,) = store.append([sample_log_chunk(key, line, texts)])
store.close()
