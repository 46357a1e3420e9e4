"""From a handler's lines to a reader, through a node that keeps logs in a bucket."""

from __future__ import annotations

import json
from pathlib import Path

from conftest import SECRET, Server
from xwheel_devtools.testing import check_logs_outlast


def test_logs_outlast_their_executor(tmp_path: Path, server: Server, bucket: str) -> None:
    options = {
        "bucket": bucket,
        "endpoint_url": server.url,
        "region": "us-east-1",
        "access_key_id": "testing",
        "secret_access_key": SECRET,
        "path_style": True,
    }
    check_logs_outlast(tmp_path, XWHEEL_RUN_LOGS__STORE="s3", XWHEEL_PLUGINS__OPTIONS=json.dumps({"log_s3": options}))
