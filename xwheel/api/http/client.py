"""Where a call came from: what trusted proxies say of it counts, what others say does not."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Final

import falcon

from xwheel.errors import ConfigError
from xwheel.plugin.gates import CallHead

MAX_HOPS: Final = 16
SETTING: Final = "api.trusted_proxies"


class TrustedProxies:
    """Whose ``X-Forwarded-For`` and ``X-Forwarded-Proto`` count; raises ConfigError for what is no network."""

    def __init__(self, networks: Sequence[str] = ()) -> None:
        try:
            self._networks = [ip_network(text) for text in networks]
        except ValueError as error:
            raise ConfigError(f"{SETTING}: {error}; name addresses and networks, such as 10.1.0.0/16") from None

    def address_of(self, req: falcon.Request) -> str:
        """Return the address of the caller: the last one that no trusted proxy has, from the connection backwards."""
        address = req.remote_addr or ""
        if not self._is_trusted(address):
            return address
        header = req.get_header("X-Forwarded-For") or ""
        for hop in reversed(header.split(",")[-MAX_HOPS:]):
            named = _parse(hop.strip())
            if named is None:
                return address
            address = str(named)
            if not self._is_trusted(address):
                break
        return address

    def host_of(self, req: falcon.Request) -> str:
        """Return the host and port that the caller asked for, as far as a trusted proxy says so."""
        said = req.get_header("X-Forwarded-Host")
        if said is not None and self._is_trusted(req.remote_addr or ""):
            return said.rpartition(",")[2].strip()
        return req.get_header("Host") or ""

    def is_https(self, req: falcon.Request) -> bool:
        """Return whether the caller's connection is encrypted, as far as a trusted proxy says so."""
        if req.scheme == "https":
            return True
        said = req.get_header("X-Forwarded-Proto") or ""
        return self._is_trusted(req.remote_addr or "") and said.rpartition(",")[2].strip().lower() == "https"

    def head_of(self, req: falcon.Request, cookies: Iterable[str] = ()) -> CallHead:
        """Return what a call shows before its body is read, with the values of these cookies."""
        return CallHead(
            method=req.method,
            path=req.path,
            headers={name.lower(): value for name, value in req.headers.items()},
            cookies={name: tuple(found) for name in cookies if (found := req.get_cookie_values(name))},
            address=self.address_of(req),
            peer=req.remote_addr or "",
            host=self.host_of(req),
            is_https=self.is_https(req),
        )

    def _is_trusted(self, address: str) -> bool:
        if not self._networks:
            return False
        parsed = _parse(address)
        return parsed is not None and any(parsed in network for network in self._networks)


def _parse(text: str) -> IPv4Address | IPv6Address | None:
    bare = text
    if text.startswith("["):
        bare = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        bare = text.partition(":")[0]
    try:
        parsed = ip_address(bare.partition("%")[0])
    except ValueError:
        return None
    return (parsed.ipv4_mapped or parsed) if isinstance(parsed, IPv6Address) else parsed
