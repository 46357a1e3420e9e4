"""What an executor application of somebody else's is, and a running one.

Every peer's application registers the same handlers, told apart by their parameters, which no two runs share:

| handler | parameter | does |
|---|---|---|
| ``echo`` | any text | logs ``echo: PARAM``; succeeds with ``PARAM INDEX/TOTAL``, the shard |
| ``sleep`` | ``SECONDS LABEL`` | sleeps, ends early when told to; succeeds with ``slept`` |
| ``hold`` | ``LABEL`` | waits until its folder has a file ``LABEL``, ends early when told to; succeeds with ``held`` |
| ``fail`` | any text | fails with a message that holds ``no luck`` |
| ``lines`` | ``COUNT LABEL`` | logs ``line 1 of COUNT`` and so on; after half of them waits for a file ``LABEL`` |

Each appends to the file ``executed`` in its folder: ``start PARAM`` when it begins, ``end PARAM`` when it was not cut
short. So a test can tell what really ran, whatever the peer says.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.paths import ROOT

CACHE = ROOT / ".cache" / "interop"
"""Where applications are built; not in git. Name subfolders by a hash of everything that the build reads."""

STOP_S = 30
_prctl = ctypes.CDLL(None).prctl
_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of prctl(2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where an executor application finds its scheduler, and where it is found.

    Attributes:
        admin_url: Base URL of the scheduler, such as ``http://127.0.0.1:8081/xxl-job-admin``, without ``/api``.
        folder: Working folder, which exists: logs, state and the file ``executed`` belong there.
    """

    app_name: str
    admin_url: str
    token: str
    port: int
    folder: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """An executor application.

    Attributes:
        name: Such as ``java-2.2.0``; names its tests and its column in the table.
        title: How the table calls it.
        build: Builds the application, unless the cache has it, under a lock; safe to call from many processes.
        command: Its command line, after ``build``.
        environment: Added to ours.
        slash: Whether it registers its address with a slash at its end.
        lacks: What it is spared: ``callback`` (an outcome that found no scheduler is never sent again), ``log`` (what
            handlers log is not shown), ``handlers`` (jobs must not share one: each gets a copy, ``hold.1`` and so on).
    """

    name: str
    title: str
    build: Callable[[], object]
    command: Callable[[Place], Sequence[str]]
    environment: Mapping[str, str] = field(default_factory=dict)
    slash: bool = False
    lacks: frozenset[str] = frozenset()

    def start(self, place: Place) -> PeerProcess:
        """Build the application if need be and start it; it registers by itself."""
        self.build()
        return PeerProcess(self, place)


class PeerProcess:
    """A running executor application; it ends with the process that started it."""

    def __init__(self, peer: Peer, place: Place) -> None:
        self.peer = peer
        self.place = place
        self.address = f"http://127.0.0.1:{place.port}"  # as xwheel keeps it, however it was registered
        self.log = place.folder / "process.log"
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                list(peer.command(place)),
                cwd=place.folder,
                env={**os.environ, **peer.environment},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=die_with_parent,  # noqa: PLW1509 - by the main thread only
            )

    def notes(self) -> list[str]:
        """Return what handlers wrote into ``executed``, in order."""
        path = self.place.folder / "executed"
        return path.read_text(encoding="utf-8").split("\n") if path.exists() else []

    def executed(self, word: str = "start") -> list[str]:
        """Return the parameters of runs that wrote this word, in order."""
        return [line.partition(" ")[2] for line in self.notes() if line.partition(" ")[0] == word]

    def release(self, label: str) -> None:
        """Let a handler go on that waits for this label."""
        (self.place.folder / label).touch()

    def terminate(self) -> int:
        """Ask it to end and return its exit status."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(STOP_S)

    def kill(self) -> None:
        """End it, if it is there, as a power cut would."""
        self.process.kill()
        self.process.wait(STOP_S)

    def tail(self, lines: int = 30) -> str:
        """Return the end of its output, for messages."""
        text = self.log.read_text(errors="replace").splitlines()[-lines:]
        return "\n".join([f"--- {self.peer.name} at port {self.place.port} ---", *text])


def die_with_parent() -> None:
    """Have the kernel end this child with the thread that started it: start peers from the main thread."""
    _prctl(_DEATH_SIGNAL, signal.SIGKILL)
