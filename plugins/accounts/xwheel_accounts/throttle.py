"""Decide how long somebody waits before the next attempt to sign in, from wrong passwords before it. Pure."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv6Address, ip_address, ip_network
from typing import Final

from xwheel_accounts.storage.accounts import name_key
from xwheel_accounts.storage.sessions import Failures

DIGITS: Final = 32
FIRST_PAUSE_MS: Final = 1000
LAST_PAUSE_MS: Final = 900_000
LOCKED_AT: Final = 100
"""Wrong passwords in a row that lock an account until an admin lifts that, as NIST SP 800-63B section 3.2.2 asks."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How much is forgiven.

    Attributes:
        free: Wrong passwords in a row before the next attempt has to wait.
        last_pause_ms: The longest wait; each is twice as long as the one before.
        forget_ms: After this long without an attempt all is forgotten.
    """

    free: int
    last_pause_ms: int
    forget_ms: int


OF_PAIR: Final = Limits(free=5, last_pause_ms=LAST_PAUSE_MS, forget_ms=86_400_000)
"""Of a name from one address."""

OF_NAME: Final = Limits(free=20, last_pause_ms=60_000, forget_ms=86_400_000)
"""Of a name from anywhere: more is forgiven, or strangers could keep its owner out."""

OF_ADDRESS: Final = Limits(free=50, last_pause_ms=60_000, forget_ms=3_600_000)
"""Whole offices share an address: it must not keep all of them out because of one."""

STEP_MS: Final = 60_000
"""What was noted so far ahead of the present time was noted before the clock went back."""

IPV4_BITS: Final = 24
IPV6_BITS: Final = 48


def key_of_name(name: str) -> str:
    """Return the key of what somebody signs in as, whether there is such an account or not."""
    return f"name:{_digest(name_key(name))}"


def pairs_of_name(name: str) -> str:
    """Return how the keys of a name from any address begin."""
    return f"pair:{_digest(name_key(name))}:"


def limits_of(name: str, peer: str, *, is_familiar: bool) -> dict[str, Limits]:
    """Return what an attempt counts for, by key.

    Args:
        name: What somebody signs in as.
        peer: From where, an address or the network that counts as one.
        is_familiar: The account has a session from there: what strangers elsewhere typed keeps no one out there.
    """
    found = {f"{pairs_of_name(name)}{_digest(peer)}": OF_PAIR, **limits_of_address(peer)}
    return found if is_familiar else {**found, key_of_name(name): OF_NAME}


def limits_of_address(peer: str) -> dict[str, Limits]:
    """Return what an attempt counts for that names no one, by key."""
    return {f"address:{_digest(peer)}": OF_ADDRESS}


def is_of_address(key: str) -> bool:
    """Return whether a key is that of an address alone."""
    return key.startswith("address:")


def wait_ms(known: Failures, now_ms: int) -> int:
    """Return how long an attempt has to wait, in milliseconds; not at all for what a clock noted that went back.

    What was forgiven asks for no wait, though the node that noted it may be ahead of this one.
    """
    if known.until_ms <= known.last_ms or known.last_ms > now_ms + STEP_MS:
        return 0
    return min(max(0, known.until_ms - now_ms), LAST_PAUSE_MS)


def after_failure(known: Failures, now_ms: int, limits: Limits) -> Failures:
    """Return what is known after one more wrong password."""
    count = 1 if now_ms - known.last_ms > limits.forget_ms else known.count + 1
    pause_ms = 0
    if count >= limits.free:
        pause_ms = min(FIRST_PAUSE_MS << min(count - limits.free, 16), limits.last_pause_ms)
    return Failures(count, now_ms + pause_ms, now_ms)


@lru_cache(4096)
def network_of(address: str) -> str:
    """Return the network that a session keeps to: people's addresses change within it."""
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(parsed, IPv6Address) and parsed.ipv4_mapped is not None:
        parsed = parsed.ipv4_mapped
    bits = IPV6_BITS if isinstance(parsed, IPv6Address) else IPV4_BITS
    return str(ip_network((parsed, bits), strict=False))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:DIGITS]
