"""Why a package job could not be run: a stable word for programs, a sentence for people."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from typing import Final

from xwheel.plugin import ExecutorError

Write = Callable[[str], None]
"""Adds text to a run's log."""

KILLED: Final = "killed"


class PackageRunError(ExecutorError):
    """A package cannot be fetched, built or run here.

    Attributes:
        reason: A stable word, with which the message begins.
        is_permanent: Whether the same would happen again, here or on another node.
    """

    def __init__(self, reason: str, text: str, *, is_permanent: bool) -> None:
        super().__init__(f"{reason}: {text}")
        self.reason = reason
        self.is_permanent = is_permanent


def transient(reason: str, text: str) -> PackageRunError:
    """Return a failure that another attempt may not meet."""
    return PackageRunError(reason, text, is_permanent=False)


def permanent(reason: str, text: str) -> PackageRunError:
    """Return a failure that another attempt would meet again."""
    return PackageRunError(reason, text, is_permanent=True)


class Cancel:
    """The sign to end, for what a run waits for; every wait of a run asks it.

    Thread-safety: any thread.
    """

    def __init__(self) -> None:
        self._event = threading.Event()

    @property
    def is_set(self) -> bool:
        """Whether the run is to end."""
        return self._event.is_set()

    def set(self) -> None:
        """Tell the run to end."""
        self._event.set()

    def check(self) -> None:
        """Raise if the run is to end.

        Raises:
            PackageRunError: It is.
        """
        if self._event.is_set():
            raise transient(KILLED, "the run was asked to end")

    def pause(self, seconds: float) -> None:
        """Wait, but not longer than until the run is to end.

        Raises:
            PackageRunError: It is to end.
        """
        with contextlib.suppress(OverflowError):
            self._event.wait(seconds)
        self.check()
