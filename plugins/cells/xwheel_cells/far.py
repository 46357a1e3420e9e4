"""Another cluster, asked over HTTP.

Each of its addresses is called under a policy that allows that origin alone, so its token goes nowhere else: redirects
are not followed, no proxy is used, TLS proves the name. What comes back is bounded in time and size.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from math import ceil
from typing import Final, TypeVar
from urllib.parse import urlencode

from xwheel.plugin import PluginSite
from xwheel_egress import EgressClient, EgressError

from xwheel_cells.options import CellOptions, policy_of
from xwheel_cells.problems import OK, CellError, busy, refused, too_large, unreachable

T = TypeVar("T")

MAX_ANSWER: Final = 2 * 1024 * 1024
MOST_AT_ONCE: Final = 4
SLOW_REST_MS: Final = 5000
"""How long a cell is left alone that used up the time of a call: who asks next would wait as long for nothing."""

TOKEN_REST_MS: Final = 30_000
"""And one that refused the token: it counts refusals, and in the end takes no calls of this address."""

NO_TIME_S: Final = 0.02


class FarCell:
    """Another cluster.

    Thread-safety: may be asked by any number of threads.

    Args:
        name: What it is called here.
        options: Where it is, and what opens it.
        site: What the plugin works with.

    Attributes:
        url: Its first address.
        answered_ms: When it last gave a usable answer to this node, in epoch milliseconds; None before its first.
    """

    def __init__(self, name: str, options: CellOptions, site: PluginSite) -> None:
        self.name = name
        self.url: str | None = options.url[0]
        self.answered_ms: int | None = None
        self._addresses = [(url, EgressClient(policy_of(url, options.ca_file))) for url in options.url]
        self._headers = {"Authorization": f"Bearer {options.secret}", "Accept": "application/json"}
        self._site = site
        self._free = threading.BoundedSemaphore(MOST_AT_ONCE)
        self._first = 0  # the address that answered last
        # why it is left alone, and until when by the monotonic clock
        self._rest: tuple[str, str, int] | None = None

    def start(self, work: Callable[[], T]) -> Future[T]:
        """Work on a thread of its own; fails at once with CellError if the cell is left alone or has enough to do."""
        future: Future[T] = Future()
        rest = self._rest
        if rest is not None and self._site.clock.monotonic_ms() < rest[2]:
            future.set_exception(CellError(rest[0], rest[1]))
            return future
        if not self._free.acquire(blocking=False):
            future.set_exception(busy(MOST_AT_ONCE))
            return future

        def run() -> None:
            try:
                future.set_result(work())
            except BaseException as error:
                future.set_exception(error)
            finally:
                self._free.release()

        threading.Thread(target=run, name=f"xwheel-cell-{self.name}", daemon=True).start()
        return future

    def ask(self, path: str, query: Mapping[str, object], deadline: float, read: Callable[[bytes], T]) -> T:
        """Return a good answer.

        Its addresses are asked one after the other, the one that answered last first, and each has its share of the
        time that is left.

        Args:
            path: Below ``/api/v1/``.
            query: Parameters.
            deadline: By the monotonic clock, in seconds.
            read: Makes the answer of a body; raises CellError if it is none.

        Raises:
            CellError: None gave one; it says what the last one that was asked did.
        """
        problem: CellError | None = None
        count = len(self._addresses)
        begin = self._first
        for turn in range(count):
            place = (begin + turn) % count
            share_s = (deadline - time.monotonic()) / (count - turn)
            if share_s <= 0 and problem is not None:
                break
            try:
                found = read(self._ask(place, path, query, max(1, ceil(share_s * 1000)) / 1000))
            except CellError as error:
                problem = error
                if not error.elsewhere:
                    break
            else:
                self._first, self.answered_ms, self._rest = place, self._site.now_ms(), None
                return found
        assert problem is not None  # noqa: S101 - there is an address
        self._leave_alone(problem, deadline)
        raise problem

    def _leave_alone(self, problem: CellError, deadline: float) -> None:
        rest_ms = TOKEN_REST_MS if problem.code == "unauthorized" else 0
        if problem.code == "unreachable" and deadline - time.monotonic() < NO_TIME_S:
            rest_ms = SLOW_REST_MS
        if rest_ms:
            self._rest = (problem.code, str(problem), self._site.clock.monotonic_ms() + rest_ms)

    def _ask(self, place: int, path: str, query: Mapping[str, object], timeout_s: float) -> bytes:
        url, client = self._addresses[place]
        whole = f"{url}/api/v1/{path}" + (f"?{urlencode(query)}" if query else "")
        try:
            answer = client.request("GET", whole, headers=self._headers, timeout_s=timeout_s, max_answer=MAX_ANSWER)
        except EgressError as error:
            raise unreachable(str(error)) from None
        if answer.status != OK:
            raise refused(answer.status, path)
        if answer.truncated:
            raise too_large(MAX_ANSWER)
        return answer.body
