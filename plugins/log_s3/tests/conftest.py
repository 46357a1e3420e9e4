"""A real S3 server in a process of its own, and one whose answers a test can change."""

from __future__ import annotations

import itertools
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from hypothesis import settings
from meddling import Meddling
from xwheel_run_logs import LogKey, LogStore

from xwheel_log_s3 import xwheel_register_log_stores
from xwheel_log_s3.options import Options
from xwheel_log_s3.store import S3Logs

# examples may be slow on a busy machine; how long they take is no claim of any test
settings.register_profile("xwheel", deadline=None, max_examples=500 if os.environ.get("EXAMPLES") == "nightly" else 50)
settings.load_profile("xwheel")

SECRET = "s3cret/canary+of+the+key"
START_S = 60

Make = Callable[..., S3Logs]


def read_log(store: LogStore, key: LogKey, from_line: int = 1, max_bytes: int = 65_536) -> str:
    """Return a whole log from a line on, read piece by piece."""
    found = []
    while text := store.read(key, from_line, max_bytes):
        found.append(text)
        from_line += text.count("\n")
    return "".join(found)


class Server:
    """A server with empty buckets.

    Attributes:
        url: Its address.
        client: What tests look with.
    """

    def __init__(self, folder: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port = listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        self._log = (folder / "moto.log").open("wb")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
            stdout=self._log,
            stderr=self._log,
            env={**os.environ, "PYTHONWARNINGS": "ignore"},
        )
        deadline = time.monotonic() + START_S
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                assert self._process.poll() is None, (folder / "moto.log").read_text()
                assert time.monotonic() < deadline
                time.sleep(0.05)
        self._numbers = itertools.count()
        self.client: Any = boto3.session.Session().client(
            "s3",
            endpoint_url=self.url,
            region_name="us-east-1",
            aws_access_key_id="testing",
            aws_secret_access_key=SECRET,
        )

    def new_bucket(self) -> str:
        name = f"logs-{next(self._numbers)}"
        self.client.create_bucket(Bucket=name)
        return name

    def names(self, bucket: str) -> list[str]:
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=bucket)
        return [item["Key"] for page in pages for item in page.get("Contents", ())]

    def close(self) -> None:
        self.client.close()
        self._process.terminate()
        self._process.wait(30)
        self._log.close()


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    running = Server(tmp_path_factory.mktemp("moto"))
    yield running
    running.close()


@pytest.fixture
def bucket(server: Server) -> str:
    return server.new_bucket()


@pytest.fixture
def meddling(server: Server) -> Iterator[Meddling]:
    """Return a server between, which passes on what a test lets through."""
    with Meddling(server.url) as between:
        yield between


@pytest.fixture
def make(server: Server) -> Make:
    """Make stores, on the server unless another address is given."""

    def begin(bucket: str, **options: Any) -> S3Logs:
        given = {
            "endpoint_url": server.url,
            "region": "us-east-1",
            "access_key_id": "testing",
            "secret_access_key": SECRET,
            "path_style": True,
            "timeout_s": 120,
            "read_timeout_s": 60,
            **options,
        }
        (store,) = xwheel_register_log_stores(Options(bucket=bucket, **given))
        assert isinstance(store, S3Logs)
        return store

    return begin
