"""The composition root of an executor process: builds the parts, starts them, and ends them in order."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Iterable, Mapping
from types import FrameType
from typing import Any, Final

from xwheel import __version__
from xwheel.clock import Clock, SystemClock
from xwheel.config import Config, ExecutorSection, build_config, check_secret
from xwheel.errors import ConfigError
from xwheel.executor.address import advertised_address
from xwheel.executor.admin_client import AdminClient, Beats
from xwheel.executor.callback import Courier
from xwheel.executor.capture import CAPTURE
from xwheel.executor.endpoints import Endpoints
from xwheel.executor.execution import STOPPED
from xwheel.executor.handlers import HandlerRegistry
from xwheel.executor.journal import Journal
from xwheel.executor.lanes import Limits
from xwheel.executor.run_log import RunLogs
from xwheel.executor.server import make_app
from xwheel.executor.worker import Workers
from xwheel.listener import Listener
from xwheel.plugin.contracts import GlueType
from xwheel.plugin.manager import load_plugins
from xwheel.service import Service
from xwheel.wire.messages import RegistryRequest

logger = logging.getLogger(__name__)

FLUSH_S: Final = 5.0
HOUSEKEEPING_MS: Final = 3_600_000
POLL_S: Final = 0.05


class Executor:
    """Runs handlers for schedulers.

    Args:
        config: Settings; None takes the defaults.
        handlers: Functions with ``@job``, and modules or lists that hold some.
        glue_types: Glue types by name; None takes those of the installed plugins.
        clock: Where time comes from.
        settings: Single settings of the section ``executor``; they win over ``config``.

    Raises:
        ConfigError: A setting is missing or not allowed, or two handlers share a name.
    """

    def __init__(
        self,
        config: Config | None = None,
        *,
        handlers: Iterable[object] = (),
        glue_types: Mapping[str, GlueType] | None = None,
        clock: Clock | None = None,
        **settings: Any,
    ) -> None:
        config = config or Config()
        if settings:
            values = config.model_dump()
            config = build_config({**values, "executor": {**values["executor"], **settings}})
        self._config = config
        self._settings: ExecutorSection = config.executor
        self._token = _check(self._settings)
        self._handlers = HandlerRegistry(handlers)
        self._glue_types = glue_types
        self._clock = clock or SystemClock()
        self._parts: _Parts | None = None
        self._lock = threading.Lock()

    @property
    def port(self) -> int:
        """The port it listens on."""
        return self._running.listener.port

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
        return self._running.beats.registered.is_set()

    def start(self) -> None:
        """Open the journal, listen and register.

        Raises:
            ConfigError: The address cannot be bound.
            LockError: Another process uses the data directory.
            JournalError: The journal cannot be opened.
        """
        with self._lock:
            if self._parts is not None:
                raise ConfigError("the executor is running already")
            glue_types = self._glue_types
            if glue_types is None:
                glue_types = load_plugins(self._config).glue_types
            self._parts = _Parts(self._settings, self._token, self._handlers, glue_types, self._clock)
        self._parts.start()

    def stop(self, timeout_s: float | None = None) -> bool:
        """Leave the registry, let accepted runs finish, deliver their outcomes, and end.

        Args:
            timeout_s: What accepted runs get; None takes the setting. What still runs then is ended, what waits is
                reported as not started.

        Returns:
            Whether every run finished by itself and every outcome was delivered. Outcomes that were not stay in the
            journal for the next start.
        """
        with self._lock:
            parts, self._parts = self._parts, None
        if parts is None:
            return True
        return parts.stop(self._settings.stop_timeout_s if timeout_s is None else timeout_s)

    def run_forever(self) -> bool:
        """Start, wait for SIGTERM or SIGINT, and stop; belongs to the main thread.

        Returns:
            What :meth:`stop` says.
        """
        done = threading.Event()

        def end(_number: int, _frame: FrameType | None) -> None:
            done.set()

        before = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            self.start()
            done.wait()
            return self.stop()
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def __enter__(self) -> Executor:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def _running(self) -> _Parts:
        if self._parts is None:
            raise ConfigError("the executor is not running")
        return self._parts


class _Parts:
    """Everything that exists while an executor runs."""

    def __init__(
        self,
        settings: ExecutorSection,
        token: str,
        handlers: HandlerRegistry,
        glue_types: Mapping[str, GlueType],
        clock: Clock,
    ) -> None:
        self._settings = settings
        self.journal = Journal(settings.data_dir, clock)
        self._logs = RunLogs(settings.data_dir / "logs", clock)
        client = AdminClient(settings.admin_addresses, token=token, app_name=settings.app_name)
        self.beats = Beats(client, self._registration, clock, beat_ms=int(settings.beat_s * 1000))
        self._courier = Courier(client, self.journal, clock)
        self._beating = Service("executor-beat", self.beats.step, clock)
        self._delivery = Service("executor-callback", self._courier.step, clock)
        self._housekeeping = Service("executor-housekeeping", self._clean, clock)
        self._workers = Workers(
            journal=self.journal,
            logs=self._logs,
            clock=clock,
            limits=Limits(
                places=settings.workers,
                lane=settings.queue_limit,
                waiting=settings.waiting_limit,
                grace_ms=int(settings.kill_grace_s * 1000),
            ),
            may_start=self.beats.may_start,
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
        )
        try:
            self.listener = Listener(
                "executor",
                make_app(endpoints, max_body_bytes=settings.max_body_bytes),
                host=settings.host,
                port=settings.port,
                threads=settings.threads,
                max_body_bytes=settings.max_body_bytes,
            )
            self.address = advertised_address(
                settings.address, settings.host, self.listener.port, settings.admin_addresses
            )
        except BaseException:
            self._logs.close()
            self.journal.close()
            raise

    def start(self) -> None:
        closed = {reason: count for reason, count in self.journal.recovered.items() if count}
        if closed:
            logger.warning("the last executor here left runs open; reported as failed: %s", closed)
        # it warns for every request that waits a moment for a thread
        logging.getLogger("waitress.queue").setLevel(logging.ERROR)
        CAPTURE.install()
        self._delivery.start()
        self._housekeeping.start()
        self.listener.start()
        self._beating.start()
        logger.info(
            "executor %s of %s listens at %s", self.journal.instance, self._settings.app_name, self.address
        )

    def stop(self, timeout_s: float) -> bool:
        self._workers.lanes.close("the executor is stopping and takes no more runs")
        self.beats.leave()
        finished = self._workers.lanes.wait_empty(timeout_s)
        if not finished:
            self._workers.end_all(STOPPED)
            # asked at once, forced after one grace, given up after three
            self._workers.lanes.wait_empty(4 * self._settings.kill_grace_s + 1)
        delivered = self._flush()
        self.listener.stop()
        for service in (self._beating, self._delivery, self._housekeeping):
            service.stop()
        self._workers.close()
        CAPTURE.remove()
        self._logs.close()
        self.journal.close()
        return finished and delivered

    def _flush(self) -> bool:
        """Wait until every outcome is delivered; tell whether that came in time."""
        pause = threading.Event()
        for _ in range(int(FLUSH_S / POLL_S)):
            if self._courier.is_empty():
                return True
            pause.wait(POLL_S)
        logger.warning("some outcomes are not delivered; the journal keeps them for the next start")
        return False

    def _clean(self, now_ms: int) -> int:
        self.journal.purge(now_ms)
        self._logs.sweep(now_ms, self._settings.log_retention_days)
        return HOUSEKEEPING_MS

    def _registration(self) -> RegistryRequest:
        return RegistryRequest(
            group="EXECUTOR",
            app_name=self._settings.app_name,
            address=self.address,
            instance=self.journal.instance,
            boot=self.journal.boot,
            version=__version__,
            capacity=self._settings.workers,
            labels=self._settings.labels,
        )


def _check(settings: ExecutorSection) -> str:
    """Return the token, or refuse what cannot work."""
    if not settings.app_name.strip():
        raise ConfigError("executor.app_name is missing: the executor group to register in")
    if not settings.admin_addresses:
        raise ConfigError("executor.admin_addresses is missing: at least one scheduler base URL")
    token = settings.access_token
    return check_secret("executor.access_token", token.get_secret_value() if token else "")
