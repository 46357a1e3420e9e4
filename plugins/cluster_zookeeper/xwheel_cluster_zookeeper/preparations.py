"""Fetching packages and building environments ahead, next to the node's steps: a few at a time, each once."""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from xwheel_job_package.failures import Cancel, PackageRunError

logger = logging.getLogger(__name__)

AT_ONCE: Final = 4
Prepare = Callable[[str, Cancel], None]
"""Makes a job's package ready, by the job's source; raises what is wrong."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """How a preparation ended; an empty reason says that all is ready."""

    reason: str = ""
    error: str = ""
    is_permanent: bool = False


@dataclass(frozen=True, slots=True)
class _Begun:
    attempt: tuple[int, int]
    cancel: Cancel
    future: Future[Prepared]


class Preparations:
    """What is being prepared, by job.

    Thread-safety: one thread, that of the node's steps; the work is done on others.

    Args:
        prepare: Does it.
        wake: Called when one has ended.
    """

    def __init__(self, prepare: Prepare, wake: Callable[[], None] = lambda: None) -> None:
        self._prepare = prepare
        self._wake = wake
        self._pool = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="xwheel-prepare")
        self._begun: dict[str, _Begun] = {}

    def get(self, key: str, attempt: tuple[int, int], source: str) -> Prepared | None:
        """Return how the preparation of an attempt ended; None while it goes on, which this begins."""
        begun = self._begun.get(key)
        if begun is None or begun.attempt != attempt:
            self.forget(key)
            cancel = Cancel()
            begun = _Begun(attempt, cancel, self._pool.submit(self._do, source, cancel))
            self._begun[key] = begun
        return begun.future.result() if begun.future.done() else None

    def keep(self, keys: set[str]) -> None:
        """End what is prepared for other jobs than these."""
        for key in self._begun.keys() - keys:
            self.forget(key)

    def forget(self, key: str) -> None:
        """End a preparation, or forget how it ended."""
        begun = self._begun.pop(key, None)
        if begun is not None:
            begun.cancel.set()
            begun.future.cancel()

    def close(self) -> None:
        """End all."""
        self.keep(set())
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _do(self, source: str, cancel: Cancel) -> Prepared:
        try:
            self._prepare(source, cancel)
        except PackageRunError as error:
            return Prepared(error.reason, str(error), error.is_permanent)
        except Exception as error:
            logger.exception("a package cannot be prepared")
            return Prepared("prepare_failed", f"{type(error).__name__}: {error}", is_permanent=False)
        finally:
            self._wake()
        return Prepared()
