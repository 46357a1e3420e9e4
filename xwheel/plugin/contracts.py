"""What a plugin's objects must be able to do: one protocol per kind.

Every object is registered once at start-up and called from several threads, so it must be thread-safe, do no I/O in
its constructor and refuse options it does not know. An attribute that has a value here is that attribute's default: an
object without it gets it when it is registered. The kit for tests has a suite for each kind.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, runtime_checkable

import msgspec

from xwheel.model import Job, RegisteredExecutor, RunState

if TYPE_CHECKING:
    from xwheel.config import Config

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleSpec:
    """What a schedule type may go by."""

    conf: str  #: the job's ``schedule_conf``, as its author wrote it
    timezone: str  #: IANA name
    anchor_ms: int  #: where fixed rates count from


class ScheduleType(Protocol):
    """Answers when a job fires next."""

    name: str  #: what jobs call it in ``schedule_type``

    def check(self, spec: ScheduleSpec) -> None:
        """Refuse a configuration that could never work; raises ScheduleError with the field and what is allowed."""

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
    """What a router may go by."""

    job: Job  #: the job, as it stands now
    #: live executors of the job's group, suspects last, sorted by address within each part
    executors: Sequence[RegisteredExecutor]
    #: ask an address whether it lives; blocks, so only routers that say ``asks = True`` may call it. Answers are kept
    #: for a second
    beat: Callable[[str], bool]
    #: ask an address whether the job is idle there; same rule, and a yes counts for one run only
    idle_beat: Callable[[str], bool]
    #: how many runs an address has at the moment, sent from any node, a second or so ago, and from this one until now.
    #: The first call after a pause may know of this node's alone
    load: Callable[[str], int] = no_load
    now_ms: int = 0  #: the shared time
    #: all routers by name, for one that lets another choose among some of the executors
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
    """Chooses the executors of a run."""

    name: str  #: what jobs call it in ``route_strategy``
    #: whether it calls ``beat`` or ``idle_beat`` and so must work off the tick thread; False if it is left out
    asks: bool = False

    def route(self, context: RouteContext) -> Sequence[RegisteredExecutor] | Sequence[str]:
        """Return the executors that shall run it: one, or several for one shard each. ``executors`` is never empty.

        The answer is a list, or another sequence that is no text, of items of ``context.executors`` or of
        ``context.addresses``, each executor at most once; anything else, and whatever it raises, refuses the run with
        ``no_route``. One that asks executors, or whose
        distribution the setting ``plugins.trusted`` does not name, runs on a thread of its own kind; after 30 s its run
        is refused, and while four calls hang, all of them are.

        Raises:
            NoExecutorYetError: No executor may have it now, and one may soon. The router is asked again within about a
                second, for as long as the job's ``wait_for_executor_s`` says.
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
    """What a glue type builds a handler from: the part of a trigger that names the code."""

    job_id: int  #: the job whose source it is
    handler: str  #: handler name, for BEAN
    source: str  #: source text, for script types
    updated_ms: int  #: version of the source


class HandlerLookup(Protocol):
    """Where BEAN finds the functions that ``@job`` registered."""

    def get(self, name: str) -> Callable[..., object]:
        """Return the handler; raises HandlerNotFoundError if the name is not registered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A program that a run starts in a process of its own, in place of a Python function.

    The executor starts a process that calls ``prepare`` and then becomes the program. Its standard input is empty, its
    standard output and error are the run's log. Of the executor's environment it gets a few plain variables and what
    ``executor.script_environment`` names. Exit status 0 is success. A kill or a timeout sends TERM to its process
    group, and after the grace KILL to every descendant, also to those that left the group; so does the end of the
    program for what it left running.
    """

    #: a function at the top level of an importable module: ``prepare(context, data)`` returns the program and its
    #: arguments, which no shell sees. It may write to the log, change ``os.environ``, set limits and give up rights,
    #: and it may take long: it ends with the run. What it raises is the run's failure
    prepare: Callable[[RunContext, Any], Sequence[str]]
    data: Mapping[str, Any]  #: handed to ``prepare``; plain values, since they travel as JSON


@dataclass(frozen=True, slots=True, kw_only=True)
class HostedRun:
    """A run that a process of the glue type's own executes, in place of a Python function or a :class:`Command`.

    For glue types that keep processes ready: the executor gives a thread, the log and the signs to end; which process
    does the work is theirs. They hand it none of the executor's secrets and let it end with the executor.
    """

    #: called once, on a thread of the executor: ``run(context, write)`` works until the run is over and returns its
    #: result; ``write(text)`` adds text to the run's log as it is. What it raises is the run's failure, an
    #: :class:`~xwheel.errors.ExecutorError` without its traceback
    run: Callable[[RunContext, Callable[[str], None]], object]
    #: called on another thread when the run is killed or out of time: ``end(0)`` at once, then ``end(1)``, ``end(2)``
    #: and so on, after a grace each. It returns at once, and ``run`` shortly after: the first call asks the process,
    #: the second forces it. Calls may come before ``run`` does. A run that is still there after the fourth is reported
    #: without its end
    end: Callable[[int], None]


class GlueType(Protocol):
    """Turns what a job row names into something an executor can call.

    Schedulers need the names alone. An executor runs a type other than BEAN only if its setting
    ``executor.allowed_glue_types`` names it.
    """

    name: str  #: what jobs call it in ``glue_type``
    #: whether the code is the job's own source, which the scheduler keeps and sends. A job of such a type cannot run
    #: without one; for other types :attr:`GlueRequest.source` is empty. True if it is left out
    takes_source: bool = True

    def build(self, request: GlueRequest, handlers: HandlerLookup) -> Callable[..., object] | Command | HostedRun:
        """Return what to call, or the program to start. Called for every run before it is accepted, so it is quick.

        Raises:
            HandlerNotFoundError: The name is not registered.
            ExecutorError: The source cannot be used.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class HostSetup:
    """What a glue type that hosts runs gets from its executor."""

    config: Config  #: the executor's settings
    token: str = field(repr=False)  #: what the executor shows to schedulers; not for processes that run jobs
    #: the variables that such processes may have: what scripts get, and no setting of xwheel
    environment: Mapping[str, str] = field(repr=False)
    #: a file that such a process may load, whatever its Python from 3.11 on has installed. Its function
    #: ``divide(control)`` forks: it returns in the process that shall work, which another one supervises, and all that
    #: it started is killed when it ends, when something is written into ``control``, or when the other end of that pipe
    #: closes. ``descendants(pid)`` returns all living descendants of a process
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
    """The database of the nodes, at the schema that the plugin's migrations made."""

    backend: str  #: ``sqlite``, ``mysql`` (MariaDB too) or ``postgresql``

    def read(self) -> AbstractContextManager[Any]:
        """Give a connection of SQLAlchemy for reading."""

    def transaction(self, work: Callable[[Any], T]) -> T:
        """Return what ``work`` returns inside a writing transaction.

        A lost race or a broken connection repeats it, at most five times: ``work`` keeps its effects inside. On SQLite
        no other transaction writes meanwhile, so it neither waits for anything nor calls others.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedSource:
    """A source that is about to be saved, and for which group."""

    source: str  #: what its author wrote
    group_id: int  #: the executor group of the job that gets it
    #: the nodes' database, at the schema that the plugin's migrations made; it is only read here
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


@runtime_checkable
class KeepsMails(Protocol):
    """A plugin that mails alarms of a job to the addresses that the job itself names, as XXL-JOB's jobs do."""

    def keep_mails(self, job_id: int, addresses: str) -> str:
        """Let a job's alarms be mailed to addresses, or no longer; return what to tell the caller, or an empty text.

        The addresses have commas between them; an empty text is none.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class PartHealth:
    """How something that is registered by name fares on this node."""

    kind: str  #: what it is, as registered: ``log store``
    name: str  #: its name
    ok: bool  #: whether it is well
    queued: int = 0  #: calls that wait
    failures: int = 0  #: those in a row
    hanging: int = 0  #: calls that were given up since they did not come back
    last_ms: int | None = None  #: when the last call ended; None before the first
    last_answer: str = ""  #: what it answered, or the error


@runtime_checkable
class ReportsHealth(Protocol):
    """A plugin that calls what others register, and knows how they fare."""

    def health(self) -> Sequence[PartHealth]:
        """Return how each of them fares, from memory."""


class RunChange(msgspec.Struct, frozen=True, gc=False):
    """That a run came into a state; handed over after it was committed."""

    run_id: int  #: the run
    job_id: int  #: its job
    group_id: int  #: its job's group
    state: RunState  #: the state that it is in now
    at_ms: int  #: when, in epoch milliseconds
    reason: str = ""  #: short word for why, such as ``misfire`` or ``no_executor``; empty if plain
    message: str = ""  #: what the handler or the scheduler said at the end, its first 1,000 characters
    address: str = ""  #: the executor that has or had it; empty for none


class RunListener(Protocol):
    """Gets the changes of runs, next to the pipeline and without a hold on it.

    Each node gives its own listeners what it wrote itself, each change at most once: what a crash takes from memory,
    and the oldest of what waits when a listener is too slow, is dropped. The scheduler counts what it drops.
    Two changes of one run that follow each other closely may come in the wrong order; a final state is the last word.
    """

    name: str  #: what health and logs call it

    def on_change(self, changes: Sequence[RunChange]) -> None:
        """Take up to 1,000 changes at once.

        Called on a thread of the listener's own, one call at a time. What it raises is logged, and the changes of
        that call are not given again.
        """


@runtime_checkable
class Commands(Protocol):
    """Commands ``xwheel NAME ...``; their module is loaded when one of them is used, or asked for its help."""

    #: the word behind ``xwheel``: small letters, digits and dashes; none that xwheel has itself. Behind the word of one
    #: of xwheel's groups and a slash, it is a command of that group
    name: str
    help: str  #: one sentence for ``xwheel --help``
    module: str  #: the module whose attribute ``app`` is a :class:`typer.Typer`
    #: whether it is one command, which the module's Typer has under the (last) word, and not a group of all
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
