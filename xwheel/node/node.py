"""A scheduler process: the pipeline, its two listeners, and the secrets between them and the world."""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from xwheel.api.app import build_management_app, executor_app, plugin_routes
from xwheel.api.parts import ApiParts
from xwheel.api.plugins.work import PluginWork
from xwheel.api.schema.health import HealthCounts, HealthReport, LoopHealthView
from xwheel.config import Config
from xwheel.node.first_secrets import (
    ExecutorToken,
    FirstSecret,
    ManagementToken,
    ensure_executor_token,
    first_credentials,
)
from xwheel.node.loops import Scheduler
from xwheel.node.pipeline import Core
from xwheel.plugin.discovery import load_plugins
from xwheel.private_files import write_text
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
        config: The settings.
        announce: Gets secrets that were made just now; they are never shown again.
        given: Further plugins by name, as files, modules or other objects with hooks; for tests.
        has_people: Let plugins make what lets the first person in; not where no one could be told of it.
        pause: Waits this many seconds for a database that is away; returns whether the process is to end meanwhile.

    Raises:
        ConfigError: A setting cannot be used.
        DatabaseUnreachableError: The database took no connection for as long as the settings say.
        DatabaseRefusedError: The database lacks what a node needs.
        SchemaError: The database's schema is not this version's.
        PluginError: A plugin cannot be loaded.
        StartEndedError: The process was to end meanwhile.
    """

    def __init__(
        self,
        config: Config,
        announce: Callable[[str], None],
        given: Mapping[str, object] | None = None,
        *,
        has_people: bool = True,
        pause: Pause = time.sleep,
    ) -> None:
        self._config = config
        plugins = load_plugins(config, given)
        # files first: what is wrong with them is said before a database is waited for
        keys, tls = read_keys(config.security.key_file), check_tls(config.tls)
        with ExitStack() as undo:
            self._database = database = start_with(config, tables=plugins.tables, pause=pause)
            self._db = db = database.db
            undo.callback(db.close)
            database.run(lambda: executor_secrets.bind_key(db, keys))
            executor_token = ExecutorToken(announce)
            undo.callback(executor_token.show_unknown)
            token = database.run(lambda: ensure_executor_token(config, db, executor_token))
            # what asks the database for its keys comes first in there, so that nothing is left of one that was cut
            self.scheduler = scheduler = database.run(
                lambda: Scheduler(Core(config, db, plugins, token, keys=keys, tls=tls))
            )
            core = scheduler.core
            database.run(lambda: warn_of_plain(db))
            known = {*plugins.missing, *(info.origin.name for info in plugins.installed)}
            database.run(lambda: plugin_tables.warn_of_absent(db, known))
            firsts: list[FirstSecret] = [ManagementToken(core.audit, core.clock.now_ms(), announce)]
            if has_people:
                firsts += first_credentials(plugins, core.audit, core.clock.now_ms(), announce)
            for secret in firsts:
                undo.callback(secret.show_unknown)
                database.run(partial(secret.ensure, db))
            self.executors, self.management, self.work = self._make_listeners(undo)
            undo.pop_all()
        self._listeners = (self.executors, self.management)

    def _make_listeners(self, undo: ExitStack) -> tuple[Listener, Listener, PluginWork]:
        """Return both listeners, bound, and what routes of plugins do between calls."""
        config, api = self._config, self._config.api
        parts = api_parts(self.scheduler, self.health)
        routes = plugin_routes(parts)
        management_api, executor_api = build_management_app(parts, routes), executor_app(parts, routes)
        management = Listener(
            "api",
            management_api,
            host=api.host,
            port=api.port,
            threads=api.threads,
            max_body_bytes=api.max_body_bytes,
            limits=config.connections,
            limit_of=routes.limit_of,
            admits=management_api.admits,
            own_threads=HEALTH_PATHS,
            # the application judges them itself
            keep_forwarded=bool(api.trusted_proxies),
        )
        undo.callback(management.stop)
        executors = Listener(
            "executor-api",
            executor_api,
            host=api.executor_host,
            port=api.executor_port,
            threads=api.executor_threads,
            max_body_bytes=api.max_body_bytes,
            limits=config.connections,
            admits=executor_api.admits,
        )
        undo.callback(executors.stop)
        return executors, management, PluginWork(parts)

    def until_done(self, part: Callable[[], T]) -> T:
        """Do a part of the start, again while the database is away, as the start itself does; return what it returns.

        Raises:
            XwheelError: As :meth:`start` says, and what the part raises.
        """
        return self._database.run(part)

    def start(self, *, first: Callable[[], None] | None = None) -> None:
        """Take the leases, start the loops, listen; a start that fails leaves nothing behind.

        Args:
            first: Called before the first run is sent, while executors can register: to start one in this process.

        Raises:
            LockError: Another scheduler has the database.
            DatabaseUnreachableError: The database was away for longer than the settings say.
            DatabaseRefusedError: It was read-only for longer than that, or refuses us.
            StartEndedError: The process was to end meanwhile.
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
            if self._config.api.port_file is not None:
                write_ports(
                    self._config.api.port_file, api=self.management.port, executor_api=self.executors.port
                )
            undo.pop_all()

    def stop(self, *, last: Callable[[], bool] | None = None) -> bool:
        """Drain the pipeline while callbacks are still taken, then stop listening; return whether all ended.

        Args:
            last: Called when nothing more is sent, while callbacks are taken: to end an executor in this process.
                Returns whether it ended well.
        """
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
        self._let_go()
        self._db.close()

    def disown(self) -> None:
        """In a forked child: close the copies that would keep ports and lock taken after the parent's end.

        Connections of the database stay as they are, and must be kept: to close them here could harm the parent's.
        """
        for listener in self._listeners:
            listener.disown()
        self._let_go()

    def _let_go(self) -> None:
        """Close the locked file of the lease, if it is open still."""
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
    """Return what both applications of a node work with.

    Args:
        scheduler: The node.
        health: What the node knows of itself; must not wait for anything.
    """
    core = scheduler.core
    return ApiParts(core, scheduler.management, scheduler.finishing.finisher, health=health, lease=core.lease)


def write_ports(path: Path, **ports: int) -> None:
    """Write the ports as JSON, all at once: a reader sees the whole file or none."""
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    write_text(draft, json.dumps(ports))
    draft.replace(path)


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
