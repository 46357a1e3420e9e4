"""Child processes that end with their parent, and come back if they die before."""

from __future__ import annotations

import ctypes
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from xwheel.private_files import open_file

logger = logging.getLogger(__name__)

PARENT_DEATH_SIGNAL: Final = 1  # PR_SET_PDEATHSIG of prctl(2)
_prctl = ctypes.CDLL(None).prctl if sys.platform == "linux" else None


class Child:
    """One supervised process in a session of its own, so that Ctrl-C reaches only the parent.

    Args:
        name: For messages.
        arguments: What to run after ``python -m xwheel``.
        log: Gets its output.
        environment: Added to the parent's.
    """

    def __init__(self, name: str, arguments: Sequence[str], log: Path, environment: Mapping[str, str]) -> None:
        self.name = name
        self.restarts = 0
        self._arguments = [sys.executable, "-m", "xwheel", *arguments]
        self._log = log
        self._environment = {**os.environ, **environment}
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """Process id of the present incarnation; 0 before the first."""
        return self._process.pid if self._process else 0

    def start(self) -> None:
        """Start it."""
        with open(self._log, "ab", opener=open_file) as log:
            self._process = subprocess.Popen(  # noqa: S603 - our own interpreter and module
                self._arguments,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self._environment,
                start_new_session=True,
                preexec_fn=_die_with_parent,  # noqa: PLW1509 - one thread only when children start
            )

    def revive(self) -> bool:
        """Start it again if it died; return whether it had."""
        if self._process is None or self._process.poll() is None:
            return False
        self.restarts += 1
        logger.warning("%s died with status %s and is started again", self.name, self._process.returncode)
        self.start()
        return True

    def stop(self, timeout_s: float) -> int:
        """Ask it to drain and end, kill it if it does not; return its exit status."""
        if self._process is None:
            return 0
        self._process.terminate()
        try:
            return self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            logger.warning("%s did not end within %s s and is killed", self.name, timeout_s)
            self._process.kill()
            return self._process.wait()

    def tail(self, lines: int = 15) -> str:
        """Return the last lines of its output."""
        return "\n".join(self._log.read_text(errors="replace").splitlines()[-lines:]) if self._log.exists() else ""


def _die_with_parent() -> None:
    if _prctl is not None:
        _prctl(PARENT_DEATH_SIGNAL, signal.SIGTERM)
