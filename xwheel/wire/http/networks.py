"""Which addresses may be called: the kinds of addresses, the strict reading of a URL, and where executors may be.

The tables follow IANA's registries of special-purpose addresses. They stand here, because what :mod:`ipaddress` calls
global differs between releases of Python. A URL has as many meanings as there are parsers, so one that is not plain is
refused. Nothing here does I/O.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from xwheel.errors import ConfigError, WireError
from xwheel.wire.contract import ADDRESS_FIELD

if TYPE_CHECKING:
    from xwheel.config import Config

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

MAX_URL: Final = 8192
MAX_HOST: Final = 253
MAX_PORT: Final = 65535
DEFAULT_PORTS: Final = {"http": 80, "https": 443}
SETTING: Final = "security.executor_networks"


class AddressKind(StrEnum):
    """What an address is that is not public."""

    PRIVATE = "private"
    METADATA = "a cloud's metadata service"
    LOOPBACK = "loopback"
    LINK_LOCAL = "link-local"
    SITE_LOCAL = "site-local"
    UNSPECIFIED = "unspecified"
    MULTICAST = "multicast"
    RESERVED = "reserved"
    SPECIAL = "special-purpose"
    DOCUMENTATION = "documentation"
    BENCHMARKING = "benchmarking"
    MAPPED = "IPv4-mapped"
    COMPATIBLE = "IPv4-compatible"
    NAT64 = "NAT64"
    TEREDO = "Teredo"
    SIX_TO_FOUR = "6to4"
    SIX_TO_FOUR_RELAY = "6to4 relay"
    UNASSIGNED = "in no public network"


def _table(texts: dict[str, AddressKind]) -> list[tuple[Network, AddressKind]]:
    return [(ipaddress.ip_network(text), kind) for text, kind in texts.items()]


# what is connected to these does not go where the address says, so no setting allows them
_NEVER: Final = _table(
    {
        "0.0.0.0/8": AddressKind.UNSPECIFIED,
        "224.0.0.0/4": AddressKind.MULTICAST,
        "240.0.0.0/4": AddressKind.RESERVED,
        "::/128": AddressKind.UNSPECIFIED,
        "ff00::/8": AddressKind.MULTICAST,
    }
)
_SPECIAL: Final = _table(
    {
        "10.0.0.0/8": AddressKind.PRIVATE,
        "100.64.0.0/10": AddressKind.PRIVATE,
        "127.0.0.0/8": AddressKind.LOOPBACK,
        "169.254.0.0/16": AddressKind.LINK_LOCAL,
        "172.16.0.0/12": AddressKind.PRIVATE,
        "192.0.0.0/24": AddressKind.SPECIAL,
        "192.0.2.0/24": AddressKind.DOCUMENTATION,
        "192.88.99.0/24": AddressKind.SIX_TO_FOUR_RELAY,
        "192.168.0.0/16": AddressKind.PRIVATE,
        "198.18.0.0/15": AddressKind.BENCHMARKING,
        "198.51.100.0/24": AddressKind.DOCUMENTATION,
        "203.0.113.0/24": AddressKind.DOCUMENTATION,
        "::1/128": AddressKind.LOOPBACK,
        "::ffff:0:0/96": AddressKind.MAPPED,
        "::/96": AddressKind.COMPATIBLE,
        "64:ff9b::/96": AddressKind.NAT64,
        "64:ff9b:1::/48": AddressKind.NAT64,
        "2001::/32": AddressKind.TEREDO,
        "2001::/23": AddressKind.SPECIAL,
        "2001:db8::/32": AddressKind.DOCUMENTATION,
        "2002::/16": AddressKind.SIX_TO_FOUR,
        "3fff::/20": AddressKind.DOCUMENTATION,
        "fc00::/7": AddressKind.PRIVATE,
        "fe80::/10": AddressKind.LINK_LOCAL,
        "fec0::/10": AddressKind.SITE_LOCAL,
        # outside 2000::/3 nothing else is assigned
        "::/3": AddressKind.UNASSIGNED,
        "4000::/2": AddressKind.UNASSIGNED,
        "8000::/1": AddressKind.UNASSIGNED,
    }
)
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


def refused_kind(address: Address, allowed: Sequence[Network] = (), *, private_too: bool = False) -> AddressKind | None:
    """Return what kind of address it is if it must not be called, or None if it may be.

    ``allowed`` networks may be called besides public addresses, and with ``private_too`` private ones. A metadata
    service must be named by itself, and of an address that stands for an IPv4 one, that one must be allowed as well.
    The zone of an IPv6 address (``%eth0``) changes nothing.
    """
    if isinstance(address, ipaddress.IPv6Address):
        address = ipaddress.IPv6Address(int(address))  # with a zone it equals no address of a table
    reason = _kind(address, _NEVER)
    if reason is None and (inner := _embedded(address)) is not None:
        reason = refused_kind(inner, allowed, private_too=private_too)
    if reason is not None:
        return reason
    named = [network for network in allowed if address in network]
    if address in _METADATA:
        return None if any(network.num_addresses == 1 for network in named) else AddressKind.METADATA
    if named:
        return None
    reason = _kind(address, _SPECIAL)
    return None if private_too and reason is AddressKind.PRIVATE else reason


def _kind(address: Address, table: Sequence[tuple[Network, AddressKind]]) -> AddressKind | None:
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


_URL: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/?#]*)([^#]*)(#.*)?", re.DOTALL)
_AUTHORITY: Final = re.compile(r"(\[[^]]*]?|(?!\[)[^:]*)(?::([0-9]{1,5}))?")
_LABEL: Final = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
# other readers take such a last label for a number, and the name for an address: 0x7f.1, 2130706433, 0177.0.0.1
_NUMBER: Final = re.compile(r"[0-9]+|0x[0-9a-f]*")
_SAFE: Final = "/?:@!$&'()*+,;=-._~%[]"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainUrl:
    """An http or https URL that has one meaning only; what its host's name leads to is not known."""

    scheme: str
    host: str  # name in lower case, or the address of a literal
    port: int
    literal: Address | None  # the address, if the URL has one in place of a name
    path: str  # path and query as they are sent; may hold secrets

    @classmethod
    def parse(cls, text: str) -> PlainUrl:
        """Return the parts of a URL. Raises ValueError: it is no plain URL; the message says why without its text."""
        if len(text) > MAX_URL:
            raise ValueError(f"the URL has {len(text)} characters, {MAX_URL} are allowed")
        if any(not char.isprintable() or char in " \\" for char in text):
            raise ValueError("the URL holds a blank, a backslash or a control character: percent-encode it")
        match = _URL.fullmatch(text)
        if match is None or match[1].lower() not in DEFAULT_PORTS:
            raise ValueError("the URL must begin with http:// or https://")
        scheme, authority, path = match[1].lower(), match[2], match[3]
        if "@" in authority:
            raise ValueError("the URL holds a user name or password before @: use a header")
        host, port = _split(authority, DEFAULT_PORTS[scheme])
        name, literal = cls.parse_host(host)
        if not path.startswith("/"):
            path = f"/{path}"
        return cls(scheme=scheme, host=name, port=port, literal=literal, path=quote(path, safe=_SAFE))

    @staticmethod
    def parse_host(host: str) -> tuple[str, Address | None]:
        """Return the name or address of a URL's host, and the address if it is one.

        Raises ValueError: it is neither, or written in an unusual way; the message says why and holds nothing of it.
        """
        if not host.isascii():
            raise ValueError("the URL's host must be written in ASCII (xn--…)")
        if host.startswith("["):
            if "%" in host:
                raise ValueError("the URL's address must have no zone")
            try:
                inner = ipaddress.IPv6Address(host[1:-1] if host.endswith("]") else "")
            except ValueError:
                raise ValueError("the URL holds something in brackets that is no IPv6 address") from None
            return str(inner), inner
        name = host.lower().removesuffix(".")
        labels = name.split(".")
        if _NUMBER.fullmatch(labels[-1]):
            try:
                # four decimal numbers without leading zeros, unlike inet_aton, which takes much more
                address = ipaddress.IPv4Address(host)
            except ValueError:
                raise ValueError(
                    "the URL's host looks like a number: an address is four decimal numbers without leading zeros"
                ) from None
            return str(address), address
        if len(name) > MAX_HOST or not all(_LABEL.fullmatch(label) for label in labels):
            raise ValueError("the URL's host is no name and no address")
        return name, None

    @property
    def authority(self) -> str:
        """Host and port, as they stand in a URL."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    @property
    def origin(self) -> str:
        """The part that holds no secret: scheme, host, and the port unless it is the usual one."""
        usual = DEFAULT_PORTS[self.scheme] == self.port
        return f"{self.scheme}://{self.authority.rpartition(':')[0] if usual else self.authority}"

    @property
    def url(self) -> str:
        """The whole, put together again; may hold secrets."""
        return f"{self.scheme}://{self.authority}{self.path}"

    def __repr__(self) -> str:
        return f"PlainUrl({self.origin})"


def _split(authority: str, usual: int) -> tuple[str, int]:
    match = _AUTHORITY.fullmatch(authority)
    if match is None or not 1 <= int(match[2] or usual) <= MAX_PORT:
        raise ValueError(f"the URL's port must be a number from 1 to {MAX_PORT}")
    return match[1], int(match[2] or usual)


LOOPBACK: Final[tuple[Network, ...]] = (ipaddress.ip_network("127.0.0.0/8"), ipaddress.ip_network("::1/128"))


@dataclass(frozen=True)
class ExecutorNetworks:
    """Which addresses executors may have; they register them themselves, and nodes call them with a secret.

    Unlike webhooks, executors usually are in private networks, which are allowed. Loopback, link-local and metadata
    addresses are not, in whatever form, unless a setting names their network.
    """

    allowed: tuple[Network, ...] = ()  # besides public and private ones

    @classmethod
    def from_config(cls, config: Config) -> ExecutorNetworks:
        """Return the policy of a node; one that listens on loopback only may have executors there, too.

        Raises ConfigError: a network cannot be read.
        """
        named: list[Network] = []
        for item in config.security.executor_networks:
            try:
                named.append(ipaddress.ip_network(item))
            except ValueError as error:
                raise ConfigError(f"{SETTING}: {error}; a network is written as 127.0.0.0/8") from None
        return cls((*named, *LOOPBACK) if _is_loopback(config.api.executor_host) else tuple(named))

    def check(self, address: str, field: str = ADDRESS_FIELD) -> None:
        """Refuse a registered base URL that is no address of an executor; names are checked when they are called.

        Raises WireError: it is not allowed; the message says what it is and which setting allows it.
        """
        try:
            url = PlainUrl.parse(address)
        except ValueError as error:
            raise WireError(f"{field}: {error}") from None
        literal = url.literal
        if url.host == "localhost" or url.host.endswith(".localhost"):
            literal = ipaddress.IPv4Address("127.0.0.1")
        kind = None if literal is None else self._refused_kind(literal)
        if kind is not None:
            raise WireError(f"{field}: {_refusal(url.host, kind)}")

    def refusal(self, ip: str) -> str | None:
        """Return why a connection to an address must not be made, or None if it may; for names, once resolved."""
        try:
            kind = self._refused_kind(ipaddress.ip_address(ip))
        except ValueError:
            return f"{ip[:64]!r} is no address"
        return None if kind is None else _refusal(ip, kind)

    def _refused_kind(self, address: Address) -> AddressKind | None:
        return refused_kind(address, self.allowed, private_too=True)


def _refusal(host: str, kind: AddressKind) -> str:
    return f"{host} is {kind}, where no executor may be unless {SETTING} names its network"


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
