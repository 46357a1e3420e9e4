"""Executors that take no run of a job yet: when they are asked again."""

from __future__ import annotations

from typing import Final, NamedTuple

FIRST_MS: Final = 1000
KNOWN: Final = 10_000
KEPT_CHARS: Final = 500
ASKING_MS: Final = 2000  # how long the others wait for the answer to the one run that asks


class NotYetAnswer(NamedTuple):
    """What an executor said, and until when it is not asked again."""

    until_ms: int
    message: str


class NotYet:
    """What executors said that do not take the runs of a job yet.

    Thread-safety: :meth:`note` and :meth:`forget` belong to the thread that writes answers, the rest to the tick
    thread; each is one change or look-up of a dict.
    """

    def __init__(self) -> None:
        self._said: dict[tuple[str, int], NotYetAnswer] = {}

    def note(self, address: str, job_id: int, until_ms: int, message: str) -> None:
        """Ask this executor about the job no more until then."""
        if len(self._said) >= KNOWN:
            self._said.clear()  # then they are asked once more
        self._said[address, job_id] = NotYetAnswer(until_ms, message[:KEPT_CHARS])

    def forget(self, address: str, job_id: int) -> None:
        """Note that an executor takes the runs of a job."""
        if self._said:
            self._said.pop((address, job_id), None)

    def find(self, address: str, job_id: int) -> NotYetAnswer | None:
        """Return what an executor said of a job, unless it took a run of it since."""
        return self._said.get((address, job_id))

    def begin(self, address: str, job_id: int, now_ms: int) -> None:
        """Note that one run asks now, and the others of its job wait for the answer."""
        said = self._said.get((address, job_id))
        if said is not None:
            self._said[address, job_id] = said._replace(until_ms=now_ms + ASKING_MS)


def pause_ms(attempt: int, wait_ms: int) -> int:
    """Return how long a run waits after an attempt: longer each time, and short enough for its whole time.

    However long that is, sixteen attempts are enough for it.
    """
    first_ms = max(FIRST_MS, wait_ms // 1000)
    return min(first_ms << min(attempt - 1, 20), max(first_ms, wait_ms // 8))
