"""Environments with pinned requirements: built once, used by many scripts, deleted when too many are unused.

Everything here happens in the process of a run, so a kill or a timeout ends a slow installation like a slow script.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from packaging.specifiers import SpecifierSet
from xwheel.plugin import ExecutorError

from xwheel_glue_script.options import Options
from xwheel_glue_script.requirements import Wanted

READY: Final = ".ready"
LAST_LINES: Final = 5
MAX_LINE: Final = 8192


def python_for(wanted: Wanted, folder: Path, options: Options) -> str:
    """Return the interpreter of an environment that has what a script wants; build it if it is not there.

    The script keeps a lock on it, so that no other run deletes the environment meanwhile.

    Raises:
        ExecutorError: It cannot be built; the last lines of pip are in the message, all of them in the run's log.
    """
    base = options.interpreters.get("GLUE_PYTHON", sys.executable)
    version = _version_of(base)
    if not SpecifierSet(wanted.python).contains(version, prereleases=True):
        raise ExecutorError(f"requires-python: the script wants {wanted.python}, {base} is Python {version}")
    if not wanted.requirements:
        return base
    parts = [base, version, *options.pip_args, "", *wanted.requirements]
    home = folder / hashlib.sha256("\n".join(parts).encode()).hexdigest()[:24]
    while True:
        lock = _lock(home, fcntl.LOCK_SH)
        if (home / READY).exists():
            os.utime(home / READY)
            os.set_inheritable(lock, True)
            return str(home / "bin" / "python")
        os.close(lock)
        lock = _lock(home, fcntl.LOCK_EX)
        try:
            if not (home / READY).exists():
                _build(home, base, wanted.requirements, options.pip_args)
                _evict(folder, options.environments)
        finally:
            os.close(lock)


def _version_of(base: str) -> str:
    if base == sys.executable:
        return "{}.{}.{}".format(*sys.version_info[:3])
    code = "import sys; print('%d.%d.%d' % sys.version_info[:3])"
    try:
        found = subprocess.run(  # noqa: S603 -- what the executor's settings name
            [base, "-c", code], capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError) as error:
        raise ExecutorError(f"GLUE_PYTHON: {base!r} does not run: {error}") from None
    return found.stdout.strip()


def _lock(home: Path, how: int) -> int:
    """Return a descriptor that holds the lock of an environment, of the file that is there now."""
    path = home.with_suffix(".lock")
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, how)
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(descriptor), path.stat()):
                    return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # deleted with its environment while we waited


def _build(home: Path, base: str, requirements: Sequence[str], pip_args: Sequence[str]) -> None:
    sys.stdout.write(f"building an environment with {', '.join(requirements)}\n")
    _remove(home)
    has_pip = importlib.util.find_spec("pip") is not None
    python = str(home / "bin" / "python")
    try:
        _run([base, "-m", "venv", *(["--without-pip"] if has_pip else []), str(home)], "the environment cannot be made")
        pip = [sys.executable, "-m", "pip", "--python", python] if has_pip else [python, "-m", "pip"]
        options = ["--disable-pip-version-check", "--no-input", "--no-color", "--progress-bar", "off"]
        _run([*pip, "install", *options, *pip_args, *requirements], "requirements cannot be installed")
        for path in (home / "bin").glob("[Aa]ctivate*"):
            path.unlink()  # for interactive shells; venv makes them readable for all
        (home / READY).touch()
    except BaseException:
        _remove(home)
        raise


def _run(command: Sequence[str], failure: str) -> None:
    """Run a program with its output in the log; if it fails, raise an error with its last lines."""
    last: deque[str] = deque(maxlen=LAST_LINES)
    with subprocess.Popen(  # noqa: S603 -- a vector, and requirements were parsed
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    ) as child:
        assert child.stdout is not None  # noqa: S101 -- asked for
        try:
            for line in _lines(child.stdout.readline):
                sys.stdout.write(line)
                sys.stdout.flush()
                if line.strip():
                    last.append(line.strip())
        except BaseException:
            child.kill()
            raise
    if child.returncode:
        raise ExecutorError(f"{failure} (status {child.returncode}): {' / '.join(last)}")


def _lines(readline: object) -> Iterator[str]:
    assert callable(readline)  # noqa: S101
    while line := readline(MAX_LINE):
        yield line


def _evict(folder: Path, keep: int) -> None:
    """Delete the environments that were not used for longest, but for those in use."""
    homes = [Path(entry.path) for entry in os.scandir(folder) if entry.is_dir(follow_symlinks=False)]
    homes.sort(key=_used)
    for home in homes[: max(0, len(homes) - keep)]:
        with contextlib.suppress(BlockingIOError):
            lock = _lock(home, fcntl.LOCK_EX | fcntl.LOCK_NB)
            try:
                _remove(home)
                home.with_suffix(".lock").unlink(missing_ok=True)
            finally:
                os.close(lock)


def _used(home: Path) -> float:
    with contextlib.suppress(OSError):
        return (home / READY).stat().st_mtime
    return 0.0


def _remove(home: Path) -> None:
    (home / READY).unlink(missing_ok=True)  # first, so that no other run uses a half-deleted one
    shutil.rmtree(home, ignore_errors=True)
