"""Whether this node takes the runs of a job; a cluster's plugin may say no, as for jobs of other nodes."""

from __future__ import annotations

from typing import Protocol


class Acceptance(Protocol):
    """Says which jobs' runs a node refuses; called by many threads, for every run before it is accepted."""

    def refuse(self, job_id: int) -> str:
        """Return why this node does not take a run of the job, in words; an empty text if it does. Answers at once."""
        ...


class _TakesAll:
    def refuse(self, job_id: int) -> str:
        del job_id
        return ""


_present: Acceptance = _TakesAll()


def set_acceptance(acceptance: Acceptance | None) -> None:
    """Let something decide from now on; None lets every run in, as at the beginning."""
    global _present  # noqa: PLW0603 -- one for each process, as there is one node in it
    _present = _TakesAll() if acceptance is None else acceptance


def refusal(job_id: int) -> str:
    """Return why a run of the job is refused here; an empty text if it is not."""
    return _present.refuse(job_id)
