"""Everything that exists while an executor runs, wired together."""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from xwheel.clock import Clock, SystemClock, wall_ms
from xwheel.config import Config
from xwheel.errors import ConfigError, WireError
from xwheel.executor.handlers import HandlerRegistry
from xwheel.executor.intake.endpoints import CallsApp, Endpoints
from xwheel.executor.journal import Journal
from xwheel.executor.logs.capture import CAPTURE
from xwheel.executor.logs.run_log import RunLogs
from xwheel.executor.reporting.admin_client import AdminClient, Registration
from xwheel.executor.reporting.job_sync import JobSync
from xwheel.executor.reporting.log_shipping import LogShipping
from xwheel.executor.reporting.outcomes import OutcomeDelivery
from xwheel.executor.running import supervisor
from xwheel.executor.running.execution import STOPPED
from xwheel.executor.running.process import PASSED, plain_environment
from xwheel.executor.running.worker import Workers
from xwheel.plugin.contracts import GlueType, HostSetup, KeepsThings
from xwheel.runtime.http_server import Listener
from xwheel.runtime.loops import Service
from xwheel.wire import contract
from xwheel.wire.http.tls import check_tls
from xwheel.wire.messages import RegistryRequest

logger = logging.getLogger(__name__)

FLUSH_S: Final = 5.0
HOUSEKEEPING_MS: Final = 3_600_000
PURGE_PAUSE_MS: Final = 50
POLL_S: Final = 0.05
EARLIER_LOGS: Final = 50_000
ANY_HOST: Final = frozenset({"", "0.0.0.0", "::", "*"})  # noqa: S104 -- compared, not bound


class Parts:
    """Everything that exists while an executor runs."""

    def __init__(
        self,
        config: Config,
        token: str,
        sync_token: str,
        handlers: HandlerRegistry,
        glue_types: Mapping[str, GlueType],
        clock: Clock,
    ) -> None:
        self._settings = settings = config.executor
        tls = check_tls(config.tls)
        data_dir = settings.data_dir.absolute()  # once: a handler may change the folder of the process
        self.journal = Journal(data_dir, clock)
        client = AdminClient(settings.admin_addresses, token, settings.app_name, self.journal.instance, tls)
        self._shipping = LogShipping(client, clock, self._earlier_logs)
        self._logs = RunLogs(data_dir / "logs", clock, self._shipping.begun)
        beat_ms = int(settings.beat_s * 1000)
        self.registration = Registration(client, self._beat_message, clock, beat_ms, self._want_logs)
        self._outcomes = OutcomeDelivery(client, self.journal, clock)
        self._clock = clock
        self._sync: JobSync | None = None
        if settings.sync_jobs:
            self._sync = JobSync(
                settings,
                token=sync_token,
                declarations=handlers.declarations,
                instance=self.journal.instance,
                is_registered=self.registration.registered.is_set,
                tls=tls,
            )
            self._syncing = Service("executor-sync", partial(self._sync_step, self._sync), clock)
        self._beating = Service("executor-beat", self._beat, clock)
        self._delivery = Service("executor-callback", self._outcomes.step, clock)
        self._shipments = Service("executor-logs", self._shipping.step, clock, wakeup=self._shipping.wakeup)
        self._housekeeping = Service("executor-housekeeping", self._clean, clock)
        self._workers = Workers(
            journal=self.journal,
            logs=self._logs,
            clock=clock,
            settings=settings,
            may_start=self.registration.may_start,
            on_outcome=self._delivery.wake,
        )
        endpoints = Endpoints(
            token=token,
            app_name=settings.app_name,
            workers=self._workers,
            journal=self.journal,
            logs=self._logs,
            handlers=handlers,
            glue_types=glue_types,
            allowed=settings.allowed_glue_types,
        )
        self.app = CallsApp(endpoints, max_body_bytes=settings.max_body_bytes, clock=clock)
        self._kept: list[KeepsThings] = []
        try:
            self._open_glue_types(config, token, glue_types)
            self.listener = self._listen(config) if settings.listen else None
            port = self.listener.port if self.listener else 0
            self.address = advertised_address(settings.address, settings.host, port, settings.admin_addresses)
        except BaseException:
            self._close_glue_types()
            self._logs.close()
            self.journal.close()
            raise

    def _open_glue_types(self, config: Config, token: str, glue_types: Mapping[str, GlueType]) -> None:
        environment = plain_environment((*PASSED, *self._settings.script_environment))
        setup = HostSetup(config=config, token=token, environment=environment, supervisor=Path(supervisor.__file__))
        for name in dict.fromkeys(self._settings.allowed_glue_types):
            glue: object = glue_types.get(name)
            if isinstance(glue, KeepsThings):
                self._kept.append(glue)
                glue.open(setup)

    def _close_glue_types(self) -> None:
        for glue in self._kept:
            try:
                glue.close()
            except Exception:  # a plugin's
                logger.exception("glue type %s", getattr(glue, "name", glue))

    def _sync_step(self, sync: JobSync, now_ms: int) -> int:
        was_taken = sync.is_taken
        wait_ms = sync.step(now_ms)
        if sync.is_taken and not was_taken:
            self._beating.wake()  # nodes shall know at once what is declared here
        return wait_ms

    def _listen(self, config: Config) -> Listener:
        return Listener(
            "executor",
            self.app,
            host=self._settings.host,
            port=self._settings.port,
            threads=self._settings.threads,
            max_body_bytes=self._settings.max_body_bytes,
            limits=config.connections,
            admits=self.app.admits,
            own_threads=[contract.BEAT],
        )

    def disown(self) -> None:
        """In a forked child: close the copies that would keep lock and port taken after the parent's end."""
        self.journal.disown()
        self._workers.disown()
        if self.listener is not None:
            self.listener.disown()

    def start(self, *, is_guest: bool) -> None:
        """Listen, register, deliver."""
        closed = {reason: count for reason, count in self.journal.recovered.items() if count}
        if closed:
            logger.warning("the last executor here left runs open; reported as failed: %s", closed)
        CAPTURE.install(is_guest=is_guest)
        self._delivery.start()
        self._shipments.start()
        self._housekeeping.start()
        if self.listener is not None:
            self.listener.start()
        self._beating.start()
        if self._sync is not None:
            self._syncing.start()
        where = (self.journal.instance, self._settings.app_name, self.address)
        logger.info("executor %s of %s listens at %s", *where)

    def stop(self, timeout_s: float) -> bool:
        """End everything in order; return whether all runs finished and all outcomes were delivered."""
        begin_ms = self._clock.monotonic_ms()
        if self._sync is not None:
            self._syncing.stop(timeout_s=1)  # one more sign of life does no harm
        if self.registration.leave():
            # other nodes learn of it a second later, and what was sent before is on its way
            time.sleep(max(0.0, min(self._settings.leave_s, timeout_s)))
            timeout_s -= (self._clock.monotonic_ms() - begin_ms) / 1000
        self._workers.queues.close("the executor is stopping and takes no more runs")
        finished = self._workers.queues.wait_empty(max(0.0, timeout_s))
        if not finished:
            self._workers.end_all(STOPPED)
            # asked at once, forced after one grace, given up after three
            self._workers.queues.wait_empty(4 * self._settings.kill_grace_s + 1)
        self._workers.report_given_back()
        delivered = self._flush()
        # a call that is still under way has the rest
        if not (self._shipments.stop() and self._shipping.finish(FLUSH_S)):
            logger.warning("some logs are not shipped; the files stay, and the next start ships them")
        if self.listener is not None:
            self.listener.stop()
        for service in (self._beating, self._delivery, self._housekeeping):
            service.stop()
        self._workers.close()
        self._close_glue_types()
        CAPTURE.remove()
        self._logs.close()
        self.journal.close()
        return finished and delivered

    def _flush(self) -> bool:
        self.journal.settle(FLUSH_S)
        for _ in range(int(FLUSH_S / POLL_S)):
            if self._outcomes.is_empty():
                return True
            time.sleep(POLL_S)
        logger.warning("some outcomes are not delivered; the journal keeps them for the next start")
        return False

    def _beat(self, now_ms: int) -> int:
        if isinstance(self._clock, SystemClock):
            # no database tells an executor the time, so it follows the machine's clock, in steps of a beat
            self._clock.set_offset(wall_ms(), self._clock.monotonic_ms())
        return self.registration.step(now_ms)

    def _clean(self, now_ms: int) -> int:
        if self.journal.purge(now_ms):
            return PURGE_PAUSE_MS
        self._logs.sweep(now_ms, self._settings.log_retention_days)
        return HOUSEKEEPING_MS

    def _want_logs(self, is_wanted: bool) -> None:
        self._shipping.want(is_wanted and self._settings.ship_logs)

    def _earlier_logs(self) -> Iterator[tuple[int, int, Path]]:
        for run_id, created_ms in reversed(self.journal.ended(EARLIER_LOGS)):
            path = self._logs.find(run_id, created_ms)
            if path is not None:
                yield run_id, created_ms, path

    def _beat_message(self) -> RegistryRequest:
        declares = self._sync if self._sync and self._sync.is_taken else None
        return RegistryRequest(
            group="EXECUTOR",
            app_name=self._settings.app_name,
            address=self.address,
            instance=self.journal.instance,
            boot=self.journal.boot,
            labels=self._settings.labels,
            release=declares.release if declares else "",
            declared=declares.digest if declares else "",
            early=True,
        )


def advertised_address(configured: str, host: str, port: int, admin_addresses: Sequence[str]) -> str:
    """Return the base URL to register, with the trailing slash that Java executors send.

    The configured one wins; ConfigError says that it is no http(s) base URL. For any host, the local address that leads
    to a scheduler is the best guess in containers, where the host name often resolves to something that only the
    container knows.
    """
    if configured:
        try:
            return contract.normalise_address(configured, "executor.address") + "/"
        except WireError as error:
            raise ConfigError(str(error)) from None
    if host in ANY_HOST:
        family = socket.AF_UNSPEC if host == "::" else socket.AF_INET
        host = _address_towards(admin_addresses, family) or socket.gethostname()
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"


def _address_towards(admin_addresses: Sequence[str], family: socket.AddressFamily) -> str:
    """Return the local address that the system would use to reach a scheduler; sends nothing."""
    for address in admin_addresses:
        try:
            parts = urlsplit(address)
            host, port = parts.hostname, parts.port or 80
            found = socket.getaddrinfo(host, port, family, socket.SOCK_DGRAM) if host else []
        except (OSError, ValueError):
            continue
        for kind, type_, _, _, target in found:
            try:
                with socket.socket(kind, type_) as probe:
                    probe.connect(target)
                    return str(probe.getsockname()[0])
            except OSError:
                continue
    return ""
