"""What may be called, by the section ``[egress]``; no I/O."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from xwheel import Config
from xwheel.plugin import AddressKind, ConfigError, PlainUrl, refused_kind

from xwheel_egress.messages import EgressRefusedError

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

MAX_PORT: Final = 65535
_RANGE: Final = re.compile(r"([0-9]{1,5})(?:-([0-9]{1,5}))?")
_SCHEMES: Final = frozenset({"http", "https"})


@dataclass(frozen=True, slots=True, kw_only=True)
class EgressPolicy:
    """Which URLs may be called; the attributes are those of the section ``[egress]``, checked."""

    schemes: frozenset[str] = _SCHEMES
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
        section = config.egress
        unknown = set(section.schemes) - _SCHEMES
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

    def target(self, url: str) -> PlainUrl:
        """Return a URL's parts, if the policy allows it whatever address its name has.

        Raises:
            EgressRefusedError: It is not plain or not allowed. The message holds no more of it than scheme, host and
                port.
        """
        try:
            target = PlainUrl.parse(url)
        except ValueError as error:
            raise EgressRefusedError(str(error)) from None
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

    def check_addresses(self, target: PlainUrl, found: Sequence[Address]) -> list[Address]:
        """Return those addresses of a target's host that may be called.

        Raises:
            EgressRefusedError: There is none; the message says what the first one is, and which setting allows it.
        """
        private_too = target.literal is None and _matches(target.host, self.hosts)
        kinds = {address: refused_kind(address, self.networks, private_too=private_too) for address in found}
        good = [address for address, kind in kinds.items() if kind is None]
        if not good:
            address, kind = next(iter(kinds.items()))
            raise EgressRefusedError(_refusal(target, address, kind))
        return good


def _refusal(target: PlainUrl, address: Address, kind: AddressKind | None) -> str:
    is_name = target.literal is None
    said = f"{target.origin}: {f'its address {address}' if is_name else 'the address'} is {kind}"
    match kind:
        case AddressKind.METADATA:
            return f"{said}; only egress.allow_networks with this one address allows it"
        case AddressKind.PRIVATE if is_name:
            return f"{said}; egress.allow_networks with its network or egress.allow_hosts with the host allows it"
        case AddressKind.UNSPECIFIED | AddressKind.MULTICAST | AddressKind.RESERVED:
            return f"{said}, and is never called"
    return f"{said}; egress.allow_networks with its network allows it"


def _matches(host: str, patterns: Sequence[str]) -> bool:
    return any(host.endswith(pattern[1:]) if pattern.startswith("*.") else host == pattern for pattern in patterns)


def _ports(item: int | str) -> range:
    match = _RANGE.fullmatch(str(item))
    if match is not None:
        first = int(match[1])
        last = int(match[2] or first)
        if 1 <= first <= last <= MAX_PORT:
            return range(first, last + 1)
    raise ConfigError(f"egress.allow_ports: {item!r} is no port such as 8443 and no range such as '8000-8999'")


def _network(item: str) -> Network:
    try:
        return ipaddress.ip_network(item)
    except ValueError as error:
        raise ConfigError(f"egress.allow_networks: {error}; a network is written as 10.1.0.0/16") from None


def _pattern(setting: str, item: str) -> str:
    try:
        name, literal = PlainUrl.parse_host(item.removeprefix("*."))
    except ValueError:
        raise ConfigError(f"egress.{setting}: {item!r} is no host such as chat.example.com or *.example.com") from None
    if literal is not None and setting == "allow_hosts":
        raise ConfigError(f"egress.allow_hosts: {item!r} is an address: name it in egress.allow_networks")
    return f"*.{name}" if item.startswith("*.") else name
