"""The second scan of a package, at its upload: a process imports the modules in which the first one found jobs.

It runs as another account, with limits, in an environment of its own that is deleted afterwards. That keeps the
scheduler alive and its files as they are. Against malice it is no sandbox: who may upload may run code.
"""

from __future__ import annotations

import logging
import os
import pwd
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

import msgspec
from xwheel.executor import SUPERVISOR
from xwheel.plugin import ConfigError, ExecutorError, RouteRefusedError

import xwheel_package
from xwheel_job_package import pip_guard, runner
from xwheel_job_package.archive import Archive
from xwheel_job_package.environments import Environments
from xwheel_job_package.failures import Cancel, PackageRunError, permanent
from xwheel_job_package.installation import Installer, find_pip
from xwheel_job_package.node_options import NodeOptions, WorkerLimits
from xwheel_job_package.report import FoundJob, PackageError, Problem, ScanReport
from xwheel_job_package.scan import modules_of, with_values
from xwheel_job_package.store_options import StoreOptions
from xwheel_job_package.workers import FORCED_ROUND, Worker

_log = logging.getLogger(__name__)

MOST_TEXT: Final = 500
AT_ONCE: Final = 16
"""Jobs of one question; what a process says of them stays below its longest answer."""

PAUSE_S: Final = 0.005

FILE_MB: Final = 16
OPEN_FILES: Final = 256
REAP_S: Final = 15.0
"""How long the end of a process that was killed may take."""

_OPTION: Final = "plugins.options.job_package.store"
_Said = Sequence[Mapping[str, str] | None]


class ImportScan:
    """Imports packages that are uploaded, one package at a time.

    Thread-safety: any thread.

    Args:
        options: The store's options.

    Raises:
        ConfigError: This process may not run anything as the account of the options, or there is no such account.
    """

    def __init__(self, options: StoreOptions) -> None:
        self._options = options
        self._account = _account(options.scan_user)
        self._turn = threading.Lock()

    def confirm(self, archive: Archive, package: Path, sha256: str, report: ScanReport) -> ScanReport:
        """Return a report with what the import said: values that only it knows, and what failed.

        Args:
            archive: The package, checked.
            package: Its file, under any name.
            sha256: Of the file.
            report: What the source says.

        Raises:
            PackageError: ``scan_timeout`` or ``scan_memory``.
            RouteRefusedError: Other packages are being imported for too long.
        """
        modules = _by_module(archive, report)
        with self._in_turn(), _folder() as folder:
            bench = _Bench(folder, self._options, self._account)
            try:
                bench.build(package, archive.info.file, sha256)
                said = _import_all(bench, modules)
            except PackageRunError as error:
                return replace(report, unconfirmed=str(error)[:MOST_TEXT])
        return _merged(report, modules, said)

    @contextmanager
    def _in_turn(self) -> Iterator[None]:
        limit_s = self._options.scan_build_timeout_s + self._options.scan_timeout_s
        if not self._turn.acquire(timeout=limit_s):
            text = f"other packages were being imported for {limit_s:g} s: upload it again"
            raise RouteRefusedError(503, "scan_busy", text)
        try:
            yield
        finally:
            self._turn.release()


@contextmanager
def _folder() -> Iterator[Path]:
    """Give a folder for what the account runs, and delete it.

    Not ``TemporaryDirectory``, which followed links while it deleted, up to Python 3.11.7 (CVE-2023-6597).
    """
    folder = Path(tempfile.mkdtemp(prefix="xwheel-scan-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if folder.exists():
            _log.warning("%s cannot be deleted", folder)


class _Bench:
    """The folder of one scan: an environment, the files that its processes need, and their working directories."""

    def __init__(self, folder: Path, options: StoreOptions, account: tuple[int, int]) -> None:
        self.timeout_s = options.scan_timeout_s
        self._folder = folder
        self._account = account
        limits = WorkerLimits(memory_mb=options.scan_memory_mb, file_mb=FILE_MB, open_files=OPEN_FILES)
        self._options = NodeOptions(
            python=options.scan_python,
            index=options.scan_index,
            wheelhouses=options.scan_wheelhouses,
            env_build_timeout_s=options.scan_build_timeout_s,
            max_unpacked_mb=options.max_unpacked_mb,
            max_members=options.max_members,
            limits=limits,
        )
        self._variables = {"PATH": os.defpath, "HOME": str(folder), "TMPDIR": str(folder)}
        folder.chmod(0o711)
        for name in ("env", "build", "wheels", "installer"):
            (folder / name).mkdir()
            (folder / name).chmod(0o711)
        os.chown(folder / "installer", *account)
        installer = Installer(
            self._options,
            folder / "installer",
            self._variables,
            guard=self._lend(Path(pip_guard.__file__)),
            pip=self._lend_pip(),
        )
        self._environments = Environments(folder, self._options, self._variables, account=account, installer=installer)
        self._key = self._name = ""
        self._count = 0

    def build(self, package: Path, name: str, sha256: str) -> None:
        """Make the environment, and let the account read what it needs.

        Raises:
            PackageRunError: The environment cannot be built.
        """
        self._key, self._name = sha256, name
        (self._folder / "package").mkdir(mode=0o700)
        named = self._folder / "package" / name
        shutil.copyfile(package, named)  # no second name of the store's own file, which would be given away
        _give(named.parent, *self._account)
        # as the account: not even an installer does anything here with the rights of the scheduler
        self._environments.open(sha256, name, lambda: named, Cancel(), lambda _: None).release()
        for home in (self._folder / "env").glob("*/"):
            _give(home, *self._account)
        for source in (Path(runner.__file__), SUPERVISOR, Path(xwheel_package.__file__)):
            self._lend(source)

    def _lend(self, source: Path) -> Path:
        """Return a copy of a file that the account can read."""
        folder = self._folder / source.stem
        folder.mkdir()
        (folder / source.name).write_bytes(source.read_bytes())
        _give(folder, *self._account)
        return folder / source.name

    def _lend_pip(self) -> Path:
        """Return a folder with a pip that the account can read.

        Raises:
            PackageRunError: There is no pip.
        """
        folder = self._folder / "pip"
        shutil.copytree(find_pip() / "pip", folder / "pip", ignore=shutil.ignore_patterns("__pycache__"))
        _give(folder, *self._account)
        return folder

    def start(self) -> Worker:
        """Return a process that imports.

        Raises:
            PackageRunError: It does not start.
        """

        def missing() -> Path:
            raise permanent("env_build_failed", "its environment is gone: what was imported has changed it")

        self._count += 1
        worker = Worker(
            self._environments.open(self._key, self._name, missing, Cancel(), lambda _: None),
            self._folder / f"work{self._count}",
            self._options,
            self._variables,
            self._folder / Path(xwheel_package.__file__).stem,
            self._folder / SUPERVISOR.stem / SUPERVISOR.name,
            program=self._folder / Path(runner.__file__).stem / Path(runner.__file__).name,
            account=self._account,
            cpu_s=int(self.timeout_s) + 1,
        )
        try:
            worker.start()
        except BaseException:
            _end(worker)
            raise
        return worker


def _import_all(bench: _Bench, modules: Mapping[str, Sequence[FoundJob]]) -> dict[str, _Said | str]:
    """Return what each module says of its jobs, or why it cannot be imported.

    Raises:
        PackageError: ``scan_timeout`` or ``scan_memory``.
        PackageRunError: No process starts.
    """
    found: dict[str, _Said | str] = {}
    end_s = time.monotonic() + bench.timeout_s
    worker: Worker | None = None
    try:
        for module, jobs in modules.items():
            worker = worker or bench.start()
            said = _ask_all(worker, jobs, end_s)
            if said is None:
                if time.monotonic() >= end_s:
                    raise PackageError(
                        "scan_timeout",
                        f"importing module {module} and those before it took longer than {bench.timeout_s:g} s "
                        "(scan_timeout_s): a module must not wait or compute while it is imported",
                        file=jobs[0].file,
                    )
                said = f"the process {worker.end_in_words()} while it was imported"
                _end(worker)
                worker = None
            found[module] = said
    finally:
        if worker is not None:
            _end(worker)
    return found


def _ask_all(worker: Worker, jobs: Sequence[FoundJob], end_s: float) -> _Said | str | None:
    """Return what a module says of its jobs, why it cannot be imported, or None if the process is gone.

    Raises:
        PackageError: ``scan_memory``.
    """
    found: list[Mapping[str, str] | None] = []
    for first in range(0, len(jobs), AT_ONCE):
        some = jobs[first : first + AT_ONCE]
        wanted = [worker.order(worker.contents.job(job.group, job.name)) for job in some]
        order = {"confirm": wanted, "environment": {}}
        try:
            answer, keep = worker.run(order, lambda _: None, max(0.0, end_s - time.monotonic()))
        except ExecutorError:
            return None
        text = str(answer.get("text", ""))
        if answer.get("reason") == "out_of_memory":
            raise PackageError(
                "scan_memory",
                "importing it takes more memory than scan_memory_mb allows: load large things when a job runs",
                file=some[0].file,
            )
        if answer.get("ok") is not True or not keep:
            return text[:MOST_TEXT] or "it ended without a word"
        said = _parsed(text)
        if said is None or len(said) != len(some):
            return "what its process answered cannot be read"
        found += said
    return found


def _parsed(text: str) -> list[dict[str, str] | None] | None:
    """Return an answer if it has the form that one has; the package's own code could write anything."""
    try:
        return msgspec.json.decode(text, type=list[dict[str, str] | None])
    except msgspec.MsgspecError:
        return None


def _merged(
    report: ScanReport, modules: Mapping[str, Sequence[FoundJob]], said: Mapping[str, _Said | str]
) -> ScanReport:
    """Return a report without the jobs of modules that failed, and with the values that the others told."""
    jobs: list[FoundJob] = []
    problems: list[Problem] = list(report.problems)
    for module, found in modules.items():
        told = said[module]
        if isinstance(told, str):
            text = f"module {module} cannot be imported: {told}"
            problems.append(Problem(reason="import_failed", text=text, file=found[0].file))
            continue
        for job, values in zip(found, told, strict=True):
            if values is None:
                text = f"{job.group}.{job.name} is not there once the module is imported"
                problems.append(Problem(reason="no_such_job", text=text, file=job.file, line=job.line))
            elif job.unresolved and values:
                jobs.append(with_values(job, {**_static(job), **values}, problems))
            else:
                jobs.append(job)
    jobs.sort(key=lambda job: (job.group, job.name, job.line))
    return replace(
        report, jobs=jobs, problems=problems, confirmed=all(not isinstance(told, str) for told in said.values())
    )


def _static(job: FoundJob) -> dict[str, str]:
    return {"cron": job.cron, "misfire": job.misfire, "time_zone": job.time_zone}


def _by_module(archive: Archive, report: ScanReport) -> dict[str, list[FoundJob]]:
    """Return the jobs of each module that has any."""
    names = {path: module for module, path in modules_of(archive).items()}
    found: dict[str, list[FoundJob]] = {}
    for job in report.jobs:
        found.setdefault(names[job.file], []).append(job)
    return found


def _end(worker: Worker) -> None:
    """Kill a process and all that it started, and wait until they are gone."""
    for round_number in (1, FORCED_ROUND):
        worker.end(round_number)
        end_s = time.monotonic() + REAP_S
        while time.monotonic() < end_s:
            if worker.reap():
                return
            time.sleep(PAUSE_S)
    _log.error("process %d, which imported a package, does not end", worker.pid)


def _give(folder: Path, user: int, group: int) -> None:
    """Let an account have a folder with all that is in it; nothing of the account's has run in there yet."""
    for home, _, files in os.walk(folder):
        for path in (Path(home), *(Path(home, name) for name in files)):
            os.chown(path, user, group, follow_symlinks=False)


def _account(name: str) -> tuple[int, int]:
    if os.geteuid():
        raise ConfigError(
            f"{_OPTION}.scan_confirm: console needs a scheduler that runs as root, since packages are imported as "
            f"{name!r} (scan_user); with node they are imported where they run"
        )
    try:
        found = pwd.getpwnam(name)
    except KeyError:
        raise ConfigError(f"{_OPTION}.scan_user: there is no account {name!r}") from None
    if not found.pw_uid:
        raise ConfigError(f"{_OPTION}.scan_user: {name!r} is root; name an account that may do nothing else")
    return found.pw_uid, found.pw_gid
