"""The executor as applications see it: settings, handlers, start and stop."""

from __future__ import annotations

import atexit
import hmac
import logging
import os
import threading
import weakref
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from pydantic import SecretStr

from xwheel.clock import Clock, SystemClock
from xwheel.config import Config, build_config, check_secret
from xwheel.config.sections import ExecutorSection
from xwheel.errors import ConfigError, LockError
from xwheel.executor.declarations import problem_line
from xwheel.executor.handlers import HandlerRegistry
from xwheel.executor.logs.capture import CAPTURE
from xwheel.executor.parts import Parts
from xwheel.plugin.contracts import GlueType
from xwheel.plugin.discovery import load_glue_types
from xwheel.plugin.registries import where_it_comes_from
from xwheel.private_files import read_first_line
from xwheel.runtime.signals import StopSignals

logger = logging.getLogger(__name__)

CONTEND_S: Final = 1.0


class Executor:
    """Runs handlers for schedulers.

    Args:
        config: Settings; None takes the defaults.
        handlers: Functions with ``@job``, and modules or lists that hold some.
        glue_types: Glue types by name; None takes those of the installed plugins.
        clock: Where time comes from.
        is_guest: The process is an application's: what handlers print goes to its own streams as well as to the run's
            log, and its logging stays as it configures it.
        settings: Single settings of the section ``executor``; they win over ``config``.

    Raises ConfigError: a setting is missing or not allowed, or two handlers share a name.
    """

    def __init__(
        self,
        config: Config | None = None,
        *,
        handlers: Iterable[object] = (),
        glue_types: Mapping[str, GlueType] | None = None,
        clock: Clock | None = None,
        is_guest: bool = False,
        **settings: Any,
    ) -> None:
        config = config or Config()
        if settings:
            values = config.model_dump()
            config = build_config({**values, "executor": {**values["executor"], **settings}})
        self._config = config
        self._settings: ExecutorSection = config.executor
        self._token = _check(self._settings)
        self._sync_token = _check_sync(self._settings, self._token)
        self._handlers = HandlerRegistry(handlers)
        self._glue_types = glue_types
        self._clock = clock or SystemClock()
        self._is_guest = is_guest
        self._parts: Parts | None = None
        self._stopping = False
        self._lock = threading.Lock()
        self._retired = threading.Event()
        _INSTANCES.add(self)

    @property
    def port(self) -> int:
        """The port it listens on; 0 without a listener of its own."""
        listener = self._running.listener
        return listener.port if listener else 0

    @property
    def address(self) -> str:
        """The base URL it registers."""
        return self._running.address

    @property
    def instance(self) -> str:
        """The identity of its journal."""
        return self._running.journal.instance

    @property
    def is_registered(self) -> bool:
        """Whether a scheduler confirmed a beat since the start."""
        return self._running.registration.registered.is_set()

    @property
    def handlers(self) -> list[Callable[..., object]]:
        """The functions that it runs for jobs, by the names of their handlers."""
        return [self._handlers.get(name) for name in self._handlers.names]

    def start(self) -> None:
        """Open the journal, listen and register.

        Raises ConfigError: the address cannot be bound, a file of TLS cannot be used, or an allowed glue type is not
        installed; LockError: another process uses the data directory; JournalError: the journal cannot be opened.
        """
        with self._lock:
            if self._parts is not None:
                raise ConfigError("the executor is running already")
            glue_types = load_glue_types(self._config) if self._glue_types is None else self._glue_types
            for name in self._settings.allowed_glue_types:
                if name not in glue_types:
                    hint = where_it_comes_from("glue type", name)
                    known = ", ".join(sorted(glue_types)) + (f"; {hint}" if hint else "")
                    raise ConfigError(f"executor.allowed_glue_types: {name!r} is not installed; known: {known}")
            self._parts = Parts(self._config, self._token, self._sync_token, self._handlers, glue_types, self._clock)
        self._parts.start(is_guest=self._is_guest)
        logger.info("handlers: %s", ", ".join(self._handlers.names) or "none, glue types alone")
        self._tell_declarations()

    def start_when_free(self) -> None:
        """Start as soon as no other process serves this data directory; returns at once.

        For servers that fork: call it in every worker (gunicorn: ``post_fork``, uWSGI: ``postfork``). One of them
        serves; when it dies, another one takes over within a second or two. The worker's normal exit stops the
        executor.
        """
        self._retired.clear()
        atexit.register(self.stop)
        threading.Thread(target=self._contend, name="xwheel-executor-contend", daemon=True).start()

    def wsgi_app(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        """Answer one call as a WSGI application, for an executor without a port of its own (``listen = false``).

        Mount it in a web application that runs in one process, and set ``address`` to where it is mounted.
        """
        parts = self._parts
        if parts is None:
            start_response("503 Service Unavailable", [("Content-Type", "text/plain"), ("Retry-After", "1")])
            return [b"the executor is not running in this process"]
        return parts.app(environ, start_response)

    def stop(self, timeout_s: float | None = None) -> bool:
        """Leave the registry, take what is on its way here, let it finish, deliver the outcomes, and end.

        Accepted runs get ``timeout_s``, None takes the setting; what still runs then is ended, what waits is reported
        as not started. Returns whether every run finished by itself and every outcome was delivered; outcomes that were
        not stay in the journal for the next start.
        """
        self._retired.set()
        with self._lock:
            parts = self._parts
            if parts is None or self._stopping:
                return True
            self._stopping = True
        try:
            return parts.stop(self._settings.stop_timeout_s if timeout_s is None else timeout_s)
        finally:
            with self._lock:
                self._parts = None
                self._stopping = False

    def run_forever(self) -> bool:
        """Start, wait for SIGTERM, SIGINT or SIGHUP, and stop; return what that says. Belongs to the main thread."""
        with StopSignals() as signals:
            signals.be_up()
            self.start()
            signals.wait()
            has_drained = self.stop()
            how = "stopped, drained" if has_drained else "stopped; what did not end in time is in the journal"
            logger.info(how)
            return has_drained

    def __enter__(self) -> Executor:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _tell_declarations(self) -> None:
        found = self._handlers.declarations
        for item in found:
            if item.problem is not None:
                problem = {"name": item.name, "place": item.place, **vars(item.problem)}
                logger.error("%s; its handler works, the job is not synced", problem_line(item, problem))
        if found and not self._settings.sync_jobs and not self._is_guest:
            text = "%d jobs are declared in code: 'xwheel sync' makes them, or executor.sync_jobs at each start"
            logger.info(text, len(found))

    def _contend(self) -> None:
        while not self._retired.is_set():
            try:
                self.start()
            except LockError:
                self._retired.wait(CONTEND_S)
                continue
            except Exception:
                logger.exception("the executor cannot start")
            return

    def _forget_parent(self) -> None:
        """Drop what a fork copied: the parent's threads are not here, and its lock must end with the parent."""
        parts, self._parts = self._parts, None
        self._stopping = False
        self._lock = threading.Lock()
        if parts is not None:
            parts.disown()

    @property
    def _running(self) -> Parts:
        if self._parts is None:
            raise ConfigError("the executor is not running")
        return self._parts


_INSTANCES: Final[weakref.WeakSet[Executor]] = weakref.WeakSet()


def _after_fork() -> None:
    for executor in list(_INSTANCES):
        if executor._parts is not None:
            CAPTURE.forked = True
        try:
            executor._forget_parent()
        except Exception:  # one that is half-way to its end must not keep the others' locks in this child
            logger.exception("an executor could not be let go of after a fork")


os.register_at_fork(after_in_child=_after_fork)


def _check_sync(settings: ExecutorSection, executor_token: str) -> str:
    """Return the token with which declared jobs are synced, an empty one if they are not; refuse what cannot work."""
    if not settings.sync_jobs:
        return ""
    if not settings.release.strip():
        raise ConfigError(
            "executor.release is missing: executor.sync_jobs needs the application's release, such as 1.4.2 or a "
            "build's number, since the highest one that is alive decides the jobs"
        )
    if not settings.sync_addresses:
        raise ConfigError(
            "executor.sync_addresses is missing: the management API of at least one node (port 8080 unless told "
            "otherwise), which is not where executors register"
        )
    token, _ = _secret_of(settings, "sync_token", "the group's token")
    if not token:
        raise ConfigError(
            "executor.sync_token is missing: a token of the group, which 'xwheel token create NAME --group "
            f"{settings.app_name} --to-file FILE' makes for executor.sync_token_file"
        )
    if hmac.compare_digest(*(text.encode("utf-8", "surrogateescape") for text in (token, executor_token))):
        raise ConfigError(
            "executor.sync_token is the token that executors share with the scheduler, which opens no jobs: make one "
            f"of its own with 'xwheel token create NAME --group {settings.app_name}'"
        )
    return token


def _secret_of(settings: ExecutorSection, name: str, what: str) -> tuple[str, str]:
    """Return a secret, or an empty text, and the setting that has it: the one of this name, or the one of its file."""
    secret: SecretStr | None = getattr(settings, name)
    path: Path | None = getattr(settings, f"{name}_file")
    if secret is not None and secret.get_secret_value():
        return secret.get_secret_value(), name
    if path is None:
        return "", name
    return read_first_line(path, f"executor.{name}_file", what).strip(), f"{name}_file"


def _check(settings: ExecutorSection) -> str:
    if not settings.app_name.strip():
        raise ConfigError("executor.app_name is missing: the executor group to register in")
    if not settings.admin_addresses:
        raise ConfigError("executor.admin_addresses is missing: at least one scheduler base URL")
    if not settings.listen and not settings.address:
        raise ConfigError("executor.address is missing: an executor without a listener of its own must be told it")
    token, setting = _secret_of(settings, "access_token", "the executor's token")
    if not token:
        raise ConfigError(
            "executor.access_token is missing: the executor token that the node showed at its first start, or one of "
            "the group's own, which 'xwheel secret create' makes and --to-file writes for executor.access_token_file"
        )
    try:
        return check_secret(f"executor.{setting}", token)
    except ConfigError as error:
        if not settings.accept_weak_token:
            hint = "executor.accept_weak_token takes that of an XXL-JOB admin as it is"
            raise ConfigError(f"{error}; {hint}") from None
        if not (token.isascii() and token.isprintable()) or " " in token:
            raise
        text = "executor.%s is weak: who guesses it runs handlers here; give the admin a better one"
        logger.warning(text, setting)
        return token
