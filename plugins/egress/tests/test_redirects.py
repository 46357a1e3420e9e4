"""Redirects of the egress client: followed only if asked for, and each checked again (rule R8, test T11)."""

from __future__ import annotations

from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
import trustme
from conftest import Names, policy_of, tls_for
from xwheel_devtools.testing import WebRequest, WebServer, web_reply

from xwheel_egress import EgressClient, EgressError, EgressRefusedError

SECRET = "s3cret-part-of-the-url"


def to(location: Callable[[], str], status: int = 302) -> Callable[[BaseHTTPRequestHandler, WebRequest], None]:
    def reply(handler: BaseHTTPRequestHandler, seen: WebRequest) -> None:
        if seen.path == "/end":
            web_reply(200, b"end")(handler, seen)
        else:
            web_reply(status, b"moved", {"Location": location()})(handler, seen)

    return reply


def test_a_redirect_is_not_followed_unless_asked_for() -> None:
    with WebServer(to(lambda: "/end")) as web:
        answer = EgressClient(policy_of(web)).request("GET", web.url)
        assert (answer.status, answer.body) == (302, b"moved")
        assert len(web.requests) == 1


@pytest.mark.parametrize(
    ("status", "method", "then"),
    [(301, "POST", "GET"), (302, "PUT", "PUT"), (303, "PUT", "GET"), (307, "POST", "POST"), (308, "GET", "GET")],
)
def test_a_redirect_keeps_or_drops_the_body_as_http_says(status: int, method: str, then: str) -> None:
    with WebServer(to(lambda: "/end", status)) as web:
        headers = {"Authorization": "x", "Content-Type": "text/plain"}
        body = None if method == "GET" else b"data"
        answer = EgressClient(policy_of(web)).request(method, web.url, headers=headers, body=body, redirects=1)
        assert answer.body == b"end"
        assert [seen.method for seen in web.requests] == [method, then]
        assert web.requests[1].body == (b"" if then == "GET" else b"data")
        assert web.requests[1].headers["Authorization"] == "x"
        assert ("Content-Type" in web.requests[1].headers) == (then == method)


@pytest.mark.parametrize(
    ("location", "said"),
    [
        ("http://127.0.0.2:{port}/" + SECRET, "the address is loopback"),
        ("http://169.254.169.254:{port}/", "metadata"),
        ("http://2130706433:{port}/", "looks like a number"),
        ("//[::ffff:127.0.0.1]:{port}/", "IPv4-mapped"),
        ("http://127.0.0.1:1/", "port 1 is not in"),
        ("file:///etc/passwd", "must begin with http"),
        ("http://user:pw@127.0.0.1:{port}/", "user name or password"),
        ("http://[", "no URL|brackets"),
        ("http://inner.example:{port}/", r"its address 10\.0\.0\.1 is private"),
    ],
)
def test_each_redirect_is_checked_anew(location: str, said: str) -> None:
    with WebServer(to(lambda: location.format(port=web.port))) as web:
        client = EgressClient(policy_of(web), resolve=Names(["10.0.0.1"]))
        with pytest.raises(EgressRefusedError, match=said) as told:
            client.request("GET", web.url, redirects=5)
        assert SECRET not in str(told.value)
        assert len(web.requests) == 1


def test_a_redirect_to_another_origin_gets_no_credentials_and_no_body() -> None:
    with WebServer(web_reply(200, b"there")) as there:
        for status in (302, 307):
            with WebServer(to(lambda: f"{there.url}/", status)) as web:
                client = EgressClient(policy_of(web, there))
                headers = {"Authorization": "x", "X-Key": "y", "Accept": "text/html"}
                assert client.request("GET", web.url, headers=headers, redirects=1).body == b"there"
                seen = there.requests.pop()
                assert seen.headers["Accept"] == "text/html"
                assert not {"Authorization", "X-Key"} & set(seen.headers)
                if status == 307:
                    with pytest.raises(EgressRefusedError, match="would get the request's body"):
                        client.request("POST", web.url, body=b"x", redirects=1)
        assert not there.requests


def test_redirects_are_limited_and_never_lead_from_https_to_http(tmp_path: Path) -> None:
    ca, path = trustme.CA(), tmp_path / "ca.pem"
    ca.cert_pem.write_to_path(str(path))
    with WebServer(to(lambda: "/again")) as web:
        with pytest.raises(EgressError, match="more than 3 redirects"):
            EgressClient(policy_of(web)).request("GET", web.url, redirects=3)
        assert len(web.requests) == 4
        with WebServer(to(lambda: f"{web.url}/end"), tls=tls_for(ca, "127.0.0.1")) as safe:
            client = EgressClient(policy_of(web, safe, ca=path))
            with pytest.raises(EgressRefusedError, match="redirects from https to http://"):
                client.request("GET", safe.url, redirects=3)
        assert len(web.requests) == 4


def test_redirects_share_the_time_limit_of_the_call() -> None:
    """Each of them keeps far below the limit."""

    def reply(handler: BaseHTTPRequestHandler, seen: WebRequest) -> None:
        web.closing.wait(0.3)
        web_reply(302, b"moved", {"Location": "/on"})(handler, seen)

    with WebServer(reply) as web, pytest.raises(EgressError, match=r"no complete answer within 1 s"):
        EgressClient(policy_of(web)).request("GET", web.url, timeout_s=1, redirects=5)
