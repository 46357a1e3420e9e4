"""Which addresses are public, and what the others are; pure.

The tables follow IANA's registries of special-purpose addresses. They stand here, because what :mod:`ipaddress` calls
global differs between releases of Python.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from typing import Final

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

PRIVATE: Final = "private"
METADATA: Final = "a cloud's metadata service"
UNSPECIFIED: Final = "unspecified"
MULTICAST: Final = "multicast"
RESERVED: Final = "reserved"
UNASSIGNED: Final = "in no public network"

# what is connected to these does not go where the address says, so nobody may allow them
_NEVER: Final = {
    "0.0.0.0/8": UNSPECIFIED,
    "224.0.0.0/4": MULTICAST,
    "240.0.0.0/4": RESERVED,
    "::/128": UNSPECIFIED,
    "ff00::/8": MULTICAST,
}
_SPECIAL: Final = {
    "10.0.0.0/8": PRIVATE,
    "100.64.0.0/10": PRIVATE,
    "127.0.0.0/8": "loopback",
    "169.254.0.0/16": "link-local",
    "172.16.0.0/12": PRIVATE,
    "192.0.0.0/24": "special-purpose",
    "192.0.2.0/24": "documentation",
    "192.88.99.0/24": "6to4 relay",
    "192.168.0.0/16": PRIVATE,
    "198.18.0.0/15": "benchmarking",
    "198.51.100.0/24": "documentation",
    "203.0.113.0/24": "documentation",
    "::1/128": "loopback",
    "::ffff:0:0/96": "IPv4-mapped",
    "::/96": "IPv4-compatible",
    "64:ff9b::/96": "NAT64",
    "64:ff9b:1::/48": "NAT64",
    "2001::/32": "Teredo",
    "2001::/23": "special-purpose",
    "2001:db8::/32": "documentation",
    "2002::/16": "6to4",
    "3fff::/20": "documentation",
    "fc00::/7": PRIVATE,
    "fe80::/10": "link-local",
    "fec0::/10": "site-local",
    # all that is left but 2000::/3 belongs to nobody yet
    "::/3": UNASSIGNED,
    "4000::/2": UNASSIGNED,
    "8000::/1": UNASSIGNED,
}
# where clouds hand out credentials and settings; some are in private or even public networks
_METADATA: Final = frozenset(
    ipaddress.ip_address(text)
    for text in (
        "169.254.169.254",
        "169.254.170.2",
        "169.254.170.23",
        "100.100.100.200",
        "168.63.129.16",
        "192.0.0.192",
        "fd00:ec2::254",
        "fd00:ec2::23",
        "fd20:ce::254",
    )
)
_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")
_COMPATIBLE: Final = ipaddress.IPv6Network("::/96")


def _table(texts: dict[str, str]) -> list[tuple[Network, str]]:
    return [(ipaddress.ip_network(text), kind) for text, kind in texts.items()]


_NEVER_TABLE: Final = _table(_NEVER)
_SPECIAL_TABLE: Final = _table(_SPECIAL)


def judge(address: Address, allowed: Sequence[Network], *, private_too: bool = False) -> str | None:
    """Tell why an address must not be reached.

    Args:
        address: The address that a connection would go to.
        allowed: Networks that may be reached beside public addresses. A metadata service must be named by itself, and
            of an address that stands for an IPv4 one, that one must be allowed as well.
        private_too: Whether private networks may be reached.

    Returns:
        What kind of address it is, or None if it may be reached.
    """
    reason = _kind(address, _NEVER_TABLE)
    if reason is None and (inner := _embedded(address)) is not None:
        reason = judge(inner, allowed, private_too=private_too)
    if reason is not None:
        return reason
    named = [network for network in allowed if address in network]
    if address in _METADATA:
        return None if any(network.num_addresses == 1 for network in named) else METADATA
    if named:
        return None
    reason = _kind(address, _SPECIAL_TABLE)
    return None if private_too and reason == PRIVATE else reason


def _kind(address: Address, table: Sequence[tuple[Network, str]]) -> str | None:
    return next((kind for network, kind in table if address in network), None)


def _embedded(address: Address) -> ipaddress.IPv4Address | None:
    """Return the IPv4 address that an IPv6 one stands for: a gateway may send the packets there."""
    if isinstance(address, ipaddress.IPv4Address):
        return None
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address.sixtofour is not None:
        return address.sixtofour
    if address.teredo is not None:
        return address.teredo[1]
    if address in _NAT64 or (address in _COMPATIBLE and int(address) > 1):
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return None
