"""Real ZooKeeper servers out of Debian's package, one or an ensemble, on free loopback ports, stopped by pid."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.support.ports import free_port

JARS: Final = Path("/usr/share/java")
CLASSES: Final = ("zookeeper.jar", "slf4j-log4j12.jar", "log4j-1.2.jar")
MAIN: Final = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
TICK_MS: Final = 500
START_S: Final = 60
STOP_S: Final = 10
LOG4J: Final = (
    "log4j.rootLogger=WARN, C\nlog4j.appender.C=org.apache.log4j.ConsoleAppender\n"
    "log4j.appender.C.layout=org.apache.log4j.PatternLayout\n"
    "log4j.appender.C.layout.ConversionPattern=%d %p %c{1} %m%n\n"
)


def is_installed() -> bool:
    """Return whether the server is there."""
    return (JARS / CLASSES[0]).exists()


class Member:
    """One server; of an ensemble, or alone.

    Attributes:
        port: Where clients connect.
    """

    def __init__(self, folder: Path, number: int, port: int, others: str = "") -> None:
        self.port = port
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        (folder / "data").mkdir(parents=True)
        (folder / "data" / "myid").write_text(str(number))
        (folder / "log4j.properties").write_text(LOG4J)
        (folder / "zoo.cfg").write_text(
            f"tickTime={TICK_MS}\ninitLimit=20\nsyncLimit=10\ndataDir={folder / 'data'}\nclientPort={port}\n"
            "clientPortAddress=127.0.0.1\nadmin.enableServer=false\n4lw.commands.whitelist=srvr,ruok,envi\n"
            f"maxClientCnxns=0\nminSessionTimeout=1000\nmaxSessionTimeout=20000\n{others}"
        )

    def start(self) -> None:
        """Start the process."""
        classes = ":".join([str(self._folder), *(str(JARS / name) for name in CLASSES)])
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                ["java", "-Xms32m", "-Xmx128m", "-cp", classes, MAIN, str(self._folder / "zoo.cfg")],
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )

    def mode(self) -> str:
        """Return ``leader``, ``follower`` or ``standalone``; empty while it serves no one."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=2) as conn:
                conn.sendall(b"srvr")
                said = b""
                while piece := conn.recv(4096):
                    said += piece
        except OSError:
            return ""
        modes = [line[6:] for line in said.decode().splitlines() if line.startswith("Mode: ")]
        return modes[0] if modes else ""

    def kill(self) -> None:
        """End the process as a power cut would."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """End the process."""
        self._end(signal.SIGTERM)

    def _end(self, number: int) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(number)
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    @property
    def log(self) -> str:
        """What it wrote."""
        return (self._folder / "log").read_text(errors="replace")


class Servers:
    """Servers that serve the same data.

    Attributes:
        members: All of them.
    """

    def __init__(self, members: list[Member]) -> None:
        self.members = members

    @property
    def hosts(self) -> str:
        """What clients are told."""
        return ",".join(f"127.0.0.1:{member.port}" for member in self.members)

    def wait(self, count: int = 1) -> None:
        """Wait until this many members serve."""
        end = time.monotonic() + START_S
        while sum(bool(member.mode()) for member in self.members) < count:
            if time.monotonic() > end:
                raise RuntimeError(f"ZooKeeper does not serve: {self.members[0].log[-2000:]}")
            time.sleep(0.05)

    def leader(self) -> Member:
        """Return the member that leads."""
        return next(member for member in self.members if member.mode() == "leader")


@contextmanager
def zookeeper(members: int = 1) -> Iterator[Servers]:
    """Run this many servers.

    Args:
        members: 1, or 3 for an ensemble.
    """
    with tempfile.TemporaryDirectory(prefix=f"zookeeper-{os.getpid()}-") as home:
        ports = [(free_port(), free_port(), free_port()) for _ in range(members)]
        others = "".join(
            f"server.{number}=127.0.0.1:{quorum}:{election}\n" for number, (_, quorum, election) in enumerate(ports, 1)
        )
        found = Servers(
            [
                Member(Path(home) / str(number), number, port, others if members > 1 else "")
                for number, (port, _, _) in enumerate(ports, 1)
            ]
        )
        try:
            for member in found.members:
                member.start()
            found.wait(members)
            yield found
        finally:
            for member in found.members:
                member.stop()
