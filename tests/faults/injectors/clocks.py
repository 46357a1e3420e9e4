"""Wall clocks of processes that a test sets: at their start, and while they run.

Processes that get :attr:`WallClock.environment`, and what they start, share one offset of their wall clock. A step is
there for all of them at the same instant, as on a real machine, and reading the clock costs no more than before. The
monotonic clock never moves, as it does not for a real step.

A deadline on the wall clock is put right when a wait begins; a wait that is under way at a step keeps its length, where
a real one would end earlier or later. Times of files are the real ones. Programs that do not use the C library, as
those of Go, are not reached.

This is ``wall_clock.c`` next to this module, not libfaketime (0.9.10 in Debian 12). There, with a faked monotonic clock
Python's waits hang (it waits by ``sem_clockwait``, which is passed on unchanged), and without one ``time.sleep`` fails
with EINVAL. It reads its file at most once a second, by each process for itself, or at each look at the clock, which
takes 5 µs and memory from the heap: also in signal handlers, as PostgreSQL's. A kill leaves its shared memory behind,
which a later process of the same pid stumbles over.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import shutil
import tempfile
import threading
from pathlib import Path
from typing import Final

from tests.faults.injectors.fault import Fault
from tests.interop.builds import build_once, call, digest
from tests.support.paths import ROOT

SOURCE: Final = Path(__file__).with_name("wall_clock.c")
CACHE: Final = ROOT / ".cache" / "clocks"
VARIABLE: Final = "TEST_WALL_CLOCK"
"""Not one of ours: xwheel refuses to start with a variable of its own that names no setting."""

LIBRARY: Final = "wall_clock.so"
NS: Final = 1_000_000


class WallClock:
    """The wall clock of the processes that get its environment.

    Thread-safety: steps from several threads add up.

    Attributes:
        environment: What the environment of a process must have, next to the rest.

    Args:
        offset_ms: How far it is ahead of the machine's at first; negative if behind.
    """

    def __init__(self, offset_ms: int = 0) -> None:
        # not below pytest's folder: its path is closed to others, as the user of a server is
        self._folder = Path(tempfile.mkdtemp(prefix="xw"))
        self._folder.chmod(0o755)
        path, library = self._folder / "offset", self._folder / LIBRARY
        shutil.copy(build_once(CACHE / digest([SOURCE]), _compile) / LIBRARY, library)
        path.write_bytes(bytes(ctypes.sizeof(ctypes.c_int64)))
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), 0)
        path.chmod(0o644)
        # written by one instruction, so that no reader sees half of it
        self._offset = ctypes.c_int64.from_buffer(self._map)
        self._guard = threading.Lock()
        self.set(offset_ms)
        others = os.environ.get("LD_PRELOAD", "")
        self.environment = {"LD_PRELOAD": f"{library} {others}".strip(), VARIABLE: str(path)}

    @property
    def offset_ms(self) -> int:
        """How far it is ahead of the machine's."""
        return self._offset.value // NS

    def set(self, offset_ms: int) -> None:
        """Set it so far ahead of the machine's."""
        self._offset.value = offset_ms * NS

    def stepping(self, by_ms: int) -> Fault:
        """Return a fault that puts it forward, or back if negative, and the same way back in the end."""
        return Fault(f"clock {by_ms:+} ms", lambda: self._step(by_ms), lambda: self._step(-by_ms))

    def close(self) -> None:
        """Remove its files; processes that run keep the offset, new ones have none."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> WallClock:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _step(self, by_ms: int) -> None:
        with self._guard:
            self._offset.value += by_ms * NS


def _compile(folder: Path) -> None:
    call(["cc", "-shared", "-fPIC", "-O2", "-o", folder / LIBRARY, SOURCE], ROOT)
