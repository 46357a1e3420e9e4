"""Runs that executors took and whose rows do not say so: what ends soon is written once, with its end."""

from __future__ import annotations

from collections.abc import Iterable, Mapping


class Acceptances:
    """When executors took runs, until it is written.

    Thread-safety: lanes add, the thread that writes answers takes out, and any thread that closes runs asks and takes
    out; each is an operation of a dict.
    """

    def __init__(self) -> None:
        self._taken: dict[int, int] = {}

    def add(self, times_ms: Mapping[int, int]) -> None:
        """Note when executors took runs, by run id."""
        self._taken.update(times_ms)

    def find(self, run_id: int) -> int | None:
        """Return when an executor took a run, if that is not written."""
        return self._taken.get(run_id)

    def forget(self, run_ids: Iterable[int]) -> None:
        """Note that rows say it, or that these runs have ended."""
        for run_id in run_ids:
            self._taken.pop(run_id, None)
