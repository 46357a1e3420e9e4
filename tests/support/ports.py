"""Ports that no other test gets while this process lives, outside the range of outgoing connections."""

from __future__ import annotations

import fcntl
import os
import random
import socket
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import IO

BLOCK = 32
LOWEST = 10_000
RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")

_guard = threading.Lock()
_ports: Iterator[int] = iter(())
_held: list[IO[str]] = []  # the locks of our blocks, until the process ends


def free_port() -> int:
    """Return a loopback port that is free and that no other process of these tests gets.

    The kernel's own free ports lie in the range of outgoing connections: one of these may be gone by the time a
    server wants it. Blocks below that range are told apart by locked files.
    """
    global _ports  # noqa: PLW0603 - one block a process is the point
    with _guard:
        while True:
            for port in _ports:
                if _is_free(port):
                    return port
            _ports = iter(_take_block())


def _take_block() -> range:
    below = int(RANGE.read_text().split()[0]) if RANGE.exists() else 32_768
    folder = Path(tempfile.gettempdir()) / f"xwheel-test-ports-{os.getuid()}"
    folder.mkdir(exist_ok=True)
    starts = list(range(LOWEST, max(below, LOWEST + 8 * BLOCK), BLOCK))
    random.SystemRandom().shuffle(starts)  # a test may have seeded the common one
    for start in starts:
        file = (folder / str(start)).open("w")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            continue
        _held.append(file)
        return range(start, start + BLOCK)
    raise AssertionError(f"all port blocks of {folder} are taken")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
