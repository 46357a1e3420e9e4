"""Free ports of the loopback interface."""

from __future__ import annotations

import contextlib
import random
import socket
from typing import Final

FIRST_PORT: Final = 10_000
LAST_PORT: Final = 32_000  # Linux hands out 32,768 and above


def free_port(wanted: int = 0) -> int:
    """Return a port of the loopback interface that is free: the wanted one if it is; 0 stands for any.

    It lies below those that the kernel gives to outgoing connections, if it can: one of these could take it before a
    process listens there, or while a killed one comes back.
    """
    candidates = [wanted] if wanted else []
    for port in [*candidates, *random.sample(range(FIRST_PORT, LAST_PORT), 100)]:
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", port))
            return port
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
