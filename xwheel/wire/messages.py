"""What travels between scheduler and executor, in our words; :mod:`xwheel.wire.codec` knows the wire's spelling.

Fields after the comment ``xwheel`` are our additions. They travel in one extra object that other peers ignore, so
they are empty whenever the peer is not xwheel.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Generic, TypeVar

import msgspec

from xwheel.model import BlockStrategy, RunState

T = TypeVar("T")


class Response(msgspec.Struct, frozen=True, kw_only=True):
    """The envelope around every answer.

    Attributes:
        code: 200 for yes, anything else for no.
        message: One sentence for people.
        data: Payload, already decoded from JSON.
        xwheel: Whether the answering side is xwheel and so understands our additions.
        not_yet: Of a no: it may be a yes soon.
    """

    code: int
    message: str = ""
    data: object = None
    xwheel: bool = False
    not_yet: bool = False

    @property
    def ok(self) -> bool:
        """Whether the answer is yes."""
        return self.code == 200  # noqa: PLR2004


class TriggerRequest(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Start one run.

    Attributes:
        run_id: XXL-JOB's log id.
        created_ms: The run's immutable creation time (``logDateTime``); with the ids it is the journal key.
        timeout_s: Run time limit in seconds, 0 for none.
        planned_ms: The due time the schedule named, 0 if the peer does not say.
        attempt: 1 for the first try.
        instance: Executor instance the run is meant for; empty when the peer is not xwheel.
        job_param: The job's own parameter, if the run has another one and the job's code is its source; or empty.
        trace_parent: The call's W3C ``traceparent``, or empty; a header and no part of the message.
    """

    job_id: int
    run_id: int
    created_ms: int
    handler: str = ""
    param: str = ""
    block_strategy: BlockStrategy = BlockStrategy.SERIAL_EXECUTION
    timeout_s: int = 0
    glue_type: str = "BEAN"
    glue_source: str = ""
    glue_updated_ms: int = 0
    shard_index: int = 0
    shard_total: int = 1
    # xwheel
    planned_ms: int = 0
    attempt: int = 1
    instance: str = ""
    job_param: str = ""
    trace_parent: str = ""

    @property
    def key(self) -> RunKey:
        """What makes the run unique on an executor."""
        return RunKey(self.run_id, self.job_id, self.created_ms)


class CallbackItem(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The outcome of one run.

    Attributes:
        code: 200 ended well, 502 ran out of time, anything else failed.
        state: The outcome in our words; derived from the code when the peer does not say.
        reason: Short word such as ``not_started`` or ``interrupted``; empty if plain.
        started_ms: When the handler began, 0 if unknown or never.
        finished_ms: When it ended, 0 if unknown.
        instance: Which executor instance took the run; empty if the peer does not say.
    """

    run_id: int
    code: int
    message: str = ""
    created_ms: int = 0
    # xwheel
    job_id: int = 0
    state: RunState = RunState.SUCCEEDED
    reason: str = ""
    started_ms: int = 0
    finished_ms: int = 0
    instance: str = ""

    @property
    def key(self) -> RunKey:
        """What makes the run unique on an executor."""
        return RunKey(self.run_id, self.job_id, self.created_ms)


class BadItem(msgspec.Struct, frozen=True, kw_only=True):
    """One item of a list that could not be read; the others stand.

    Attributes:
        index: Position in the list, from 0.
        run_id: The id, if at least that could be read, otherwise 0.
        error: Names the field and what is allowed.
    """

    index: int
    run_id: int
    error: str


class RegistryRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A beat of an executor, or its farewell.

    Attributes:
        group: ``EXECUTOR``; other values are accepted and feed no list.
        address: Base URL exactly as the executor spelled it.
        instance: Identity of the executor's journal.
        boot: Changes with every start of the executor.
        release: Of the application, where its code declares jobs; empty if it declares none.
        declared: Digest of what it declares.
    """

    group: str
    app_name: str
    address: str
    # xwheel
    instance: str = ""
    boot: str = ""
    labels: dict[str, str] = {}
    release: str = ""
    declared: str = ""


class KillRequest(msgspec.Struct, frozen=True, kw_only=True):
    """End the runs of a job; with ``run_id`` (xwheel) only that one."""

    job_id: int
    # xwheel
    run_id: int = 0


class LogRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Read a run's log from a line on; the first line is 1. With ``tail`` (xwheel) this many last lines of it."""

    run_id: int
    created_ms: int
    from_line: int = 1
    # xwheel
    tail: int = 0


class LogData(msgspec.Struct, frozen=True, kw_only=True):
    """A piece of a run's log.

    Attributes:
        from_line: Echo of the request.
        to_line: Last line in ``content``; below ``from_line`` if there was nothing to read.
        is_end: Whether nothing will follow.
    """

    from_line: int
    to_line: int
    content: str
    is_end: bool


class LogPart(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Consecutive lines of a run's log, on their way to the scheduler's log store.

    Attributes:
        from_line: Number of the first of them, from 1.
        content: Whole lines, each with a line feed at its end.
        is_end: Whether the log ends with them.
    """

    run_id: int
    created_ms: int
    from_line: int
    content: str = ""
    is_end: bool = False

    @property
    def asks(self) -> bool:
        """Whether it brings nothing, but asks how far the log is there."""
        return not self.content and not self.is_end


class LogReceipt(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """How far the log of a run is in the scheduler's log store.

    Attributes:
        next_line: Number of the first line that is missing there.
        settled: Whether no more of it is wanted: all is there, or ``message`` says why it is not taken.
    """

    run_id: int
    next_line: int = 1
    settled: bool = False
    message: str = ""


class RunKey(msgspec.Struct, frozen=True):
    """What makes a run unique on an executor, even after ids restart in a new database."""

    run_id: int
    job_id: int
    created_ms: int


class BatchAnswer(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The answer to one run of a batch: 200 means accepted and on disk.

    Attributes:
        not_yet: Of a no: it may be a yes soon.
    """

    run_id: int
    code: int
    message: str = ""
    not_yet: bool = False

    @property
    def ok(self) -> bool:
        """Whether the run was accepted."""
        return self.code == 200  # noqa: PLR2004


class ExecutionState(StrEnum):
    """Where an xwheel executor's journal has a run."""

    UNKNOWN = "unknown"
    ACCEPTED = "accepted"
    STARTED = "started"
    FINISHED = "finished"


class StateAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What the journal knows about one run; ``outcome`` only when finished.

    Attributes:
        running_ms: For how long the handler has been running, by the executor's clock; 0 if it is not.
    """

    run_id: int
    state: ExecutionState
    running_ms: int = 0
    outcome: CallbackItem | None = None


class Answers(msgspec.Struct, Generic[T], frozen=True):
    """What an xwheel executor answers to ``/runBatch`` and ``/runState``, in any order.

    A run that is missing has an unknown fate.
    """

    instance: str
    answers: Sequence[T]
