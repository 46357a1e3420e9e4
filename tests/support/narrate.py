"""Run a command that is silent for long, and say a line for each step; ``python narrate.py COMMAND...``.

For the Makefile, before anything is installed. What the command says is shown whole only if it fails.
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence

EVERY_S = 5.0
# a step that takes this long is said once more: something still goes on
AGAIN_S = 60.0
WIDTH = 60
# pip indents these; what it does next says more, and takes longer
DETAILS = ("    ", "  Attempting uninstall")


def narrate(command: Sequence[str], say: Callable[[str], object], every_s: float = EVERY_S) -> int:
    """Run a command and return its exit status.

    Args:
        command: Its words.
        say: Prints a line.
        every_s: How often to look what it does.
    """
    begun = time.monotonic()
    said, said_s = "", 0.0
    heard: list[str] = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        reader = threading.Thread(target=heard.extend, args=[process.stdout], daemon=True)
        reader.start()
        while reader.is_alive():
            reader.join(every_s)
            if reader.is_alive():
                steps = [line for line in heard if not line.startswith(DETAILS)]
                latest = " ".join((steps[-1] if steps else " ".join(command)).split())[:WIDTH]
                now_s = time.monotonic() - begun
                if is_news(latest, said, now_s - said_s):
                    say(f"  {now_s:.0f} s: {latest}")
                    said, said_s = latest, now_s
        status = process.wait()
    if status:
        say("".join(heard).rstrip())
    return status


def is_news(step: str, said: str, since_s: float) -> bool:
    """Return whether to say a step, given what was said last and how long ago."""
    return step != said or since_s >= AGAIN_S


def _print(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(narrate(sys.argv[1:], _print))
