"""Whether this node takes the runs of a job; a cluster's plugin may say no, as for jobs of other nodes."""

from __future__ import annotations

from typing import Protocol

from xwheel.plugin import ExecutorError, NotYetError


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
_error: type[ExecutorError] = ExecutorError


def set_acceptance(acceptance: Acceptance | None, *, is_for_now: bool = False) -> None:
    """Let something decide from now on; None lets every run in, as at the beginning.

    Args:
        acceptance: What decides.
        is_for_now: What it refuses may be taken soon, here or elsewhere: such a run waits as long as its job may wait
            for executors.
    """
    global _present, _error  # noqa: PLW0603 -- one for each process, as there is one node in it
    _error = NotYetError if is_for_now else ExecutorError
    _present = _TakesAll() if acceptance is None else acceptance


def require(job_id: int) -> None:
    """Refuse a run of the job if this node does not take it.

    Raises:
        NotYetError: It may be taken soon.
        ExecutorError: It may not.
    """
    if reason := _present.refuse(job_id):
        raise _error(reason)
