"""S14, S24: anyone who floods the sign-in from one address, or from many, keeps no one elsewhere out."""

from __future__ import annotations

import contextlib
import http.client
import json
import selectors
import socket
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path

import pytest
from xwheel_devtools.testing import wait_until
from xwheel_devtools.testing.processes import NodeProcess

pytestmark = pytest.mark.processes

STRANGER, HOME = "127.0.0.2", "127.0.0.1"
SIGN_INS = 10
JUDGED = 5
"""So many wrong passwords of strangers are judged while a sign-in waits, at most: one that is judged already, and what
comes while its own answer travels. Places are given in the order of asking, one to an address."""

ANSWERED = 2_000
"""So many calls of an address that has to wait are answered while a sign-in waits, at most: about 300 were seen. A
count says that on a busy machine, too."""

THROTTLING = 50
"""Wrong passwords of one address after which it has to wait."""


MANY = [f"127.0.0.{number}" for number in range(2, 22)]


class Flood:
    """Connections that are kept open and ask again as soon as they are answered, one for each address that is named.

    Attributes:
        answers: How often each status came.
    """

    def __init__(self, host: str, port: int, sources: Sequence[str]) -> None:
        self.answers: Counter[int] = Counter()
        self._target = (host, port)
        self._names = count()
        self._over = threading.Event()
        self._selector = selectors.DefaultSelector()
        for source in sources:
            self._connect(source)

    def run(self) -> None:
        while not self._over.is_set():
            for key, _ in self._selector.select(0.2):
                self._answered(key.fileobj, key.data)  # type: ignore[arg-type]

    def _connect(self, source: str) -> None:
        made = socket.create_connection(self._target, timeout=30, source_address=(source, 0))
        self._selector.register(made, selectors.EVENT_READ, source)
        self._ask(made)

    def _ask(self, connection: socket.socket) -> None:
        body = json.dumps({"name": f"name-{next(self._names)}", "password": "wrong wet goats"}).encode()
        head = f"POST /api/v1/session HTTP/1.1\r\nHost: h\r\nContent-Length: {len(body)}\r\n\r\n"
        connection.sendall(head.encode() + body)

    def _answered(self, connection: socket.socket, source: str) -> None:
        try:
            answer = connection.recv(65_536)
            if answer.startswith(b"HTTP/1.1 "):
                self.answers[int(answer[9:12])] += 1
            if answer:
                return self._ask(connection)
        except OSError:
            self.answers[0] += 1
        self._selector.unregister(connection)
        connection.close()
        return self._connect(source)

    def end(self) -> None:
        self._over.set()

    def close(self) -> None:
        for key in list(self._selector.get_map().values()):
            key.fileobj.close()  # type: ignore[union-attr]
        self._selector.close()


@contextlib.contextmanager
def flooded(host: str, port: int, sources: Sequence[str]) -> Iterator[Flood]:
    flood = Flood(host, port, sources)
    thread = threading.Thread(target=flood.run)
    thread.start()
    try:
        yield flood
    finally:
        flood.end()
        thread.join()
        flood.close()


def attempt(host: str, port: int, name: str, password: str, source: str) -> int:
    """Try to sign in over a connection of its own; return the status."""
    connection = http.client.HTTPConnection(host, port, timeout=30, source_address=(source, 0))
    with contextlib.closing(connection):
        connection.request("POST", "/api/v1/session", json.dumps({"name": name, "password": password}))
        answer = connection.getresponse()
        answer.read()
    return answer.status


def throttle(host: str, port: int) -> None:
    """Type wrong passwords from the strangers' address until it has to wait.

    A busy machine answers some with 503, which count for nothing. It may be so slow that the first ones are forgotten.
    """
    for number in range(10 * THROTTLING):
        status = attempt(host, port, f"stranger-{number}", "wrong", STRANGER)
        if status == 429:
            return
        assert status in {401, 503}
    raise AssertionError("the strangers' address never had to wait")


@pytest.mark.long(15)
def test_s14_a_flood_of_one_address_keeps_nobody_elsewhere_from_signing_in(tmp_path: Path) -> None:
    """Eight connections that are judged, then as many that have to wait already, then two hundred of these."""
    with NodeProcess(tmp_path) as node:
        host, _, text = node.url.removeprefix("http://").partition(":")
        port, password = int(text), node.find("password of the account admin .*: (.*)")
        for connections, is_throttled in ((8, False), (8, True), (200, True)):
            if is_throttled:
                throttle(host, port)
            with flooded(host, port, [STRANGER] * connections) as flood:
                for _ in range(SIGN_INS):
                    before = flood.answers.copy()
                    assert attempt(host, port, "admin", password, HOME) == 201
                    meanwhile = flood.answers.copy() - before
                    assert meanwhile[401] <= JUDGED, meanwhile
                    if is_throttled:
                        assert meanwhile.total() <= ANSWERED, meanwhile
            assert flood.answers.total() > SIGN_INS, "there was no flood"


@pytest.mark.long(15)
def test_s24_a_flood_of_many_addresses_keeps_out_no_one_who_asks_seldom(tmp_path: Path) -> None:
    """Twenty of them, with a connection each, for the four of whom the node judges one and lets three wait."""
    with NodeProcess(tmp_path, XWHEEL_API__THREADS="8") as node:
        host, _, text = node.url.removeprefix("http://").partition(":")
        port, password = int(text), node.find("password of the account admin .*: (.*)")
        with flooded(host, port, MANY) as flood:
            wait_until(lambda: flood.answers[503] > 10 * len(MANY))
            for _ in range(SIGN_INS):
                assert attempt(host, port, "admin", password, HOME) == 201
        assert flood.answers[429] == 0, "some had to wait already: they would not have been in the way"
