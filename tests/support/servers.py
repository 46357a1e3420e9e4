"""Real MariaDB and PostgreSQL servers out of Debian's packages, on free loopback ports, in folders of their own.

Their zone is not UTC, so that a time that leans on the server's zone is wrong in every test.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import psycopg
import pymysql

from tests.support.paths import ROOT
from tests.support.ports import free_port
from tests.support.server_homes import (
    as_user,
    become,
    find,
    folder,
    mariadb_data,
    owner,
    postgresql_data,
    postgresql_place,
)
from tests.support.small_disk import unshare

PASSWORD = secrets.token_hex(12)
RUNNING: dict[int, subprocess.Popen[bytes]] = {}
"""Servers of this process by port; a test that starts one again puts the new process here."""

ENVIRONMENTS: dict[int, Mapping[str, str]] = {}
"""What the servers' environments have next to our own, by port."""

SMALL_DISK = "tests.support.small_disk"
START_S = 60
STOP_S = 30


def is_installed(backend: str) -> bool:
    """Return whether a server's programs are there."""
    try:
        find("mariadbd", "/usr/sbin") if backend == "mariadb" else find("initdb", postgresql_place())
    except RuntimeError:
        return False
    return True


@contextlib.contextmanager
def mariadb(
    *,
    options: Sequence[str] = (),
    durable: bool = False,
    disk_mb: int = 0,
    environment: Mapping[str, str] | None = None,
) -> Iterator[str]:
    """Run a MariaDB server; give the server's URL, to which the name of a database belongs.

    Args:
        options: Further ones of mariadbd, such as ``--read-only``.
        durable: The disk has what is committed, as in a benchmark; else commits survive only the death of the server.
        disk_mb: Give its data directory a disk of its own, of this many megabytes: :func:`disk` tells where it is seen.
        environment: Variables of its own, also when it is started again.
    """
    with folder("mysql") as home:
        data, port = mariadb_data(home), free_port()
        with mariadb_at(home, data, port, options, durable=durable, disk_mb=disk_mb, environment=environment):
            yield f"mysql+pymysql://xwheel:{PASSWORD}@127.0.0.1:{port}/"


@contextlib.contextmanager
def mariadb_at(
    home: Path,
    data: Path,
    port: int,
    options: Sequence[str],
    *,
    durable: bool = False,
    disk_mb: int = 0,
    environment: Mapping[str, str] | None = None,
) -> Iterator[None]:
    """Run a MariaDB server on a data directory; takes what :func:`mariadb` does."""
    script = home / "init.sql"
    script.write_text(
        f"CREATE USER IF NOT EXISTS xwheel@'127.0.0.1' IDENTIFIED BY '{PASSWORD}';\n"
        "GRANT ALL ON *.* TO xwheel@'127.0.0.1' WITH GRANT OPTION;\n",
        encoding="utf-8",
    )
    shutil.chown(script, *owner("mysql"))
    command = [
        find("mariadbd", "/usr/sbin"),
        "--no-defaults",
        f"--datadir={data}",
        f"--port={port}",
        "--bind-address=127.0.0.1",
        f"--socket={home / 'socket'}",
        f"--tmpdir={home}",
        f"--init-file={script}",
        "--default-time-zone=+05:30",
        "--innodb-buffer-pool-size=64M",
        "--innodb-log-file-size=32M",
        "--performance-schema=OFF",
        "--skip-name-resolve",
        *([] if durable else ["--innodb-flush-log-at-trx-commit=2", "--innodb-flush-method=nosync"]),
        *as_user("mysql"),
        *options,
    ]
    with _server(_beside(data, disk_mb, command), home / "log", port, environment or {}):
        _log_in(port)
        yield


@contextlib.contextmanager
def postgresql(
    *,
    options: Mapping[str, str] | None = None,
    durable: bool = False,
    standby: bool = False,
    disk_mb: int = 0,
    environment: Mapping[str, str] | None = None,
) -> Iterator[str]:
    """Run a PostgreSQL server; give the server's URL, to which the name of a database belongs.

    Args:
        options: Further settings, such as ``default_transaction_read_only``.
        durable: The disk has what is committed, as in a benchmark; else commits survive only the death of the server.
        standby: It recovers for ever, as a replica whose primary is away.
        disk_mb: Give its data directory a disk of its own, of this many megabytes: :func:`disk` tells where it is seen.
        environment: Variables of its own, also when it is started again.
    """
    with folder("postgres") as home:
        data, port = postgresql_data(home, PASSWORD), free_port()
        if standby:
            (data / "standby.signal").touch()
        given = {"fsync": "on" if durable else "off", **(options or {})}
        with postgresql_at(home, data, port, given, disk_mb=disk_mb, environment=environment):
            yield f"postgresql+psycopg://xwheel:{PASSWORD}@127.0.0.1:{port}/"


@contextlib.contextmanager
def postgresql_at(
    home: Path,
    data: Path,
    port: int,
    options: Mapping[str, str],
    *,
    disk_mb: int = 0,
    environment: Mapping[str, str] | None = None,
) -> Iterator[None]:
    """Run a PostgreSQL server on a data directory; takes what :func:`postgresql` does."""
    settings = {
        "listen_addresses": "127.0.0.1",
        "port": str(port),
        "unix_socket_directories": str(home),
        "timezone": "Asia/Kolkata",
        "log_timezone": "UTC",
        "shared_buffers": "64MB",
        "max_connections": "200",
        **options,
    }
    words = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
    command = [*become("postgres"), find("postgres", postgresql_place()), "-D", str(data), *words]
    with _server(_beside(data, disk_mb, command), home / "log", port, environment or {}):
        _log_in_postgresql(port)
        yield


def disk(port: int) -> Path:
    """Return a server's small disk, as it is seen from outside."""
    process = RUNNING[port]
    words = [str(word) for word in process.args]  # type: ignore[union-attr]
    return Path(f"/proc/{process.pid}/root{words[words.index(SMALL_DISK) + 1]}")


def _beside(data: Path, disk_mb: int, command: list[str]) -> list[str]:
    """Return the command that gives a server's data directory a disk of its own, if it shall have one."""
    if not disk_mb:
        return command
    seed = data.rename(data.with_name("seed"))
    data.mkdir()
    # without holes: a server does not expect that a file's middle finds no room
    script = 'cp -a --sparse=never "$0/." "$1" && shift && exec "$@"'
    copy = ["/bin/sh", "-c", script, str(seed), str(data), *command]
    return unshare(str(data), disk_mb, copy, as_root=False)


@contextlib.contextmanager
def _server(command: Sequence[str], log: Path, port: int, environment: Mapping[str, str]) -> Iterator[None]:
    """Run a server until the block ends; it is told to stop by its pid, and killed if it does not."""
    with log.open("wb") as sink:
        process = subprocess.Popen(
            command, stdout=sink, stderr=sink, stdin=subprocess.DEVNULL, cwd=ROOT, env={**os.environ, **environment}
        )
        try:
            RUNNING[port], ENVIRONMENTS[port] = process, environment
            _wait(process, log, port)
            yield
        finally:
            stop(RUNNING.pop(port, process))
            ENVIRONMENTS.pop(port, None)


def stop(process: subprocess.Popen[bytes]) -> None:
    """End a server that we started."""
    # without waiting for its clients
    process.send_signal(signal.SIGINT if _is_postgresql(process) else signal.SIGTERM)
    try:
        process.wait(STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _is_postgresql(process: subprocess.Popen[bytes]) -> bool:
    return any(str(word).endswith("/postgres") for word in process.args)  # type: ignore[union-attr]


def start_again(port: int) -> None:
    """Start a server that was stopped, on the same data directory and port; it takes logins then."""
    old = RUNNING[port]
    process = subprocess.Popen(
        old.args,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        stdin=subprocess.DEVNULL,
        cwd=ROOT,
        env={**os.environ, **ENVIRONMENTS[port]},
    )
    RUNNING[port] = process
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            (_log_in_postgresql if _is_postgresql(process) else _log_in)(port)
            return
        time.sleep(0.05)
    raise RuntimeError(f"{process.args!r} did not start again")


def _wait(process: subprocess.Popen[bytes], log: Path, port: int) -> None:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            break
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.05)
    raise RuntimeError(f"{process.args!r} did not start:\n{log.read_text(errors='replace')[-3000:]}")


def _log_in(port: int) -> None:
    """Wait until the user is there: MariaDB listens before it reads its first statements."""
    deadline = time.monotonic() + START_S
    while True:
        try:
            pymysql.connect(host="127.0.0.1", port=port, user="xwheel", password=PASSWORD).close()
        except pymysql.err.OperationalError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
        else:
            return


def _log_in_postgresql(port: int) -> None:
    """Wait until logins are taken: PostgreSQL listens while it starts up."""
    deadline = time.monotonic() + START_S
    while True:
        try:
            psycopg.connect(host="127.0.0.1", port=port, user="xwheel", password=PASSWORD, dbname="postgres").close()
        except psycopg.OperationalError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
        else:
            return
