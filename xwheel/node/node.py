"""A scheduler process: the pipeline, its two listeners, and the secrets between them and the world."""

from __future__ import annotations

import json
import logging
import os
import secrets
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from xwheel.api.app import executor_app, management_app
from xwheel.api.http.resource import ApiParts
from xwheel.api.schema.health import HealthCounts, HealthReport, LoopHealth
from xwheel.config import Config, check_secret
from xwheel.errors import ConflictError, ExecutorRefusedError, NotFoundError
from xwheel.model import Run
from xwheel.node.loops import Scheduler
from xwheel.node.pipeline import Core
from xwheel.plugin.discovery import load_plugins
from xwheel.runtime.http_server import Listener
from xwheel.runtime.private_files import write_text
from xwheel.runtime.sealing import is_plain, read_keys
from xwheel.scheduler.cluster.sqlite_lease import SqliteLease
from xwheel.storage import executor_secrets, settings, tokens
from xwheel.storage import executors as groups
from xwheel.storage.database.address import with_password
from xwheel.storage.database.engine import Database
from xwheel.storage.database.startup import open_ready
from xwheel.wire import codec, contract
from xwheel.wire.http import post
from xwheel.wire.http.tls import NO_FILES, TlsFiles, check_tls
from xwheel.wire.messages import LogData, LogRequest

logger = logging.getLogger(__name__)

EXECUTOR_TOKEN: Final = "executor_token"  # noqa: S105 - a name, not the secret
FIRST_ADMIN: Final = "first"
HEALTH_PATHS: Final = ("/healthz", "/readyz")


class Node:
    """One scheduler process.

    Args:
        config: The settings.
        announce: Told secrets that were made just now; they are never shown again.
        given: Further plugins by name, as files, modules or other objects with hooks; for tests.

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
    ) -> None:
        self._config = config
        plugins = load_plugins(config, given)
        # files first: what is wrong with them is said before a database is waited for
        keys, tls = read_keys(config.security.key_file), check_tls(config.tls)
        self._db = open_database(config, wait_s=config.database.wait_s)
        executor_secrets.bind_key(self._db, keys)
        token = executor_token(config, self._db, announce)
        self.scheduler = scheduler = Scheduler(Core(config, self._db, plugins, token, keys=keys, tls=tls))
        warn_of_plain(self._db)
        ensure_management_token(self._db, scheduler.core.clock.now_ms(), announce)
        log_fetcher = LogFetcher(
            self._db,
            scheduler.core.registry.token_at,
            config.trigger.send_timeout_ms / 1000,
            tls,
            scheduler.core.networks.refusal,
        )
        parts = api_parts(scheduler, self.health, log_fetcher.fetch)
        api = config.api
        management_api, executor_api = management_app(parts), executor_app(parts)
        self.management = Listener(
            "api",
            management_api,
            host=api.host,
            port=api.port,
            threads=api.threads,
            max_body_bytes=api.max_body_bytes,
            limits=config.connections,
            admits=management_api.admits,
            own_threads=HEALTH_PATHS,
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
        drained = self.scheduler.stop()
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
            for service in scheduler.services
        ]
        return HealthReport(
            stale_loops=[loop.name for loop in loops if not loop.ok],
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


def api_parts(
    scheduler: Scheduler, health: Callable[[], HealthReport], fetch_log: Callable[[Run, int], LogData]
) -> ApiParts:
    """Return what both applications of a node work with.

    Args:
        scheduler: The node.
        health: What the node knows of itself; must not wait for anything.
        fetch_log: Reads a run's log from a line on at the executor that has it.
    """
    core, management, finishing = scheduler.core, scheduler.management, scheduler.finishing
    return ApiParts(
        db=core.db,
        clock=core.clock,
        config=core.config.api,
        jobs=management.jobs,
        run_now=management.run_now,
        scripts=core.scripts,
        dependencies=management.dependencies,
        registry=core.registry,
        finisher=finishing.finisher,
        timetable=core.timetable,
        schedules=management.schedules,
        calendars=core.calendars,
        secrets=core.secrets,
        health=health,
        alarms=finishing.alarms.manager,
        plugins=core.plugins,
        listener_health=core.listeners.health,
        fetch_log=fetch_log,
        kill=management.killer.kill,
    )


class LogFetcher:
    """Reads run logs at the executors that have them; addresses come from the run's row, never from a request.

    Args:
        db: The database.
        token: What an address of a group is called with.
        timeout_s: Time limit of a call in seconds.
        tls: The authority that https calls trust, and the certificate that they show.
        guard: Which addresses may be called; None for all.
    """

    def __init__(
        self,
        db: Database,
        token: Callable[[int, str], str],
        timeout_s: float,
        tls: TlsFiles = NO_FILES,
        guard: Callable[[str], str | None] | None = None,
    ) -> None:
        self._db = db
        self._token = token
        self._timeout_s = timeout_s
        self._tls = tls
        self._guard = guard

    def fetch(self, run: Run, from_line: int) -> LogData:
        """Return a piece of a run's log.

        Raises:
            NotFoundError: The run was never sent, so there is no log.
            WireError: The executor cannot be reached or refuses.
        """
        if run.address is None:
            raise NotFoundError("log of run", run.id)
        request = LogRequest(run_id=run.id, created_ms=run.created_ms, from_line=from_line)
        url = contract.join_url(run.address, contract.LOG)
        with self._db.read() as conn:
            app_name = groups.get_group(conn, run.group_id).app_name
        response = post(
            url,
            codec.encode_log_request(request),
            token=self._token(run.group_id, run.address),
            app_name=app_name,
            timeout_s=self._timeout_s,
            tls=self._tls,
            guard=self._guard,
        )
        if not response.ok:
            raise ExecutorRefusedError(f"{run.address} has no log of run {run.id}: {response.message}")
        return codec.read_log_data(response.data)


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


def ensure_management_token(db: Database, now_ms: int, announce: Callable[[str], None]) -> None:
    """Make a management token if there is none without a group, and announce it once."""
    with db.read() as conn:
        if tokens.has_unrestricted(conn):
            return
        taken = {known.name for known in tokens.list_tokens(conn)}
    name = f"{FIRST_ADMIN}-{now_ms}" if FIRST_ADMIN in taken else FIRST_ADMIN
    made = secrets.token_urlsafe(32)
    try:
        db.transaction(lambda conn: tokens.insert_token(conn, name, made, now_ms))
    except ConflictError:
        return  # another node starts too and was faster: it announces its own
    announce(f"management token (shown once): {made}")


def open_database(config: Config, *, create: bool = True, wait_s: float = 0) -> Database:
    """Open the database and make sure that a node can work with it.

    Args:
        config: The settings.
        create: Create the tables of an empty SQLite database.
        wait_s: How long to wait for a database that takes no connection yet.

    Raises:
        DatabaseUnreachableError: No connection in that time.
        DatabaseRefusedError: A person must act: login, database, rights or settings of the server.
        SchemaError: The schema is older, newer or foreign.
    """
    schedule = config.schedule
    return open_ready(
        with_password(config.database),
        pool_size=config.database.pool_size,
        statement_s=config.database.statement_timeout_s,
        # a node that stops inside a transaction loses its locks before its lease ends, which was renewed before
        idle_s=max(1, int(schedule.lease_s - schedule.lease_renew_s)),
        create=create,
        wait_s=wait_s,
    )


def executor_token(config: Config, db: Database, announce: Callable[[str], None]) -> str:
    """Return the token shared with executors; the first start makes one, keeps it and announces it once.

    Raises:
        ConfigError: The configured one is well known or too short.
    """
    if config.api.executor_token is not None:
        return check_secret("api.executor_token", config.api.executor_token.get_secret_value())
    with db.read() as conn:
        kept = settings.find_setting(conn, EXECUTOR_TOKEN)
    if kept is not None:
        return check_secret("the executor token in the database", kept)
    made = secrets.token_urlsafe(32)
    db.transaction(lambda conn: settings.insert_setting(conn, EXECUTOR_TOKEN, made))
    announce(f"executor token (shown once): {made}")
    return made
