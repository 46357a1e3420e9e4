"""The management API as a plain WSGI application next to the nodes: no loops, no leases, no sending.

What it is asked to do becomes rows: a run by hand is a planned row that the holder of its partition adopts, a kill is
a mark that this node sends on. What loops keep fresh in a node is read here before a call, at most once a second.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec

from xwheel.api.app import build_management_app
from xwheel.api.http.errors import PROBLEM_TYPE, RETRY_AFTER_S, problem_of
from xwheel.api.parts import ApiParts
from xwheel.api.schema.health import HealthCounts, HealthReport
from xwheel.clock import OffsetFilter, SystemClock
from xwheel.config import Config
from xwheel.errors import ConfigError, OutageError, StorageError, XwheelError
from xwheel.plugin.discovery import Plugins, load_plugins
from xwheel.runtime.sealing import KeyRing, read_keys
from xwheel.scheduler.cluster.clock_sync import ClockSync
from xwheel.scheduler.executors.secrets import find_executor_token
from xwheel.scheduler.finish.finish import Finisher
from xwheel.scheduler.parts import ManagementParts, SharedParts
from xwheel.storage.access import executor_secrets
from xwheel.storage.database.engine import Database
from xwheel.storage.database.startup import start_with
from xwheel.wire.http.tls import TlsFiles, check_tls

logger = logging.getLogger(__name__)

READ_MS: Final = 1000
CLOCK_MS: Final = 5000

StartResponse = Callable[..., Any]


class ManagementApp:
    """The management API as a WSGI application that may be loaded before its server forks.

    Nothing that a process has opened is used in another one: after a fork the first call opens the database again, and
    what was copied is left alone.

    Any thread may call it. It raises what :func:`xwheel.api.management_app` says.
    """

    def __init__(self, config: Config) -> None:
        self._config = config
        self._keys, self._tls = read_keys(config.security.key_file), check_tls(config.tls)
        self._lock = threading.Lock()
        self._left: list[ManagementProcess] = []
        self._process = self._open(wait_s=config.database.wait_s)
        # a master that forks then takes no connection along, which its children could harm by closing theirs
        self._process.db.close()
        logger.info("the management API is ready; it fires nothing, the nodes on this database do")

    def __call__(self, environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        """Answer a call."""
        process = self._process
        if process.pid != os.getpid():
            try:
                process = self._after_fork()
            except XwheelError as error:
                logger.warning("the management API cannot begin in process %d: %s", os.getpid(), error)
                return _refuse(start_response, error)
        return process.app(environ, start_response)

    def close(self) -> None:
        """Close the connections to the database."""
        self._process.db.close()

    def _open(self, wait_s: float = 0) -> ManagementProcess:
        # plugins, too: what they began is the parent's
        plugins = load_plugins(self._config)
        database = start_with(self._config, create=False, wait_s=wait_s, tables=plugins.tables)
        try:
            return database.run(lambda: self._load(database.db, plugins))
        except BaseException:
            database.db.close()
            raise

    def _load(self, db: Database, plugins: Plugins) -> ManagementProcess:
        executor_secrets.bind_key(db, self._keys)
        token = find_executor_token(self._config, db)
        if token is None:
            raise ConfigError(
                "no node has started on this database yet, so that there is no executor token: start "
                "'xwheel server' first, or set api.executor_token as for the nodes"
            )
        return ManagementProcess(self._config, db, plugins, token, self._keys, self._tls)

    def _after_fork(self) -> ManagementProcess:
        with self._lock:
            if self._process.pid != os.getpid():
                made = self._open()
                # kept, not closed: its connections, if any, are the parent's
                self._left.append(self._process)
                self._process = made
            return self._process


class ManagementProcess:
    """What serves the management API within one process, whose number is ``pid``."""

    def __init__(
        self, config: Config, db: Database, plugins: Plugins, token: str, keys: KeyRing, tls: TlsFiles
    ) -> None:
        self.pid = os.getpid()
        self.db = db
        clock = SystemClock()
        self._shared = shared = SharedParts(config, db, plugins, token, clock, keys, tls)
        self._clock_sync = ClockSync(db, clock, OffsetFilter(clock), lambda _: None)
        finisher = Finisher(
            db,
            shared.run_ids,
            clock,
            shared.timetable,
            shared.observers,
            lambda: None,
            lambda _: None,
            max_param_bytes=config.api.max_param_bytes,
        )
        parts = ApiParts(shared, ManagementParts(shared, finisher), finisher, health=self.health)
        self._lock = threading.Lock()
        self._read_ms = self._followed_ms = -CLOCK_MS
        self.refresh()
        self.app = build_management_app(parts, before=self.refresh)

    def refresh(self) -> None:
        """Read what others changed, if that was read a second ago; one thread reads, the others have its answer.

        Raises DatabaseUnreachableError if the database does not answer.
        """
        if self._is_fresh():
            return
        with self._lock:
            if self._is_fresh():
                return
            shared, began_ms = self._shared, self._shared.clock.monotonic_ms()
            if began_ms - self._followed_ms >= CLOCK_MS:
                # as it is: nothing here waits for an instant that a jump could pass over
                self._clock_sync.begin()
                self._followed_ms = began_ms
            now_ms = shared.clock.now_ms()
            shared.registry.look(now_ms)
            shared.calendars.step(now_ms)
            shared.observers.step(now_ms)
            self._read_ms = began_ms

    def _is_fresh(self) -> bool:
        return self._shared.clock.monotonic_ms() - self._read_ms < READ_MS

    def health(self) -> HealthReport:
        """Return what the process knows of itself."""
        return HealthReport(
            role="management",
            missing_plugins=sorted(self._shared.plugins.missing),
            counts=HealthCounts(
                deadlocks=self.db.deadlocks, retries=self.db.retries, broken_connections=self.db.broken
            ),
        )


def _refuse(start_response: StartResponse, error: XwheelError) -> Iterable[bytes]:
    problem = problem_of(error if isinstance(error, StorageError) else OutageError())
    headers = [("Content-Type", PROBLEM_TYPE), ("Retry-After", str(RETRY_AFTER_S))]
    start_response("503 Service Unavailable", headers)
    return [msgspec.json.encode(problem)]
