"""Ports that stay ours while nobody listens on them: a stopped server must find its port free when it comes back."""

from __future__ import annotations

import fcntl
import os
import random
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

BLOCK = 32
LOWEST = 10_000
RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")


@contextmanager
def port_block() -> Iterator[Iterator[int]]:
    """Reserve a block of ports below those that the kernel hands out; give free ones of it, one by one.

    Outgoing connections and other tests take ports from the kernel's range, so a port of that range may be gone by
    the time a server comes back to it. Blocks are told apart by locked files, also between users of one machine.
    """
    below = int(RANGE.read_text().split()[0]) if RANGE.exists() else 32_768
    folder = Path(tempfile.gettempdir()) / f"interop-ports-{os.getuid()}"
    folder.mkdir(exist_ok=True)
    starts = list(range(LOWEST, max(below, LOWEST + 8 * BLOCK), BLOCK))
    random.shuffle(starts)
    for start in starts:
        with (folder / str(start)).open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            yield (port for port in range(start, start + BLOCK) if _is_free(port))
            return
    raise AssertionError(f"all port blocks of {folder} are taken")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
