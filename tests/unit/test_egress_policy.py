"""What the egress policy lets through and what not (rule R8, test T11); nothing here opens a connection."""

from __future__ import annotations

import ipaddress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xwheel.config import build_config
from xwheel.egress import EgressPolicy, EgressRefusedError
from xwheel.egress.addresses import judge
from xwheel.errors import ConfigError


def policy_of(**section: Any) -> EgressPolicy:
    return EgressPolicy.from_config(build_config({"egress": section}))


DEFAULT = policy_of()


@pytest.mark.parametrize(
    ("address", "kind"),
    [
        ("127.0.0.1", "loopback"),
        ("127.255.255.254", "loopback"),
        ("0.0.0.0", "unspecified"),
        ("0.1.2.3", "unspecified"),
        ("10.0.0.1", "private"),
        ("100.64.0.1", "private"),
        ("172.31.255.255", "private"),
        ("192.168.1.1", "private"),
        ("169.254.1.1", "link-local"),
        ("169.254.169.254", "a cloud's metadata service"),
        ("100.100.100.200", "a cloud's metadata service"),
        ("168.63.129.16", "a cloud's metadata service"),
        ("192.0.0.8", "special-purpose"),
        ("198.18.0.1", "benchmarking"),
        ("203.0.113.9", "documentation"),
        ("224.0.0.1", "multicast"),
        ("255.255.255.255", "reserved"),
        ("::", "unspecified"),
        ("::1", "loopback"),
        ("::ffff:127.0.0.1", "loopback"),
        ("::ffff:10.0.0.1", "private"),
        ("::ffff:8.8.8.8", "IPv4-mapped"),
        ("::127.0.0.1", "loopback"),
        ("::8.8.8.8", "IPv4-compatible"),
        ("64:ff9b::7f00:1", "loopback"),
        ("64:ff9b::a9fe:a9fe", "a cloud's metadata service"),
        ("64:ff9b::808:808", "NAT64"),
        ("64:ff9b:1::1", "NAT64"),
        ("2002:7f00:1::", "loopback"),
        ("2002:808:808::", "6to4"),
        ("2001:0:4136:e378:8000:63bf:80ff:fffe", "loopback"),  # Teredo of 127.0.0.1
        ("2001:0:4136:e378:8000:63bf:f7f7:f7f7", "Teredo"),  # of 8.8.8.8
        ("2001:db8::1", "documentation"),
        ("fc00::1", "private"),
        ("fd00:ec2::254", "a cloud's metadata service"),
        ("fe80::1", "link-local"),
        ("fe80::1%eth0", "link-local"),
        ("fec0::1", "site-local"),
        ("ff02::1", "multicast"),
        ("100::1", "in no public network"),
        ("4000::1", "in no public network"),
    ],
)
def test_what_is_not_public_is_refused_by_its_kind(address: str, kind: str) -> None:
    assert judge(ipaddress.ip_address(address), ()) == kind


@pytest.mark.parametrize("address", ["8.8.8.8", "1.1.1.1", "172.32.0.1", "2606:4700::1111", "2400:3200::1"])
def test_public_addresses_pass(address: str) -> None:
    assert judge(ipaddress.ip_address(address), ()) is None


@given(st.ip_addresses())
def test_nothing_passes_that_the_library_calls_special(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address,
) -> None:
    if judge(address, ()) is None:
        for kind in ("private", "loopback", "link_local", "reserved", "multicast", "unspecified"):
            assert not getattr(address, f"is_{kind}")


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


@pytest.mark.parametrize(
    "host",
    [
        "2130706433",
        "0x7f000001",
        "0x7f.1",
        "017700000001",
        "0177.0.0.1",
        "127.1",
        "127.0.1",
        "127.0.0.0x1",
        "127.0.0.01",
        "1.2.3.4.5",
        "256.1.1.1",
        "127.0.0.1%00",
        "127.0.0.1%2f",
        "１２７.0.0.1",
        "127。0。0。1",
        "ⓔxample.com",
        "bücher.example",
        "exam\u00adple.com",
        "[::1",
        "[::1]x",
        "[fe80::1%25eth0]",
        "[::ffff:127.0.0.1.]",
        "[v1.a]",
        "",
        ".",
        "a..b",
        "-a.example",
        "a_b-.example",
        "a" * 64 + ".example",
        ".".join(["a" * 60] * 5),
    ],
)
def test_odd_spellings_of_hosts_are_refused(host: str) -> None:
    with pytest.raises(EgressRefusedError, match="URL"):
        DEFAULT.target(f"http://{host}/")


@pytest.mark.parametrize(
    "url",
    [
        "",
        "example.com",
        "//example.com/",
        "http:/example.com",
        "http:example.com",
        "http:\\\\example.com",
        "http://example.com\\@evil.example/",
        "ftp://example.com/",
        "file:///etc/passwd",
        "gopher://example.com/",
        "http://user@example.com/",
        "http://user:s3cret@example.com/",
        "http://example.com@127.0.0.1/",
        "http://example.com:80@127.0.0.1/",
        "http://example.com/ x",
        "http://example.com/\r\nHost: evil",
        "http://example.com/\x00",
        "http://exam\tple.com/",
        " http://example.com/",
        "http://example.com:/",
        "http://example.com:0/",
        "http://example.com:65536/",
        "http://example.com:99999999999999999999/",
        "http://example.com:８０/",
        "http://example.com:+80/",
        "http://example.com:80:80/",
        "http://example.com/" + "a" * 9000,
    ],
)
def test_what_is_no_plain_url_is_refused(url: str) -> None:
    with pytest.raises(EgressRefusedError) as told:
        DEFAULT.target(url)
    assert "s3cret" not in str(told.value)
    assert "\n" not in str(told.value)


@given(st.text(max_size=60))
def test_any_text_is_a_target_or_refused(text: str) -> None:
    for url in (text, f"http://{text}", f"https://example.com{text}"):
        try:
            target = DEFAULT.target(url)
        except EgressRefusedError:
            continue
        assert target.url.isascii()
        assert target.url.startswith(f"{target.scheme}://{target.authority}/")
        again = DEFAULT.target(target.url)
        assert (again.host, again.port, again.path) == (target.host, target.port, target.path)


@pytest.mark.parametrize(
    ("url", "whole", "origin"),
    [
        ("HTTP://Example.COM", "http://example.com:80/", "http://example.com"),
        ("https://example.com./a?b=c#d", "https://example.com:443/a?b=c", "https://example.com"),
        ("https://example.com?b=ü", "https://example.com:443/?b=%C3%BC", "https://example.com"),
        ("http://8.8.8.8:443/", "http://8.8.8.8:443/", "http://8.8.8.8:443"),
        ("http://[2606:4700:0::1111]/%20", "http://[2606:4700::1111]:80/%20", "http://[2606:4700::1111]"),
    ],
)
def test_a_url_is_put_together_anew(url: str, whole: str, origin: str) -> None:
    target = DEFAULT.target(url)
    assert (target.url, target.origin) == (whole, origin)
    assert repr(target) == f"Target({origin})"


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
        (
            {"allow_hosts": ["10.1.2.3"]},
            "egress.allow_hosts: '10.1.2.3' is an address: name it in egress.allow_n",
        ),
        ({"only_hosts": ["http://a.example"]}, "egress.only_hosts: 'http://a.example' is no host"),
        ({"ca_file": "/nowhere/ca.pem"}, "egress.ca_file: there is no file /nowhere/ca.pem"),
        ({"allow_network": []}, "egress.allow_network is not a setting; did you mean allow_networks?"),
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
def test_the_refusal_names_the_way_out(url: str, said: str) -> None:
    with pytest.raises(EgressRefusedError) as told:
        DEFAULT.target(url)
    assert str(told.value) == f"{url.split('/', maxsplit=1)[0]}//{url.split('/')[2]}: {said}"
