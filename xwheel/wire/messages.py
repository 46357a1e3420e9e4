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
    """The envelope around every answer."""

    code: int  # 200 for yes, anything else for no
    message: str = ""  # one sentence for people
    data: object = None  # payload, already decoded from JSON
    xwheel: bool = False  # whether the answering side is xwheel and so understands our additions
    not_yet: bool = False  # of a no: it may be a yes soon

    @property
    def ok(self) -> bool:
        """Whether the answer is yes."""
        return self.code == 200  # noqa: PLR2004


class TriggerRequest(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Start one run."""

    job_id: int
    run_id: int  # XXL-JOB's log id
    created_ms: int  # the run's immutable creation time (logDateTime); with the ids it is the journal key
    handler: str = ""
    param: str = ""
    block_strategy: BlockStrategy = BlockStrategy.SERIAL_EXECUTION
    timeout_s: int = 0  # run time limit in seconds, 0 for none
    glue_type: str = "BEAN"
    glue_source: str = ""
    glue_updated_ms: int = 0
    shard_index: int = 0
    shard_total: int = 1
    # xwheel
    planned_ms: int = 0  # the due time the schedule named, 0 if the peer does not say
    attempt: int = 1  # 1 for the first try
    instance: str = ""  # executor instance the run is meant for; empty when the peer is not xwheel
    # the job's own parameter, if the run has another one and the job's code is its source; or empty
    job_param: str = ""
    trace_parent: str = ""  # the call's W3C traceparent, or empty; a header and no part of the message
    # when it starts, and when it was sent, by the scheduler's clock; 0 for one that starts at once
    due_ms: int = 0
    sent_ms: int = 0

    @property
    def key(self) -> RunKey:
        """What makes the run unique on an executor."""
        return RunKey(self.run_id, self.job_id, self.created_ms)


class CallbackItem(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The outcome of one run."""

    run_id: int
    code: int  # 200 ended well, 502 ran out of time, anything else failed
    message: str = ""
    created_ms: int = 0
    # xwheel
    job_id: int = 0
    # the outcome in our words; derived from the code when the peer does not say
    state: RunState = RunState.SUCCEEDED
    reason: str = ""  # short word such as not_started or interrupted; empty if plain
    started_ms: int = 0  # when the handler began, 0 if unknown or never
    finished_ms: int = 0  # when it ended, 0 if unknown
    instance: str = ""  # which executor instance took the run; empty if the peer does not say

    @property
    def key(self) -> RunKey:
        """What makes the run unique on an executor."""
        return RunKey(self.run_id, self.job_id, self.created_ms)


class BadItem(msgspec.Struct, frozen=True, kw_only=True):
    """One item of a list that could not be read; the others stand."""

    index: int  # position in the list, from 0
    run_id: int  # the id, if at least that could be read, otherwise 0
    error: str  # names the field and what is allowed


class RegistryRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A beat of an executor, or its farewell."""

    group: str  # EXECUTOR; other values are accepted and feed no list
    app_name: str
    address: str  # base URL exactly as the executor spelled it
    # xwheel
    instance: str = ""  # identity of the executor's journal
    boot: str = ""  # changes with every start of the executor
    labels: dict[str, str] = {}
    release: str = ""  # of the application, where its code declares jobs; empty if it declares none
    declared: str = ""  # digest of what it declares
    early: bool = False  # whether it takes runs before they are due, and starts them then


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
    """A piece of a run's log."""

    from_line: int  #: echo of the request
    to_line: int  #: last line in ``content``; below ``from_line`` if there was nothing to read
    content: str
    is_end: bool  #: whether nothing will follow


class LogPart(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Consecutive lines of a run's log, on their way to the scheduler's log store."""

    run_id: int
    created_ms: int
    from_line: int  #: number of the first of them, from 1
    content: str = ""  #: whole lines, each with a line feed at its end
    is_end: bool = False  #: whether the log ends with them

    @property
    def asks(self) -> bool:
        """Whether it brings nothing, but asks how far the log is there."""
        return not self.content and not self.is_end


class LogReceipt(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """How far the log of a run is in the scheduler's log store."""

    run_id: int
    next_line: int = 1  #: number of the first line that is missing there
    #: whether no more of it is wanted: all is there, or ``message`` says why it is not taken
    settled: bool = False
    message: str = ""


class RunKey(msgspec.Struct, frozen=True):
    """What makes a run unique on an executor, even after ids restart in a new database."""

    run_id: int
    job_id: int
    created_ms: int


class BatchAnswer(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The answer to one run of a batch: 200 means accepted and on disk."""

    run_id: int
    code: int
    message: str = ""
    not_yet: bool = False  # of a no: it may be a yes soon

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
    """What the journal knows about one run; ``outcome`` only when finished."""

    run_id: int
    state: ExecutionState
    running_ms: int = 0  # for how long the handler has been running, by the executor's clock; 0 if it is not
    outcome: CallbackItem | None = None


class Answers(msgspec.Struct, Generic[T], frozen=True):
    """What an xwheel executor says of runs, in any order; one that is missing has an unknown fate."""

    instance: str
    answers: Sequence[T]
