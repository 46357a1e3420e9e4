"""A scheduler process: the pipeline, its two listeners, and the secrets between them and the world."""

from __future__ import annotations

import json
import logging
import os
import secrets
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from xwheel.accounts.accounts import ensure_admin
from xwheel.api.app import build_management_app, executor_app, plugin_routes
from xwheel.api.http.resource import ApiParts
from xwheel.api.parts import parts_of
from xwheel.api.plugins.work import PluginWork
from xwheel.api.schema.health import HealthCounts, HealthReport, LoopHealth
from xwheel.config import Config
from xwheel.errors import ConflictError
from xwheel.node.loops import Scheduler
from xwheel.node.pipeline import Core
from xwheel.plugin.discovery import load_plugins
from xwheel.runtime.http_server import Listener
from xwheel.runtime.private_files import write_text
from xwheel.runtime.sealing import is_plain, read_keys
from xwheel.scheduler.cluster.sqlite_lease import SqliteLease
from xwheel.scheduler.executors.secrets import EXECUTOR_TOKEN, find_executor_token
from xwheel.storage import settings
from xwheel.storage.access import executor_secrets, tokens
from xwheel.storage.access.audit import AuditTrail
from xwheel.storage.database.engine import Connection, Database
from xwheel.storage.database.startup import open_database
from xwheel.wire.http.tls import check_tls

logger = logging.getLogger(__name__)

FIRST_ADMIN: Final = "first"
HEALTH_PATHS: Final = ("/healthz", "/readyz")


class Node:
    """One scheduler process.

    Args:
        config: The settings.
        announce: Told secrets that were made just now; they are never shown again.
        given: Further plugins by name, as files, modules or other objects with hooks; for tests.
        has_accounts: Make the first account if there is none; not where nobody could be told its password.

    Raises:
        ConfigError: A setting cannot be used.
        DatabaseUnreachableError: The database took no connection for as long as the settings say.
        DatabaseRefusedError: The database lacks what a node needs.
        SchemaError: The database's schema is not this version's.
        PluginError: A plugin cannot be loaded.
    """

    def __init__(
        self,
        config: Config,
        announce: Callable[[str], None],
        given: Mapping[str, object] | None = None,
        *,
        has_accounts: bool = True,
    ) -> None:
        self._config = config
        plugins = load_plugins(config, given)
        # files first: what is wrong with them is said before a database is waited for
        keys, tls = read_keys(config.security.key_file), check_tls(config.tls)
        self._db = open_database(config, wait_s=config.database.wait_s, tables=plugins.tables)
        executor_secrets.bind_key(self._db, keys)
        token = executor_token(config, self._db, announce)
        self.scheduler = scheduler = Scheduler(Core(config, self._db, plugins, token, keys=keys, tls=tls))
        warn_of_plain(self._db)
        warn_of_weak_audit(self._db, scheduler.core.audit)
        ensure_management_token(self._db, scheduler.core.audit, scheduler.core.clock.now_ms(), announce)
        if has_accounts:
            ensure_admin(self._db, scheduler.core.audit, scheduler.core.clock.now_ms(), announce)
        parts = api_parts(scheduler, self.health)
        api = config.api
        routes = plugin_routes(parts)
        management_api, executor_api = build_management_app(parts, routes), executor_app(parts, routes)
        self.work = PluginWork(parts)
        self.management = Listener(
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
        self.executors = Listener(
            "executor-api",
            executor_api,
            host=api.executor_host,
            port=api.executor_port,
            threads=api.executor_threads,
            max_body_bytes=api.max_body_bytes,
            limits=config.connections,
            admits=executor_api.admits,
        )
        self._listeners = (self.executors, self.management)

    def start(self, *, first: Callable[[], None] | None = None) -> None:
        """Take the leases, start the loops, listen.

        Args:
            first: Called before the first run is sent, while executors can register: to start one in this process.

        Raises:
            LockError: Another scheduler has the database.
        """
        if first is not None:
            self.executors.start()
            first()
        self.scheduler.start()
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

    def stop(self, *, last: Callable[[], bool] | None = None) -> bool:
        """Drain the pipeline while callbacks are still taken, then stop listening; return whether all ended.

        Args:
            last: Called when nothing more is sent, while callbacks are taken: to end an executor in this process.
                Returns whether it ended well.
        """
        drained = self.work.stop()
        drained = self.scheduler.stop() and drained
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
        """Close the locked file of SQLite's lease, if it is open still."""
        lease = self.scheduler.core.lease
        if isinstance(lease, SqliteLease):
            lease.disown()

    def health(self) -> HealthReport:
        """Return what the node knows of itself."""
        scheduler = self.scheduler
        loops = [
            LoopHealth(
                name=service.name, ok=service.is_healthy(), age_ms=service.age_ms(), failures=service.failures
            )
            for service in (*scheduler.services, *self.work.services)
        ]
        return HealthReport(
            # a plugin that hangs makes no node unready
            stale_loops=[service.name for service in scheduler.services if not service.is_healthy()],
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
    finishing = scheduler.finishing
    return parts_of(
        scheduler.core,
        scheduler.management,
        finishing.finisher,
        finishing.alarms.manager,
        scheduler.auditing.refusals,
        scheduler.management.live,
        health=health,
        node_id=scheduler.core.lease.owner,
    )


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


def warn_of_weak_audit(db: Database, audit: AuditTrail) -> None:
    """Say that the key that signs the audit is in the database; SQLite's file is the node's own, as a key file is."""
    if audit.keys.first.is_kept_beside and db.backend != "sqlite":
        logger.warning(
            "the audit is signed with a key in the database, which whoever can change its rows can read: set "
            "security.key_file on all nodes"
        )


def ensure_management_token(
    db: Database, audit: AuditTrail, now_ms: int, announce: Callable[[str], None]
) -> None:
    """Make a management token if there is none without a group, and announce it once."""
    with db.read() as conn:
        if tokens.has_unrestricted(conn):
            return
        taken = {known.name for known in tokens.list_tokens(conn)}
    name = f"{FIRST_ADMIN}-{now_ms}" if FIRST_ADMIN in taken else FIRST_ADMIN
    made = secrets.token_urlsafe(32)

    def work(conn: Connection) -> None:
        found = tokens.insert_token(conn, name, made, now_ms)
        audit.record(conn, "token.create", "token", name, after=found)

    try:
        db.transaction(work)
    except ConflictError:
        return  # another node starts too and was faster: it announces its own
    announce(f"management token (shown once): {made}")


def executor_token(config: Config, db: Database, announce: Callable[[str], None]) -> str:
    """Return the token shared with executors; the first start makes one, keeps it and announces it once.

    Raises:
        ConfigError: The configured one is well known or too short.
    """
    if (known := find_executor_token(config, db)) is not None:
        return known
    made = secrets.token_urlsafe(32)
    db.transaction(lambda conn: settings.insert_setting(conn, EXECUTOR_TOKEN, made))
    announce(f"executor token (shown once): {made}")
    return made
