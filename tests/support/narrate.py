"""Run a command that is silent for long, and say every few seconds what it does; ``python narrate.py COMMAND...``.

For the Makefile, before anything is installed. What the command says is shown whole only if it fails.
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence

EVERY_S = 5.0
WIDTH = 60
# pip indents these; what it does next says more, and takes longer
DETAILS = ("    ", "  Attempting uninstall")


def narrate(command: Sequence[str], say: Callable[[str], object], every_s: float = EVERY_S) -> int:
    """Run a command and return its exit status.

    Args:
        command: Its words.
        say: Prints a line.
        every_s: How often to say what it did last.
    """
    begun = time.monotonic()
    heard: list[str] = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        reader = threading.Thread(target=heard.extend, args=[process.stdout], daemon=True)
        reader.start()
        while reader.is_alive():
            reader.join(every_s)
            if reader.is_alive():
                steps = [line for line in heard if not line.startswith(DETAILS)]
                latest = steps[-1] if steps else " ".join(command)
                say(f"  {time.monotonic() - begun:.0f} s: {' '.join(latest.split())[:WIDTH]}")
        status = process.wait()
    if status:
        say("".join(heard).rstrip())
    return status


def _print(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(narrate(sys.argv[1:], _print))
