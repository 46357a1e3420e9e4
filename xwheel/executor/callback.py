"""Delivers outcomes: takes them from the journal in batches, keeps trying, and forgets none before it is confirmed."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

from xwheel.clock import Clock
from xwheel.errors import WireError
from xwheel.executor.admin_client import AdminClient, CallRefusedError
from xwheel.executor.journal import Journal
from xwheel.wire.messages import CallbackItem, RunKey

logger = logging.getLogger(__name__)

XWHEEL_BATCH: Final = 500
FOREIGN_BATCH: Final = 50
"""What a Java executor sends at most."""

BATCH_CHARACTERS: Final = 500_000
"""Messages travel twice, once in each style."""

IDLE_MS: Final = 60_000
FIRST_PAUSE_MS: Final = 200
LONGEST_PAUSE_MS: Final = 10_000
PARK_MS: Final = 60_000


class Courier:
    """The loop that delivers outcomes; :meth:`step` belongs to one thread.

    Transport errors never cost an outcome. Only when a scheduler takes the others of a batch and refuses one is that
    one set aside for a minute; and only an xwheel scheduler's refusal of a single outcome ends the attempts.
    """

    def __init__(self, client: AdminClient, journal: Journal, clock: Clock) -> None:
        self._client = client
        self._journal = journal
        self._clock = clock
        self._batch = FOREIGN_BATCH
        self._pause_ms = 0
        self._not_before_ms = 0
        self._parked: dict[RunKey, int] = {}

    def step(self, _now_ms: int) -> int:
        """Deliver one batch; return how long to wait before the next, in milliseconds."""
        wait_ms = self._not_before_ms - self._clock.monotonic_ms()
        if wait_ms > 0:
            return wait_ms  # woken by a new outcome while the schedulers are down
        items = self._next()
        if not items:
            return self._until_parked()
        try:
            delivered = self._deliver(items)
        except WireError as error:
            return self._back_off(error, len(items))
        if self._pause_ms:
            logger.info("outcomes are delivered again")
        self._pause_ms = 0
        self._journal.acknowledge(delivered)
        return 0

    def is_empty(self) -> bool:
        """Tell whether every outcome is delivered."""
        return not self._journal.pending(1)

    def _next(self) -> list[CallbackItem]:
        now_ms = self._clock.monotonic_ms()
        self._parked = {key: until for key, until in self._parked.items() if until > now_ms}
        chosen: list[CallbackItem] = []
        size = 0
        for item in self._journal.pending(self._batch + len(self._parked)):
            if _key(item) in self._parked:
                continue
            size += len(item.message) + 100
            if chosen and (size > BATCH_CHARACTERS or len(chosen) >= self._batch):
                break
            chosen.append(item)
        return chosen

    def _deliver(self, items: list[CallbackItem]) -> Sequence[CallbackItem]:
        """Hand over a batch; return what is settled, delivered or refused for good."""
        try:
            answer, refused = self._client.deliver(items)
        except CallRefusedError:
            if len(items) == 1:
                raise
            return self._deliver_singly(items)
        self._batch = XWHEEL_BATCH if answer.xwheel else FOREIGN_BATCH
        for item in refused:
            logger.error("the scheduler refuses the outcome of run %d for good: %s", item.run_id, item.error)
        return items

    def _deliver_singly(self, items: list[CallbackItem]) -> list[CallbackItem]:
        """Find the item that makes the whole batch fail, if it is one."""
        settled: list[CallbackItem] = []
        problem: CallRefusedError | None = None
        refused: list[CallbackItem] = []
        for item in items:
            try:
                self._client.deliver([item])
            except CallRefusedError as error:
                problem = error
                refused.append(item)
                if not settled and len(refused) > 1:
                    raise  # it refuses everything: a wrong token or a scheduler in trouble
            else:
                settled.append(item)
        until_ms = self._clock.monotonic_ms() + PARK_MS
        for item in refused:
            logger.warning("the outcome of run %d waits a minute: %s", item.run_id, problem)
            self._parked[_key(item)] = until_ms
        return settled

    def _until_parked(self) -> int:
        if not self._parked:
            return IDLE_MS
        return max(0, min(self._parked.values()) - self._clock.monotonic_ms())

    def _back_off(self, error: WireError, count: int) -> int:
        if not self._pause_ms:
            logger.warning("%d outcomes wait for a scheduler: %s", count, error)
        self._pause_ms = min(LONGEST_PAUSE_MS, max(FIRST_PAUSE_MS, 2 * self._pause_ms))
        self._not_before_ms = self._clock.monotonic_ms() + self._pause_ms
        return self._pause_ms


def _key(item: CallbackItem) -> RunKey:
    return RunKey(item.run_id, item.job_id, item.created_ms)
