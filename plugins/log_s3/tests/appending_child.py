"""Append the lines of a log from the first one on, as a node does."""

from __future__ import annotations

import sys

from xwheel_devtools.testing import sample_log_chunk
from xwheel_run_logs import LogKey

from xwheel_log_s3.options import Options
from xwheel_log_s3.store import S3Logs

url, secret, bucket, *numbers = sys.argv[1:]
run_id, created_ms, lines, size = map(int, numbers)
options = {"endpoint_url": url, "region": "us-east-1", "access_key_id": "testing", "secret_access_key": secret}
store = S3Logs(Options(bucket=bucket, path_style=True, timeout_s=60, **options))  # type: ignore[arg-type]
key = LogKey(run_id, created_ms)
line = 1
while line <= lines:
    texts = [f"line {number}" for number in range(line, min(line + size, lines + 1))]
    (line,) = store.append([sample_log_chunk(key, line, texts)])
