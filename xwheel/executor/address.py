"""Finds the base URL under which schedulers can reach this executor."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from urllib.parse import urlsplit

from xwheel.errors import ConfigError, WireError
from xwheel.wire.contract import normalise_address

ANY_HOST = frozenset({"", "0.0.0.0", "::", "*"})  # noqa: S104 -- compared, not bound


def advertised_address(configured: str, host: str, port: int, admin_addresses: Sequence[str]) -> str:
    """Return the base URL to register, with the trailing slash that Java executors send.

    The configured one wins; ConfigError says that it is no http(s) base URL. For any host, the local address that leads
    to a scheduler is the best guess in containers, where the host name often resolves to something that only the
    container knows.
    """
    if configured:
        try:
            return normalise_address(configured, "executor.address") + "/"
        except WireError as error:
            raise ConfigError(str(error)) from None
    if host in ANY_HOST:
        family = socket.AF_UNSPEC if host == "::" else socket.AF_INET
        host = _address_towards(admin_addresses, family) or socket.gethostname()
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"


def _address_towards(admin_addresses: Sequence[str], family: socket.AddressFamily) -> str:
    """Return the local address that the system would use to reach a scheduler; sends nothing."""
    for address in admin_addresses:
        try:
            parts = urlsplit(address)
            host, port = parts.hostname, parts.port or 80
            found = socket.getaddrinfo(host, port, family, socket.SOCK_DGRAM) if host else []
        except (OSError, ValueError):
            continue
        for kind, type_, _, _, target in found:
            try:
                with socket.socket(kind, type_) as probe:
                    probe.connect(target)
                    return str(probe.getsockname()[0])
            except OSError:
                continue
    return ""
