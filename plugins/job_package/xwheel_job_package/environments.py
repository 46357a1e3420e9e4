"""One environment for each content of a package: built once, used by all its jobs, deleted when nothing uses it."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import json
import os
import platform
import re
import select
import shutil
import signal
import stat
import subprocess
import sys
import tarfile
import time
import tomllib
import zipfile
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import IO, Any, Final

from xwheel_job_package.failures import Cancel, PackageRunError, Write, permanent, transient
from xwheel_job_package.locks import HeldLock, take, try_take
from xwheel_job_package.node_options import NodeOptions

READY: Final = ".ready"
KEPT_LINES: Final = 200
SAID_LINES: Final = 5
MAX_LINE: Final = 8192
POLL_MS: Final = 100
DAY_S: Final = 86_400
BUNDLED: Final = re.compile(r"wheels/([A-Za-z0-9_.!+-]+\.whl)")
MANIFEST: Final = "xwheel.toml"
ABOUT: Final = (
    "import sys, platform as p;"
    " print(sys.implementation.cache_tag, p.machine(), '%d.%d' % sys.version_info[:2])"
)


@dataclass(slots=True)
class Environment:
    """An environment that is there, and stays until :meth:`release`.

    Attributes:
        key: Names it: the package's content, and the interpreter.
        python: Its interpreter.
        factory: The bean factory that a plain archive names in its manifest; empty if it names none.
    """

    key: str
    python: Path
    factory: str
    lock: HeldLock

    def release(self) -> None:
        """Let it be collected, when it is not used any more."""
        self.lock.release()


@dataclass(frozen=True, slots=True)
class _Plan:
    """What an installer is to do.

    Attributes:
        wanted: Files and requirements.
        modules: The plain archive whose modules are copied; None for what an installer can read.
        factory: See :class:`Environment`.
    """

    wanted: Sequence[str]
    modules: Path | None = None
    factory: str = ""


@dataclass(slots=True)
class _Task:
    """One building: who waits for it, until when, and what the installer said last."""

    cancel: Cancel
    write: Write
    end_s: float
    last: deque[str] = field(default_factory=lambda: deque(maxlen=KEPT_LINES))

    def say(self, line: str) -> None:
        self.last.append(line.rstrip("\n"))
        self.write(line if line.endswith("\n") else f"{line}\n")


class Environments:
    """The environments of a node. Thread-safety: any thread, and any process that shares the folder.

    Args:
        folder: Where they are, with a folder for wheels and one for the installer's cache beside them.
        options: The node's options.
        variables: The installer's environment.
        clock: Seconds that only rise.
    """

    def __init__(
        self,
        folder: Path,
        options: NodeOptions,
        variables: Mapping[str, str],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._folder = folder / "env"
        self._wheels = folder / "wheels"
        self._cache = folder / "installer"
        self._options = options
        self._variables = dict(variables)
        self._clock = clock
        self._python = options.python or sys.executable
        self._about: tuple[str, str] | None = None
        self._failed: dict[str, tuple[float, PackageRunError]] = {}
        for path in (self._folder, self._wheels):
            path.mkdir(mode=0o700, parents=True, exist_ok=True)

    def key(self, sha256: str) -> str:
        """Return the name of a package's environment.

        Raises:
            PackageRunError: The option ``python`` names no interpreter.
        """
        return f"{sha256[:32]}-{self._tag()}"

    def open(self, sha256: str, fetch: Callable[[], Path], cancel: Cancel, write: Write) -> Environment:
        """Return the environment of a package, which is built if it is not there.

        Args:
            sha256: Hash of the package's file.
            fetch: Returns that file, checked; called only for a building.
            cancel: Ends the waiting and the building.
            write: Takes what the installer prints.

        Raises:
            PackageRunError: ``env_build_failed``, ``sdist_not_allowed``, ``killed``, or what ``fetch`` raises.
        """
        key = self.key(sha256)
        home, lock_file = self._folder / key, self._folder / f"{key}.lock"
        since_s = self._clock()
        while True:
            lock = take(lock_file, cancel, shared=True)
            try:
                ready = _read(home / READY)
                if ready is not None:
                    os.utime(home / READY)
                    return Environment(key, home / "bin" / "python", str(ready.get("factory", "")), lock)
            except BaseException:
                lock.release()
                raise
            lock.release()
            with take(lock_file, cancel):
                if not (home / READY).exists():
                    self._build_once(key, since_s, fetch, cancel, write)

    def collect(self, now_s: float) -> int:
        """Delete what no run used for the days of the setting, and what a crash left; return how many."""
        count = 0
        for home in [
            Path(entry.path) for entry in os.scandir(self._folder) if entry.is_dir(follow_symlinks=False)
        ]:
            with contextlib.suppress(FileNotFoundError):
                used_s = (home / READY).stat().st_mtime
                if used_s > now_s - self._options.env_keep_days * DAY_S:
                    continue
            lock_file = home.with_name(f"{home.name}.lock")
            lock = try_take(lock_file)
            if lock is None:
                continue  # in use, or being built
            with lock:
                _remove(home)
                home.with_name(f"{home.name}.log").unlink(missing_ok=True)
                lock_file.unlink(missing_ok=True)
                count += 1
        if count:
            self._sweep_wheels(now_s)
        return count

    def last_lines(self, key: str) -> list[str]:
        """Return the last lines of the installer for a building that failed."""
        path = self._folder / f"{key}.log"
        return path.read_text("utf-8").splitlines() if path.exists() else []

    # -- building -----------------------------------------------------------------------------------------

    def _build_once(
        self, key: str, since_s: float, fetch: Callable[[], Path], cancel: Cancel, write: Write
    ) -> None:
        """Build, unless it failed while we waited for that; its lock is held."""
        known = self._failed.get(key)
        if known is not None and known[0] >= since_s:
            raise known[1]
        package = fetch()
        task = _Task(cancel, write, self._clock() + self._options.env_build_timeout_s)
        home = self._folder / key
        log = self._folder / f"{key}.log"
        try:
            self._build(home, package, task)
        except BaseException as error:
            _remove(home)
            log.write_text("\n".join(task.last), "utf-8")
            if isinstance(error, PackageRunError) and not cancel.is_set:
                self._failed = {key: (self._clock(), error), **self._recent()}
            raise
        log.unlink(missing_ok=True)

    def _recent(self) -> dict[str, tuple[float, PackageRunError]]:
        """Return failures that a waiting run may still want to know."""
        oldest_s = self._clock() - self._options.env_build_timeout_s - self._options.download_timeout_s
        return {key: item for key, item in self._failed.items() if item[0] >= oldest_s}

    def _build(self, home: Path, package: Path, task: _Task) -> None:
        plan, bundled = self._plan(package)
        task.say(f"building an environment for {package.name}")
        _remove(home)
        self._run(
            [self._python, "-m", "venv", "--without-pip", str(home)], "no environment can be made", task
        )
        for path in (home / "bin").glob("[Aa]ctivate*"):
            path.unlink()  # for interactive shells; venv makes them readable for all
        houses = self._unpack_wheels(package, bundled) + list(self._options.wheelhouses)
        if plan.wanted:
            self._run(self._installation(home, plan.wanted, houses), "it cannot be installed", task)
        if plan.modules is not None:
            _copy_modules(plan.modules, home / "lib" / f"python{self._version()}" / "site-packages")
        about = json.dumps({"package": package.name, "factory": plan.factory}, sort_keys=True)
        (home / f"{READY}.part").write_text(about, "utf-8")
        (home / f"{READY}.part").replace(home / READY)

    def _plan(self, package: Path) -> tuple[_Plan, list[str]]:
        """Return what to install, and the names of the wheels that the package brings."""
        name = package.name
        if name.endswith(".whl"):
            with _opened(package) as archive:
                return _Plan([str(package)]), _bundled(archive)
        if name.endswith(".zip"):
            with _opened(package) as archive:
                wanted, factory = _read_manifest(archive)
                return _Plan(wanted, package, factory), _bundled(archive)
        if not self._options.allow_sdist_build:
            raise permanent(
                "sdist_not_allowed",
                f"{name} is a source distribution, whose building runs its code: upload a wheel, or set "
                "plugins.options.job_package.node.allow_sdist_build",
            )
        return _Plan([str(package)], factory=_factory_of_sdist(package)), []

    def _unpack_wheels(self, package: Path, names: Sequence[str]) -> list[str]:
        """Put the wheels of a package beside those of others, each once by its hash; return their folders."""
        houses = []
        for name in names:
            with _opened(package) as archive, archive.open(name) as source:
                data = source.read()
            home = self._wheels / hashlib.sha256(data).hexdigest()
            path = home / PurePosixPath(name).name
            if not path.exists():
                home.mkdir(mode=0o700, exist_ok=True)
                beside = home / f".{os.getpid()}.part"
                beside.write_bytes(data)
                beside.replace(path)
            os.utime(home)
            houses.append(str(home))
        return houses

    def _sweep_wheels(self, now_s: float) -> None:
        for home in self._wheels.iterdir():
            with contextlib.suppress(OSError):
                if home.stat().st_mtime < now_s - self._options.env_keep_days * DAY_S:
                    shutil.rmtree(home)

    def _installation(self, home: Path, wanted: Sequence[str], houses: Sequence[str]) -> list[str]:
        """Return the installer's command."""
        options, python = self._options, str(home / "bin" / "python")
        cache = str(self._cache / options.installer)
        if options.installer == "uv":
            command = ["uv", "pip", "install", "--python", python, "--no-progress", "--cache-dir", cache]
            command += ["--offline", "--no-config"] if options.index == "none" else []
            command += [] if options.allow_sdist_build else ["--no-build"]
        else:
            if importlib.util.find_spec("pip") is None:
                raise permanent(
                    "env_build_failed",
                    f"{sys.executable} has no pip: install it there, or set the option installer to uv",
                )
            command = [sys.executable, "-m", "pip", "--python", python]
            command += ["--isolated"] if options.index != "default" else []
            command += [
                "install",
                "--disable-pip-version-check",
                "--no-input",
                "--no-color",
                "--no-warn-script-location",
            ]
            command += ["--progress-bar", "off", "--cache-dir", cache]
            command += [] if options.allow_sdist_build else ["--only-binary", ":all:"]
        if options.index == "none":
            command += ["--no-index"]
        elif options.index != "default":
            command += ["--index-url", options.index]
        for house in houses:
            command += ["--find-links", house]
        return [*command, "--", *wanted]

    def _run(self, command: Sequence[str], failure: str, task: _Task) -> None:
        """Run a program with its output in the log, and its process group ended at the time limit.

        Raises:
            PackageRunError: It failed, took too long, or the run is to end.
        """
        try:
            child = subprocess.Popen(  # noqa: S603 -- a vector, and names were checked
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env=self._variables,
                cwd=self._folder,
            )
        except OSError as error:
            raise permanent("env_build_failed", f"{command[0]} does not start: {error}") from None
        assert child.stdout is not None  # noqa: S101 -- asked for
        with child:
            try:
                self._listen(child, child.stdout, task)
            finally:  # what the installer left goes, too
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(child.pid, signal.SIGKILL)
        if child.returncode:
            said = " / ".join([line.strip() for line in task.last if line.strip()][-SAID_LINES:])
            raise permanent("env_build_failed", f"{failure} (status {child.returncode}): {said}")

    def _listen(self, child: subprocess.Popen[bytes], output: IO[bytes], task: _Task) -> None:
        """Read what a program prints until it has ended."""
        poll = select.poll()
        poll.register(output.fileno(), select.POLLIN)
        rest = b""
        while True:
            task.cancel.check()
            if self._clock() > task.end_s:
                limit = self._options.env_build_timeout_s
                raise transient(
                    "env_build_failed", f"the building took longer than {limit:g} s (env_build_timeout_s)"
                )
            # not reaped by that, so that its number still means its group
            has_ended = os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
            data = os.read(output.fileno(), MAX_LINE) if poll.poll(0 if has_ended else POLL_MS) else b""
            *lines, rest = (rest + data).split(b"\n")
            if len(rest) > MAX_LINE or (has_ended and not data):
                lines, rest = [*lines, rest], b""
            for line in lines:
                if line:
                    task.say(line.decode("utf-8", "replace"))
            if has_ended and not data:
                return

    # -- the interpreter ----------------------------------------------------------------------------------

    def _tag(self) -> str:
        return self._ask()[0]

    def _version(self) -> str:
        return self._ask()[1]

    def _ask(self) -> tuple[str, str]:
        """Return what environments are told apart by, and the version as folders have it."""
        if self._about is None:
            if self._python == sys.executable:
                version = "{}.{}".format(*sys.version_info[:2])
                self._about = (f"{sys.implementation.cache_tag}-{platform.machine()}", version)
            else:
                try:
                    found = subprocess.run(  # noqa: S603 -- what the node's settings name
                        [self._python, "-I", "-c", ABOUT],
                        capture_output=True,
                        text=True,
                        check=True,
                        timeout=30,
                    )
                except (OSError, subprocess.SubprocessError) as error:
                    raise permanent(
                        "env_build_failed", f"python: {self._python!r} does not run: {error}"
                    ) from None
                tag, machine, version = found.stdout.split()
                self._about = (f"{tag}-{machine}", version)
        return self._about


def _opened(package: Path) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(package)
    except (zipfile.BadZipFile, OSError) as error:
        raise permanent("bad_archive", f"{package.name}: {error}") from None


def _bundled(archive: zipfile.ZipFile) -> list[str]:
    return [name for name in archive.namelist() if BUNDLED.fullmatch(name)]


def _factory_of_sdist(package: Path) -> str:
    try:
        with tarfile.open(package, "r:gz") as archive:
            for member in archive:
                if member.isfile() and PurePosixPath(member.name).parts[1:] == (MANIFEST,):
                    source = archive.extractfile(member)
                    return _parse_manifest(source.read())[1] if source is not None else ""
    except (tarfile.TarError, OSError, EOFError) as error:
        raise permanent("bad_archive", f"{package.name}: {error}") from None
    return ""


def _read_manifest(archive: zipfile.ZipFile) -> tuple[list[str], str]:
    """Return the requirements of a plain archive and its bean factory."""
    try:
        data = archive.read(MANIFEST)
    except KeyError:
        return [], ""
    return _parse_manifest(data)


def _parse_manifest(data: bytes) -> tuple[list[str], str]:
    try:
        found: dict[str, Any] = tomllib.loads(data.decode("utf-8"))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise permanent("bad_archive", f"{MANIFEST}: {error}") from None
    table = found.get("package", found)
    wanted, factory = table.get("dependencies", []), table.get("bean_factory", "")
    if not isinstance(wanted, list) or not all(
        isinstance(item, str) and item[:1].isalnum() for item in wanted
    ):
        raise permanent("bad_archive", f"{MANIFEST}: dependencies must be a list of requirements")
    return wanted, factory if isinstance(factory, str) else ""


def _copy_modules(package: Path, target: Path) -> None:
    """Unpack a plain archive; the store checked it, and what would leave the folder is refused here again."""
    with _opened(package) as archive:
        for info in archive.infolist():
            name = PurePosixPath(info.filename)
            is_safe = not (name.is_absolute() or ".." in name.parts or "\\" in info.filename)
            if not is_safe or stat.S_ISLNK(info.external_attr >> 16):
                raise permanent("bad_archive", f"unsafe member {info.filename!r}")
            if info.is_dir() or name.parts[:1] == ("wheels",):
                continue
            path = target.joinpath(*name.parts)
            path.parent.mkdir(parents=True, exist_ok=True)
            with archive.open(info) as source, path.open("wb") as file:
                shutil.copyfileobj(source, file)


def _read(path: Path) -> dict[str, Any] | None:
    try:
        found = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def _remove(home: Path) -> None:
    (home / READY).unlink(missing_ok=True)  # first, so that no run uses a half-deleted one
    shutil.rmtree(home, ignore_errors=True)
