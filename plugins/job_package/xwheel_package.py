"""What authors of job packages import: decorators and parameters; one file, standard library only."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

PROTOCOL = 1
"""What this file and a package node say to each other."""

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T", bound=Any)


def schedule(cron: str = "", *, misfire: str = "", time_zone: str = "") -> Callable[[F], F]:
    """Make a function or method a job."""

    def mark(function: F) -> F:
        function.__dict__["__xwheel_schedule__"] = {"cron": cron, "misfire": misfire, "time_zone": time_zone}
        return function

    return mark


def disabled(marked: T) -> T:
    """Let a function, or all of a class, be no job for now, though ``@schedule`` marks it."""
    marked.__xwheel_disabled__ = True
    return marked


class JobParameter(Mapping[str, Any]):
    """The parameters of a run, by name."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = dict(values)

    def __getitem__(self, key: str) -> Any:
        try:
            return self._values[key]
        except KeyError:
            known = ", ".join(sorted(self._values)) or "none"
            raise KeyError(f"the run has no parameter {key!r}; known: {known}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def string(self, key: str) -> str:
        """Return a text."""
        return str(self[key])

    def integer(self, key: str) -> int:
        """Return a whole number.

        Raises:
            ValueError: It is none; the message names the parameter.
        """
        value = self[key]
        try:
            return int(value)
        except (TypeError, ValueError):
            raise ValueError(f"parameter {key!r} must be a whole number, not {value!r}"[:300]) from None

    long = integer
