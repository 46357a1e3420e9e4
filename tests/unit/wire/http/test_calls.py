"""HTTP clients: whether a failed call may have reached the peer, reuse, bounds."""

from __future__ import annotations

import contextlib
import gc
import gzip
import os
import socket
import threading
from collections.abc import Iterator

import pytest

from tests.support.peers import OK_ANSWER, Peer, answer
from tests.support.ports import free_port
from xwheel.errors import ExecutorRefusedError, ExecutorUnreachableError, WireError
from xwheel.wire.contract import MAX_ANSWER
from xwheel.wire.http import HttpCall, HttpResult, MultiClient, post

TOKEN = "a-token-of-some-length"


@pytest.fixture
def client() -> Iterator[MultiClient]:
    client = MultiClient(max_in_flight=4)
    yield client
    client.close()


def collect(client: MultiClient, count: int) -> list[HttpResult]:
    results: list[HttpResult] = []
    for _ in range(200):
        results += client.poll(100)
        if len(results) >= count:
            return results
    raise AssertionError(f"only {len(results)} of {count} results")


def call(url: str, key: object = 1, *, app_name: str = "demo", **options: object) -> HttpCall:
    body = b'{"jobId":1}'
    return HttpCall(key=key, url=url, body=body, token=TOKEN, app_name=app_name, **options)  # type: ignore[arg-type]


def test_an_answer_comes_back_and_headers_go_out(client: MultiClient) -> None:
    with Peer(lambda *_: OK_ANSWER) as peer:
        client.submit(call(peer.url + "/run", key=("run", 7), app_name="other"))
        (result,) = collect(client, 1)
    assert (result.key, result.status, result.body, result.error) == (("run", 7), 200, b'{"code":200}', "")
    request = peer.requests[0].decode()
    assert request.startswith("POST /run HTTP/1.1\r\n")
    assert f"XXL-JOB-ACCESS-TOKEN: {TOKEN}\r\n" in request
    assert "XXL-JOB-APPNAME: other\r\n" in request
    assert "Expect:" not in request
    assert request.endswith('{"jobId":1}')


def test_connections_are_kept(client: MultiClient) -> None:
    with Peer(lambda *_: OK_ANSWER) as peer:
        for number in range(20):
            client.submit(call(peer.url, key=number))
            assert collect(client, 1)[0].key == number
        assert peer.connections == 1


def test_more_calls_than_places_wait(client: MultiClient) -> None:
    with Peer(lambda *_: OK_ANSWER) as peer:
        for number in range(50):
            client.submit(call(peer.url, key=number))
        assert len(client._active) + len(client._waiting) == 50
        assert sorted(result.key for result in collect(client, 50)) == list(range(50))  # type: ignore[type-var]
        assert peer.connections <= 4
    assert len(client._active) + len(client._waiting) == 0


@pytest.mark.parametrize("host", ["127.0.0.1", "no-such-host.invalid"])
def test_no_connection_means_not_sent(client: MultiClient, host: str) -> None:
    client.submit(call(f"http://{host}:{free_port()}/run"))
    (result,) = collect(client, 1)
    assert (result.status, result.sent) == (0, False)
    assert result.error


@pytest.mark.parametrize("url", ["file:///etc/passwd", "ftp://127.0.0.1/x", "http://"])
def test_only_http_is_spoken(client: MultiClient, url: str) -> None:
    client.submit(call(url))
    (result,) = collect(client, 1)
    assert (result.status, result.sent) == (0, False)


@pytest.mark.parametrize("first", [0, 1])
def test_silence_after_the_request_means_it_may_have_arrived(client: MultiClient, first: int) -> None:
    with Peer(lambda _, count: OK_ANSWER if count <= first else b"") as peer:
        for _ in range(first):
            client.submit(call(peer.url))
            collect(client, 1)
        client.submit(call(peer.url, timeout_ms=1000))
        (result,) = collect(client, 1)
    assert (result.status, result.sent) == (0, True)
    assert result.cost_ms >= 100


def test_a_hangup_means_it_may_have_arrived(client: MultiClient) -> None:
    with Peer(lambda *_: None) as peer:
        client.submit(call(peer.url))
        (result,) = collect(client, 1)
    assert (result.status, result.sent) == (0, True)


@pytest.mark.parametrize(("repeatable", "requests"), [(True, 3), (False, 2)])
def test_only_repeatable_calls_are_repeated(client: MultiClient, repeatable: bool, requests: int) -> None:
    # the peer reads the second request on the kept connection and hangs up
    with Peer(lambda connection, count: None if (connection, count) == (1, 2) else OK_ANSWER) as peer:
        client.submit(call(peer.url, repeatable=repeatable))
        assert collect(client, 1)[0].status == 200
        client.submit(call(peer.url, repeatable=repeatable))
        (result,) = collect(client, 1)
        assert len(peer.requests) == requests
        assert (result.sent, result.repeated) == (True, repeatable)
        assert result.status == (200 if repeatable else 0)
        assert repeatable or "not sent twice" in result.error


def test_r2_a_call_that_curl_repeats_in_vain_may_have_arrived(client: MultiClient) -> None:
    """R2: an executor that took the runs and died before it answered refused nothing."""
    peers: list[Peer] = []

    def die(_: int, request: int) -> bytes | None:
        if request == 1:
            return answer("200 OK")
        peers[0].stop_listening()
        return None

    with Peer(die) as peer:
        peers.append(peer)
        client.submit(call(peer.url))
        assert collect(client, 1)[0].status == 200
        client.submit(call(peer.url, repeatable=True))
        (result,) = collect(client, 1)
        assert len(peer.requests) == 2
    assert (result.status, result.sent, result.repeated) == (0, True, True)
    assert "(curl 7)" in result.error  # the repeated try could not connect any more


def test_redirects_are_not_followed(client: MultiClient) -> None:
    with Peer(lambda *_: answer("301 Moved", extra="Location: http://127.0.0.1:1/\r\n")) as peer:
        client.submit(call(peer.url))
        assert collect(client, 1)[0].status == 301


@pytest.mark.parametrize(
    "large",
    [
        answer("200 OK", b"x" * 2000),
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + 4 * (b"1f4\r\n" + b"x" * 500 + b"\r\n"),
    ],
    ids=["length said", "chunked"],
)
def test_large_answers_are_refused(large: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xwheel.wire.http.curl.MAX_ANSWER", 1000)
    client = MultiClient()
    try:
        with Peer(lambda *_: large) as peer:
            client.submit(call(peer.url))
            (result,) = collect(client, 1)
        assert (result.status, result.sent) == (0, True)
    finally:
        client.close()


def test_submit_and_wake_end_a_wait(client: MultiClient) -> None:
    with Peer(lambda *_: OK_ANSWER) as peer:
        timer = threading.Timer(0.05, client.submit, [call(peer.url)])
        timer.start()
        found: list[HttpResult] = []
        while not found:
            found = client.poll(60_000)
        timer.join()
    client.wake()
    assert client.poll(60_000) == []


def test_a_failed_call_does_not_spoil_its_handle(client: MultiClient) -> None:
    with Peer(lambda *_: OK_ANSWER) as peer:
        client.submit(call(f"http://127.0.0.1:{free_port()}"))
        assert collect(client, 1)[0].status == 0
        client.submit(call(peer.url))
        assert collect(client, 1)[0].body == b'{"code":200}'


def test_post_returns_the_envelope_whatever_its_code() -> None:
    body = b'{"code":500,"msg":"no","content":null}'
    with Peer(lambda *_: answer("200 OK", body)) as peer:
        found = post(peer.url + "/api/registry", b"{}", token=TOKEN, app_name="demo")
    assert (found.code, found.message, found.ok, found.xwheel) == (500, "no", False, False)


def test_post_tells_refusal_silence_and_absence_apart() -> None:
    with Peer(lambda *_: answer("404 Not Found")) as peer, pytest.raises(ExecutorRefusedError, match="404"):
        post(peer.url, b"{}", token=TOKEN)
    with Peer(lambda *_: answer("502 Bad Gateway")) as peer, pytest.raises(ExecutorUnreachableError) as gateway:
        post(peer.url, b"{}", token=TOKEN)
    assert gateway.value.sent
    with Peer(lambda *_: b"") as peer, pytest.raises(ExecutorUnreachableError) as silent:
        post(peer.url, b"{}", token=TOKEN, timeout_s=1)
    assert silent.value.sent
    for url in (f"http://127.0.0.1:{free_port()}", "http://no-such-host.invalid"):
        with pytest.raises(ExecutorUnreachableError) as absent:
            post(url, b"{}", token=TOKEN)
        assert not absent.value.sent
        assert TOKEN not in str(absent.value)
    with Peer(lambda *_: answer("200 OK", b"<html>")) as peer, pytest.raises(WireError, match="not JSON"):
        post(peer.url, b"{}", token=TOKEN)


class Dripper:
    """Answers each request byte by byte: the head, or the body of an answer whose head came at once."""

    PAUSE_S = 0.02

    def __init__(self, at_once: int) -> None:
        self.sent = 0
        self._at_once = at_once
        self._closed = threading.Event()
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def __enter__(self) -> Dripper:
        return self

    def __exit__(self, *_: object) -> None:
        self._closed.set()
        self._socket.close()
        self._thread.join(60)

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            connection, _ = self._socket.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(SLOW_ANSWER[: self._at_once])
                for place in range(self._at_once, len(SLOW_ANSWER)):
                    if self._closed.wait(self.PAUSE_S):
                        return
                    connection.sendall(SLOW_ANSWER[place : place + 1])
                    self.sent = place


SLOW_ANSWER = answer("200 OK", b'{"code":200,"msg":"' + b"x" * 400 + b'"}')


@pytest.mark.parametrize("at_once", [0, SLOW_ANSWER.index(b"{")], ids=["head", "body"])
@pytest.mark.parametrize("one_by_one", [True, False])
def test_s8_a_call_has_one_deadline_however_the_answer_drips(
    client: MultiClient, at_once: int, one_by_one: bool
) -> None:
    """Every byte comes in time, the whole answer would take 8 s and more."""
    with Dripper(at_once) as peer:
        if one_by_one:
            with pytest.raises(ExecutorUnreachableError) as late:
                post(peer.url, b"{}", token=TOKEN, timeout_s=0.3)
            assert late.value.sent
        else:
            client.submit(call(peer.url, timeout_ms=300))
            (result,) = collect(client, 1)
            assert (result.status, result.sent) == (0, True)
        assert peer.sent < len(SLOW_ANSWER) - 1


def test_s8_nothing_packed_is_asked_for_and_none_unpacked(client: MultiClient) -> None:
    """An old urllib3 made a GiB of what a peer packed unasked."""
    bomb = gzip.compress(b'{"code":200,"msg":"' + b" " * 20_000_000 + b'"}')
    assert len(bomb) < 50_000
    with Peer(lambda *_: answer("200 OK", bomb, "Content-Encoding: gzip\r\n")) as peer:
        with pytest.raises(WireError, match="not JSON"):
            post(peer.url, b"{}", token=TOKEN)
        client.submit(call(peer.url))
        assert collect(client, 1)[0].body == bomb
    assert len(peer.requests) == 2
    for request in peer.requests:
        assert request.lower().count(b"accept-encoding:") == 1
        assert b"Accept-Encoding: identity\r\n" in request


@pytest.mark.parametrize("chunked", [True, False])
def test_s8_post_reads_no_more_than_a_bounded_answer(chunked: bool) -> None:
    size = MAX_ANSWER + 1
    head = b"Transfer-Encoding: chunked\r\n\r\n%x" % size if chunked else b"Content-Length: %d\r\n" % size
    large = b"HTTP/1.1 200 OK\r\n" + head + b"\r\n" + b"x" * size + b"\r\n0\r\n\r\n"
    with Peer(lambda *_: large) as peer, pytest.raises(WireError, match=f"larger than {MAX_ANSWER} bytes"):
        post(peer.url, b"{}", token=TOKEN)


def test_post_keeps_its_connection_and_never_that_of_its_parent() -> None:
    with Peer(lambda *_: OK_ANSWER) as peer:
        url = peer.url.replace("127.0.0.1", "localhost")  # a name is looked up on a thread of curl's
        for _ in range(3):
            assert post(url, b"{}", token=TOKEN).ok
        assert peer.connections == 1
        child = os.fork()
        if not child:
            gc.collect()
            os._exit(0 if post(url, b"{}", token=TOKEN).ok else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert post(url, b"{}", token=TOKEN).ok
        assert len(peer.requests) == 5


def test_a_call_that_cannot_be_made_was_not_sent() -> None:
    with Peer(lambda *_: OK_ANSWER) as peer:
        assert post(peer.url, b"{}", token=TOKEN).ok
        for url in ("file:///etc/passwd", "http://", "http://127.0.0.1:1/\ud800"):
            with pytest.raises(ExecutorUnreachableError) as never:
                post(url, b"{}", token=TOKEN)
            assert not never.value.sent
        assert post(peer.url, b"{}", token=TOKEN).ok
