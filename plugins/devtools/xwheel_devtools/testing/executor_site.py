"""A real executor and a scheduler that only listens and calls, for tests of glue types."""

from __future__ import annotations

import re
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, Final, Self

from xwheel.config import Config
from xwheel.executor import Executor
from xwheel.wire.codec import decode_callbacks, encode_kill, encode_log_request, encode_trigger, read_log_data
from xwheel.wire.contract import CALLBACK, KILL, LOG, OK, RUN, join_url
from xwheel.wire.http import post
from xwheel.wire.messages import CallbackItem, KillRequest, LogRequest, Response, TriggerRequest

from xwheel_devtools.testing.processes import wait_until
from xwheel_devtools.testing.samples import SAMPLE_MS
from xwheel_devtools.testing.web import WebRequest, WebServer, web_reply

TOKEN: Final = "a-token-for-tests-only"  # noqa: S105
CALL_TIMEOUT_S: Final = 60.0


STAMP: Final = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}"
OPENING: Final = re.compile(rf"\A{STAMP} run \d+ of job \d+, .*\n")
CLOSING: Final = re.compile(rf"^{STAMP} [a-z_]+ after \d+\.\d{{3}} s(:|$)", re.MULTILINE)


def written(log: str) -> str:
    """Return what a run wrote into its log: all but the lines with which the executor begins and ends it."""
    found = list(CLOSING.finditer(log))
    return OPENING.sub("", log[: found[-1].start()] if found else log)


class ExecutorSite:
    """An executor with the installed plugins; its ``with`` block stops it.

    Args:
        folder: Its data directory.
        config: Its settings, with the plugin's options.
        glue_type: What :meth:`start` runs unless it is told otherwise.
        allowed: Glue types that it may run; None for ``glue_type`` alone.

    Attributes:
        outcomes: What it reported, by run.
    """

    def __init__(self, folder: Path, config: Config, glue_type: str, *, allowed: list[str] | None = None) -> None:
        self.folder = folder
        self.outcomes: dict[int, CallbackItem] = {}
        self._glue_type = glue_type
        self._scheduler = WebServer(self._take)
        self.executor = Executor(
            config,
            app_name="demo",
            admin_addresses=[self._scheduler.url],
            access_token=TOKEN,
            port=0,
            data_dir=folder,
            kill_grace_s=0.3,
            leave_s=0,
            stop_timeout_s=5,
            allowed_glue_types=[glue_type] if allowed is None else allowed,
        )
        self.executor.start()

    def start(self, source: str, run_id: int = 1, **fields: Any) -> Response:
        """Start a run of a source and return the executor's answer.

        Args:
            source: The job's source.
            run_id: The run, and the job unless ``job_id`` is given.
            fields: Others of :class:`~xwheel.wire.messages.TriggerRequest`, such as ``param`` and ``shard_index``.
        """
        known = {"job_id": run_id, "created_ms": SAMPLE_MS, "glue_type": self._glue_type, "glue_updated_ms": SAMPLE_MS}
        request = TriggerRequest(run_id=run_id, glue_source=source, **{**known, **fields})
        return self._call(RUN, encode_trigger(request))

    def outcome(self, run_id: int = 1) -> tuple[int, str]:
        """Wait for the end of a run and return its code and message; 200 is success."""
        item = wait_until(lambda: self.outcomes.get(run_id))
        return item.code, item.message

    def run(self, source: str, run_id: int = 1, **fields: Any) -> tuple[int, str]:
        """Start a run, which must be accepted, and return its outcome."""
        _accepted(self.start(source, run_id, **fields))
        return self.outcome(run_id)

    def log(self, run_id: int = 1) -> str:
        """Return what a run wrote into its log, without the executor's own first and last line."""
        answer = self._call(LOG, encode_log_request(LogRequest(run_id=run_id, created_ms=SAMPLE_MS)))
        return written(read_log_data(answer.data).content)

    def kill(self, job_id: int = 1) -> None:
        """Kill the runs of a job."""
        _accepted(self._call(KILL, encode_kill(KillRequest(job_id=job_id))))

    def close(self) -> None:
        """Stop the executor, and its scheduler afterwards."""
        self.executor.stop()
        self._scheduler.close()

    def _call(self, path: str, body: bytes) -> Response:
        return post(join_url(self.executor.address, path), body, token=TOKEN, timeout_s=CALL_TIMEOUT_S)

    def _take(self, handler: BaseHTTPRequestHandler, request: WebRequest) -> None:
        if request.path.endswith(CALLBACK):
            items, _ = decode_callbacks(request.body)
            self.outcomes.update((item.run_id, item) for item in items)
        web_reply(200, {"code": OK, "msg": "Success", "content": None, "data": None})(handler, request)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _accepted(answer: Response) -> None:
    if not answer.ok:
        raise AssertionError(f"the executor refused: {answer.message}")
