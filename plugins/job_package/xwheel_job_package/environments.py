"""One environment for each content of a package: built once, used by all its jobs, deleted when nothing uses it."""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import select
import shutil
import signal
import stat
import subprocess
import sys
import time
import zipfile
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import IO, Final

import msgspec

from xwheel_job_package.archive import BUNDLED, Limits
from xwheel_job_package.contents import (
    FORM,
    PackageContents,
    check_built,
    check_installed,
    installed_digests,
    read_contents,
)
from xwheel_job_package.failures import Cancel, PackageRunError, Write, permanent, transient
from xwheel_job_package.installation import Installer, Resolved, check_projects, hash_of, list_links, new_file
from xwheel_job_package.locks import AGAIN_S, HeldLock, try_take
from xwheel_job_package.node_options import NodeOptions

READY: Final = ".ready"
KEPT_LINES: Final = 200
SAID_LINES: Final = 5
MAX_LINE: Final = 8192
POLL_MS: Final = 100
DAY_S: Final = 86_400
COPY: Final = "import shutil, sys; shutil.copytree(sys.argv[1], sys.argv[2], dirs_exist_ok=True)"

MIB: Final = 1024 * 1024
ABOUT: Final = (
    "import sys, platform as p; print(sys.implementation.cache_tag, p.machine(), '%d.%d' % sys.version_info[:2])"
)


@dataclass(slots=True)
class Environment:
    """An environment that is there, and stays until :meth:`release`.

    Attributes:
        key: Names it: the package's file, and the interpreter.
        python: Its interpreter.
        site: The folder of its packages.
        contents: What the package's file says, and which jobs of it can be run here.
    """

    key: str
    python: Path
    site: Path
    contents: PackageContents
    lock: HeldLock

    def release(self) -> None:
        """Let it be collected, when it is not used any more."""
        self.lock.release()


@dataclass(slots=True)
class _Task:
    """One building: who waits for it, until when, and what the installer said last."""

    cancel: Cancel
    write: Write
    end_s: float = 0
    last: deque[str] = field(default_factory=lambda: deque(maxlen=KEPT_LINES))

    def say(self, line: str) -> None:
        self.last.append(line.rstrip("\n"))
        self.write(line if line.endswith("\n") else f"{line}\n")


class Environments:
    """The environments of a node. Thread-safety: any thread, and any process that shares the folder.

    Args:
        folder: Where they are, with a folder for wheels and one for the installer's cache next to them.
        options: The node's options.
        variables: The installer's environment.
        account: Ids of the user and the group that build; None for this process's own.
        installer: What installs; made of the options if it is left out.
        clock: Seconds that only rise.
    """

    def __init__(
        self,
        folder: Path,
        options: NodeOptions,
        variables: Mapping[str, str],
        *,
        account: tuple[int, int] | None = None,
        installer: Installer | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._folder = folder / "env"
        self._building = folder / "build"
        self._wheels = folder / "wheels"
        self._options = options
        self._variables = dict(variables)
        self._limits = Limits(unpacked_bytes=options.max_unpacked_mb * MIB, members=options.max_members)
        self._account = account
        self._installer = installer or Installer(options, folder / "installer", variables)
        self._clock = clock
        self._python = options.python or sys.executable
        self._about: tuple[str, str] | None = None
        self._failed: dict[str, tuple[float, PackageRunError]] = {}
        for path in (self._folder, self._building, self._wheels):
            path.mkdir(mode=0o700, parents=True, exist_ok=True)

    def key(self, sha256: str, file: str) -> str:
        """Return the name of a package's environment; the file's name counts, since it says how the file is read.

        So do the options that say of what it may be made: one of other options is another one.

        Raises:
            PackageRunError: The option ``python`` names no interpreter.
        """
        options = self._options
        made_of = (options.index, options.allow_sdist_build, options.wheelhouses)
        data = msgspec.json.encode((FORM, sha256, file, made_of))
        return f"{hashlib.sha256(data).hexdigest()[:32]}-{self._tag()}"

    def open(self, sha256: str, file: str, fetch: Callable[[], Path], cancel: Cancel, write: Write) -> Environment:
        """Return the environment of a package, which is built if it is not there.

        Args:
            sha256: Hash of the package's file.
            file: Its name.
            fetch: Returns that file, checked; called only for a building.
            cancel: Ends the waiting and the building.
            write: Takes what the installer prints.

        Raises:
            PackageRunError: ``env_build_failed``, ``sdist_not_allowed``, ``killed``, what is wrong with the file, or
                what ``fetch`` raises.
        """
        key = self.key(sha256, file)
        home, lock_file = self._folder / key, self._folder / f"{key}.lock"
        since_s = self._clock()
        while True:
            lock = try_take(lock_file, shared=True)
            if lock is not None:
                contents = _read(home / READY, sha256, file)
                if contents is not None:
                    os.utime(home / READY)
                    return Environment(key, home / "bin" / "python", self._site(home), contents, lock)
                lock.release()
            # not waited for: the one who built it meanwhile keeps it locked for as long as it is used
            lock = try_take(lock_file)
            if lock is None:
                cancel.pause(AGAIN_S)
                continue
            with lock:
                if _read(home / READY, sha256, file) is None:
                    self._build_once(key, since_s, (sha256, file), fetch, _Task(cancel, write))

    def collect(self, now_s: float) -> int:
        """Delete what no run used for the days of the setting, and what a crash left; return how many."""
        count = 0
        for home in [Path(entry.path) for entry in os.scandir(self._folder) if entry.is_dir(follow_symlinks=False)]:
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
                shutil.rmtree(self._building / home.name, ignore_errors=True)
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
        self, key: str, since_s: float, named: tuple[str, str], fetch: Callable[[], Path], task: _Task
    ) -> None:
        """Build, unless it failed while we waited for that; its lock is held."""
        known = self._failed.get(key)
        if known is not None and known[0] >= since_s:
            raise known[1]
        package = fetch()
        task.end_s = self._clock() + self._options.env_build_timeout_s
        home = self._folder / key
        log = self._folder / f"{key}.log"
        try:
            self._build(home, package, named, task)
        except BaseException as error:
            _remove(home)
            log.write_text("\n".join(task.last), "utf-8")
            if isinstance(error, PackageRunError) and not task.cancel.is_set:
                self._failed = {key: (self._clock(), error), **self._recent()}
            raise
        finally:
            shutil.rmtree(self._building / key, ignore_errors=True)
        log.unlink(missing_ok=True)

    def _recent(self) -> dict[str, tuple[float, PackageRunError]]:
        """Return failures that a waiting run may still want to know."""
        oldest_s = self._clock() - self._options.env_build_timeout_s - self._options.download_timeout_s
        return {key: item for key, item in self._failed.items() if item[0] >= oldest_s}

    def _build(self, home: Path, package: Path, named: tuple[str, str], task: _Task) -> None:
        """Build the environment of a package whose hash was compared."""
        sha256, file = named
        if file.endswith(".tar.gz") and not self._options.allow_sdist_build:
            raise permanent(
                "sdist_not_allowed",
                f"{file} is a source distribution, whose building runs its code: upload a wheel, or set "
                "plugins.options.job_package.node.allow_sdist_build",
            )
        contents = read_contents(package, file, sha256, self._limits)
        task.say(f"building an environment for {file}")
        _remove(home)
        work = self._make_folders(home)
        python = home / "bin" / "python"
        command = [self._python, "-m", "venv", "--without-pip", str(home)]
        self._run(command, "no environment can be made", work, task)
        for path in (home / "bin").glob("[Aa]ctivate*"):
            path.unlink()  # for interactive shells; venv makes them readable for all
        houses = self._unpack_wheels(package, contents)
        houses += [Path(item) for item in self._options.wheelhouses]
        has_sources = self._options.allow_sdist_build
        for line in list_links(houses, work / "links", with_sources=has_sources, account=self._account):
            task.say(line)
        built = self._build_source(python, package, contents, work, task) if contents.kind == "sdist" else None
        resolved = self._resolve(python, built or package, contents, work, task)
        if resolved.lines:
            lock = work / "resolved.txt"
            self._write(lock, resolved.lines)
            command = self._installer.install(python, lock, work / "links", is_local=resolved.is_local)
            self._run(command, "it cannot be installed", work, task)
        site = self._site(home)
        check_projects(site, resolved)
        if contents.kind == "zip":
            self._unpack_modules(python, package, site, work, task)
        contents = check_installed(contents, site, None if built is None else installed_digests(built))
        part = home / f"{READY}.part"
        part.unlink(missing_ok=True)
        with new_file(part, self._account) as ready:
            ready.write(msgspec.json.encode(contents))
        part.replace(home / READY)

    def _make_folders(self, home: Path) -> Path:
        """Make the folder of an environment, and return one for its building.

        The account that builds has what its programs write in. Where this process writes for them is its own, and lies
        in folders of its own, so that no link leads it elsewhere.
        """
        work = self._building / home.name
        shutil.rmtree(work, ignore_errors=True)
        for folder in (work, work / "links"):
            folder.mkdir(mode=0o700)
            if self._account is not None:
                folder.chmod(0o755)
        for folder in (home, *(work / name for name in ("built", "wheels", "tmp"))):
            folder.mkdir(mode=0o700)
            self._give(folder)
        return work

    def _build_source(self, python: Path, package: Path, contents: PackageContents, work: Path, task: _Task) -> Path:
        """Return the wheel of a source distribution; building runs its code, as the account that builds, in ``work``.

        Raises:
            PackageRunError: It cannot be built, or its wheel is of another project or version.
        """
        command = self._installer.build(python, package, work / "links", work / "built")
        self._run(command, "it cannot be built", work, task)
        wheels = list((work / "built").glob("*.whl"))
        if len(wheels) != 1:
            raise permanent("env_build_failed", f"building {package.name} made {len(wheels)} wheels, not one")
        facts = check_built(wheels[0])
        if (facts.project, facts.version) != (contents.project, contents.version):
            text = f"building {package.name} made {facts.project} {facts.version}"
            raise permanent("env_build_failed", text)
        return wheels[0]

    def _resolve(self, python: Path, package: Path, contents: PackageContents, work: Path, task: _Task) -> Resolved:
        """Return the wheels to install: the package's own, and those that it needs."""
        resolved = Resolved(is_named=self._installer.is_uv)
        is_wheel = package.suffix == ".whl"
        needs = check_built(package).requires if is_wheel else contents.dependencies
        if is_wheel and not needs:
            resolved.add_file(package)
        if not needs:
            return resolved
        lines = [resolved.place(contents.project, package)] if is_wheel else needs
        self._write(work / "wanted.txt", lines)
        command = self._installer.resolve(python, work / "wanted.txt", work / "links", work / "wheels")
        self._run(command, "it cannot be installed", work, task)
        return self._installer.read(work / "wheels", work / "links", package if is_wheel else None)

    def _write(self, path: Path, lines: Sequence[str]) -> None:
        with new_file(path, self._account) as file:
            file.write("".join(f"{line}\n" for line in lines).encode())

    def _give(self, path: Path) -> None:
        if self._account is not None:
            os.chown(path, *self._account, follow_symlinks=False)

    def _unpack_modules(self, python: Path, package: Path, site: Path, work: Path, task: _Task) -> None:
        """Put the modules of a plain archive into an environment, as the account that builds."""
        folder = work / "modules"
        folder.mkdir(mode=0o700)
        _copy_modules(package, folder)
        for home, _, files in os.walk(folder, topdown=False):  # a folder after all that is in it
            for path in (*(Path(home, name) for name in files), Path(home)):
                self._give(path)
        command = [str(python), "-I", "-c", COPY, str(folder), str(site)]
        self._run(command, "its modules cannot be copied", work, task)

    def _site(self, home: Path) -> Path:
        return home / "lib" / f"python{self._version()}" / "site-packages"

    def _unpack_wheels(self, package: Path, contents: PackageContents) -> list[Path]:
        """Put the wheels of a package next to those of others, each once by its hash; return their folders."""
        if contents.kind == "sdist":
            return []
        houses = []
        with zipfile.ZipFile(package) as archive:
            for name in filter(BUNDLED.fullmatch, archive.namelist()):
                data = archive.read(name)
                sha256 = hashlib.sha256(data).hexdigest()
                home = self._wheels / sha256
                path = home / PurePosixPath(name).name
                if not path.exists() or hash_of(path) != sha256:
                    home.mkdir(mode=0o700, exist_ok=True)
                    part = home / f".{os.getpid()}.part"
                    part.write_bytes(data)
                    part.replace(path)
                os.utime(home)
                if self._account is not None:
                    home.chmod(0o711)
                self._give(path)
                houses.append(home)
        return houses

    def _sweep_wheels(self, now_s: float) -> None:
        for home in self._wheels.iterdir():
            with contextlib.suppress(OSError):
                if home.stat().st_mtime < now_s - self._options.env_keep_days * DAY_S:
                    shutil.rmtree(home)

    def _run(self, command: Sequence[str], failure: str, work: Path, task: _Task) -> None:
        """Run a program with its output in the log, and its process group ended at the time limit.

        Raises:
            PackageRunError: It failed, took too long, or the run is to end.
        """
        user, group = self._account or (None, None)
        try:
            child = subprocess.Popen(  # noqa: S603 -- a vector, and names were checked
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env=self._installer.variables(work / "tmp"),
                cwd=work / "tmp",
                user=user,
                group=group,
                extra_groups=None if user is None else [],
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
                raise transient("env_build_failed", f"the building took longer than {limit:g} s (env_build_timeout_s)")
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
                        [self._python, "-I", "-c", ABOUT], capture_output=True, text=True, check=True, timeout=30
                    )
                except (OSError, subprocess.SubprocessError) as error:
                    raise permanent("env_build_failed", f"python: {self._python!r} does not run: {error}") from None
                tag, machine, version = found.stdout.split()
                self._about = (f"{tag}-{machine}", version)
        return self._about


def _copy_modules(package: Path, target: Path) -> None:
    """Unpack a plain archive; the store checked it, and what would leave the folder is refused here again."""
    with zipfile.ZipFile(package) as archive:
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


def _read(path: Path, sha256: str, file: str) -> PackageContents | None:
    """Return what is in an environment that is whole, and of that file."""
    try:
        found = msgspec.json.decode(path.read_bytes(), type=PackageContents)
    except (OSError, msgspec.MsgspecError):
        return None
    return found if (found.form, found.sha256, found.file) == (FORM, sha256, file) else None


def _remove(home: Path) -> None:
    (home / READY).unlink(missing_ok=True)  # first, so that no run uses a half-deleted one
    shutil.rmtree(home, ignore_errors=True)
