"""Which addresses are public, and which texts are plain URLs."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xwheel.wire.http.networks import PlainUrl, refused_kind


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
        ("fd00:ec2::254%eth0", "a cloud's metadata service"),
        ("::ffff:169.254.169.254%1", "a cloud's metadata service"),
        ("fe80::1", "link-local"),
        ("fe80::1%eth0", "link-local"),
        ("fec0::1", "site-local"),
        ("ff02::1", "multicast"),
        ("100::1", "in no public network"),
        ("4000::1", "in no public network"),
    ],
)
def test_what_is_not_public_is_refused_by_its_kind(address: str, kind: str) -> None:
    assert refused_kind(ipaddress.ip_address(address)) == kind


@pytest.mark.parametrize("address", ["8.8.8.8", "1.1.1.1", "172.32.0.1", "2606:4700::1111", "2400:3200::1"])
def test_public_addresses_pass(address: str) -> None:
    assert refused_kind(ipaddress.ip_address(address)) is None


@given(st.ip_addresses())
def test_nothing_passes_that_the_library_calls_special(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> None:
    if refused_kind(address) is None:
        for kind in ("private", "loopback", "link_local", "reserved", "multicast", "unspecified"):
            assert not getattr(address, f"is_{kind}")


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
    with pytest.raises(ValueError, match="URL"):
        PlainUrl.parse(f"http://{host}/")


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
    with pytest.raises(ValueError, match="the URL") as told:
        PlainUrl.parse(url)
    assert "s3cret" not in str(told.value)
    assert "\n" not in str(told.value)


@given(st.text(max_size=60))
def test_any_text_is_a_plain_url_or_refused(text: str) -> None:
    for url in (text, f"http://{text}", f"https://example.com{text}"):
        try:
            found = PlainUrl.parse(url)
        except ValueError as error:
            refused = error
        else:
            assert found.url.isascii()
            assert found.url.startswith(f"{found.scheme}://{found.authority}/")
            again = PlainUrl.parse(found.url)
            assert (again.host, again.port, again.path) == (found.host, found.port, found.path)
            continue
        assert str(refused).startswith("the URL")


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
    found = PlainUrl.parse(url)
    assert (found.url, found.origin) == (whole, origin)
    assert repr(found) == f"PlainUrl({origin})"
