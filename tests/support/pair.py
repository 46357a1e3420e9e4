"""A PostgreSQL primary and its synchronous standby, which takes over when it is told to."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import time
from collections.abc import Mapping
from contextlib import ExitStack
from enum import Enum, auto
from pathlib import Path
from typing import Any, Final

import psycopg

from tests.support import servers
from tests.support.ports import free_port
from tests.support.server_homes import become, find, folder, postgresql_data, postgresql_place, run
from xwheel.storage.database import address

WAIT_S: Final = 60


class State(Enum):
    """What a pair is: each leads to the next, and the last to the first."""

    WHOLE = auto()  # the standby has what is committed
    HEADLESS = auto()  # the primary is gone
    ALONE = auto()  # what was the standby takes writes, and no other server has them


class Pair:
    """Two servers, of which one is the primary. Use it as a context.

    A commit is acknowledged once the standby has it, so a failover loses nothing. While there is no standby, the
    primary goes on alone.

    Attributes:
        ports: Of both servers.
        primary: The port of the one that takes writes, or took them last.

    Args:
        environment: Variables of both servers.
    """

    known: Final[dict[int, Pair]] = {}
    """Pairs of this process, by each of their ports."""

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        self.ports = (free_port(), free_port())
        self.primary = self.ports[0]
        self.state = State.ALONE
        self._environment = environment or {}
        self._homes: dict[int, Path] = {}
        self._running = {port: ExitStack() for port in self.ports}
        self._stack = ExitStack()

    @classmethod
    def of(cls, url: str) -> Pair:
        """Return the pair of a database's URL."""
        return cls.known[address.servers_of(address.parse(url))[0][1]]

    @property
    def url(self) -> str:
        """Both servers, to which the name of a database belongs."""
        places = ",".join(f"127.0.0.1:{port}" for port in self.ports)
        return f"postgresql+psycopg://xwheel:{servers.PASSWORD}@{places}/"

    @property
    def standby(self) -> int:
        """The port of the other one."""
        return self.ports[1 - self.ports.index(self.primary)]

    def __enter__(self) -> Pair:
        for port in self.ports:
            self._homes[port] = self._stack.enter_context(folder("postgres"))
            self.known[port] = self
        postgresql_data(self._homes[self.primary], servers.PASSWORD)
        self._run(self.primary)
        self.join()
        return self

    def __exit__(self, *_: object) -> None:
        for port, stack in self._running.items():
            stack.close()
            self.known.pop(port, None)
        self._stack.close()

    def lose_primary(self, *, orderly: bool = False) -> None:
        """Kill the primary with all of its processes, or stop it in good order; no server takes writes then.

        Raises:
            RuntimeError: The standby is not one yet.
        """
        if self.state is not State.WHOLE:
            raise RuntimeError(f"the pair is {self.state.name}")
        self.state = State.HEADLESS
        process = servers.RUNNING[self.primary]
        if not orderly:
            # children of a server that was killed go on until they look, and take statements
            children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text(encoding="utf-8").split()
            for pid in (process.pid, *map(int, children)):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            process.wait()
        self._running[self.primary].close()

    def lose_commits(self) -> None:
        """Let the standby get nothing more, and the primary not wait for it: what is committed now a failover loses."""
        self._let_alone(self.primary)
        self._ask(self.standby, "ALTER SYSTEM SET primary_conninfo = ''")
        self._ask(self.standby, "SELECT pg_reload_conf()")
        self._wait("the standby follows still", "SELECT 1 WHERE NOT EXISTS (SELECT 1 FROM pg_stat_replication)")

    def lag(self, seconds: int) -> None:
        """Let the standby apply what it gets this much later; 0 at once."""
        for statement in (f"ALTER SYSTEM SET recovery_min_apply_delay = '{seconds}s'", "SELECT pg_reload_conf()"):
            self._ask(self.standby, statement)

    def promote(self) -> None:
        """Make the standby of a primary that is gone the primary."""
        if self.state is State.HEADLESS:
            self._promote()

    def split(self) -> None:
        """Promote the standby of a primary that goes on: both take writes, and none has the other's."""
        self.lose_commits()
        self._promote()

    def _promote(self) -> None:
        data = self._homes[self.standby] / "data"
        program = find("pg_ctl", postgresql_place())
        run([*become("postgres"), program, "promote", "-w", "-t", str(WAIT_S), "-D", str(data)])
        self._let_alone(self.standby)
        self.primary, self.state = self.standby, State.ALONE

    def join(self) -> None:
        """Give a primary that is alone a standby: the other server, with a new copy of its data."""
        if self.state is not State.ALONE:
            return
        self._running[self.standby].close()  # it may be a primary that was left
        data = self._homes[self.standby] / "data"
        shutil.rmtree(data, ignore_errors=True)
        words = ["-h", "127.0.0.1", "-p", str(self.primary), "-U", "xwheel", "-D", str(data)]
        copy = [*become("postgres"), find("pg_basebackup", postgresql_place()), *words]
        run([*copy, "--write-recovery-conf", "--checkpoint=fast", "--no-sync"], env={"PGPASSWORD": servers.PASSWORD})
        self._run(self.standby)
        self._ask(self.primary, "ALTER SYSTEM SET synchronous_standby_names = '*'")
        self._ask(self.primary, "SELECT pg_reload_conf()")
        self._wait("the standby does not follow", "SELECT 1 FROM pg_stat_replication WHERE sync_state = 'sync'")
        self.state = State.WHOLE

    def takes_writes(self, port: int) -> bool:
        """Return whether a server is the primary, and there, as what watches both would say."""
        return port == self.primary and self.state is not State.HEADLESS

    def fail_over(self) -> None:
        """Kill the primary, and let the standby take over at once."""
        self.lose_primary()
        self.promote()

    def _run(self, port: int) -> None:
        home = self._homes[port]
        options = {"fsync": "off", "max_wal_senders": "10"}
        data = home / "data"
        stack = self._running[port] = ExitStack()
        stack.enter_context(servers.postgresql_at(home, data, port, options, environment=self._environment))

    def _wait(self, problem: str, question: str) -> None:
        """Ask the primary until there is a row."""
        end = time.monotonic() + WAIT_S
        while not self._ask(self.primary, question):
            if time.monotonic() > end:
                raise RuntimeError(problem)
            time.sleep(0.05)

    def _let_alone(self, port: int) -> None:
        self._ask(port, "ALTER SYSTEM SET synchronous_standby_names = ''")
        self._ask(port, "SELECT pg_reload_conf()")

    def _ask(self, port: int, statement: str) -> Any:
        # a statement that changes settings must not wait for a standby, which may be gone
        options = "-c synchronous_commit=local"
        with psycopg.connect(
            host="127.0.0.1",
            port=port,
            user="xwheel",
            password=servers.PASSWORD,
            dbname="postgres",
            autocommit=True,
            options=options,
        ) as conn:
            cursor = conn.execute(statement)  # type: ignore[arg-type] # ours
            return cursor.fetchone() if cursor.description else None
