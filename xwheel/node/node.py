"""A scheduler process: the pipeline, its two listeners, and the secrets between them and the world."""

from __future__ import annotations

import json
import logging
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Final, TypeVar

from xwheel.api.app import build_management_app, executor_app, plugin_routes
from xwheel.api.parts import ApiParts
from xwheel.api.plugins.work import PluginWork
from xwheel.api.schema.health import HealthCounts, HealthReport, LoopHealthView
from xwheel.config import Config
from xwheel.node import first_secrets
from xwheel.node.loops import Scheduler
from xwheel.node.pipeline import Core
from xwheel.node.way_in import ONCE, has_console, link_in, ways_in
from xwheel.plugin.discovery import load_plugins
from xwheel.private_files import replace_text
from xwheel.runtime.http_server import Listener
from xwheel.runtime.sealing import is_plain, read_keys
from xwheel.storage.access import executor_secrets
from xwheel.storage.database.engine import Database
from xwheel.storage.database.startup import Pause, start_with
from xwheel.storage.schema import plugin_tables
from xwheel.wire.http.tls import check_tls

logger = logging.getLogger(__name__)

T = TypeVar("T")

HEALTH_PATHS: Final = ("/healthz", "/readyz")


class Node:
    """One scheduler process.

    Args:
        announce: Gets secrets that were made just now; they are never shown again.
        given: Further plugins by name, as files, modules or other objects with hooks; for tests.
        has_people: Let plugins make what lets the first person in; not where no one could be told of it.
        pause: Waits this many seconds for a database that is away; returns whether the process is to end meanwhile.
        bound: Sockets of the management API and the executor API that other processes listen to as well.

    Raises ConfigError if a setting cannot be used, PluginError if a plugin cannot be loaded, SchemaError if the
    database's schema is not this version's, DatabaseUnreachableError if it took no connection for as long as the
    settings say, DatabaseRefusedError if it lacks what is needed, StartEndedError if the process was to end meanwhile.
    """

    def __init__(
        self,
        config: Config,
        announce: Callable[[str], None],
        given: Mapping[str, object] | None = None,
        *,
        has_people: bool = True,
        pause: Pause = time.sleep,
        bound: Sequence[socket.socket] = (),
    ) -> None:
        self._config, self._announce = config, announce
        self._plugins = plugins = load_plugins(config, given)
        # files first: what is wrong with them is said before a database is waited for
        keys, tls = read_keys(config.security.key_file), check_tls(config.tls)
        with ExitStack() as undo:
            self._database = database = start_with(config, tables=plugins.tables, pause=pause)
            self._db = db = database.db
            undo.callback(db.close)
            database.run(lambda: executor_secrets.bind_key(db, keys))
            executor_token = first_secrets.make_executor_token(announce)
            undo.callback(executor_token.show_unknown)
            token = database.run(lambda: first_secrets.ensure_executor_token(config, db, executor_token))
            # what asks the database for its keys comes first in there, so that nothing is left of one that was cut
            self.scheduler = scheduler = database.run(
                lambda: Scheduler(Core(config, db, plugins, token, keys=keys, tls=tls))
            )
            core = scheduler.core
            database.run(lambda: warn_of_plain(db))
            known = {*plugins.missing, *(info.origin.name for info in plugins.installed)}
            database.run(lambda: plugin_tables.warn_of_absent(db, known))
            now_ms = core.clock.now_ms()
            firsts = [first_secrets.make_management_token(core.audit, now_ms, announce)]
            self._first_people: list[first_secrets.FirstSecret] = []
            if has_people:
                self._first_people = first_secrets.first_credentials(plugins, core.audit, now_ms, announce)
            for secret in (*firsts, *self._first_people):
                undo.callback(secret.show_unknown)
                database.run(partial(secret.ensure, db))
            self.executors, self.management, self.work = self._make_listeners(undo, *bound)
            undo.pop_all()
        self._listeners = (self.executors, self.management)

    def _make_listeners(
        self, undo: ExitStack, api_socket: socket.socket | None = None, executor_socket: socket.socket | None = None
    ) -> tuple[Listener, Listener, PluginWork]:
        config, api = self._config, self._config.api
        parts = api_parts(self.scheduler, self.health)
        routes = plugin_routes(parts)
        management_api, executor_api = build_management_app(parts, routes), executor_app(parts, routes)
        make = partial(Listener, max_body_bytes=api.max_body_bytes, limits=config.connections)
        management = make(
            "api",
            management_api,
            host=api.host,
            port=api.port,
            threads=api.threads,
            limit_of=routes.limit_of,
            admits=management_api.admits,
            own_threads=HEALTH_PATHS,
            # the application judges them itself
            keep_forwarded=bool(api.trusted_proxies),
            bound=api_socket,
        )
        undo.callback(management.stop)
        executors = make(
            "executor-api",
            executor_api,
            host=api.executor_host,
            port=api.executor_port,
            threads=api.executor_threads,
            admits=executor_api.admits,
            bound=executor_socket,
        )
        undo.callback(executors.stop)
        return executors, management, PluginWork(parts, self.scheduler.core.pulse)

    def until_done(self, part: Callable[[], T]) -> T:
        """Do a part of the start, again while the database is away; raises as :meth:`start` and the part do."""
        return self._database.run(part)

    def start(self, *, first: Callable[[], None] | None = None) -> None:
        """Take the leases, start the loops, listen; a start that fails leaves nothing behind.

        ``first`` is called before the first run is sent, while executors can register: to start one in this process.
        Raises LockError if another scheduler has the database, DatabaseUnreachableError if it was away for longer than
        the settings say, DatabaseRefusedError if it was read-only for longer than that, or refuses us, and
        StartEndedError if the process was to end meanwhile.
        """
        with ExitStack() as undo:
            undo.callback(self.close)
            if first is not None:
                self.executors.start()
                first()
            self.scheduler.start(self._database.run)
            undo.callback(self.scheduler.stop)
            undo.callback(self.work.stop)
            self.work.start()
            for listener in self._listeners:
                if first is None or listener is not self.executors:
                    listener.start()
            logger.info("management API on %s:%d", self.management.host, self.management.port)
            logger.info("executor API on %s:%d", self.executors.host, self.executors.port)
            self._say_way_in()
            path = self._config.api.port_file
            if path is not None:
                ports = {"api": self.management.port, "executor_api": self.executors.port}
                replace_text(path, json.dumps(ports))
            undo.pop_all()

    def _say_way_in(self) -> None:
        """Say where the console is, and how people sign in; at a first start with a link that does it once."""
        if not has_console(self._plugins):
            return
        url = self._config.api.url(self.management.port)
        logger.info("console on %s/: sign in %s", url, ways_in(self._plugins))
        if any(first.is_shown for first in self._first_people):
            link = link_in(self._plugins, self._db, self.scheduler.core.audit)
            if link is not None:
                self._announce(f"console ({ONCE}): {url}{link}")

    def stop(self, *, last: Callable[[], bool] | None = None, is_replaced: bool = False) -> bool:
        """Drain the pipeline while callbacks are still taken, then stop listening; return whether all ended.

        ``last`` is called when nothing more is sent, while callbacks are taken: to end an executor in this process. It
        returns whether that ended well. One that ``is_replaced`` takes no new connection: others listen to its sockets.
        """
        if is_replaced:  # others answer what comes now; as long as this one drains it would call itself unready
            for listener in self._listeners:
                listener.accepting = False
        drained = self.scheduler.stop(end_work=self.work.stop)
        if last is not None:
            drained = last() and drained
        self.close()
        logger.info("stopped, %s", "drained" if drained else "not everything ended in time")
        return drained

    def close(self) -> None:
        """Stop listening and leave the database; enough for a node that could not start."""
        for listener in (self.management, self.executors):
            listener.stop()
        self.scheduler.core.lease.disown()
        self._db.close()

    def disown(self) -> None:
        """In a forked child: close the copies that would keep ports and lock taken after the parent's end.

        Connections of the database stay as they are, and must be kept: to close them here could harm the parent's.
        """
        for listener in self._listeners:
            listener.disown()
        self.scheduler.core.lease.disown()

    def health(self) -> HealthReport:
        """Return what the node knows of itself."""
        scheduler = self.scheduler
        services = (*self._db.services, *scheduler.services)
        loops = [
            LoopHealthView(
                name=service.name, ok=service.is_healthy(), age_ms=service.age_ms(), failures=service.failures
            )
            for service in (*services, *self.work.services)
        ]
        return HealthReport(
            # a plugin that hangs makes no node unready
            stale_loops=[service.name for service in services if not service.is_healthy()],
            holds_leases=scheduler.core.lease.may_act(),
            partitions=len(scheduler.core.lease.epochs),
            loops=loops,
            missing_plugins=sorted(scheduler.core.plugins.missing),
            executor_port=self.executors.port,
            counts=HealthCounts(
                deadlocks=self._db.deadlocks,
                retries=self._db.retries,
                broken_connections=self._db.broken,
                clock_steps=scheduler.core.clock_sync.steps,
                connections_refused=sum(listener.cuts.refused for listener in self._listeners),
                connections_cut=sum(listener.cuts.cut for listener in self._listeners),
            ),
        )


def api_parts(scheduler: Scheduler, health: Callable[[], HealthReport]) -> ApiParts:
    """Return what both applications of a node work with; ``health`` must not wait for anything."""
    core = scheduler.core
    return ApiParts(core, scheduler.management, scheduler.finishing.finisher, health=health, lease=core.lease)


def warn_of_plain(db: Database) -> None:
    """Say that executor secrets are kept as they are, if there are such."""
    with db.read() as conn:
        plain = [known.name for known in executor_secrets.list_secrets(conn) if is_plain(known.sealed)]
    if plain:
        logger.warning(
            "%d executor secrets are kept unencrypted in the database, %s first: set security.key_file on all nodes, "
            "then run 'xwheel secret seal'",
            len(plain),
            plain[0],
        )
