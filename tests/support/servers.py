"""Real MariaDB and PostgreSQL servers out of Debian's packages, on free loopback ports, in folders of their own.

Their zone is not UTC, so that a time that leans on the server's zone is wrong in every test.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pymysql

PASSWORD = secrets.token_hex(12)
START_S = 60
STOP_S = 30


def is_installed(backend: str) -> bool:
    """Tell whether a server's programs are there."""
    try:
        _find("mariadbd", "/usr/sbin") if backend == "mariadb" else _find("initdb", _postgresql_place())
    except RuntimeError:
        return False
    return True


def free_port() -> int:
    """Return a loopback port that nobody has at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def mariadb() -> Iterator[str]:
    """Run a MariaDB server; give the URL of an empty database without its name."""
    with _folder("mysql") as home:
        data, port = home / "data", free_port()
        _run(
            ["mariadb-install-db", "--no-defaults", f"--datadir={data}", *_user("mysql"), "--skip-test-db"],
            env={"TMPDIR": str(home)},
        )
        script = home / "init.sql"
        script.write_text(
            f"CREATE USER xwheel@'127.0.0.1' IDENTIFIED BY '{PASSWORD}';\n"
            "GRANT ALL ON *.* TO xwheel@'127.0.0.1' WITH GRANT OPTION;\n",
            encoding="utf-8",
        )
        shutil.chown(script, *_owner("mysql"))
        command = [
            _find("mariadbd", "/usr/sbin"),
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
            *_user("mysql"),
        ]
        with _server(command, home / "log", port):
            _log_in(port)
            yield f"mysql+pymysql://xwheel:{PASSWORD}@127.0.0.1:{port}/"


@contextlib.contextmanager
def postgresql() -> Iterator[str]:
    """Run a PostgreSQL server; give the URL of an empty database without its name."""
    with _folder("postgres") as home:
        data, port = home / "data", free_port()
        (home / "password").write_text(PASSWORD, encoding="utf-8")
        shutil.chown(home / "password", *_owner("postgres"))
        place = _postgresql_place()
        _run(
            [
                *_become("postgres"),
                _find("initdb", place),
                f"--pgdata={data}",
                "--username=xwheel",
                f"--pwfile={home / 'password'}",
                "--auth=scram-sha-256",
                "--encoding=UTF8",
                "--locale=C",
                "--no-sync",
            ]
        )
        options = {
            "listen_addresses": "127.0.0.1",
            "port": str(port),
            "unix_socket_directories": str(home),
            "timezone": "Asia/Kolkata",
            "log_timezone": "UTC",
            "shared_buffers": "64MB",
            "max_connections": "200",
        }
        settings = [word for name, value in options.items() for word in ("-c", f"{name}={value}")]
        command = [*_become("postgres"), _find("postgres", place), "-D", str(data), *settings]
        with _server(command, home / "log", port):
            yield f"postgresql+psycopg://xwheel:{PASSWORD}@127.0.0.1:{port}/"


@contextlib.contextmanager
def _server(command: Sequence[str], log: Path, port: int) -> Iterator[None]:
    """Run a server until the block ends; it is told to stop by its pid, and killed if it does not."""
    with log.open("wb") as sink:
        process = subprocess.Popen(command, stdout=sink, stderr=sink, stdin=subprocess.DEVNULL)
        try:
            _wait(process, log, port)
            yield
        finally:
            process.send_signal(signal.SIGINT if "postgres" in command else signal.SIGTERM)
            try:
                process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


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


@contextlib.contextmanager
def _folder(user: str) -> Iterator[Path]:
    # not below pytest's folder: its path is closed to others and too long for a socket
    home = Path(tempfile.mkdtemp(prefix="xw"))
    try:
        shutil.chown(home, *_owner(user))
        yield home
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _is_root() -> bool:
    return os.geteuid() == 0


def _owner(user: str) -> tuple[str, int]:
    name = user if _is_root() else pwd.getpwuid(os.geteuid()).pw_name
    return name, pwd.getpwnam(name).pw_gid


def _user(user: str) -> list[str]:
    return [f"--user={user}"] if _is_root() else []


def _become(user: str) -> list[str]:
    """PostgreSQL refuses to run as root; util-linux' setpriv execs, so the pid is the server's."""
    if not _is_root():
        return []
    return ["setpriv", f"--reuid={user}", f"--regid={_owner(user)[1]}", "--init-groups"]


def _postgresql_place() -> str:
    """Return where Debian keeps the newest version's programs; they are not on the path."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    return str(found[-1]) if found else ""


def _find(name: str, place: str) -> str:
    path = Path(place) / name
    found = str(path) if place and path.exists() else shutil.which(name)
    if not found:
        raise RuntimeError(f"{name} is not installed; .ci/run names the Debian package")
    return found


def _run(command: Sequence[str], env: dict[str, str] | None = None) -> None:
    done = subprocess.run(command, capture_output=True, env={**os.environ, **(env or {})}, check=False)
    if done.returncode:
        raise RuntimeError(
            f"{command[0]} failed: {(done.stdout + done.stderr).decode(errors='replace')[-3000:]}"
        )
