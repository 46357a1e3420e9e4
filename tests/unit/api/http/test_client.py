"""Where a call came from: as trusted proxies say, and no one else."""

from __future__ import annotations

import falcon.testing
import pytest

from xwheel.api.http.client import TrustedProxies
from xwheel.errors import ConfigError

PROXY, OTHER_PROXY, CALLER, LIAR = "10.0.0.1", "10.0.0.2", "192.0.2.7", "203.0.113.9"


def seen(said: str | None, *, remote: str = PROXY, trusted: tuple[str, ...] = ("10.0.0.0/24",)) -> str:
    headers = {} if said is None else {"X-Forwarded-For": said}
    req = falcon.testing.create_req(headers=headers, remote_addr=remote)
    return TrustedProxies(trusted).address_of(req)


@pytest.mark.parametrize(
    ("said", "address"),
    [
        (None, PROXY),
        ("", PROXY),
        (CALLER, CALLER),
        # what a caller wrote itself stands before what the proxy adds
        (f"{LIAR}, {CALLER}", CALLER),
        (f"{LIAR}, {CALLER}, {OTHER_PROXY}", CALLER),
        (f"{LIAR}, nonsense, {OTHER_PROXY}", OTHER_PROXY),
        (f"{CALLER}:4711", CALLER),
        ("[2001:db8::7]:4711", "2001:db8::7"),
        ("::ffff:192.0.2.7", CALLER),
        (f"{OTHER_PROXY}, {PROXY}", OTHER_PROXY),
        (", ".join([LIAR] + [PROXY] * 16), PROXY),
    ],
)
def test_the_last_address_that_no_proxy_has_is_the_callers(said: str | None, address: str) -> None:
    assert seen(said) == address


@pytest.mark.parametrize("trusted", [(), ("10.0.0.0/24",)])
def test_what_others_say_of_themselves_counts_for_nothing(trusted: tuple[str, ...]) -> None:
    assert seen(LIAR, remote=CALLER, trusted=trusted) == CALLER
    headers = {"X-Forwarded-Host": "evil.example", "X-Forwarded-Proto": "https", "Host": "jobs.example"}
    req = falcon.testing.create_req(headers=headers, remote_addr=CALLER)
    proxies = TrustedProxies(trusted)
    assert (proxies.host_of(req), proxies.is_https(req)) == ("jobs.example", False)


def test_what_is_no_network_is_refused_by_name() -> None:
    with pytest.raises(ConfigError, match=r"api\.trusted_proxies: 'all' does not"):
        TrustedProxies(["all"])
