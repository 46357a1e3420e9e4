"""The errors that xwheel raises on purpose.

Each error keeps its facts in attributes and says one sentence that holds the ids. HTTP answers are made from them in
two places: :mod:`xwheel.wire.contract` for XXL-JOB's envelope and :mod:`xwheel.api.http.errors` for the management API.
"""

from __future__ import annotations

from collections.abc import Callable


class XwheelError(Exception):
    """Something xwheel refuses or cannot do."""


class ConfigError(XwheelError):
    """The configuration cannot be used; the process should not start."""


class StartEndedError(XwheelError):
    """The process was to end before it had started."""


class FieldError(XwheelError):
    """A value that a caller gave is not acceptable.

    It has the ``field``, as the caller spelled it, and as ``reason`` what is allowed, which follows the field's name.
    """

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"{field}: {reason}")
        self.field = field
        self.reason = reason


class ScheduleError(FieldError):
    """A schedule that cannot be understood or can never fire."""


class PluginError(XwheelError):
    """A plugin cannot be used; the message names its distribution."""


class NotRecordedError(XwheelError):
    """Nothing was done, since the plugin that records what is done failed."""


class LogStoreError(PluginError):
    """A log store cannot be used now: it raised, hangs, or answers what it must not."""


class IdentityError(PluginError):
    """An identity provider cannot say now who somebody is: it raised, hangs, or answers what it must not."""


class DuplicateNameError(PluginError):
    """Two plugins registered the same name."""


class UnknownNameError(PluginError, KeyError):
    """No plugin registered this ``name`` of a ``kind`` such as ``router``; ``known`` are those that are, sorted."""

    def __init__(self, kind: str, name: str, known: tuple[str, ...], hint: str = "") -> None:
        more = f"; {hint}" if hint else ""
        super().__init__(f"no {kind} is called {name!r}; known: {', '.join(known) or 'none'}{more}")
        self.kind = kind
        self.name = name
        self.known = known

    def __str__(self) -> str:
        return str(self.args[0])  # KeyError would quote it


class WireError(XwheelError):
    """A message that does not follow XXL-JOB's contract."""


class AuthError(WireError):
    """The caller's token is missing or wrong, or what else shows who calls; ``field`` names the header or field."""

    field = "Authorization"


class TooManyTriesError(AuthError):
    """It was wrong too often: ``title`` says what there was too much of, ``wait_ms`` when the next try counts."""

    title = "Too many calls without a valid token"

    def __init__(self, text: str, wait_ms: int) -> None:
        super().__init__(text)
        self.wait_ms = wait_ms


class BusyError(XwheelError):
    """Too many calls of this kind are under way; the same call may succeed a moment later."""


class ForbiddenError(XwheelError):
    """The caller is known, and may not do this, which takes the ``permission``."""

    def __init__(self, permission: str, what: str) -> None:
        super().__init__(what)
        self.permission = permission


class UnconfirmedError(ForbiddenError):
    """It takes somebody who is there now, and their session has not heard of them for a while."""


class ExecutorUnreachableError(WireError):
    """No complete answer came back from ``address``; ``sent`` is False if certainly no byte of the request left."""

    def __init__(self, address: str, reason: str, *, sent: bool) -> None:
        super().__init__(f"{address}: {reason}")
        self.address = address
        self.sent = sent


class ExecutorRefusedError(WireError):
    """The peer answered, and the answer is no."""


class RouteError(XwheelError):
    """No address could be chosen for a run."""


class NoExecutorYetError(RouteError):
    """No executor may have a run now, and one may soon: the run waits as long as its job waits for an executor."""


class StorageError(XwheelError):
    """The database refused or the row is not there."""


class NotFoundError(StorageError):
    """The object does not exist: its ``kind`` is ``job``, ``run``, ``group`` and so on, its ``key`` an id or name."""

    def __init__(self, kind: str, key: object) -> None:
        super().__init__(f"{kind} {key} does not exist")
        self.kind = kind
        self.key = key


class HiddenError(NotFoundError):
    """The object may be there, and the caller may not know of it: told like one that is not there."""


class ConflictError(StorageError):
    """The object is not in the state, or at the revision, that the caller expects."""


class NameTakenError(ConflictError):
    """Another object of the same place has this name."""


class OwnedByCodeError(ConflictError):
    """The ``field`` of a job is what code declares, and so cannot be changed here."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"{field}: {reason}")
        self.field = field
        self.reason = reason


class RevisionError(ConflictError):
    """The object was changed since the caller read it; it is at ``revision``."""

    def __init__(self, kind: str, key: int, revision: int, wanted: int) -> None:
        super().__init__(f"{kind} {key} is at revision {revision}, not {wanted}: read it again")
        self.revision = revision


class DuplicateError(StorageError):
    """A row with this identity exists already; the transaction must be given up."""


class LockError(StorageError):
    """Another process holds what only one may hold."""


class SchemaError(StorageError):
    """The database's schema is not the one this version needs; the message names the command that changes it."""


class OutageError(StorageError):
    """The database does no work for us; ``is_over`` returns whether later work of this kind was done."""

    is_over: Callable[[], bool] = staticmethod(lambda: True)


class DatabaseRefusedError(OutageError):
    """The database does not let us work; trying again does not help, a person must act."""


class DatabaseReadOnlyError(DatabaseRefusedError):
    """The database is read-only, as a standby is: a person must act, or one is promoted."""


class DatabaseUnreachableError(OutageError):
    """The database takes no connection now; it may do so later."""


class TimerFullError(XwheelError):
    """As many timeouts wait as the timer may hold."""


class TimerStoppedError(XwheelError):
    """The timer was stopped and takes nothing more."""


class ExecutorError(XwheelError):
    """The executor cannot do what it was asked."""


class NotYetError(ExecutorError):
    """The executor does not take the run now and may soon, here or elsewhere; raised by a glue type.

    The scheduler lets a run wait for that as long as its job waits for executors.
    """


class HandlerNotFoundError(ExecutorError):
    """No handler is registered under this name."""


class JobBlockedError(ExecutorError):
    """The block strategy or a full queue refuses another run of this job."""


class JournalError(ExecutorError):
    """The executor's journal cannot take more; nothing was accepted."""


class JobTimeoutError(ExecutorError):
    """Raised inside a handler that runs past its time limit."""


class JobKilledError(ExecutorError):
    """Raised inside a handler whose run was killed."""
