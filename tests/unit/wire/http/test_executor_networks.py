"""S1: where executors may be, as they register and once their name is resolved."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from xwheel.config import build_config
from xwheel.errors import ConfigError, ExecutorUnreachableError, WireError
from xwheel.wire.contract import normalise_address
from xwheel.wire.http import HttpCall, MultiClient, post
from xwheel.wire.http.networks import ExecutorNetworks

SPECIAL = [
    "http://127.0.0.1:9999",
    "http://127.8.8.8:9999",
    "http://localhost:9999",
    "http://LOCALHOST:9999",
    "http://executor.localhost:9999",
    "http://[::1]:9999",
    "http://[::ffff:127.0.0.1]:9999",
    "http://[::ffff:7f00:1]:9999",
    "http://[::ffff:169.254.169.254]:80",
    "http://[::ffff:10.0.0.5]:80",
    "http://[64:ff9b::7f00:1]:80",
    "http://[2002:7f00:1::]:80",
    "http://169.254.1.1:9999",
    "http://169.254.169.254:80",
    "http://100.100.100.200:80",
    "http://[fd00:ec2::254]:80",
    "http://[fe80::1]:9999",
    "http://0.0.0.0:9999",
    "http://[::]:9999",
    "http://224.0.0.1:9999",
    "http://2130706433:9999",
    "http://127.1:9999",
    "http://0x7f000001:9999",
    "http://0177.0.0.1:9999",
]
USUAL = [
    "http://10.0.0.5:9999",
    "http://172.16.3.4:9999/app",
    "http://192.168.1.7:9999",
    "http://[fd12:3456::7]:9999",
    "https://8.8.8.8:443",
    "http://executor-7.orders.svc.cluster.local:9999",
    "http://worker_1:9999",
]


def networks(host: str = "0.0.0.0", *allowed: str) -> ExecutorNetworks:
    config = build_config({"api": {"executor_host": host}, "security": {"executor_networks": list(allowed)}})
    return ExecutorNetworks.from_config(config)


@pytest.mark.parametrize("address", SPECIAL)
def test_s1_special_addresses_are_refused_once_a_node_listens_beyond_loopback(address: str) -> None:
    with pytest.raises(WireError, match="^registryValue: ") as caught:
        networks().check(normalise_address(address))
    if "looks like a number" not in str(caught.value):
        assert "security.executor_networks" in str(caught.value)


@pytest.mark.parametrize("address", USUAL)
@pytest.mark.parametrize("host", ["0.0.0.0", "127.0.0.1", "10.0.0.1", "::"])
def test_usual_addresses_are_taken(address: str, host: str) -> None:
    networks(host).check(normalise_address(address))


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost"])
def test_a_node_for_its_own_machine_takes_executors_there_and_nothing_else_special(host: str) -> None:
    policy = networks(host)
    for address in ("http://127.0.0.1:9999", "http://localhost:9999", "http://[::1]:9999"):
        policy.check(normalise_address(address))
    for address in ("http://169.254.169.254:80", "http://[fe80::1]:80", "http://0.0.0.0:1"):
        with pytest.raises(WireError):
            policy.check(normalise_address(address))


def test_s1_the_zone_of_an_address_opens_nothing() -> None:
    policy = networks("0.0.0.0", "fd00::/8")
    for address in ("fd00:ec2::254", "fd00:ec2::254%eth0", "fe80::1%eth0", "::1%lo"):
        said = policy.refusal(address)
        assert said is not None, address
        assert said.startswith(f"{address} is ")
    assert policy.refusal("fd12:3456::7%eth0") is None
    assert "is no address" in str(policy.refusal("10.0.0.1%eth0"))


def test_a_setting_allows_networks_and_a_metadata_service_only_by_its_address() -> None:
    policy = networks("0.0.0.0", "127.0.0.0/8", "169.254.0.0/16", "100.100.100.200/32")
    for address in ("http://127.0.0.1:1", "http://localhost:1", "http://169.254.7.7:1", "http://100.100.100.200:1"):
        policy.check(normalise_address(address))
    for address in ("http://169.254.169.254:80", "http://[::1]:1", "http://[::ffff:127.0.0.1]:1"):
        with pytest.raises(WireError):
            policy.check(normalise_address(address))
    with pytest.raises(ConfigError, match=r"security\.executor_networks.*127\.0\.0\.0/8"):
        networks("0.0.0.0", "127.0.0.1/8")


class Peer:
    """A listener that counts connections."""

    def __init__(self) -> None:
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]

    def was_called(self) -> bool:
        self.socket.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            self.socket.accept()[0].close()
            return True
        return False


@pytest.fixture
def peer() -> Iterator[Peer]:
    made = Peer()
    yield made
    made.socket.close()


def test_s1_a_name_that_leads_to_loopback_is_never_connected_to(peer: Peer) -> None:
    """Names are judged by the address that a connection would go to, whatever DNS said before."""
    url = f"http://localhost:{peer.port}/run"
    client = MultiClient(guard=networks().refusal)
    client.submit(HttpCall(key=1, url=url, body=b"{}", token="secret-of-the-group"))
    results: list[Any] = []
    for _ in range(500):
        results += client.poll(20)
        if results:
            break
    client.close()
    (result,) = results
    assert (result.status, result.sent) == (0, False)
    assert "security.executor_networks" in result.error
    with pytest.raises(ExecutorUnreachableError, match=r"security\.executor_networks") as caught:
        post(url, b"{}", token="secret-of-the-group", guard=networks().refusal)
    assert not caught.value.sent
    assert not peer.was_called()


def test_a_call_that_was_refused_does_not_blame_the_next_one(peer: Peer) -> None:
    """Handles are used again: what one call was told is not said of another."""
    guarded = networks().refusal
    with pytest.raises(ExecutorUnreachableError, match="executor_networks"):
        post(f"http://127.0.0.1:{peer.port}/run", b"{}", token="", guard=guarded)
    with pytest.raises(ExecutorUnreachableError) as caught:
        post("http://name.that.does.not.exist.invalid/run", b"{}", token="", guard=guarded)
    assert "executor_networks" not in str(caught.value)
    # without a guard, as executors call their schedulers
    with pytest.raises(ExecutorUnreachableError):
        post(f"http://127.0.0.1:{peer.port}/run", b"{}", token="", timeout_s=0.2)
    assert peer.was_called()


def test_a_guarded_call_opens_one_connection_and_leaves_no_descriptor(peer: Peer) -> None:
    """curl works on a duplicate of the socket that the guard opened: that one is closed."""
    allowed = networks("127.0.0.1").refusal
    url = f"http://127.0.0.1:{peer.port}/run"
    with pytest.raises(ExecutorUnreachableError):
        post(url, b"{}", token="", timeout_s=0.2, guard=allowed)  # the first call makes curl's own descriptors
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(5):
        with pytest.raises(ExecutorUnreachableError) as caught:
            post(url, b"{}", token="", timeout_s=0.2, guard=allowed)
        assert caught.value.sent
    assert len(list(Path("/proc/self/fd").iterdir())) <= before
    assert peer.was_called()
