"""Who brings operations to nodes; without anyone they end as soon as the scheduler has done its part."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol


class Distribution(Protocol):
    """Brings operations on jobs of packages to the nodes of a cluster, and settles them when nodes have answered.

    It reads them from the tables: ``operations.JobOperations`` says how, and settles them.

    Attributes:
        job_fields: Fields of jobs that are made from now on, such as their router.
    """

    job_fields: Mapping[str, Any]

    def wake(self) -> None:
        """Look at the tables soon, as an operation was committed; answers at once."""
        ...

    def waiting_reason(self) -> str:
        """Return why an operation cannot be brought to nodes now, ``queued``; nothing if it can. Answers at once."""
        ...

    def describe(self, job_id: int) -> Mapping[str, Any] | None:
        """Return which node has a job and how its last operation went, from memory; None if nothing is known."""
        ...


_present: Distribution | None = None


def set_distribution(distribution: Distribution | None) -> None:
    """Let operations be brought to nodes from now on; None ends them at once, as at the beginning."""
    global _present  # noqa: PLW0603 -- one for each process, as there is one node in it
    _present = distribution


def present_distribution() -> Distribution | None:
    """Return who brings operations to nodes, or None."""
    return _present
