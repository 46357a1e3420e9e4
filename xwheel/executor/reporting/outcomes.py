"""Delivers outcomes from the journal in batches, and tries again until a scheduler confirms each."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from xwheel.clock import Clock
from xwheel.errors import WireError
from xwheel.executor.journal import Journal
from xwheel.executor.reporting.admin_client import AdminClient, CallRefusedError
from xwheel.wire.messages import CallbackItem, RunKey

logger = logging.getLogger(__name__)

XWHEEL_BATCH: Final = 500
FOREIGN_BATCH: Final = 50  # what a Java executor sends at most
BATCH_CHARACTERS: Final = 500_000  # messages travel twice, once in each style
IDLE_MS: Final = 60_000
FIRST_PAUSE_MS: Final = 200
LONGEST_PAUSE_MS: Final = 10_000
PARK_MS: Final = 60_000
LONGEST_PARK_MS: Final = 600_000


@dataclass(slots=True)
class _Parked:
    until_ms: int = 0
    wait_ms: int = 0


class OutcomeDelivery:
    """The loop that delivers outcomes; :meth:`step` belongs to one thread.

    An outcome survives every transport error. One that a scheduler refuses is set aside: for a minute and then longer
    if the scheduler took others next to it, otherwise for seconds, since then the scheduler itself may be in trouble.
    Outcomes that were never refused go first, so that refused ones delay no other. Only an xwheel scheduler's refusal
    of a single outcome ends the attempts.
    """

    def __init__(self, client: AdminClient, journal: Journal, clock: Clock) -> None:
        self._client = client
        self._journal = journal
        self._clock = clock
        self._batch = FOREIGN_BATCH
        self._pause_ms = 0
        self._not_before_ms = 0
        self._parked: dict[RunKey, _Parked] = {}

    def step(self, _now_ms: int) -> int:
        """Deliver one batch; return how long to wait before the next, in milliseconds."""
        wait_ms = self._not_before_ms - self._clock.monotonic_ms()
        if wait_ms > 0:
            return wait_ms  # woken by a new outcome while the schedulers are down
        items = self._next()
        if not items:
            until_ms = min((parked.until_ms for parked in self._parked.values()), default=None)
            return IDLE_MS if until_ms is None else max(1, until_ms - self._clock.monotonic_ms())
        try:
            delivered = self._deliver(items)
        except WireError as error:
            if not isinstance(error, CallRefusedError):
                self._parked.clear()  # the next answer may be another scheduler's
            return self._back_off(error, len(items))
        if delivered:
            if self._pause_ms:
                logger.info("outcomes are delivered again")
            self._pause_ms = 0
            self._journal.acknowledge(delivered)
            for item in delivered:
                self._parked.pop(item.key, None)
        return 0

    def is_empty(self) -> bool:
        """Return whether every outcome is delivered."""
        return not self._journal.pending(1)

    def _next(self) -> list[CallbackItem]:
        """Choose a batch: outcomes that were never refused, or else refused ones whose time has come."""
        now_ms = self._clock.monotonic_ms()
        fresh: list[CallbackItem] = []
        again: list[CallbackItem] = []
        for item in self._journal.pending(self._batch + len(self._parked)):
            parked = self._parked.get(item.key)
            if parked is None:
                fresh.append(item)
            elif parked.until_ms <= now_ms:
                again.append(item)
        return self._bounded(fresh or again)

    def _bounded(self, items: list[CallbackItem]) -> list[CallbackItem]:
        size = 0
        for index, item in enumerate(items[: self._batch]):
            size += len(item.message) + 100
            if index and size > BATCH_CHARACTERS:
                return items[:index]
        return items[: self._batch]

    def _deliver(self, items: list[CallbackItem]) -> Sequence[CallbackItem]:
        """Hand over a batch; return what is settled, delivered or refused for good."""
        try:
            answer, refused = self._client.deliver(items)
        except CallRefusedError as error:
            return self._deliver_singly(items, error)
        self._batch = XWHEEL_BATCH if answer.xwheel else FOREIGN_BATCH
        for item in refused:
            logger.error("the scheduler refuses the outcome of run %d for good: %s", item.run_id, item.error)
        return items

    def _deliver_singly(self, items: list[CallbackItem], problem: CallRefusedError) -> list[CallbackItem]:
        """Find the items that make the whole batch fail, and set them aside.

        Raises WireError if nothing new was taken: a wrong token, or a scheduler in trouble.
        """
        settled: list[CallbackItem] = []
        refused: list[tuple[int, CallbackItem]] = []  # with how many were settled before
        for item in items:
            try:
                if len(items) > 1:
                    self._client.deliver([item])
                    settled.append(item)
                else:
                    refused.append((0, item))
            except CallRefusedError as error:
                problem = error
                refused.append((len(settled), item))
            except WireError:
                if settled:
                    break  # the next step notices it again
                raise
        known = all(item.key in self._parked for _, item in refused)
        for before, item in refused:
            # taken before and after it: a scheduler that recovers or fails in the middle proves nothing
            self._park(item, problem, proven=0 < before < len(settled))
        if not settled and not known:
            raise problem
        return settled

    def _park(self, item: CallbackItem, problem: CallRefusedError, *, proven: bool) -> None:
        """Set an outcome aside; ``proven`` says that the scheduler took others at the same time."""
        parked = self._parked.setdefault(item.key, _Parked())
        low, high = (PARK_MS, LONGEST_PARK_MS) if proven else (FIRST_PAUSE_MS, LONGEST_PAUSE_MS)
        parked.wait_ms = min(high, max(low, 2 * parked.wait_ms))
        parked.until_ms = self._clock.monotonic_ms() + parked.wait_ms
        if proven:
            text = "the outcome of run %d waits %d s: %s"
            logger.warning(text, item.run_id, parked.wait_ms // 1000, problem)

    def _back_off(self, error: WireError, count: int) -> int:
        if not self._pause_ms:
            logger.warning("%d outcomes wait for a scheduler: %s", count, error)
        self._pause_ms = min(LONGEST_PAUSE_MS, max(FIRST_PAUSE_MS, 2 * self._pause_ms))
        self._not_before_ms = self._clock.monotonic_ms() + self._pause_ms
        return self._pause_ms
