"""A fault: what begins it and what ends it."""

from __future__ import annotations

import threading
from collections.abc import Callable


class Fault:
    """Something that goes wrong between :meth:`begin` and :meth:`end`, each of which may be called again for nothing.

    As a context it lasts for the block. An end that fails may be tried again.

    Thread-safety: a begin and an end never run at the same time.

    Attributes:
        name: What a log calls it.

    Args:
        begin: Makes it so, and returns once it is.
        end: Takes it back; it must leave nothing behind.
    """

    def __init__(self, name: str, begin: Callable[[], object], end: Callable[[], object]) -> None:
        self.name = name
        self._begin, self._end = begin, end
        self._has_begun = False
        self._guard = threading.Lock()

    def begin(self) -> None:
        """Let it go wrong; if that fails half-way, :meth:`end` takes back what there is."""
        with self._guard:
            if not self._has_begun:
                self._has_begun = True
                self._begin()

    def end(self) -> None:
        """Let it be over."""
        with self._guard:
            if self._has_begun:
                self._end()
                self._has_begun = False

    def __enter__(self) -> Fault:
        try:
            self.begin()
        except BaseException:
            self.end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.end()
