"""Measure HTTP calls per second: our MultiClient on one thread against requests on as many threads as calls in flight.

Both talk to the same small server in another process, one after the other, over kept connections. Run it with
``python -m benchmarks.http [--json]``.
"""

from __future__ import annotations

import multiprocessing
import threading
import time
from multiprocessing.sharedctypes import Synchronized

import requests

from benchmarks._report import Report
from benchmarks.executor import serve_admin
from xwheel.wire.contract import headers_for
from xwheel.wire.http import HttpCall, MultiClient

TOKEN = "a-token-for-this-benchmark"
BODY = b'{"jobId":1,"executorParams":"' + b"x" * 400 + b'"}'


def with_multi_client(client: MultiClient, url: str, calls: int) -> float:
    """Make the calls; return seconds for each."""
    start = time.perf_counter()
    for number in range(calls):
        client.submit(HttpCall(key=number, url=url, body=BODY, timeout_ms=30_000, token=TOKEN, app_name="bench"))
    left = calls
    while left:
        results = client.poll(1000)
        assert all(result.status == 200 for result in results)
        left -= len(results)
    return (time.perf_counter() - start) / calls


def with_requests(sessions: list[requests.Session], url: str, calls: int) -> float:
    """Make the calls, each thread its share with a session of its own; return seconds for each."""
    share = calls // len(sessions)
    answered: list[int] = []

    def work(session: requests.Session) -> None:
        good = sum(session.post(url, data=BODY, timeout=30).status_code == 200 for _ in range(share))
        answered.append(good)

    threads = [threading.Thread(target=work, args=(session,)) for session in sessions]
    start = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = time.perf_counter() - start
    assert sum(answered) == share * len(sessions)
    return seconds / (share * len(sessions))


def measure(report: Report) -> None:
    port: Synchronized[int] = multiprocessing.Value("i", 0)
    count: Synchronized[int] = multiprocessing.Value("q", 0)
    server = multiprocessing.Process(target=serve_admin, args=(port, count), daemon=True)
    server.start()
    while not port.value:
        time.sleep(0.01)
    url = f"http://127.0.0.1:{port.value}/api/registry"
    in_flight, calls = report.args.in_flight, report.args.calls
    client = MultiClient(max_in_flight=in_flight)
    sessions = [requests.Session() for _ in range(in_flight)]
    for session in sessions:
        session.trust_env = False
        session.headers.update(headers_for(TOKEN, "bench"))
    with_multi_client(client, url, calls)
    with_requests(sessions, url, 4 * in_flight)
    ours, theirs = [], []
    for _ in range(report.args.repeats):
        ours.append(with_multi_client(client, url, calls))
        theirs.append(with_requests(sessions, url, calls // 4))
    client.close()
    for session in sessions:
        session.close()
    server.terminate()
    report.figure("multi_client.calls", [1 / item for item in ours], "calls/s")
    report.figure("requests_threads.calls", [1 / item for item in theirs], "calls/s")
    report.ratio("multi_client_over_requests", theirs, ours)


def main() -> None:
    report = Report(__doc__ or "", repeats=5)
    report.parser.add_argument("--calls", type=int, default=10_000, help="calls of each measurement")
    report.parser.add_argument("--in-flight", type=int, default=100, help="calls on the wire at once")
    report.parse()
    measure(report)
    report.finish()


if __name__ == "__main__":
    main()
