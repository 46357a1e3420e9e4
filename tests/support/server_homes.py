"""Data directories of database servers: made once, copied for each server, removed with it."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import pwd
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

# outlives a run on purpose: making a data directory takes seconds, copying it a fraction of one
TEMPLATES = Path(__file__).resolve().parents[2] / ".cache" / "servers"


@contextlib.contextmanager
def folder(user: str) -> Iterator[Path]:
    """Give a folder that a server's user owns, until the block ends."""
    # not below pytest's folder: its path is closed to others and too long for a socket
    home = Path(tempfile.mkdtemp(prefix="xw"))
    try:
        shutil.chown(home, *owner(user))
        yield home
    finally:
        shutil.rmtree(home, ignore_errors=True)


def mariadb_data(home: Path) -> Path:
    """Make the data directory of a MariaDB server in its home."""
    return _copy(home, "mysql", find("mariadbd", "/usr/sbin"), _install_mariadb)


def postgresql_data(home: Path, password: str) -> Path:
    """Make the data directory of a PostgreSQL server in its home, for the user ``xwheel``."""
    place = postgresql_place()
    data = _copy(home, "postgres", find("initdb", place), _install_postgresql)
    # the only way in without a password
    command = [*become("postgres"), find("postgres", place), "--single", "-F", "-D", str(data), "postgres"]
    run(command, said=f"ALTER ROLE xwheel PASSWORD '{password}'\n")
    return data


def _copy(home: Path, user: str, program: str, install: Callable[[Path], None]) -> Path:
    about = Path(program).stat()
    facts = f"{program} {about.st_size} {about.st_mtime_ns} {os.geteuid()} {Path(__file__).read_text()}"
    template = TEMPLATES / f"{user}-{hashlib.sha256(facts.encode()).hexdigest()[:16]}"
    TEMPLATES.mkdir(parents=True, exist_ok=True)
    with (TEMPLATES / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not template.exists():
            with folder(user) as place:
                install(place)
                half = template.with_suffix(".half")  # an interrupted copy is no template
                shutil.rmtree(half, ignore_errors=True)
                shutil.copytree(place / "data", half)
                half.rename(template)
    data = home / "data"
    shutil.copytree(template, data)
    for path in (data, *data.rglob("*")):
        shutil.chown(path, *owner(user))
    return data


def _install_mariadb(home: Path) -> None:
    run(
        [
            "mariadb-install-db",
            "--no-defaults",
            f"--datadir={home / 'data'}",
            *as_user("mysql"),
            "--skip-test-db",
            "--innodb-log-file-size=32M",
            "--innodb-flush-method=nosync",
        ],
        env={"TMPDIR": str(home)},
    )


def _install_postgresql(home: Path) -> None:
    (home / "password").write_text(secrets.token_hex(12), encoding="utf-8")
    shutil.chown(home / "password", *owner("postgres"))
    run(
        [
            *become("postgres"),
            find("initdb", postgresql_place()),
            f"--pgdata={home / 'data'}",
            "--username=xwheel",
            f"--pwfile={home / 'password'}",
            "--auth=scram-sha-256",
            "--encoding=UTF8",
            "--locale=C",
            "--no-sync",
        ]
    )


def _is_root() -> bool:
    return os.geteuid() == 0


def owner(user: str) -> tuple[str, int]:
    """Return who owns a server's files: its user where we are root, else ourselves."""
    name = user if _is_root() else pwd.getpwuid(os.geteuid()).pw_name
    return name, pwd.getpwnam(name).pw_gid


def as_user(user: str) -> list[str]:
    """Return the option that makes MariaDB's programs give up root."""
    return [f"--user={user}"] if _is_root() else []


def become(user: str) -> list[str]:
    """PostgreSQL refuses to run as root; util-linux' setpriv execs, so the pid is the server's."""
    if not _is_root():
        return []
    return ["setpriv", f"--reuid={user}", f"--regid={owner(user)[1]}", "--init-groups"]


def postgresql_place() -> str:
    """Return where Debian keeps the newest version's programs; they are not on the path."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    return str(found[-1]) if found else ""


def find(name: str, place: str) -> str:
    """Return a program's path.

    Raises:
        RuntimeError: It is not installed.
    """
    path = Path(place) / name
    found = str(path) if place and path.exists() else shutil.which(name)
    if not found:
        raise RuntimeError(f"{name} is not installed; .ci/run or CONTRIBUTING.md names its Debian package")
    return found


def run(command: Sequence[str], env: dict[str, str] | None = None, said: str = "") -> None:
    """Run a program to its end.

    Raises:
        RuntimeError: It failed; the message ends with what it printed.
    """
    done = subprocess.run(
        command, capture_output=True, input=said.encode(), env={**os.environ, **(env or {})}, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{command[0]} failed: {(done.stdout + done.stderr).decode(errors='replace')[-3000:]}")
