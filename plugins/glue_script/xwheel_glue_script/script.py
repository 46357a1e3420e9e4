"""What happens in a run's own process before it becomes the script."""

from __future__ import annotations

import contextlib
import os
import pwd
import resource
import shutil
import stat
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from xwheel.plugin import ExecutorError, RunContext

from xwheel_glue_script.environments import python_for
from xwheel_glue_script.options import KINDS, Options
from xwheel_glue_script.requirements import read_requirements

SCRIPTS: Final = "gluesource"
ENVIRONMENTS: Final = "glueenv"
UNUSED_S: Final = 86_400
"""Scripts that did not run for this long are deleted when another one is written."""

MAX_ARGUMENT: Final = 128 * 1024 - 1
"""Bytes of one argument that Linux takes."""

MIB: Final = 1024 * 1024
RESOURCES: Final = {
    "memory_mb": (resource.RLIMIT_AS, MIB),
    "cpu_s": (resource.RLIMIT_CPU, 1),
    "file_mb": (resource.RLIMIT_FSIZE, MIB),
    "open_files": (resource.RLIMIT_NOFILE, 1),
    "processes": (resource.RLIMIT_NPROC, 1),
}


def prepare(context: RunContext, data: Mapping[str, Any]) -> list[str]:
    """Write the script, and return the program that runs it with XXL-JOB's arguments.

    Raises:
        ExecutorError: The interpreter, the account or a requirement is not there, or the parameter is no argument.
    """
    before = os.umask(
        0o077
    )  # nothing that is made here is for other accounts; the script itself gets the executor's umask
    try:
        return _prepare(context, data, Options.model_validate(data["options"]))
    finally:
        os.umask(before)


def _prepare(context: RunContext, data: Mapping[str, Any], options: Options) -> list[str]:
    name = data["glue_type"]
    kind = KINDS[name]
    source = data["source"].removeprefix("\ufeff")  # a byte-order mark, which hides the first line from who reads it
    if name == "GLUE_SHELL":
        source = source.replace("\r\n", "\n")
    parameter = _argument(context.param)
    account = _account(options.run_as)
    home = Path(options.directory)
    path = home / SCRIPTS / f"{data['job_id']}_{data['updated_ms']}{kind.suffix}"
    _make_folder(path.parent, account, own=False)
    _write(path, source, account)
    wanted = read_requirements(source) if name == "GLUE_PYTHON" else None
    if wanted is not None:
        _make_folder(home / ENVIRONMENTS, account, own=True)
    if account is not None:
        _let_pass(home)
        _become(account)
        if not os.access(path, os.R_OK):
            raise ExecutorError(
                f"plugins.options.glue_script.run_as: {account.pw_name!r} cannot reach {path.parent}: let it pass "
                "through the folders above (chmod o+x), or name another plugins.options.glue_script.directory"
            )
    if wanted is None:
        program = _find(name, options.interpreters.get(name, kind.program))
    else:
        program = python_for(wanted, home / ENVIRONMENTS, options)
    if kind.suffix == ".py":
        os.environ["PYTHONUNBUFFERED"] = "1"  # otherwise the log stays empty until the end
        os.environ["PYTHONIOENCODING"] = "utf-8:backslashreplace"
    _limit(options.limits.model_dump(exclude_none=True))
    return [program, str(path), parameter, str(context.shard_index), str(context.shard_total)]


def _argument(text: str) -> str:
    if "\0" in text:
        raise ExecutorError("the parameter holds a NUL character, which no program takes as an argument")
    size = len(os.fsencode(text))
    if size > MAX_ARGUMENT:
        raise ExecutorError(
            f"the parameter has {size} bytes, a program takes {MAX_ARGUMENT} as an argument: shorten it"
        )
    return text


def _find(name: str, program: str) -> str:
    found = shutil.which(program)
    if found is None:
        raise ExecutorError(
            f"{name}: there is no program {program!r} here: install it, or name another one in "
            f"plugins.options.glue_script.interpreters.{name}"
        )
    return found


def _account(name: str) -> pwd.struct_passwd | None:
    if not name:
        return None
    try:
        account = pwd.getpwnam(name)
    except KeyError:
        raise ExecutorError(f"plugins.options.glue_script.run_as: there is no account {name!r}") from None
    if account.pw_uid == os.geteuid():
        return None
    if os.geteuid() != 0:
        raise ExecutorError(
            f"plugins.options.glue_script.run_as: only root may run scripts as {name!r}; the executor runs as "
            f"user {os.geteuid()}"
        )
    return account


def _make_folder(folder: Path, account: pwd.struct_passwd | None, *, own: bool) -> None:
    """Make a folder for the executor's account, or one that the scripts' account owns or may pass through."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if account is not None and own:
        os.chown(folder, account.pw_uid, account.pw_gid)
    elif account is not None:
        folder.chmod(0o711)


def _let_pass(home: Path) -> None:
    """Let the scripts' account pass through our private folder, without a right to list it."""
    mode = stat.S_IMODE(home.stat().st_mode)
    if not mode & stat.S_IXOTH:
        home.chmod(mode | stat.S_IXGRP | stat.S_IXOTH)


def _write(path: Path, source: str, account: pwd.struct_passwd | None) -> None:
    """Write a script unless it is there; other runs may be reading it now."""
    data = source.encode("utf-8", "surrogatepass")
    with contextlib.suppress(OSError):
        if path.read_bytes() == data and (account is None or path.stat().st_uid == account.pw_uid):
            os.utime(path)
            return
    part = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        if account is not None:
            os.fchown(file.fileno(), account.pw_uid, account.pw_gid)
    part.replace(path)
    _sweep(path.parent)


def _sweep(folder: Path) -> None:
    before = time.time() - UNUSED_S
    for path in folder.iterdir():
        with contextlib.suppress(OSError):
            if path.lstat().st_mtime < before:
                path.unlink()


def _become(account: pwd.struct_passwd) -> None:
    """Give up every right of the executor's account: groups first, then real, effective and saved ids."""
    os.setgroups(os.getgrouplist(account.pw_name, account.pw_gid))
    os.setresgid(account.pw_gid, account.pw_gid, account.pw_gid)
    os.setresuid(account.pw_uid, account.pw_uid, account.pw_uid)
    os.environ.update(HOME=account.pw_dir, USER=account.pw_name, LOGNAME=account.pw_name)


def _limit(limits: Mapping[str, int]) -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for name, number in limits.items():
        which, unit = RESOURCES[name]
        wanted = number * unit
        _, most = resource.getrlimit(which)
        if most != resource.RLIM_INFINITY:
            wanted = min(wanted, most)
        resource.setrlimit(which, (wanted, wanted))
