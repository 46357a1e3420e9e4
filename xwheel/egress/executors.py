"""Where executors may be: what they register is an address that somebody else wrote, and nodes call it with a secret.

Unlike webhooks, executors usually are in private networks, which are allowed. Loopback, link-local and metadata
addresses are not, in whatever form, unless a setting names their network.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass

from xwheel.config import Config
from xwheel.egress.addresses import Address, Network, judge
from xwheel.egress.policy import Target
from xwheel.errors import ConfigError, EgressRefusedError, WireError

SETTING = "security.executor_networks"
LOOPBACK: tuple[Network, ...] = (ipaddress.ip_network("127.0.0.0/8"), ipaddress.ip_network("::1/128"))


@dataclass(frozen=True)
class ExecutorNetworks:
    """Which addresses executors may have.

    Attributes:
        allowed: Networks that are allowed beside public and private ones.
    """

    allowed: tuple[Network, ...] = ()

    @classmethod
    def from_config(cls, config: Config) -> ExecutorNetworks:
        """Return the policy of a node: one that only its own machine reaches has executors there too.

        Raises:
            ConfigError: A network cannot be read.
        """
        named: list[Network] = []
        for item in config.security.executor_networks:
            try:
                named.append(ipaddress.ip_network(item))
            except ValueError as error:
                raise ConfigError(f"{SETTING}: {error}; a network is written as 127.0.0.0/8") from None
        return cls((*named, *LOOPBACK) if _is_loopback(config.api.executor_host) else tuple(named))

    def check(self, address: str, field: str = "registryValue") -> None:
        """Refuse a registered address that is no address of an executor; names are judged when they are called.

        Args:
            address: A normalised base URL.
            field: What to call it in errors.

        Raises:
            WireError: It is not allowed; the message says what it is and which setting allows it.
        """
        try:
            target = Target.parse(address)
        except EgressRefusedError as error:
            raise WireError(f"{field}: {error}") from None
        reason = None
        if target.literal is not None:
            reason = self._judge(target.literal)
        elif target.host == "localhost" or target.host.endswith(".localhost"):
            reason = self._judge(ipaddress.IPv4Address("127.0.0.1"))
        if reason is not None:
            raise WireError(f"{field}: {_said(target.host, reason)}")

    def refusal(self, ip: str) -> str | None:
        """Return why a connection to an address must not be made, or None if it may; for names, once resolved."""
        try:
            reason = self._judge(ipaddress.ip_address(ip.partition("%")[0]))
        except ValueError:
            return f"{ip[:64]!r} is no address"
        return None if reason is None else _said(ip, reason)

    def _judge(self, address: Address) -> str | None:
        return judge(address, self.allowed, private_too=True)


def _said(host: str, reason: str) -> str:
    return f"{host} is {reason}, where no executor may be unless {SETTING} names its network"


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
