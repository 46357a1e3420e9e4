"""The egress client against real servers on loopback (rule R8, test T11)."""

from __future__ import annotations

import ipaddress
import threading
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
import trustme
from conftest import Names, policy_of, tls_for
from xwheel_devtools.testing import WebRequest, WebServer, web_reply

from xwheel_egress import Answer, EgressClient, EgressError, EgressPolicy, EgressRefusedError

LONG_S = 60.0
PIECES = 1000
"""What a server says that no one stops: 20 seconds of it."""
SECRET = "s3cret-part-of-the-url"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> tuple[trustme.CA, Path]:
    ca = trustme.CA()
    path = tmp_path_factory.mktemp("ca") / "ca.pem"
    ca.cert_pem.write_to_path(str(path))
    return ca, path


def test_a_call_sends_what_it_was_given_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:1")
    with WebServer(web_reply(201, b"made", {"X-A": "1", "x-a": "2", "Set-Cookie": "a=b"})) as web:
        client = EgressClient(policy_of(web))
        for _ in range(2):
            answer = client.request(
                "POST", f"{web.url}/a/../b?c=d#e", headers={"X-Test": "ja", "Empty": ""}, body=b"body"
            )
        assert (answer.status, answer.body, answer.text, answer.truncated) == (201, b"made", "made", False)
        assert answer.headers["x-a"] == "1, 2"
        assert answer.origin == web.url
        for seen in web.requests:
            assert (seen.method, seen.path, seen.body) == ("POST", "/a/../b?c=d", b"body")
            assert seen.headers == {
                "Host": f"127.0.0.1:{web.port}",
                "X-Test": "ja",
                "Empty": "",
                "Accept": "*/*",
                "User-Agent": "xwheel",
                "Accept-Encoding": "identity",
                "Content-Length": "4",
            }


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
def test_every_method_arrives(method: str) -> None:
    with WebServer(web_reply(200, b"x")) as web:
        answer = EgressClient(policy_of(web)).request(method, web.url)
        assert answer.body == (b"" if method == "HEAD" else b"x")
        assert web.requests[0].method == method
        assert web.requests[0].headers.get("Content-Length") == ("0" if method in {"POST", "PUT", "PATCH"} else None)


def test_the_name_is_asked_once_and_the_checked_address_is_called() -> None:
    """DNS rebinding: the second answer would be another server."""
    with WebServer(web_reply(200, b"good")) as web, WebServer(web_reply(200, b"bad"), host="127.0.0.2") as other:
        names = Names(["127.0.0.1"], ["127.0.0.2"])
        client = EgressClient(policy_of(web, other), resolve=names)
        assert client.request("GET", f"http://moving.example:{web.port}/").body == b"good"
        assert names.asked == ["moving.example"]
        assert web.requests[0].headers["Host"] == f"moving.example:{web.port}"
        with pytest.raises(EgressRefusedError, match=r"its address 127\.0\.0\.2 is loopback"):
            client.request("GET", f"http://moving.example:{other.port}/")
        assert not other.requests


def test_addresses_that_are_not_allowed_get_no_connection() -> None:
    """Whatever a name resolves to: loopback in all its forms, private, metadata."""
    with WebServer(web_reply()) as web:
        policy = EgressPolicy(ports=(range(1, 65536),))
        for address in (
            "127.0.0.1",
            "::1",
            "::ffff:127.0.0.1",
            "64:ff9b::7f00:1",
            "2002:7f00:1::",
            "0.0.0.0",
            "::",
            "10.0.0.1",
            "169.254.169.254",
        ):
            client = EgressClient(policy, resolve=Names([address]))
            with pytest.raises(EgressRefusedError, match="its address"):
                client.request("GET", f"http://inner.example:{web.port}/")
        with pytest.raises(EgressRefusedError, match="loopback|unspecified"):
            EgressClient(policy).request("GET", f"http://localhost:{web.port}/")
        assert not web.requests


def test_curl_gets_no_socket_for_an_address_that_was_not_checked() -> None:
    """A second check, for the case that curl resolves the name itself."""
    with WebServer(web_reply()) as web:
        client = EgressClient(policy_of(web))
        call = client.call("GET", web.url)
        opened = call._opener([ipaddress.ip_address("127.0.0.9")])
        call._opener = lambda good: opened  # type: ignore[method-assign]
        with pytest.raises(EgressError, match="connect"):
            call.run()
        assert not web.requests


def test_tls_proves_the_name_while_the_address_is_pinned(authority: tuple[trustme.CA, Path]) -> None:
    ca, path = authority
    with WebServer(web_reply(), tls=tls_for(ca, "hooks.example")) as web:
        client = EgressClient(policy_of(web, ca=path), resolve=Names(["127.0.0.1"]))
        assert client.request("GET", f"https://hooks.example:{web.port}/").body == b"ok"
        assert web.names == ["hooks.example"]
        with pytest.raises(EgressError, match=r"other\.example.*(?i:certificate|subject)"):
            client.request("GET", f"https://other.example:{web.port}/{SECRET}")
        with pytest.raises(EgressError, match="(?i)certificate") as told:
            EgressClient(policy_of(web), resolve=Names(["127.0.0.1"])).request(
                "GET", f"https://hooks.example:{web.port}/{SECRET}"
            )
        assert SECRET not in str(told.value)
        assert len(web.requests) == 1


def test_a_certificates_file_that_went_away_is_named(authority: tuple[trustme.CA, Path], tmp_path: Path) -> None:
    ca, _ = authority
    path = tmp_path / "gone.pem"
    path.touch()
    with WebServer(web_reply(), tls=tls_for(ca, "127.0.0.1")) as web:
        policy = policy_of(web, ca=path)
        path.unlink()
        with pytest.raises(EgressError, match=r"cannot read the certificates in .*gone\.pem"):
            EgressClient(policy).request("GET", web.url)


def endless(handler: BaseHTTPRequestHandler, seen: WebRequest) -> None:
    handler.send_response(200)
    handler.end_headers()
    while True:
        handler.wfile.write(b"x" * 65536)


def test_an_answer_without_end_is_cut() -> None:
    with WebServer(endless) as web:
        answer = EgressClient(policy_of(web)).request("GET", web.url, max_answer=100_000, timeout_s=LONG_S)
        assert (answer.status, len(answer.body), answer.truncated) == (200, 100_000, True)
    with WebServer(web_reply(200, b"x" * 100)) as web:
        client = EgressClient(policy_of(web))
        assert not client.request("GET", web.url, max_answer=100).truncated
        cut = client.request("GET", web.url, max_answer=99)
        assert (cut.truncated, len(cut.body)) == (True, 99)


def test_headers_without_end_are_refused() -> None:
    def reply(handler: BaseHTTPRequestHandler, seen: WebRequest) -> None:
        handler.send_response(200)
        handler.flush_headers()
        while True:
            handler.wfile.write(b"X-A: " + b"x" * 5000 + b"\r\n")

    with WebServer(reply) as web, pytest.raises(EgressError, match="headers have over 65536 bytes"):
        EgressClient(policy_of(web)).request("GET", web.url, timeout_s=LONG_S)


@pytest.mark.parametrize("way", ["silent", "drip", "body"])
def test_the_time_limit_is_that_of_the_whole_call(way: str) -> None:
    def reply(handler: BaseHTTPRequestHandler, seen: WebRequest) -> None:
        if way == "drip":
            handler.wfile.write(b"HTTP/1.1 200 OK\r\nX-Slow: ")
        elif way == "body":
            handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n")
        for _ in range(PIECES):
            if web.closing.wait(0.02):
                return
            if way != "silent":
                handler.wfile.write(b"x")
        ends.append(way)

    ends: list[str] = []
    with WebServer(reply) as web:
        with pytest.raises(EgressError, match=r"no complete answer within 0\.4 s") as told:
            EgressClient(policy_of(web)).request("GET", f"{web.url}/{SECRET}", timeout_s=0.4)
        assert ends == []  # the server had more to say
        assert SECRET not in str(told.value)


def test_a_resolver_that_hangs_ends_with_the_time_limit() -> None:
    free = threading.Event()

    def resolve(host: str, port: int) -> Sequence[str]:
        free.wait()
        return []

    client = EgressClient(EgressPolicy(), resolve=resolve)
    with pytest.raises(EgressError, match=r"https://example\.com: the name was not resolved within 0\.2 s"):
        client.request("GET", "https://example.com/", timeout_s=0.2)
    free.set()


def test_a_name_that_does_not_exist_is_an_error() -> None:
    def resolve(host: str, port: int) -> Sequence[str]:
        raise OSError(-2, "Name or service not known")

    with pytest.raises(EgressError, match="cannot be resolved: Name or service not known"):
        EgressClient(EgressPolicy(), resolve=resolve).request("GET", "https://a.example/")
    with pytest.raises(EgressError, match="has no address"):
        EgressClient(EgressPolicy(), resolve=Names([])).request("GET", "https://a.example/")


def test_an_abort_ends_a_call_that_waits() -> None:
    arrived = threading.Event()

    def reply(handler: BaseHTTPRequestHandler, seen: WebRequest) -> None:
        arrived.set()
        web.hang(handler, seen)

    with WebServer(reply) as web:
        call = EgressClient(policy_of(web)).call("GET", web.url, timeout_s=LONG_S * 10)
        ended: list[BaseException | Answer] = []

        def run() -> None:
            try:
                ended.append(call.run())
            except EgressError as error:
                ended.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        assert arrived.wait(LONG_S)
        call.abort()
        thread.join(LONG_S)
        assert [str(item) for item in ended] == [f"{web.url}: the call was aborted"]
    early = EgressClient(policy_of(web)).call("GET", web.url)
    early.abort()
    with pytest.raises(EgressError, match="was aborted"):
        early.run()


def test_an_abort_does_not_wait_for_a_name() -> None:
    asked, free = threading.Event(), threading.Event()

    def resolve(host: str, port: int) -> Sequence[str]:
        asked.set()
        free.wait()
        return []

    call = EgressClient(EgressPolicy(), resolve=resolve).call("GET", "https://a.example/", timeout_s=3600)
    aborting = threading.Thread(target=lambda: (asked.wait(LONG_S), call.abort()))
    aborting.start()
    with pytest.raises(EgressError, match=r"^https://a\.example: the call was aborted$"):
        call.run()
    free.set()
    aborting.join()


def test_a_server_that_closes_or_is_not_there_is_an_error() -> None:
    def close(handler: BaseHTTPRequestHandler, seen: WebRequest) -> None:
        handler.connection.close()

    with WebServer(close) as web:
        client = EgressClient(policy_of(web))
        with pytest.raises(EgressError, match="(?i)empty reply|reset|recv"):
            client.request("GET", web.url)
    with pytest.raises(EgressError, match="(?i)connect") as told:
        client.request("GET", f"{web.url}/{SECRET}")
    assert SECRET not in str(told.value)


@pytest.mark.parametrize(
    ("headers", "said"),
    [
        ({"Host": "evil.example"}, "set by the client itself"),
        ({"content-length": "0"}, "set by the client itself"),
        ({"Transfer-Encoding": "chunked"}, "set by the client itself"),
        ({"Proxy-Authorization": "x"}, "set by the client itself"),
        ({"A b": "x"}, "no name of a header"),
        ({"A": "x\r\nB: y"}, "must be one line"),
        ({"A": "漢"}, "must be one line"),
        ({"A": "x" * 9000}, "must be one line"),
    ],
)
def test_headers_cannot_be_anything(headers: dict[str, str], said: str) -> None:
    with pytest.raises(EgressRefusedError, match=said):
        EgressClient(EgressPolicy()).call("GET", "https://example.com/", headers=headers)
    with pytest.raises(EgressRefusedError, match="the method must be one of DELETE, GET"):
        EgressClient(EgressPolicy()).call("CONNECT", "https://example.com/")


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "99999999"}, 86_400.0),
        ({"retry-after": "Wed, 21 Oct 2026 07:28:10 GMT", "date": "Wed, 21 Oct 2026 07:28:00 GMT"}, 10.0),
        ({"retry-after": "Wed, 21 Oct 2026 07:28:00 GMT"}, None),
        ({"retry-after": "-5"}, None),
        ({"retry-after": "soon"}, None),
        ({}, None),
    ],
)
def test_retry_after_is_read_by_the_peers_own_clock(headers: dict[str, str], seconds: float | None) -> None:
    answer = Answer(origin="https://a", status=429, headers=headers, body=b"", truncated=False)
    assert answer.retry_after_s == seconds
    assert "retry" not in repr(answer)
