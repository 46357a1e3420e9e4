"""The package node inside an executor: packages, environments and processes, and what a run does with them."""

from __future__ import annotations

import logging
import os
import shutil
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from xwheel.plugin import ConfigError, ExecutorError, HostSetup, RunContext

import xwheel_package
from xwheel_job_package.download import PackageCache
from xwheel_job_package.environments import Environment, Environments
from xwheel_job_package.failures import Cancel, PackageRunError, Write, permanent, transient
from xwheel_job_package.locks import take, try_take
from xwheel_job_package.node_options import NodeOptions
from xwheel_job_package.reference import PackageReference
from xwheel_job_package.signatures import SignatureError, TrustedKeys
from xwheel_job_package.workers import Worker, WorkerPool

if TYPE_CHECKING:
    from xwheel import Config

logger = logging.getLogger(__name__)

STEP_S: Final = 2.0
COLLECT_MS: Final = 3_600_000
CLOSE_S: Final = 5.0
MIB: Final = 1024 * 1024


class PackageHost:
    """All that a node has of packages; one for each executor that allows the glue type.

    Thread-safety: any thread.

    Args:
        setup: What the executor gives.
        options: The node's options.

    Raises:
        ConfigError: The folder or the token cannot be used.
    """

    def __init__(self, setup: HostSetup, options: NodeOptions) -> None:
        settings = setup.config.executor
        folder = Path(options.directory or settings.data_dir / "packages").absolute()
        self._work = folder / "work" / uuid4().hex
        try:
            self._work.mkdir(mode=0o700, parents=True)
            self._work_lock = take(self._work.with_suffix(".lock"), Cancel())
        except OSError as error:
            raise ConfigError(f"plugins.options.job_package.node.directory: {folder}: {error}") from None
        self._options = options
        self._trusted = TrustedKeys(options.trusted_keys)
        self._supervisor = setup.supervisor
        self._sdk = _sdk_folder(folder)
        self._variables = {**setup.environment, "XWHEEL_PACKAGE_NODE": "1", "PYTHONUNBUFFERED": "1"}
        self._cache = PackageCache(
            folder / "files",
            options.store_addresses or settings.admin_addresses,
            setup.token,
            timeout_s=options.download_timeout_s,
            max_bytes=options.max_package_mb * MIB,
            tls=_tls(setup.config),
        )
        self._environments = Environments(folder, options, setup.environment)
        self._pool = WorkerPool(
            self._make_worker, options.max_workers, int(options.idle_worker_s * 1000), _monotonic_ms
        )
        self._numbers = iter(range(1, 2**63))
        self._collect_ms = 0
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="xwheel-packages", daemon=True)

    def start(self) -> None:
        """Begin to look after what is kept."""
        self._thread.start()

    def close(self) -> None:
        """End all processes."""
        self._stopping.set()
        self._pool.close()
        if self._thread.ident is not None:
            self._thread.join(CLOSE_S)
        shutil.rmtree(self._work, ignore_errors=True)
        self._work.with_suffix(".lock").unlink(missing_ok=True)
        self._work_lock.release()

    def step(self, now_ms: int, now_s: float) -> None:
        """End processes that wait for long; once an hour, check and delete what no run used.

        Args:
            now_ms: Milliseconds that only rise.
            now_s: The time, as files have it.
        """
        self._pool.step(now_ms)
        if now_ms >= self._collect_ms:
            if not self._collect_ms:
                self._sweep_work()
                for sha256 in self._cache.check():
                    logger.warning("package %s was damaged on disk and is deleted", sha256)
            self._collect_ms = now_ms + COLLECT_MS
            days = self._options.env_keep_days
            count = self._environments.collect(now_s) + self._cache.collect(now_s, days)
            if count:
                logger.info("%d packages and environments were not used for %g days and are deleted", count, days)

    def prepare(self, reference: PackageReference, cancel: Cancel, write: Write) -> Environment:
        """Return the environment of a package, fetched and built if need be; the caller releases it.

        Raises:
            PackageRunError: It cannot be fetched or built, or has no such job.
        """
        self._check(reference)

        def fetch() -> Path:
            write(f"fetching {reference.file}\n")
            return self._cache.get(reference.package_id, reference.sha256, reference.file, cancel)

        environment = self._environments.open(reference.sha256, reference.file, fetch, cancel, write)
        try:
            environment.contents.find(reference)
        except BaseException:
            environment.release()
            raise
        return environment

    def make_ready(self, reference: PackageReference, cancel: Cancel, write: Write) -> None:
        """Prepare a package for a job, and import the job's module in a process that waits for its first run then.

        While there is no room for a process, or if the import takes long, the first run finds out what it is like.

        Raises:
            PackageRunError: It cannot be fetched or built; ``import_failed`` or ``no_such_job``.
        """
        self.prepare(reference, cancel, write).release()
        if not self._pool.has_room and not self._pool.idle:
            return
        worker = self.take(reference, cancel, write)
        keep = False
        limit_s = self._options.start_timeout_s
        end_s = time.monotonic() + limit_s
        order = {"confirm": [worker.order(worker.contents.find(reference))], "environment": {}}
        try:
            if not worker.is_started:
                worker.start()
            answer, keep = worker.run(order, write, limit_s)
        except PackageRunError:
            raise
        except ExecutorError as error:
            if time.monotonic() < end_s:
                raise permanent("import_failed", f"while {reference.group} was imported, {error}") from None
            return
        finally:
            self.give_back(worker, keep=keep)
        text, reason = str(answer.get("text", "")), str(answer.get("reason", ""))
        if answer.get("ok") is not True:
            raise permanent(reason or "import_failed", text)
        if text == "[null]":
            raise permanent("no_such_job", f"the package has no {reference.group}.{reference.name}")

    def take(self, reference: PackageReference, cancel: Cancel, write: Write) -> Worker:
        """Return a process of the package's environment, started or new, to be given back.

        Raises:
            PackageRunError: It cannot be fetched or built, or there is no room for a process.
        """
        self._check(reference)
        worker = self._pool.find(self._environments.key(reference.sha256, reference.file))
        if worker is not None:
            try:
                worker.contents.find(reference)
            except BaseException:
                self._pool.give_back(worker, keep=True)
                raise
            return worker
        environment = self.prepare(reference, cancel, write)
        try:
            return self._pool.add(environment, cancel)
        except BaseException:
            environment.release()
            raise

    def _check(self, reference: PackageReference) -> None:
        """Refuse a package that no one signed who is trusted here, if somebody has to."""
        try:
            self._trusted.check(reference.signature, reference.package, reference.version, reference.sha256)
        except SignatureError as error:
            raise permanent(error.reason, str(error).removeprefix(f"{error.reason}: ")) from None

    def give_back(self, worker: Worker, *, keep: bool) -> None:
        """Take a process back."""
        self._pool.give_back(worker, keep=keep)

    def _make_worker(self, environment: Environment) -> Worker:
        folder = self._work / str(next(self._numbers))
        return Worker(environment, folder, self._options, self._variables, self._sdk, self._supervisor)

    def _sweep_work(self) -> None:
        """Delete working directories of executors that are gone; those that live hold a lock each."""
        for lock_file in self._work.parent.glob("*.lock"):
            lock = try_take(lock_file)
            if lock is not None:
                with lock:
                    shutil.rmtree(lock_file.with_suffix(""), ignore_errors=True)
                    lock_file.unlink(missing_ok=True)

    def _loop(self) -> None:
        while not self._stopping.is_set():
            try:
                self.step(_monotonic_ms(), time.time())
            except Exception:  # the next step may do better
                logger.exception("packages are not looked after")
            self._stopping.wait(STEP_S)


class PackageRun:
    """One run of a job of a package.

    Args:
        find_host: Returns where it runs, once it does.
        reference: What it calls.
    """

    def __init__(self, find_host: Callable[[], PackageHost], reference: PackageReference) -> None:
        self._find_host = find_host
        self._reference = reference
        self._cancel = Cancel()
        self._lock = threading.Lock()
        self._worker: Worker | None = None
        self._round = -1

    def run(self, context: RunContext, write: Write) -> object:
        """Run it to its end, and return the result as text.

        Raises:
            ExecutorError: It failed; the message begins with a stable word where the job itself did not raise.
        """
        self._cancel.check()
        host = self._find_host()
        worker = host.take(self._reference, self._cancel, write)
        keep = False
        try:
            self._hold(worker)
            if not worker.is_started:
                worker.start()
            answer, keep = worker.run(self._order(context, worker), write)
        finally:
            self._hold(None)
            host.give_back(worker, keep=keep)
        text, reason = str(answer.get("text", "")), str(answer.get("reason", ""))
        if answer.get("ok") is not True:
            raise ExecutorError(f"{reason}: {text}" if reason else text)
        return text

    def end(self, round_number: int) -> None:
        """Make it end, each round harder."""
        self._cancel.set()
        with self._lock:
            self._round = max(self._round, round_number)
            if self._worker is not None:
                self._worker.end(round_number)

    def _hold(self, worker: Worker | None) -> None:
        with self._lock:
            self._worker = worker
            if worker is not None and self._round >= 0:
                raise transient("killed", "the run was asked to end")

    def _order(self, context: RunContext, worker: Worker) -> Mapping[str, Any]:
        job = worker.contents.find(self._reference)
        variables = {
            "XWHEEL_RUN_ID": context.run_id,
            "XWHEEL_JOB_ID": context.job_id,
            "XWHEEL_SHARD_INDEX": context.shard_index,
            "XWHEEL_SHARD_TOTAL": context.shard_total,
            "TRACEPARENT": getattr(context, "trace_parent", ""),
        }
        return {
            "job": worker.order(job),
            "name": job.name,
            "container": worker.contents.container,
            "param": context.param,
            "stored": context.job_param,
            "environment": {name: str(value) for name, value in variables.items()},
        }


def _sdk_folder(folder: Path) -> Path:
    """Return a folder that has the author's module and nothing else, for packages that do not bring it."""
    home = folder / "sdk"
    home.mkdir(mode=0o700, exist_ok=True)
    source = Path(xwheel_package.__file__)
    part = home / f".{os.getpid()}.part"
    part.write_bytes(source.read_bytes())
    part.replace(home / source.name)
    return home


def _tls(config: Config) -> tuple[str | bool, tuple[str, str] | None]:
    tls = config.tls
    certificate = None
    if tls.cert_file is not None and tls.key_file is not None:
        certificate = (str(tls.cert_file), str(tls.key_file))
    return str(tls.ca_file) if tls.ca_file is not None else True, certificate


def _monotonic_ms() -> int:
    return time.monotonic_ns() // 1_000_000
