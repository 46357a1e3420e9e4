"""Commands of xwheel in processes of their own, for tests from end to end."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

if TYPE_CHECKING:
    from xwheel.wire.http.rest import RestClient

DEADLINE_S: Final = 120.0
STOP_S: Final = 60.0
T = TypeVar("T")


def wait_until(done: Callable[[], T | None], deadline_s: float = DEADLINE_S) -> T:
    """Call ``done`` until it returns something true, and return that.

    Raises:
        AssertionError: It did not within the deadline.
    """
    end = time.monotonic() + deadline_s
    while not (found := done()):
        if time.monotonic() > end:
            raise AssertionError(f"not seen in {deadline_s:g} s")
        time.sleep(0.02)
    return found


class XwheelProcess:
    """A command of xwheel, with its output in a file; stopped when its ``with`` block ends.

    Args:
        folder: Where it runs; made if it is not there.
        arguments: The command line after ``xwheel``.
        settings: Environment variables besides those of the test, such as ``XWHEEL_EXECUTOR__PORT``.
    """

    def __init__(self, folder: Path, *arguments: str, **settings: str) -> None:
        folder.mkdir(exist_ok=True)
        self.output = folder / "output"
        with self.output.open("wb") as file:
            self._child = subprocess.Popen(  # noqa: S603 -- the test's own words
                [sys.executable, "-m", "xwheel", *arguments],
                cwd=folder,
                env={**os.environ, "PYTHONUNBUFFERED": "1", **settings},
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
            )
        self.pid = self._child.pid

    def find(self, pattern: str) -> str:
        """Wait until the output matches a regular expression, and return its first group."""

        def matched() -> re.Match[str] | None:
            output = self.output.read_text()
            if self._child.poll() is not None:
                raise AssertionError(f"it ended with status {self._child.returncode}:\n{output}")
            return re.search(pattern, output)

        return wait_until(matched)[1]

    def stop(self) -> None:
        """Ask it to stop, and kill it if it takes longer than a minute."""
        self._child.terminate()
        try:
            self._child.wait(STOP_S)
        finally:
            self._child.kill()
            self._child.wait()

    def kill(self) -> None:
        """End it as a power cut would."""
        self._child.kill()
        self._child.wait(STOP_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


class NodeCalls:
    """Calls of a node's management API, as tests make them."""

    _client: RestClient

    def call(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        """Call the management API and return its answer.

        Args:
            method: Of HTTP.
            path: After ``/api/v1/``.
            body: Sent as JSON.

        Raises:
            XwheelError: The node refuses; the message says why.
        """
        return self._client.call(method, f"/api/v1/{path}", body)

    def start_run(self, job_id: int, **fields: Any) -> int:
        """Run a job by hand and return the run's id."""
        return int(self.call("POST", f"jobs/{job_id}/run", fields)["id"])

    def wait_for_run(self, run_id: int, *states: str) -> dict[str, Any]:
        """Wait until a run is in one of some states, or finished if none are given, and return it."""

        def arrived() -> Any:
            run = self.call("GET", f"runs/{run_id}")
            return run if (run["state"] in states or (not states and run["finished_ms"])) else None

        found: dict[str, Any] = wait_until(arrived)
        return found


class NodeProcess(NodeCalls, XwheelProcess):
    """A scheduler node on free ports of loopback, with an SQLite database in its folder.

    Attributes:
        url: Where its management API listens.
        token: A management token.
        executor_url: Where executors register.
        executor_token: What they show.
    """

    def __init__(self, folder: Path, **settings: str) -> None:
        from xwheel.wire.http.rest import RestClient  # not for those who only have the executor

        super().__init__(folder, "server", "--port", "0", "--executor-port", "0", **settings)
        try:
            self.url = f"http://{self.find('management API on (.*)')}"
            self.token = self.find("management token .*: (.*)")
            self.executor_url = f"http://{self.find('executor API on (.*)')}"
            self.executor_token = self.find("executor token .*: (.*)")
        except BaseException:
            self.stop()
            raise
        self._client = RestClient(self.url, self.token, timeout_s=60)
