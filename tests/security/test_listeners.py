"""S2, S3 and S11: strangers hold sockets of a listener, never its threads, its memory or its door."""

from __future__ import annotations

import contextlib
import errno
import http.client
import logging
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from logging import Formatter
from typing import Any

import pytest

from tests.support.executors import wait_until
from tests.support.strangers import connect, is_closed, strangers
from xwheel.config.sections import ConnectionsSection
from xwheel.runtime.http_limits import ConnectionStage
from xwheel.runtime.http_server import Listener

BIG = b"x" * 160_000
STREAM = 48
MEGABYTE = 1 << 20
BODY_LIMIT = 2 * MEGABYTE
TOKEN = "the-token-of-known-callers"


class App:
    """Small, large and endless answers; ``/wait`` answers once it is released."""

    def __init__(self) -> None:
        self.released = threading.Event()
        self.waiting = threading.Semaphore(0)
        self.served: list[str] = []
        self.bodies: list[int] = []

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        path = environ["PATH_INFO"]
        self.served.append(path)
        if path == "/wait":
            self.waiting.release()
            self.released.wait(60)
        if path == "/stream":
            start_response("200 OK", [("Content-Length", str(STREAM * MEGABYTE))])
            return (b"x" * MEGABYTE for _ in range(STREAM))
        if environ["REQUEST_METHOD"] == "POST" and not self.admits(environ):
            start_response("200 OK", [("Content-Type", "application/json")])
            return [b'{"code":500,"msg":"the token is wrong"}']
        length = int(environ.get("CONTENT_LENGTH") or 0)
        if length > BODY_LIMIT:
            start_response("413 Too Large", [])
            return [b"too large"]
        body = environ["wsgi.input"].read()
        if length:
            self.bodies.append(len(body))
        start_response("200 OK", [])
        return [BIG if path == "/big" else b"small"]

    def admits(self, environ: dict[str, Any]) -> bool:
        return environ.get("HTTP_TOKEN") == TOKEN


@contextlib.contextmanager
def serving(app: App, *, threads: int = 2, **limits: float) -> Iterator[Listener]:
    listener = Listener(
        "api",
        app,
        host="127.0.0.1",
        port=0,
        threads=threads,
        max_body_bytes=BODY_LIMIT,
        limits=ConnectionsSection(**limits),  # type: ignore[arg-type]
        admits=app.admits,
        own_threads=["/healthz"],
    )
    listener.start()
    try:
        yield listener
    finally:
        app.released.set()
        listener.stop()


def get(port: int, path: str, source: str = "127.0.0.1", timeout_s: float = 20) -> bytes:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout_s, source_address=(source, 0))
    try:
        connection.request("GET", path)
        return connection.getresponse().read()
    finally:
        connection.close()


def read_all(peer: socket.socket) -> bytes:
    """Return what the server sends until it closes."""
    found = bytearray()
    with contextlib.suppress(ConnectionResetError):
        while piece := peer.recv(65_536):
            found += piece
    return bytes(found)


def test_s2_readers_who_read_nothing_hold_no_thread() -> None:
    app = App()
    with serving(app) as listener, strangers(listener.port) as them:
        them.read_nothing(8, b"GET /big HTTP/1.1\r\nHost: h\r\n\r\n", pipelined=250)
        wait_until(lambda: app.served.count("/big") >= 8)
        before = 0
        while before < (before := app.served.count("/big")):  # until all of them wait for their readers
            for _ in range(3):
                assert get(listener.port, "/small") == b"small"
        # one answer is made for each connection, and perhaps a second one while the first fits into the sockets
        assert app.served.count("/big") < 8 * 60


def test_s2_a_worker_that_writes_to_nobody_is_freed_by_the_deadline() -> None:
    app = App()
    with serving(app, threads=1, write_s=0.3) as listener, strangers(listener.port) as them:
        them.read_nothing(1, b"GET /stream HTTP/1.1\r\nHost: h\r\n\r\n")
        wait_until(lambda: "/stream" in app.served)
        assert get(listener.port, "/small") == b"small"
        assert listener.cuts.cut == 1


def test_s2_a_stop_does_not_wait_for_those_who_read_nothing() -> None:
    app = App()
    with serving(app) as listener, strangers(listener.port) as them:
        them.read_nothing(2, b"GET /big HTTP/1.1\r\nHost: h\r\n\r\n", pipelined=250)
        channels = listener.active_channels

        def are_stuck() -> bool:
            now_s = time.monotonic()
            stages = [channel.state().stage for channel in list(channels.values())]
            return stages == [ConnectionStage.WRITING] * 2 and not any(
                c.is_read(now_s) for c in list(channels.values())
            )

        wait_until(are_stuck)
        stopping = threading.Thread(target=listener.stop, args=(3600,), daemon=True)
        stopping.start()
        stopping.join(60)
        assert not stopping.is_alive(), "it waits for peers that read nothing"


def test_s2_health_is_answered_while_all_workers_are_busy() -> None:
    app = App()
    with serving(app, threads=2) as listener, contextlib.ExitStack() as stack:
        for _ in range(5):
            peer = stack.enter_context(connect(listener.port))
            peer.sendall(b"GET /wait HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
        for _ in range(2):
            assert app.waiting.acquire(timeout=20)
        assert get(listener.port, "/healthz") == b"small"
        assert "/small" not in app.served


def test_s2_pipelined_requests_are_answered_in_order_one_after_the_other() -> None:
    app = App()
    with serving(app) as listener, connect(listener.port) as peer:
        post = b"POST /%d HTTP/1.1\r\nHost: h\r\nToken: %s\r\nContent-Length: 3\r\n\r\nabc"
        requests = [post % (number, TOKEN.encode()) for number in range(20)]
        peer.sendall(b"".join(requests) + b"GET /end HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
        answer = read_all(peer)
    assert app.served == [f"/{number}" for number in range(20)] + ["/end"]
    assert answer.count(b"200 OK") == 21


@pytest.mark.parametrize("start", [b"", b"GET / HT", b"\r\n\r\n"], ids=["nothing", "head", "blank lines"])
def test_s3_a_head_has_its_time_as_a_whole(start: bytes) -> None:
    with serving(App(), head_s=2) as listener, connect(listener.port) as peer:
        end = time.monotonic() + 20
        peer.sendall(start)
        while not is_closed(peer):
            assert time.monotonic() < end, "a byte now and then keeps the connection"
            if start:
                with contextlib.suppress(OSError):
                    peer.send(b"\r\n" if start == b"\r\n\r\n" else b"x")
            threading.Event().wait(0.1)
        assert listener.cuts.cut == bool(start)  # who says nothing at all is no news


@pytest.mark.parametrize("chunked", [False, True])
def test_s3_a_body_has_its_time_as_a_whole(chunked: bool) -> None:
    length = b"Transfer-Encoding: chunked" if chunked else b"Content-Length: 5000"
    with serving(App(), body_s=0.5) as listener, connect(listener.port) as peer:
        peer.sendall(b"POST / HTTP/1.1\r\nHost: h\r\n" + length + b"\r\n\r\n")
        end = time.monotonic() + 20
        while not is_closed(peer):
            assert time.monotonic() < end, "a byte now and then keeps the connection"
            with contextlib.suppress(OSError):
                peer.send(b"1\r\nx\r\n" if chunked else b"x")
            threading.Event().wait(0.1)
        assert listener.cuts.cut == 1


def test_s3_110_half_requests_close_nothing() -> None:
    with serving(App(), head_s=600) as listener, strangers(listener.port) as them:
        them.half(110)
        assert get(listener.port, "/small") == b"small"
        assert not any(map(is_closed, them.halves))  # there is room for all of them


def test_s3_an_address_has_its_share() -> None:
    limits: dict[str, float] = {"max_open": 40, "max_open_per_address": 10}
    with (
        serving(App(), **limits) as listener,
        strangers(listener.port) as them,
        connect(listener.port, "127.0.0.3") as other,
    ):
        other.sendall(b"GET /sm")
        them.half(50)
        wait_until(lambda: sum(map(is_closed, them.halves)) >= 40)
        assert get(listener.port, "/small") == b"small"
        # even from the strangers' own address
        assert get(listener.port, "/small", source="127.0.0.2") == b"small"
        other.sendall(b"all HTTP/1.0\r\n\r\n")
        assert read_all(other).endswith(b"small")


def test_s3_at_the_limit_those_who_trickle_make_room() -> None:
    limits: dict[str, float] = {"max_open": 30, "max_open_per_address": 0}
    with serving(App(), **limits) as listener, strangers(listener.port, "127.0.0.1") as them:
        them.half(100)
        for _ in range(5):
            assert get(listener.port, "/small") == b"small"
        assert listener.cuts.cut >= 70
        assert listener.cuts.refused == 0


def test_s3_nobody_who_is_served_makes_room() -> None:
    app = App()
    with serving(app, threads=2, max_open=8) as listener, contextlib.ExitStack() as stack:
        peers = [stack.enter_context(connect(listener.port)) for _ in range(8)]
        for peer in peers:
            peer.sendall(b"GET /wait HTTP/1.0\r\n\r\n")
        for _ in range(2):
            assert app.waiting.acquire(timeout=20)
        # all eight have been read before this one, which comes later, is accepted
        wait_until(lambda: len(listener.task_dispatcher.queue) == 6)
        assert read_all(stack.enter_context(connect(listener.port))) == b""
        assert listener.cuts.refused == 1
        app.released.set()
        assert all(read_all(peer).endswith(b"small") for peer in peers)
        assert get(listener.port, "/small") == b"small"


def test_s3_without_file_descriptors_somebody_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(App()) as listener, strangers(listener.port) as them:
        them.half(3)
        wait_until(lambda: len(listener.active_channels) == 3)
        accept = listener.accept

        def fails() -> None:
            monkeypatch.setattr(listener, "accept", accept)
            raise OSError(errno.EMFILE, "too many open files")

        monkeypatch.setattr(listener, "accept", fails)
        assert get(listener.port, "/small") == b"small"
        assert sum(map(is_closed, them.halves)) == 1
        assert (listener.cuts.refused, listener.cuts.cut) == (1, 1)


def test_s3_the_log_tells_the_sum(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING), serving(App(), head_s=0.2) as listener, strangers(listener.port) as them:
        them.half(50)
        wait_until(lambda: all(map(is_closed, them.halves)))
    (record,) = caplog.records
    assert record.message.startswith("api listener closed 50 connections in ")
    assert record.message.endswith(" s: 50 without a whole head in time; 50 of them from 127.0.0.2")


@pytest.mark.parametrize("token", ["", "wrong"])
def test_s11_a_stranger_is_answered_before_his_body_is_read(token: str) -> None:
    app = App()
    head = f"POST /api/callback HTTP/1.1\r\nHost: h\r\nToken: {token}\r\nContent-Length: 1900000\r\n\r\n"
    with serving(app) as listener, connect(listener.port) as peer:
        peer.sendall(head.encode())
        answer = read_all(peer)
    assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"Connection: close\r\n" in answer
    assert answer.endswith(b'{"code":500,"msg":"the token is wrong"}')


def test_s11_a_stranger_who_announces_no_length_is_stopped_too() -> None:
    app = App()
    with serving(app) as listener, connect(listener.port) as peer:
        peer.sendall(b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n")
        peer.sendall(b"10000\r\n" + b"x" * 0x10000)
        assert read_all(peer).endswith(b'"the token is wrong"}')


def test_s11_a_stranger_who_sends_all_before_he_reads_gets_the_answer() -> None:
    app = App()
    with serving(app) as listener, connect(listener.port) as peer:
        peer.sendall(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1900000\r\n\r\n")
        peer.sendall(b"x" * 1_900_000)
        peer.shutdown(socket.SHUT_WR)
        assert read_all(peer).endswith(b'"the token is wrong"}')


@pytest.mark.parametrize("expect", ["", "Expect: 100-continue\r\n"])
def test_s11_the_body_of_a_known_caller_is_read(expect: str) -> None:
    app = App()
    head = f"POST / HTTP/1.1\r\nHost: h\r\nToken: {TOKEN}\r\nContent-Length: 1900000\r\n{expect}\r\n"
    with serving(app) as listener, connect(listener.port) as peer:
        for _ in range(2):  # the connection is kept
            peer.sendall(head.encode())
            if expect:
                assert peer.recv(65_536) == b"HTTP/1.1 100 Continue\r\n\r\n"
            peer.sendall(b"x" * 1_900_000)
            answer = b""
            while not answer.endswith(b"small"):
                answer += peer.recv(65_536)
    assert app.bodies == [1_900_000, 1_900_000]


def test_s11_a_stranger_is_not_asked_to_continue() -> None:
    app = App()
    with serving(app) as listener, connect(listener.port) as peer:
        peer.sendall(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1900000\r\nExpect: 100-continue\r\n\r\n")
        answer = read_all(peer)
    assert b"100 Continue" not in answer
    assert answer.endswith(b'"the token is wrong"}')


@pytest.mark.parametrize("chunked", [False, True])
def test_what_is_too_long_is_not_read_from_anybody(chunked: bool) -> None:
    app = App()
    length = "Transfer-Encoding: chunked" if chunked else f"Content-Length: {BODY_LIMIT + 1}"
    with serving(app) as listener, connect(listener.port) as peer:
        peer.sendall(f"POST / HTTP/1.1\r\nHost: h\r\nToken: {TOKEN}\r\n{length}\r\n\r\n".encode())
        if chunked:
            piece = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
            for _ in range(BODY_LIMIT // 0x10000 + 1):
                peer.sendall(piece)
        assert read_all(peer).startswith(b"HTTP/1.1 413 ")
    assert app.bodies == []


def test_a_question_that_fails_is_no_yes() -> None:
    app = App()

    def fails(environ: dict[str, Any]) -> bool:
        raise OSError("the database is away")

    listener = Listener("api", app, host="127.0.0.1", port=0, threads=1, max_body_bytes=BODY_LIMIT, admits=fails)
    listener.start()
    try:
        with connect(listener.port) as peer:
            peer.sendall(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1900000\r\n\r\n")
            assert read_all(peer).endswith(b'"the token is wrong"}')
    finally:
        listener.stop()


@pytest.mark.parametrize(
    "head", [b"Content-Length: " + b"9" * 5000, b"X: " + b"x" * 40_000, b"Content-Length: -1", b"X : y"]
)
def test_broken_heads_are_answered_and_closed(head: bytes, caplog: pytest.LogCaptureFixture) -> None:
    with serving(App()) as listener, connect(listener.port) as peer:
        peer.sendall(b"POST / HTTP/1.1\r\n" + head + b"\r\n\r\n")
        assert read_all(peer).startswith((b"HTTP/1.0 4", b"HTTP/1.1 4"))
        assert get(listener.port, "/small") == b"small"
    assert not caplog.records


GOES_EARLY = {
    "a bad head": b"GET / HTTP/1.1\r\nContent-Length: x\r\n\r\n",
    "no head at all": b"\x16\x03\x01\r\n\r\n",
    "a call": b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n",
    "a large answer": b"GET /big HTTP/1.1\r\nHost: h\r\n\r\n",
    "a path of two lines": b"POST /a%0aERROR%20forged HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n",
}


@pytest.mark.parametrize("said", GOES_EARLY)
def test_s25_who_goes_early_leaves_few_lines(said: str, caplog: pytest.LogCaptureFixture) -> None:
    """S25: 26 lines of a traceback for each: 1,500 lines in 0.6 s."""
    caplog.set_level(logging.INFO)
    with serving(App(), threads=4) as listener:
        for _ in range(300):
            peer = connect(listener.port)
            peer.sendall(GOES_EARLY[said])
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # RST
            peer.close()
        assert get(listener.port, "/") == b"small"
    lines = [line for record in caplog.records for line in Formatter().format(record).splitlines()]
    assert len(lines) <= 6, lines
    assert not [line for line in lines if line.startswith(("Traceback", "ERROR forged"))]


def test_s25_a_program_that_serves_with_waitress_besides_keeps_its_lines() -> None:
    with serving(App()) as listener:
        assert get(listener.port, "/") == b"small"
        for name in ("waitress", "waitress.queue"):
            found = logging.getLogger(name)
            assert (found.filters, found.level) == ([], logging.NOTSET)


def post(path: str) -> bytes:
    return b"POST %s HTTP/1.1\r\nHost: h\r\nTOKEN: %s\r\nContent-Length: 0\r\n\r\n" % (path.encode(), TOKEN.encode())


def test_what_waited_until_its_caller_gave_up_is_not_done() -> None:
    """The caller may have asked another node meanwhile, and then for the opposite."""
    app = App()
    with serving(app, threads=1) as listener, connect(listener.port) as busy, connect(listener.port) as patient:
        busy.sendall(b"GET /wait HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
        assert app.waiting.acquire(timeout=60)
        with connect(listener.port) as gone:
            gone.sendall(post("/pause"))
            wait_until(lambda: len(listener.task_dispatcher.queue) == 1)
        patient.sendall(post("/patient"))
        wait_until(lambda: len(listener.task_dispatcher.queue) == 2)
        app.released.set()
        assert patient.recv(65_536).endswith(b"small")
    assert app.served == ["/wait", "/patient"]


def test_nothing_is_taken_before_the_start() -> None:
    listener = Listener("api", App(), host="127.0.0.1", port=0, threads=1, max_body_bytes=BODY_LIMIT)
    with contextlib.closing(listener), pytest.raises(ConnectionRefusedError):
        connect(listener.port)
    listener.stop()
