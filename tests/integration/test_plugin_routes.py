"""Routes of a plugin on a real listener: large bodies in flat memory, from those who may; files in ranges."""

from __future__ import annotations

import hashlib
import http.client
import resource
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path

import pytest
from xwheel_devtools.testing import NodeSite

from xwheel import hookimpl
from xwheel.plugin import Permission, PluginSite, Route, RouteCall, RouteReply
from xwheel.wire.contract import TOKEN_HEADER

MIB = 1024 * 1024
MOST = 96 * MIB


class Boxes:
    """Takes a large body, and gives a file."""

    name = "boxes"

    def __init__(self, path: Path) -> None:
        self.path = path
        self.bodies = 0

    @hookimpl
    def xwheel_register_routes(self) -> list[Boxes]:
        return [self]

    def routes(self, site: PluginSite) -> Sequence[Route]:
        del site

        def take(call: RouteCall) -> RouteReply:
            self.bodies += 1
            digest, size = hashlib.sha256(), 0
            while piece := call.body.read():
                digest.update(piece)
                size += len(piece)
            return RouteReply(value={"sha256": digest.hexdigest(), "size": size})

        def give(call: RouteCall) -> RouteReply:
            return RouteReply(file=self.path)

        return [
            Route(
                method="POST",
                path="",
                answer=take,
                summary="Take a box.",
                permission=Permission.ADMIN,
                max_body_bytes=MOST,
            ),
            Route(method="GET", path="/{box_id:id}", answer=give, summary="Give a box.", for_executors=True),
        ]


def send(node: NodeSite, token: str, size: int) -> tuple[int, bytes]:
    """Send a body of this many bytes, as far as the node takes it."""
    conn = http.client.HTTPConnection(node.url.removeprefix("http://"), timeout=60)
    conn.putrequest("POST", "/api/v1/boxes")
    conn.putheader("Authorization", f"Bearer {token}")
    conn.putheader("Content-Length", str(size))
    conn.endheaders()
    with closing(conn):
        # it may be refused by its head
        with suppress(BrokenPipeError, ConnectionResetError):
            for _ in range(size // MIB):
                conn.send(b"x" * MIB)
        answer = conn.getresponse()
        return answer.status, answer.read()


def fetch(node: NodeSite, **headers: str) -> tuple[int, str]:
    """Return the status and the digest of what an executor gets."""
    conn = http.client.HTTPConnection(node.executor_url.removeprefix("http://"), timeout=60)
    with closing(conn):
        conn.request("GET", "/api/v1/boxes/1", headers=headers)
        answer = conn.getresponse()
        digest = hashlib.sha256()
        while piece := answer.read(MIB):
            digest.update(piece)
        return answer.status, digest.hexdigest()


@pytest.mark.processes
def test_large_bodies_and_files_pass_in_flat_memory(tmp_path: Path) -> None:
    path = tmp_path / "box.bin"
    whole = hashlib.sha256()
    with path.open("wb") as file:
        for number in range(64):
            file.write(bytes([number]) * MIB)
            whole.update(bytes([number]) * MIB)
    boxes = Boxes(path)
    secret = "a-secret-that-all-executors-share"
    settings = {"api": {"port": 0, "executor_port": 0, "executor_token": secret}}
    with NodeSite(tmp_path / "node", boxes, executors=0, settings=settings) as node:
        before_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        status, _ = send(node, node.token, 64 * MIB)
        assert (status, boxes.bodies) == (200, 1)
        assert fetch(node, **{TOKEN_HEADER: secret}) == (200, whole.hexdigest())
        part = fetch(node, **{TOKEN_HEADER: secret, "Range": f"bytes={MIB - 1}-{MIB}"})
        assert part == (206, hashlib.sha256(b"\x00\x01").hexdigest())
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kib < 40 * 1024
        reader = node.call("POST", "tokens", {"name": "reader", "role": "viewer"})["token"]
        assert send(node, reader, 8 * MIB)[0] == 403
        assert send(node, node.token, MOST + MIB)[0] == 413
        assert boxes.bodies == 1
        assert fetch(node)[0] == 401
