"""What a plugin's objects must be able to do: one protocol per kind.

Every object is registered once at start-up and called from several threads, so it must be thread-safe, do no I/O in
its constructor and refuse options it does not know. An attribute that has a value here is that attribute's default: an
object without it gets it when it is registered. The kit for tests has a suite for each kind.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, runtime_checkable

import msgspec

from xwheel.model import ExecutorGroup, Job, RegisteredExecutor, Run, RunState

if TYPE_CHECKING:
    from xwheel.config import Config

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleSpec:
    """What a schedule type may go by.

    Attributes:
        conf: The job's ``schedule_conf``, as its author wrote it.
        timezone: IANA name.
        anchor_ms: Where fixed rates count from.
    """

    conf: str
    timezone: str
    anchor_ms: int


class ScheduleType(Protocol):
    """Answers when a job fires next.

    Attributes:
        name: What jobs call it in ``schedule_type``.
    """

    name: str

    def check(self, spec: ScheduleSpec) -> None:
        """Refuse a configuration that could never work.

        Raises:
            ScheduleError: Names the field and what is allowed.
        """

    def next_ms(self, spec: ScheduleSpec, after_ms: int) -> int | None:
        """Return the first due time strictly after ``after_ms``, or None if there is none.

        Must be pure: the same arguments give the same answer, whatever the clock says. Anything but a plain int after
        ``after_ms`` and before the year 10000, and whatever it raises, stops the job with the reason. So does an answer
        that takes longer than the setting ``plugins.call_timeout_s``, unless ``plugins.trusted`` names the
        distribution; while four calls hang, all due jobs of the type are stopped.
        """


def no_load(address: str) -> int:
    """Return 0: there are no counts."""
    del address
    return 0


class RouteContext(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What a router may go by.

    Attributes:
        job: The job, as it stands now.
        executors: Live executors of the job's group, suspects last, sorted by address within each part.
        beat: Ask an address whether it lives; blocks, so only routers that say ``asks = True`` may call it. Answers
            are kept for a second.
        idle_beat: Ask an address whether the job is idle there; same rule, and a yes counts for one run only.
        load: How many runs an address has at the moment, sent from any node, a second or so ago, and from this one
            until now. The first call after a pause may know of this node's alone.
        now_ms: The shared time.
        routers: All routers by name, for one that lets another choose among some of the executors.
    """

    job: Job
    executors: Sequence[RegisteredExecutor]
    beat: Callable[[str], bool]
    idle_beat: Callable[[str], bool]
    load: Callable[[str], int] = no_load
    now_ms: int = 0
    routers: Mapping[str, Router] = msgspec.field(default_factory=dict)

    @property
    def addresses(self) -> list[str]:
        """The addresses of the executors, in their order, as a list of the router's own; it may return some of them."""
        return [item.address for item in self.executors]

    @property
    def trusted(self) -> Sequence[RegisteredExecutor]:
        """The executors without a recent failed send, or all if there are only such."""
        executors, now_ms = self.executors, self.now_ms
        count = len(executors)
        while count and executors[count - 1].suspect_until_ms > now_ms:
            count -= 1
        return executors[:count] if 0 < count < len(executors) else executors


class Router(Protocol):
    """Chooses the executors of a run.

    Attributes:
        name: What jobs call it in ``route_strategy``.
        asks: Whether it calls ``beat`` or ``idle_beat`` and so must work off the tick thread; False if it is left out.
    """

    name: str
    asks: bool = False

    def route(self, context: RouteContext) -> Sequence[RegisteredExecutor] | Sequence[str]:
        """Return the executors that shall run it: one, or several for one shard each. ``executors`` is never empty.

        The answer is a list, or another sequence that is no text, of items of ``context.executors`` or of
        ``context.addresses``, each executor at most once; anything else, and whatever it raises, refuses the run with
        ``no_route``. One that asks executors, or whose
        distribution the setting ``plugins.trusted`` does not name, runs on a thread of its own kind; after 30 s its run
        is refused, and while four calls hang, all of them are.

        Raises:
            NoExecutorYetError: None may have the run now, and one may soon. The router is asked again, within a second
                or so, for as long as the job's ``wait_for_executor_s`` says.
        """


@runtime_checkable
class TakesOptions(Protocol):
    """A router whose jobs may say more in ``route_options``; for routers without this they must be empty."""

    def check(self, options: str) -> None:
        """Refuse options that cannot work, when a job is saved; they are at most 512 characters.

        Raises:
            RouteError: One sentence that says what is wrong and what is allowed.
        """


class RunContext(Protocol):
    """The side of a run that a handler sees; :class:`xwheel.executor.JobContext` implements it."""

    @property
    def run_id(self) -> int:
        """The run; XXL-JOB's log id."""

    @property
    def job_id(self) -> int:
        """The job it belongs to."""

    @property
    def param(self) -> str:
        """Parameter of this run."""

    @property
    def job_param(self) -> str:
        """The job's own parameter, if this run was given another one; otherwise empty."""

    @property
    def shard_index(self) -> int:
        """Which shard this is, from 0."""

    @property
    def shard_total(self) -> int:
        """How many shards there are; 1 if the job is not sharded."""

    def log(self, text: str) -> None:
        """Write a line into the run's log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GlueRequest:
    """What a glue type builds a handler from: the part of a trigger that names the code.

    Attributes:
        job_id: The job whose source it is.
        handler: Handler name, for BEAN.
        source: Source text, for script types.
        updated_ms: Version of the source.
    """

    job_id: int
    handler: str
    source: str
    updated_ms: int


class HandlerLookup(Protocol):
    """Where BEAN finds the functions that ``@job`` registered."""

    def get(self, name: str) -> Callable[..., object]:
        """Return the handler.

        Raises:
            HandlerNotFoundError: The name is not registered.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A program that a run starts in a process of its own, in place of a Python function.

    The executor starts a process that calls ``prepare`` and then becomes the program. Its standard input is empty, its
    standard output and error are the run's log. Of the executor's environment it gets a few plain variables and what
    ``executor.script_environment`` names. Exit status 0 is success. A kill or a timeout sends TERM to its process
    group, and after the grace KILL to every descendant, also to those that left the group; so does the end of the
    program for what it left running.

    Attributes:
        prepare: A function at the top level of an importable module: ``prepare(context, data)`` returns the program
            and its arguments, which no shell sees. It may write to the log, change ``os.environ``, set limits and
            give up rights, and it may take long: it ends with the run. What it raises is the run's failure.
        data: Handed to ``prepare``; plain values, since they travel as JSON.
    """

    prepare: Callable[[RunContext, Any], Sequence[str]]
    data: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class HostedRun:
    """A run that a process of the glue type's own executes, in place of a Python function or a :class:`Command`.

    For glue types that keep processes ready: the executor gives a thread, the log and the signs to end; which process
    does the work is theirs. They hand it none of the executor's secrets and let it end with the executor.

    Attributes:
        run: Called once, on a thread of the executor: ``run(context, write)`` works until the run is over and returns
            its result; ``write(text)`` adds text to the run's log as it is. What it raises is the run's failure, an
            :class:`~xwheel.errors.ExecutorError` without its traceback.
        end: Called on another thread when the run is killed or out of time: ``end(0)`` at once, then ``end(1)``,
            ``end(2)`` and so on, after a grace each. It returns at once, and ``run`` shortly after: the first call asks
            the process, the second forces it. Calls may come before ``run`` does. A run that is still there after the
            fourth is reported without its end.
    """

    run: Callable[[RunContext, Callable[[str], None]], object]
    end: Callable[[int], None]


class GlueType(Protocol):
    """Turns what a job row names into something an executor can call.

    Schedulers need the names alone. An executor runs a type other than BEAN only if its setting
    ``executor.allowed_glue_types`` names it.

    Attributes:
        name: What jobs call it in ``glue_type``.
        takes_source: Whether the code is the job's own source, which the scheduler keeps and sends. A job of such a
            type cannot run without one; for other types :attr:`GlueRequest.source` is empty. True if it is left out.
    """

    name: str
    takes_source: bool = True

    def build(
        self, request: GlueRequest, handlers: HandlerLookup
    ) -> Callable[..., object] | Command | HostedRun:
        """Return what to call, or the program to start. Called for every run before it is accepted, so it is quick.

        Raises:
            HandlerNotFoundError: The name is not registered.
            ExecutorError: The source cannot be used.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class HostSetup:
    """What a glue type that hosts runs gets from its executor.

    Attributes:
        config: The executor's settings.
        token: What the executor shows to schedulers; not for processes that run jobs.
        environment: The variables that such processes may have: what scripts get, and no setting of xwheel.
        supervisor: A file that such a process may load, whatever its Python from 3.11 on has installed. Its function
            ``divide(control)`` forks: it returns in the process that shall work, which another one supervises, and all
            that it started is killed when it ends, when something is written into ``control``, or when the other end of
            that pipe closes. ``descendants(pid)`` returns all living descendants of a process.
    """

    config: Config
    token: str = field(repr=False)
    environment: Mapping[str, str] = field(repr=False)
    supervisor: Path


@runtime_checkable
class KeepsThings(Protocol):
    """A glue type that holds processes or other things for the runs of an executor, and lets them go at its end."""

    def open(self, setup: HostSetup) -> None:
        """Take what is needed; called when an executor starts whose setting ``allowed_glue_types`` names the type.

        Raises:
            ConfigError: It cannot work with these settings; the executor does not start.
        """

    def close(self) -> None:
        """Let everything go, within seconds; called when the executor has ended all its runs."""


@runtime_checkable
class ChecksSource(Protocol):
    """A glue type that reads sources when they are saved, so that their authors learn at once what is wrong.

    Sources that are saved by other ways, such as by an older version, still meet :meth:`GlueType.build` alone.
    """

    def check_source(self, source: str) -> None:
        """Refuse a source that no executor could use; called before the transaction that saves it and never inside.

        It is called for each save, so it judges the text alone and does no I/O.

        Raises:
            ExecutorError: One sentence that says what is wrong and what is allowed.
        """


class PluginDatabase(Protocol):
    """The database of the nodes, at the schema that the plugin's migrations made.

    Attributes:
        backend: ``sqlite``, ``mysql`` (MariaDB too) or ``postgresql``.
    """

    backend: str

    def read(self) -> AbstractContextManager[Any]:
        """Give a connection of SQLAlchemy for reading."""

    def transaction(self, work: Callable[[Any], T]) -> T:
        """Return what ``work`` returns inside a writing transaction.

        A lost race or a broken connection repeats it, at most five times: ``work`` keeps its effects inside. On SQLite
        no other transaction writes meanwhile, so it neither waits for anything nor calls others.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedSource:
    """A source that is about to be saved, and for which group.

    Attributes:
        source: What its author wrote.
        group_id: The executor group of the job that gets it.
        database: The nodes' database, at the schema that the plugin's migrations made; it is only read here.
    """

    source: str
    group_id: int
    database: PluginDatabase = field(repr=False)


@runtime_checkable
class ChecksSavedSource(Protocol):
    """A glue type that compares sources with what the scheduler has, such as packages that were uploaded.

    Only schedulers ask it, for every way in which a job gets a source: the API and the console, XXL-JOB's calls, job
    files, an older version, a job that moves to another group.
    """

    def check_saved_source(self, saved: SavedSource) -> None:
        """Refuse a source; called before the transaction that saves it and never inside, so it may read the database.

        Raises:
            ExecutorError: One sentence that says what is wrong and what is allowed.
        """


class AlarmKind(StrEnum):
    """What an alarm is about."""

    FAILED = "failed"
    LOST = "lost"
    REFUSED = "refused"
    SKIPPED = "skipped"
    NOT_RUN = "not_run"
    STILL_RUNNING = "still_running"
    SCHEDULE_ERROR = "schedule_error"
    RECOVERED = "recovered"
    TEST = "test"


@dataclass(frozen=True, slots=True, kw_only=True)
class Alarm:
    """What a channel is asked to send.

    Attributes:
        id: Stays the same when the alarm is sent again, so that a receiver can recognise a repetition.
        kind: What happened.
        at_ms: When it happened.
        title: One line that names the job and what happened.
        text: The same at length, in lines, of which the title is the first; plain text that may hold any character.
        reason: Short word or message of the run, or empty.
        job: The job; None in a test, and in a summary of several jobs.
        group: The job's group; None as well.
        run: The run that it is about; None where there is none, as in a test or if a job did not run.
        count: How many events this stands for: those that the rule's window or its quiet hours held back count here.
        receivers: Who gets it, in the channel's own form; empty for the channel's default.
    """

    id: int
    kind: AlarmKind
    at_ms: int
    title: str
    text: str
    reason: str
    job: Job | None
    group: ExecutorGroup | None
    run: Run | None
    count: int = 1
    receivers: Sequence[str] = ()


class AlarmChannel(Protocol):
    """Sends alarms to people.

    Attributes:
        name: What alarm rules call it in ``channel``.
    """

    name: str

    def send(self, alarm: Alarm) -> str | None:
        """Send it, and return what the other side answered, if anything; a few words that are kept with the attempt.

        Called on a thread of the channel's own, one alarm at a time. It should bound its own waiting: one that takes
        longer than the setting ``alarm.send_timeout_s`` counts as failed.

        Raises:
            AlarmRetryLater: The other side wants to be asked later.
            Exception: Anything else is a failed attempt, too; its message is kept and must hold no secret.
        """


@runtime_checkable
class KeepsMails(Protocol):
    """A plugin that mails alarms of a job to the addresses that the job itself names, as XXL-JOB's jobs do."""

    def keep_mails(self, job_id: int, addresses: str) -> str:
        """Let a job's alarms be mailed to addresses, or no longer; return what to tell the caller, or an empty text.

        Args:
            job_id: The job.
            addresses: With commas between them; empty for none.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class PartHealth:
    """How something that is registered by name fares on this node.

    Attributes:
        kind: What it is, as registered: ``alarm channel``.
        name: Its name.
        ok: Whether it is well.
        queued: Calls that wait.
        failures: Those in a row.
        hanging: Calls that were given up since they did not come back.
        last_ms: When the last call ended; None before the first.
        last_answer: What it answered, or the error.
    """

    kind: str
    name: str
    ok: bool
    queued: int = 0
    failures: int = 0
    hanging: int = 0
    last_ms: int | None = None
    last_answer: str = ""


@runtime_checkable
class ReportsHealth(Protocol):
    """A plugin that calls what others register, and knows how they fare."""

    def health(self) -> Sequence[PartHealth]:
        """Return how each of them fares, from memory."""


class RunChange(msgspec.Struct, frozen=True, gc=False):
    """That a run came into a state; handed over after it was committed.

    Attributes:
        run_id: The run.
        job_id: Its job.
        group_id: Its job's group.
        state: The state that it is in now.
        at_ms: When, in epoch milliseconds.
        reason: Short word for why, such as ``misfire`` or ``no_executor``; empty if plain.
        message: What the handler or the scheduler said at the end, its first 1,000 characters.
        address: The executor that has or had it; empty for none.
    """

    run_id: int
    job_id: int
    group_id: int
    state: RunState
    at_ms: int
    reason: str = ""
    message: str = ""
    address: str = ""


class RunListener(Protocol):
    """Gets the changes of runs, next to the pipeline and without a hold on it.

    Each node gives its own listeners what it wrote itself, each change at most once: what a crash takes from memory,
    and the oldest of what waits when a listener is too slow, is dropped. The scheduler counts what it drops.
    Two changes of one run that follow each other closely may come in the wrong order; a final state is the last word.

    Attributes:
        name: What health and logs call it.
    """

    name: str

    def on_change(self, changes: Sequence[RunChange]) -> None:
        """Take up to 1,000 changes at once.

        Called on a thread of the listener's own, one call at a time. What it raises is logged, and the changes of
        that call are not given again.
        """


class LogKey(msgspec.Struct, frozen=True, gc=False):
    """Names the log of a run: ids may begin again in a new database, ids with the time when the row was made do not.

    Attributes:
        run_id: The run.
        created_ms: When its row was made, in epoch milliseconds.
    """

    run_id: int
    created_ms: int


class LogChunk(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Some consecutive lines of a run's log.

    Attributes:
        key: Whose log it is.
        job_id: The run's job.
        first_line: Number of its first line; those of a log count from 1.
        lines: How many lines it has; 0 only if ``is_last``.
        text: The lines, each with a line feed at its end; no other character ends a line.
        is_last: Whether the log ends with it.
    """

    key: LogKey
    job_id: int
    first_line: int
    lines: int
    text: str
    is_last: bool = False

    @property
    def next_line(self) -> int:
        """Number of the line behind it."""
        return self.first_line + self.lines


class LogEnd(msgspec.Struct, frozen=True, gc=False):
    """How far a store has a log.

    Attributes:
        next_line: Number of the first line that it does not have.
        is_complete: Whether the last chunk is there, so that no line will follow.
    """

    next_line: int
    is_complete: bool


class LogStore(Protocol):
    """Keeps the logs of runs, so that they outlast the machine on which they were written.

    Only schedulers call it: for what executors ship, for what they fetch from foreign executors, and to read. Every
    call is made on a thread of its own and counts as failed after the setting ``run_logs.call_timeout_s``; while four
    of a store's calls hang, it is not called. What fails harms no run and is tried again: the lines stay with the
    executor until the store has them.

    Several nodes call the stores of the same name, at times for the same log: the same lines may be appended twice at
    once, in chunks of other sizes.

    Attributes:
        name: What the setting ``run_logs.store`` calls it.
    """

    name: str

    def append(self, chunks: Sequence[LogChunk]) -> Sequence[int]:
        """Keep chunks, and return for each, in their order, the number of the first line that its log lacks then.

        A chunk is kept if it begins with that line, and whole or not at all. One that was kept before changes nothing,
        and neither does one that begins later, for lines between are missing; of one that begins earlier and ends
        later, nothing or just the new lines are kept. Its sender goes on with the line that is answered, so the
        answer is from 1 to the chunk's ``next_line`` or, if more is there already, beyond it. Up to 500 chunks with
        four megabytes of text come in one call; those of one log are in their order.

        Raises:
            Exception: It is not known what was kept; all of it is sent again.
        """

    def read(self, key: LogKey, from_line: int, max_bytes: int) -> str:
        """Return whole lines from one on, each with its line feed, or an empty text if there is none.

        At most this many bytes as UTF-8, but one line in any case; more is cut off at the end of a line.
        """

    def find(self, key: LogKey) -> LogEnd | None:
        """Return how far the store has a log; None if it has nothing of it."""

    def delete(self, keys: Sequence[LogKey]) -> None:
        """Delete logs for good; those that are not there count as deleted. Up to 500 come in one call."""


@runtime_checkable
class ChecksSetup(Protocol):
    """A log store that finds out at a start, from its options alone, that it cannot work."""

    def check(self) -> None:
        """Refuse options that are missing or do not fit; called once, if the settings choose the store.

        It does no I/O: a store that is away for a while must not keep a scheduler from starting.

        Raises:
            ConfigError: One sentence that names the option and says what is allowed.
        """


@runtime_checkable
class Commands(Protocol):
    """Commands ``xwheel NAME ...``; their module is loaded when one of them is used, or asked for its help.

    Attributes:
        name: The word behind ``xwheel``: small letters, digits and dashes; none that xwheel has itself. Behind the
            word of one of xwheel's groups and a slash, it is a command of that group.
        help: One sentence for ``xwheel --help``.
        module: The module whose attribute ``app`` is a :class:`typer.Typer`.
        is_one: Whether it is one command, which the module's Typer has under the (last) word, and not a group of all.
    """

    name: str
    help: str
    module: str
    is_one: bool = False


class ManagementCalls(Protocol):
    """The management API of a node, as commands call it; a refusal is raised as the error that it is."""

    def call(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        params: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Any:
        """Make one call, such as ``GET /api/v1/jobs``, and return the decoded answer; None if it has no body."""

    def send_file(self, path: str, file: Path, *, params: Mapping[str, Any] | None = None) -> Any:
        """Send a file as the body of a ``POST``, without holding it in memory, and return the decoded answer."""


class CommandSite(Protocol):
    """What commands of plugins work with: ``context.obj`` of their :class:`typer.Context`."""

    def config(self, path: Path | None = None) -> Config:
        """Return the settings of a file, or of the one that ``XWHEEL_CONFIG`` names."""

    def node(self, url: str | None = None, token_file: Path | None = None) -> ManagementCalls:
        """Return the management API of a node: of the login that this user has, unless told otherwise."""
