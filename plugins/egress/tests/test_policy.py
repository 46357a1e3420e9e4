"""What the egress policy lets through and what not (rule R8, test T11); nothing here opens a connection."""

from __future__ import annotations

import ipaddress
from typing import Any

import pytest
from xwheel import Config
from xwheel.plugin import ConfigError

from xwheel_egress import EgressPolicy, EgressRefusedError


def policy_of(**section: Any) -> EgressPolicy:
    return EgressPolicy.from_config(Config.model_validate({"egress": section}))


DEFAULT = policy_of()


def test_a_named_network_passes_and_its_neighbours_do_not() -> None:
    policy = policy_of(allow_networks=["10.1.0.0/16", "fd12::/32"])
    assert policy.target("http://10.1.2.3/").port == 80
    assert policy.target("http://[fd12::1]/").host == "fd12::1"
    for other in ("10.2.0.1", "[fd13::1]", "127.0.0.1"):
        with pytest.raises(EgressRefusedError):
            policy.target(f"http://{other}/")


def test_the_metadata_service_must_be_named_by_its_one_address() -> None:
    wide = policy_of(allow_networks=["169.254.0.0/16", "0.0.0.0/0", "fd00::/8"])
    for address in ("169.254.169.254", "[fd00:ec2::254]", "[::ffff:169.254.169.254]"):
        with pytest.raises(EgressRefusedError, match="metadata"):
            wide.target(f"http://{address}/")
    assert policy_of(allow_networks=["169.254.169.254"]).target("http://169.254.169.254/")


def test_some_addresses_are_never_called() -> None:
    wide = policy_of(allow_networks=["0.0.0.0/0", "::/0"])
    for address in ("0.0.0.0", "[::]", "224.0.0.1", "[ff02::1]", "255.255.255.255", "[64:ff9b::]"):
        with pytest.raises(EgressRefusedError, match="and is never called"):
            wide.target(f"http://{address}/")
    assert wide.target("http://[::ffff:127.0.0.1]/")


def test_a_translated_address_needs_both_halves() -> None:
    nat64 = policy_of(allow_networks=["64:ff9b::/96"])
    assert nat64.target("http://[64:ff9b::808:808]/")
    with pytest.raises(EgressRefusedError, match="loopback"):
        nat64.target("http://[64:ff9b::7f00:1]/")


def test_a_named_host_may_have_private_addresses_and_no_others() -> None:
    policy = policy_of(allow_hosts=["*.corp.example", "chat.example.com"])
    for url in ("https://a.b.corp.example/", "https://CHAT.example.com./"):
        target = policy.target(url)
        assert policy.check_addresses(target, [ipaddress.ip_address("10.0.0.1")])
        for address in ("127.0.0.1", "169.254.169.254", "::1", "0.0.0.0"):
            with pytest.raises(EgressRefusedError):
                policy.check_addresses(target, [ipaddress.ip_address(address)])
    for url in ("https://corp.example/", "https://xcorp.example/", "https://chat.example.com.evil.example/"):
        with pytest.raises(EgressRefusedError, match=r"egress\.allow_hosts"):
            policy.check_addresses(policy.target(url), [ipaddress.ip_address("10.0.0.1")])


def test_only_the_good_addresses_of_a_name_are_given() -> None:
    target = DEFAULT.target("https://example.com/")
    found = [ipaddress.ip_address(text) for text in ("10.0.0.1", "8.8.8.8", "::1")]
    assert DEFAULT.check_addresses(target, found) == [ipaddress.ip_address("8.8.8.8")]


def test_only_hosts_leaves_no_others() -> None:
    policy = policy_of(only_hosts=["hooks.example.com", "8.8.8.8"])
    assert policy.target("https://hooks.example.com/x")
    assert policy.target("https://8.8.8.8/")
    for url in ("https://example.com/", "https://hooks.example.com.evil.example/", "https://8.8.4.4/"):
        with pytest.raises(EgressRefusedError, match=r"egress\.only_hosts"):
            policy.target(url)


def test_a_host_whose_private_addresses_are_allowed_is_called_only_if_it_is_among_the_only_ones() -> None:
    policy = policy_of(only_hosts=["hooks.example.com"], allow_hosts=["chat.example.com"])
    with pytest.raises(EgressRefusedError, match=r"egress\.only_hosts"):
        policy.target("https://chat.example.com/")


@pytest.mark.parametrize("url", ["", "ftp://a.example", "http://127.1/", "http://u:s3cret@a.example/", "http://a\nb/"])
def test_what_is_no_plain_url_is_refused(url: str) -> None:
    with pytest.raises(EgressRefusedError, match="the URL") as told:
        DEFAULT.target(url)
    assert "s3cret" not in str(told.value)


def test_ports_and_schemes_are_those_of_the_settings() -> None:
    policy = policy_of(schemes=["https"], allow_ports=[443, "8000-8002"])
    for port in (443, 8000, 8002):
        assert policy.target(f"https://example.com:{port}/").port == port
    for port in (80, 7999, 8003, 22):
        with pytest.raises(EgressRefusedError, match=rf"port {port} is not in egress\.allow_ports"):
            policy.target(f"https://example.com:{port}/")
    with pytest.raises(EgressRefusedError, match=r"egress\.schemes has https"):
        policy.target("http://example.com/")


@pytest.mark.parametrize(
    ("section", "said"),
    [
        ({"schemes": ["ftp"]}, "egress.schemes: 'ftp' is not http or https"),
        ({"allow_ports": ["80-"]}, "egress.allow_ports: '80-' is no port such as 8443"),
        ({"allow_ports": [0]}, "egress.allow_ports: 0 is no port"),
        ({"allow_ports": ["90-80"]}, "egress.allow_ports: '90-80' is no port"),
        ({"allow_networks": ["10.1.2.3/16"]}, "egress.allow_networks: 10.1.2.3/16 has host bits set"),
        ({"allow_networks": ["example.com"]}, "egress.allow_networks: 'example.com' does not appear"),
        ({"allow_hosts": ["*"]}, "egress.allow_hosts: '*' is no host"),
        ({"allow_hosts": ["10.1.2.3"]}, "egress.allow_hosts: '10.1.2.3' is an address: name it in egress.allow_n"),
        ({"only_hosts": ["http://a.example"]}, "egress.only_hosts: 'http://a.example' is no host"),
        ({"ca_file": "/nowhere/ca.pem"}, "egress.ca_file: there is no file /nowhere/ca.pem"),
    ],
)
def test_a_setting_that_cannot_be_used_is_named(section: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as told:
        policy_of(**section)
    assert str(told.value).startswith(said)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("http://127.0.0.1/", "the address is loopback; egress.allow_networks with its network allows it"),
        ("http://10.0.0.1/", "the address is private; egress.allow_networks with its network allows it"),
        (
            "http://169.254.169.254/latest?token=s3cret",
            "the address is a cloud's metadata service; only egress.allow_networks with this one address allows it",
        ),
    ],
)
def test_the_refusal_names_the_setting(url: str, said: str) -> None:
    with pytest.raises(EgressRefusedError) as told:
        DEFAULT.target(url)
    assert str(told.value) == f"{url.split('/', maxsplit=1)[0]}//{url.split('/')[2]}: {said}"
