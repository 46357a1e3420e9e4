"""A scheduler that fires one run at a time, the way XXL-JOB 3.4 does: what ``benchmarks.pipeline`` is compared with.

Per fire: select job, select group, insert log, one ``/run`` over HTTP, update log; then a callback: select log, update
log. The claim reads due jobs in one transaction and writes their next times back a hundred a statement. Only the order
of steps is XXL-JOB's; tables, SQL and code are written here.

It is meant to be good. Statements run on the bare driver, no ORM between. On SQLite each worker reads on a connection
of its own and writers take turns at one connection behind a lock, which is faster than to let them meet in SQLite's
busy handler; on a server as many connections as xwheel's pool may have are shared by the workers. HTTP goes out over
kept connections with the curl handles that xwheel's own client uses, and comes in through xwheel's own listener and
codecs. It leaves out what XXL-JOB does besides and what would only cost: the
wait for the next second, the pass to the ring, the look for children, retries, alarms and reports. Executors take it
for an xwheel scheduler, so their callbacks are ten times as long as XXL-JOB's, and it commits them before it answers.
It groups nothing that XXL-JOB would not: every statement of a fire is a transaction of its own.

Run alone it is one round: it takes its orders as a JSON object on standard input and prints its result as another.
"""

from __future__ import annotations

import json
import queue
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import benchmarks._report  # noqa: F401 - finds a checkout that is not installed
from benchmarks.baseline_store import Execute, Store, open_store
from xwheel.runtime.http_server import Listener
from xwheel.wire.codec import decode_callbacks, decode_response, encode_response, encode_trigger
from xwheel.wire.contract import OK, headers_for, join_url
from xwheel.wire.http.curl import HttpCall, HttpResult, Slot
from xwheel.wire.messages import CallbackItem, Response, TriggerRequest

PRE_READ_MS = 5000
SCAN_LIMIT = 5000
UPDATE_ROWS = 100
WORKERS = 200
CONNECTIONS = 64
"""To the executor, whose listener takes a hundred."""

CALLBACK_THREADS = 20
DATABASE_CONNECTIONS = 16
PERIOD_MS = 3_600_000

SELECT_JOB = "SELECT group_id, route, handler, param, timeout_s, retries FROM job_info WHERE id = ?"
SELECT_GROUP = "SELECT app_name, addresses FROM job_group WHERE id = ?"
INSERT_LOG = "INSERT INTO job_log (group_id, job_id, trigger_ms) VALUES (?, ?, ?)"
UPDATE_LOG = (
    "UPDATE job_log SET address = ?, handler = ?, param = ?, retries = ?, trigger_ms = ?, trigger_code = ?, "
    "trigger_msg = ? WHERE id = ?"
)
SELECT_LOG = "SELECT job_id, trigger_code, handle_code, handle_msg FROM job_log WHERE id = ?"
CLOSE_LOG = "UPDATE job_log SET handle_ms = ?, handle_code = ?, handle_msg = ? WHERE id = ?"
SELECT_DUE = "SELECT id, period_ms, next_ms FROM job_info WHERE status = 1 AND next_ms <= ? ORDER BY id LIMIT ?"


def now_ms() -> int:
    return time.time_ns() // 1_000_000


class Baseline:
    """One scheduler on one file.

    Args:
        store: Its database, with the tables and nothing in them.
        url: The executor.
        workers: Threads that fire.
    """

    def __init__(self, store: Store, url: str, *, token: str, app_name: str, workers: int = WORKERS) -> None:
        self._store = store
        self._store.write("INSERT INTO job_group VALUES (1, ?, ?)", (app_name, url))
        self._turn = threading.Lock()
        self._due: queue.SimpleQueue[int | None] = queue.SimpleQueue()
        self._slots: queue.SimpleQueue[Slot] = queue.SimpleQueue()
        for _ in range(min(workers, CONNECTIONS)):
            self._slots.put(Slot())
        self._headers = [f"{name}: {value}" for name, value in {**headers_for(token, app_name), "Expect": ""}.items()]
        self._threads = [threading.Thread(target=self._work, daemon=True) for _ in range(workers)]
        self._callbacks = ThreadPoolExecutor(CALLBACK_THREADS)
        self.closed = 0
        self.repeated = 0
        self.problems: list[str] = []

    def add_jobs(self, count: int, handler: str) -> None:
        """Store jobs that are stopped."""
        rows = [(f"bench {number}", PERIOD_MS, handler, f"parameter {number}") for number in range(count)]
        self._store.write_many(
            "INSERT INTO job_info (group_id, description, period_ms, route, handler, param, block, timeout_s, "
            "retries, status, last_ms, next_ms) VALUES (1, ?, ?, 'ROUND', ?, ?, 'SERIAL_EXECUTION', 0, 0, 0, 0, 0)",
            rows,
        )

    def start(self) -> None:
        """Start the workers."""
        for thread in self._threads:
            thread.start()

    def fire_all(self) -> int:
        """Make every job due now, and claim until none is; return how many were."""
        self._store.write("UPDATE job_info SET status = 1, next_ms = ?", (now_ms(),))
        found = 0
        while claimed := self._claim():
            found += claimed
        return found

    def stop(self) -> None:
        """End the workers and close everything."""
        for _ in self._threads:
            self._due.put(None)
        for thread in self._threads:
            thread.join()
        self._callbacks.shutdown()

    def answer(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        """Take a beat or a callback, as a WSGI application."""
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        if environ["PATH_INFO"].endswith("/callback"):
            items, _ = decode_callbacks(body)
            list(self._callbacks.map(self._close, items))
        data = encode_response(Response(code=OK))
        start_response("200 OK", [("Content-Type", "application/json"), ("Content-Length", str(len(data)))])
        return [data]

    def _claim(self) -> int:
        """Hand on what is due and move it to its next time, in one transaction."""
        with self._store.transaction() as execute:
            now = now_ms()
            rows = execute(SELECT_DUE, (now + PRE_READ_MS, SCAN_LIMIT)).fetchall()
            for start in range(0, len(rows), UPDATE_ROWS):
                _advance(execute, rows[start : start + UPDATE_ROWS], now)
        for job_id, _, _ in rows:
            self._due.put(job_id)
        return len(rows)

    def _work(self) -> None:
        while (job_id := self._due.get()) is not None:
            try:
                self._fire(job_id)
            except Exception as error:
                self.problems.append(f"job {job_id}: {error!r}")

    def _fire(self, job_id: int) -> None:
        group_id, route, handler, param, timeout_s, retries = self._store.read(SELECT_JOB, (job_id,))
        app_name, addresses = self._store.read(SELECT_GROUP, (group_id,))
        began = now_ms()
        log_id = self._store.insert(INSERT_LOG, (group_id, job_id, began))
        choices = addresses.split(",")
        address = choices[job_id % len(choices)]
        request = TriggerRequest(
            job_id=job_id, run_id=log_id, created_ms=began, handler=handler, param=param, timeout_s=timeout_s
        )
        result = self._post(join_url(address, "/run"), encode_trigger(request))
        if result.error:
            code, said = 500, result.error
        else:
            response = decode_response(result.body)
            code, said = response.code, response.message
        message = (
            f"trigger: cron<br>registry: automatic<br>addresses: {addresses}<br>route: {route}<br>block: serial<br>"
            f"timeout: {timeout_s}<br>retries: {retries}<br><br>app: {app_name}<br>address: {address}<br>"
            f"code: {code}<br>msg: {said}"
        )
        self._store.write(UPDATE_LOG, (address, handler, param, retries, began, code, message, log_id))

    def _post(self, url: str, body: bytes) -> HttpResult:
        slot = self._slots.get()
        try:
            slot.prepare(HttpCall(key=None, url=url, body=body), self._headers)
            slot.curl.perform()
            return slot.take_result(0, "")[1]
        finally:
            self._slots.put(slot)

    def _close(self, item: CallbackItem) -> None:
        _, _, handle_code, text = self._store.read(SELECT_LOG, (item.run_id,))
        if handle_code:
            self.repeated += 1
            return
        message = f"{text}<br>{item.message}" if text else item.message
        self._store.write(CLOSE_LOG, (now_ms(), item.code, message, item.run_id))
        with self._turn:
            self.closed += 1


def _advance(execute: Execute, rows: Sequence[tuple[int, int, int]], now: int) -> None:
    cases = "WHEN ? THEN ? " * len(rows)
    marks = ", ".join("?" * len(rows))
    nexts = [value for job_id, period_ms, _ in rows for value in (job_id, now + period_ms)]
    lasts = [value for job_id, _, next_ms in rows for value in (job_id, next_ms)]
    execute(
        f"UPDATE job_info SET next_ms = CASE id {cases}END, last_ms = CASE id {cases}END WHERE id IN ({marks})",
        [*nexts, *lasts, *(row[0] for row in rows)],
    )


def check(store: Store, count: int) -> list[str]:
    """Return what is wrong with the rows of a round in which every job was to fire exactly once."""
    wrong = []
    for what, query, expected in (
        ("log rows", "SELECT count(*) FROM job_log", count),
        ("jobs with a log row", "SELECT count(DISTINCT job_id) FROM job_log", count),
        ("accepted", "SELECT count(*) FROM job_log WHERE trigger_code = 200", count),
        ("succeeded", "SELECT count(*) FROM job_log WHERE handle_code = 200", count),
        ("jobs still due", f"SELECT count(*) FROM job_info WHERE next_ms <= {now_ms()}", 0),
    ):
        (found,) = store.read(query)
        if found != expected:
            wrong.append(f"{what}: {found} instead of {expected}")
    return wrong


def run_round(
    database: str, url: str, *, port: int, token: str, app_name: str, count: int, handler: str, workers: int = WORKERS
) -> dict[str, Any]:
    """Fire ``count`` jobs once each; return the rate, the CPU and whatever was wrong."""
    store = open_store(database, DATABASE_CONNECTIONS, create=True)
    baseline = Baseline(store, url, token=token, app_name=app_name, workers=workers)
    listener = Listener("baseline", baseline.answer, host="127.0.0.1", port=port, threads=4, max_body_bytes=1 << 24)
    baseline.add_jobs(count, handler)
    baseline.start()
    listener.start()
    try:
        cpu = time.process_time()
        baseline.fire_all()
        deadline = time.monotonic() + 30 + count / 20
        while baseline.closed < count and time.monotonic() < deadline and not baseline.problems:
            time.sleep(0.02)
        cpu = time.process_time() - cpu
        # a log row is closed by its callback, which may overtake the update after /run
        baseline.stop()
    finally:
        listener.stop()
    began, ended = store.read("SELECT min(trigger_ms), max(handle_ms) FROM job_log")
    problems = [*baseline.problems[:5], *check(store, count)]
    store.close()
    return {
        "rate": 1000 * count / max(1, (ended or began) - began),
        "cpu_us": 1e6 * cpu / count,
        "repeated": baseline.repeated,
        "problems": problems,
    }


def main() -> None:
    orders = json.load(sys.stdin)
    print(json.dumps(run_round(**orders)), flush=True)


if __name__ == "__main__":
    main()
