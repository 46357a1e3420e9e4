"""Reads logs for people at the executors that have them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass

from xwheel.errors import ExecutorRefusedError, ExecutorUnreachableError
from xwheel.model import FINAL_STATES, Run
from xwheel.plugin.run_logs import LogText
from xwheel.scheduler.executors.registry import ExecutorRegistry
from xwheel.wire import codec, contract
from xwheel.wire.http import post
from xwheel.wire.http.networks import ExecutorNetworks
from xwheel.wire.http.tls import NO_FILES, TlsFiles
from xwheel.wire.messages import LogData, LogRequest


@dataclass(eq=False, repr=False)
class ExecutorLogs:
    """Reads run logs at the executors that have them; addresses come from the run's row, never from a request."""

    registry: ExecutorRegistry  # live executors, which alone are called, and what with
    now_ms: Callable[[], int]  # the shared time
    _: KW_ONLY
    timeout_s: float  # time limit of a call in seconds
    networks: ExecutorNetworks
    tls: TlsFiles = NO_FILES

    def is_live(self, run: Run) -> bool:
        """Return whether the executor that has a run is registered now: what listens there gets a token."""
        return self.registry.is_live(run.group_id, run.address or "", self.now_ms())

    def read_log(self, run: Run, from_line: int) -> LogText:
        """Return a piece of a log from a line on; empty while the run was not sent.

        Raises WireError if the executor is gone, cannot be reached or refuses.
        """
        # as of before the log is read: what comes later may be missing in it
        is_final = run.state in FINAL_STATES
        if run.address is None:
            return LogText(from_line, from_line, "", is_final)
        data = self._fetch(run, run.address, from_line)
        # foreign peers may count on without content, or call the end of the file the end of the run
        next_line = max(from_line, data.to_line + 1) if data.content else from_line
        is_end = is_final and (data.is_end or not data.content)
        return LogText(from_line, next_line, data.content, is_end, "executor")

    def tail_log(self, run: Run, lines: int) -> LogText:
        """Return this many last lines, or more if the executor cannot tell which they are; raises likewise."""
        is_final = run.state in FINAL_STATES
        if run.address is None:
            return LogText(1, 1, "", is_final)
        data = self._fetch(run, run.address, 1, lines if run.instance else 0)
        if data.content in contract.TEXTS_NO_LOG:
            return LogText(1, 1, "", is_final, "executor")
        first = max(1, data.from_line)
        every = data.content.split("\n")
        count = len(every) - (every[-1] == "")
        skipped = max(0, count - lines)
        content = "\n".join(every[skipped:])
        return LogText(first + skipped, first + count, content, is_final and data.is_end, "executor")

    def _fetch(self, run: Run, address: str, from_line: int, tail: int = 0) -> LogData:
        # what listens there gets a token, so it must be an executor that is registered now
        if not self.is_live(run):
            why = f"no live executor, so run {run.id} has no log"
            raise ExecutorUnreachableError(address, why, sent=False)
        request = LogRequest(run_id=run.id, created_ms=run.created_ms, from_line=from_line, tail=tail)
        return self._ask(run, address, request)

    def _ask(self, run: Run, address: str, request: LogRequest) -> LogData:
        response = post(
            contract.join_url(address, contract.LOG),
            codec.encode_log_request(request),
            token=self.registry.token_at(run.group_id, address),
            app_name=self.registry.app_name(run.group_id),
            timeout_s=self.timeout_s,
            tls=self.tls,
            guard=self.networks.refusal,
        )
        if not response.ok:
            raise ExecutorRefusedError(f"{address} has no log of run {run.id}: {response.message}")
        return codec.read_log_data(response.data)
