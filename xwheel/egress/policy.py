"""What may be called: the section ``[egress]``, and the strict reading of a URL; no I/O.

A URL has as many meanings as there are parsers. Here it is taken apart once, odd spellings are refused, and the client
puts together what it calls from the parts.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from xwheel.config import Config
from xwheel.config.sections import EgressSection
from xwheel.egress import addresses
from xwheel.egress.addresses import Address, Network, judge
from xwheel.errors import ConfigError, EgressRefusedError

MAX_URL: Final = 8192
MAX_HOST: Final = 253
MAX_PORT: Final = 65535
DEFAULT_PORTS: Final = {"http": 80, "https": 443}

_URL: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/?#]*)([^#]*)(#.*)?", re.DOTALL)
_LABEL: Final = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
# other readers take such a last label for a number, and the name for an address: 0x7f.1, 2130706433, 0177.0.0.1
_NUMBER: Final = re.compile(r"[0-9]+|0x[0-9a-f]*")
_RANGE: Final = re.compile(r"([0-9]{1,5})(?:-([0-9]{1,5}))?")
_SAFE: Final = "/?:@!$&'()*+,;=-._~%[]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A URL that was taken apart and found good, but for the addresses of its name.

    Attributes:
        host: Name in lower case, or the address of a literal.
        literal: The address, if the URL has one in place of a name.
        path: Path and query as they are sent; may hold secrets.
    """

    scheme: str
    host: str
    port: int
    literal: Address | None
    path: str

    @classmethod
    def parse(cls, url: str) -> Target:
        """Take a URL apart, whatever a policy says of it.

        Raises:
            EgressRefusedError: It is no plain URL. The message holds nothing of it.
        """
        return _parse(url)

    @property
    def authority(self) -> str:
        """Host and port, as they stand in a URL."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    @property
    def origin(self) -> str:
        """What may be told of the URL: scheme, host, and the port unless it is the usual one."""
        usual = DEFAULT_PORTS.get(self.scheme) == self.port
        return f"{self.scheme}://{self.authority.rpartition(':')[0] if usual else self.authority}"

    @property
    def url(self) -> str:
        """The whole, put together anew; may hold secrets."""
        return f"{self.scheme}://{self.authority}{self.path}"

    def __repr__(self) -> str:
        return f"Target({self.origin})"


@dataclass(frozen=True, slots=True, kw_only=True)
class EgressPolicy:
    """Which URLs may be called; the attributes are those of the section ``[egress]``, checked."""

    schemes: frozenset[str] = frozenset({"http", "https"})
    ports: tuple[range, ...] = (range(80, 81), range(443, 444))
    networks: tuple[Network, ...] = ()
    hosts: tuple[str, ...] = ()
    only_hosts: tuple[str, ...] = ()
    ca_file: Path | None = None

    @classmethod
    def from_config(cls, config: Config) -> EgressPolicy:
        """Return the policy of a process.

        Raises:
            ConfigError: A network, host, port or file cannot be used; the message names the setting.
        """
        section: EgressSection = config.egress
        unknown = set(section.schemes) - set(DEFAULT_PORTS)
        if unknown:
            raise ConfigError(f"egress.schemes: {min(unknown)!r} is not http or https")
        if section.ca_file is not None and not section.ca_file.is_file():
            raise ConfigError(f"egress.ca_file: there is no file {section.ca_file}")
        return cls(
            schemes=frozenset(section.schemes),
            ports=tuple(_ports(item) for item in section.allow_ports),
            networks=tuple(_network(item) for item in section.allow_networks),
            hosts=tuple(_pattern("allow_hosts", item) for item in section.allow_hosts),
            only_hosts=tuple(_pattern("only_hosts", item) for item in section.only_hosts),
            ca_file=section.ca_file,
        )

    def target(self, url: str) -> Target:
        """Take a URL apart, and refuse what no answer of DNS can make good.

        Raises:
            EgressRefusedError: It is odd or not allowed. The message holds no more of it than scheme, host and port.
        """
        target = Target.parse(url)
        if target.scheme not in self.schemes:
            raise EgressRefusedError(
                f"{target.origin}: the scheme is not allowed; egress.schemes has {', '.join(sorted(self.schemes))}"
            )
        if not any(target.port in ports for ports in self.ports):
            raise EgressRefusedError(f"{target.origin}: port {target.port} is not in egress.allow_ports")
        if self.only_hosts and not _matches(target.host, self.only_hosts):
            raise EgressRefusedError(f"{target.origin}: the host is not in egress.only_hosts")
        if target.literal is not None:
            self.check_addresses(target, [target.literal])
        return target

    def check_addresses(self, target: Target, found: Sequence[Address]) -> list[Address]:
        """Return those addresses of a target's host that may be reached.

        Raises:
            EgressRefusedError: There is none; the message says what the first one is, and which setting allows it.
        """
        private_too = target.literal is None and _matches(target.host, self.hosts)
        reasons = {address: judge(address, self.networks, private_too=private_too) for address in found}
        good = [address for address, reason in reasons.items() if reason is None]
        if not good:
            address, reason = next(iter(reasons.items()))
            raise EgressRefusedError(_refusal(target, address, reason or ""))
        return good


def _refusal(target: Target, address: Address, reason: str) -> str:
    named = target.literal is None
    said = f"{target.origin}: {f'its address {address}' if named else 'the address'} is {reason}"
    match reason:
        case addresses.METADATA:
            return f"{said}; only egress.allow_networks with this one address allows it"
        case addresses.PRIVATE if named:
            return f"{said}; egress.allow_networks with its network or egress.allow_hosts with the host allows it"
        case addresses.UNSPECIFIED | addresses.MULTICAST | addresses.RESERVED:
            return f"{said}, and is never called"
    return f"{said}; egress.allow_networks with its network allows it"


def _parse(url: str) -> Target:
    if len(url) > MAX_URL:
        raise EgressRefusedError(f"the URL has {len(url)} characters, {MAX_URL} are allowed")
    if any(not char.isprintable() or char in " \\" for char in url):
        raise EgressRefusedError(
            "the URL holds a blank, a backslash or a control character: percent-encode it"
        )
    match = _URL.fullmatch(url)
    if match is None:
        raise EgressRefusedError("the URL must begin with http:// or https://")
    scheme, authority, path = match[1].lower(), match[2], match[3]
    if scheme not in DEFAULT_PORTS:
        raise EgressRefusedError("the URL must begin with http:// or https://")
    if "@" in authority:
        raise EgressRefusedError("the URL holds a user name or password before @: use a header")
    host, port = _split(authority, DEFAULT_PORTS[scheme])
    name, literal = _host(host)
    if not path.startswith("/"):
        path = f"/{path}"
    return Target(scheme=scheme, host=name, port=port, literal=literal, path=quote(path, safe=_SAFE))


def _split(authority: str, usual: int) -> tuple[str, int]:
    if authority.startswith("["):
        host, bracket, rest = authority.partition("]")
        host += bracket
    else:
        host, colon, port = authority.partition(":")
        rest = colon + port
    if not rest:
        return host, usual
    digits = rest[1:]
    if not rest.startswith(":") or not (digits.isascii() and digits.isdigit()) or len(digits) > len("65535"):
        raise EgressRefusedError(f"the URL's port must be a number from 1 to {MAX_PORT}")
    if not 1 <= int(digits) <= MAX_PORT:
        raise EgressRefusedError(f"the URL's port must be a number from 1 to {MAX_PORT}")
    return host, int(digits)


def _host(host: str) -> tuple[str, Address | None]:
    """Return name and address of a URL's host; exactly one spelling of each is taken."""
    if not host.isascii():
        raise EgressRefusedError("the URL's host must be written in ASCII (xn--…)")
    if host.startswith("["):
        if "%" in host:
            raise EgressRefusedError("the URL's address must have no zone")
        try:
            inner = ipaddress.IPv6Address(host[1:-1] if host.endswith("]") else "")
        except ValueError:
            raise EgressRefusedError("the URL holds something in brackets that is no IPv6 address") from None
        return str(inner), inner
    name = host.lower().removesuffix(".")
    labels = name.split(".")
    if _NUMBER.fullmatch(labels[-1]):
        try:
            # four decimal numbers without leading zeros, unlike inet_aton, which takes much more
            address = ipaddress.IPv4Address(host)
        except ValueError:
            raise EgressRefusedError(
                "the URL's host looks like a number: an address is four decimal numbers without leading zeros"
            ) from None
        return str(address), address
    if len(name) > MAX_HOST or not all(_LABEL.fullmatch(label) for label in labels):
        raise EgressRefusedError("the URL's host is no name and no address")
    return name, None


def _matches(host: str, patterns: Sequence[str]) -> bool:
    return any(
        host.endswith(pattern[1:]) if pattern.startswith("*.") else host == pattern for pattern in patterns
    )


def _ports(item: Any) -> range:
    match = _RANGE.fullmatch(str(item))
    if match is not None:
        first = int(match[1])
        last = int(match[2] or first)
        if 1 <= first <= last <= MAX_PORT:
            return range(first, last + 1)
    raise ConfigError(
        f"egress.allow_ports: {item!r} is no port such as 8443 and no range such as '8000-8999'"
    )


def _network(item: str) -> Network:
    try:
        return ipaddress.ip_network(item)
    except ValueError as error:
        raise ConfigError(f"egress.allow_networks: {error}; a network is written as 10.1.0.0/16") from None


def _pattern(setting: str, item: str) -> str:
    try:
        name, literal = _host(item.removeprefix("*."))
    except EgressRefusedError:
        raise ConfigError(
            f"egress.{setting}: {item!r} is no host such as chat.example.com or *.example.com"
        ) from None
    if literal is not None and setting == "allow_hosts":
        raise ConfigError(f"egress.allow_hosts: {item!r} is an address: name it in egress.allow_networks")
    return f"*.{name}" if item.startswith("*.") else name
