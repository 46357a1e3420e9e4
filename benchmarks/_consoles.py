"""Many open consoles in one process: each asks for events once a second over a connection of its own, as the page does.

``python -m benchmarks._consoles`` reads one JSON object, ``{"port": number, "cookies": [text], "lists": [path]}``, and
goes on until its input ends; then it writes ``{"calls": number, "p99_ms": number}``. A console whose events tell of a
run asks for ``lists`` too, every three seconds at most, as a page does that shows runs.
"""

from __future__ import annotations

import http.client
import json
import sys
import threading
import time
from typing import Any

EVERY_S = 1.0
LISTS_S = 3.0


class Console:
    """One console: a thread that asks until it is told to stop.

    Attributes:
        took: How long each call took, in milliseconds.
        failed: The answers that were none.
    """

    def __init__(self, port: int, cookie: str, lists: list[str], first_s: float, stop: threading.Event) -> None:
        self.took: list[float] = []
        self.failed: list[str] = []
        self._conn = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
        self._headers = {"Cookie": cookie, "Accept": "application/json"}
        self._lists, self._first_s, self._stop = lists, first_s, stop
        self.thread = threading.Thread(target=self._work)
        self.thread.start()

    def _work(self) -> None:
        cursor, listed = "", 0.0
        self._stop.wait(self._first_s)
        while not self._stop.is_set():
            answer = self._get(f"/api/v1/events?after={cursor}" if cursor else "/api/v1/events")
            if answer is not None:
                cursor = answer["next"]
                if any(item["kind"] == "run" for item in answer["items"]) and time.monotonic() - listed >= LISTS_S:
                    listed = time.monotonic()
                    for path in self._lists:
                        self._get(path)
            # the page waits a second after an answer
            self._stop.wait(EVERY_S)
        self._conn.close()

    def _get(self, path: str) -> Any:
        began = time.perf_counter()
        try:
            self._conn.request("GET", path, headers=self._headers)
            answer = self._conn.getresponse()
            body = answer.read()
        except (OSError, http.client.HTTPException) as error:
            self._conn.close()
            self.failed.append(repr(error))
            return None
        self.took.append((time.perf_counter() - began) * 1000)
        if answer.status != http.client.OK:
            self.failed.append(f"{path}: {answer.status}")
            return None
        return json.loads(body)


def main() -> None:
    """Ask until the input ends."""
    orders = json.loads(sys.stdin.readline())
    stop = threading.Event()
    count = len(orders["cookies"])
    consoles = [
        Console(orders["port"], cookie, orders["lists"], EVERY_S * number / count, stop)
        for number, cookie in enumerate(orders["cookies"])
    ]
    sys.stdin.read()
    stop.set()
    for console in consoles:
        console.thread.join()
    took = sorted(value for console in consoles for value in console.took)
    failed = [words for console in consoles for words in console.failed]
    if failed or not took:
        raise SystemExit(f"{len(failed)} calls failed, the first: {failed[:1]}")
    print(json.dumps({"calls": len(took), "p99_ms": took[min(len(took) - 1, int(0.99 * len(took)))]}))


if __name__ == "__main__":
    main()
