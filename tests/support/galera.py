"""A Galera cluster of three MariaDB members on this machine, of which one at a time can be lost and comes back."""

from __future__ import annotations

import contextlib
import shutil
import signal
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import pymysql

from tests.support import servers
from tests.support.executors import wait_until
from tests.support.ports import free_port
from tests.support.server_homes import folder, mariadb_data
from xwheel.storage.database import address

PROVIDER: Final = "/usr/lib/galera/libgalera_smm.so"
MEMBERS: Final = 3
# a member that is silent is left out after two seconds
SPEED: Final = (
    "evs.keepalive_period=PT0.3S;evs.suspect_timeout=PT1S;evs.inactive_check_period=PT0.3S;"
    "evs.inactive_timeout=PT2S;evs.install_timeout=PT1.5S;gcache.size=16M"
)


class Galera:
    """Three members. Use it as a context.

    Attributes:
        ports: Of all members.

    Args:
        environment: Variables of the members.
    """

    known: Final[dict[int, Galera]] = {}
    """Clusters of this process, by each of their ports."""

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        self.ports = tuple(free_port() for _ in range(MEMBERS))
        self._groups = {port: free_port() for port in self.ports}
        self._environment = environment or {}
        self._homes: dict[int, Path] = {}
        self._running = {port: ExitStack() for port in self.ports}
        self._stack = ExitStack()
        self._away: tuple[int, str] | None = None

    @classmethod
    def of(cls, url: str) -> Galera:
        """Return the cluster of a database's URL."""
        return cls.known[address.servers_of(address.parse(url))[0][1]]

    @property
    def url(self) -> str:
        """All members, to which the name of a database belongs."""
        places = ",".join(f"127.0.0.1:{port}" for port in self.ports)
        return f"mysql+pymysql://xwheel:{servers.PASSWORD}@{places}/"

    def url_of(self, port: int) -> str:
        """One member alone."""
        return f"mysql+pymysql://xwheel:{servers.PASSWORD}@127.0.0.1:{port}/"

    def __enter__(self) -> Galera:
        try:
            for number, port in enumerate(self.ports):
                self._homes[port] = self._stack.enter_context(folder("mysql"))
                self.known[port] = self
                self._run(port, is_first=number == 0)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for port, stack in self._running.items():
            stack.close()
            self.known.pop(port, None)
        self._stack.close()

    def lose(self, port: int, how: str) -> None:
        """Let the others be without a member, unless they are already without one.

        ``how`` is kill; stop, in good order; isolate, cut off from the others, so that it has no quorum; freeze; or
        copy, a kill after which it has lost its data and gets a copy of another member's.
        """
        if self._away is not None:
            return
        self._away = (port, how)
        match how:
            case "isolate":
                self.ask(port, "SET GLOBAL wsrep_provider_options = 'gmcast.isolate=1'")
            case "freeze":
                servers.RUNNING[port].send_signal(signal.SIGSTOP)
            case _:
                if how != "stop":
                    process = servers.RUNNING[port]
                    process.kill()
                    process.wait()
                self._running[port].close()

    def regain(self, port: int) -> None:
        """Let the member be one again: all three count each other then, and take statements."""
        if self._away is None or self._away[0] != port:
            return
        _, how = self._away
        try:
            match how:
                case "isolate":
                    self.ask(port, "SET GLOBAL wsrep_provider_options = 'gmcast.isolate=0'")
                case "freeze":
                    servers.RUNNING[port].send_signal(signal.SIGCONT)
                case _:
                    self._wait_without(port)
                    if how == "copy":
                        shutil.rmtree(self._homes[port] / "data")
                    self._run(port)
            for number in self.ports:
                self.wait(number, MEMBERS)
        finally:
            self._away = None

    def _wait_without(self, port: int) -> None:
        """Wait until the others know that a member is gone: it joins a cluster that has forgotten it."""
        other = next(number for number in self.ports if number != port)
        wait_until(lambda: self._size_at(other) == MEMBERS - 1)

    def wait(self, port: int, size: int = 1) -> None:
        """Wait until a member takes statements and is one of so many at least."""
        wait_until(lambda: self._size_at(port) >= size)

    def _size_at(self, port: int) -> int:
        """Return how many members a member counts, once it has what they have; 0 before."""
        with contextlib.suppress(pymysql.Error):
            # it answers from the view that it had: a read waits until that is the cluster's
            self.ask(port, "SET STATEMENT wsrep_sync_wait = 1 FOR SELECT COUNT(*) FROM mysql.user")
            found = dict(self.ask(port, "SHOW STATUS LIKE 'wsrep_%'"))
            if found["wsrep_local_state_comment"] == "Synced":
                return int(found["wsrep_cluster_size"])
        return 0

    def ask(self, port: int, statement: str) -> Any:
        """Run a statement at one member, each in a transaction of its own; return its rows."""
        login = {"host": "127.0.0.1", "port": port, "user": "xwheel", "password": servers.PASSWORD}
        with pymysql.connect(**login, autocommit=True) as conn, conn.cursor() as cursor:  # type: ignore[call-overload]
            cursor.execute(statement)
            return cursor.fetchall()

    def _run(self, port: int, *, is_first: bool = False) -> None:
        home = self._homes[port]
        data = home / "data" if (home / "data").exists() else mariadb_data(home)
        others = ",".join(f"127.0.0.1:{group}" for group in self._groups.values())
        group = self._groups[port]
        more = f"gmcast.listen_addr=tcp://127.0.0.1:{group};ist.recv_addr=127.0.0.1:{free_port()};{SPEED}"
        options = (
            "--wsrep-on=ON",
            f"--wsrep-provider={PROVIDER}",
            f"--wsrep-cluster-address=gcomm://{'' if is_first else others}",
            f"--wsrep-node-address=127.0.0.1:{group}",
            "--wsrep-sst-method=rsync",
            f"--wsrep-sst-receive-address=127.0.0.1:{free_port()}",
            f"--wsrep-provider-options={more}",
            "--binlog-format=ROW",
            "--innodb-autoinc-lock-mode=2",
        )
        stack = self._running[port] = ExitStack()
        stack.enter_context(servers.mariadb_at(home, data, port, options, environment=self._environment))
        self.wait(port)
