"""A proxy between a node and an executor that keeps what both say; the executor's address becomes the proxy's."""

from __future__ import annotations

import http.client
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

FORWARD_S = 30.0
HOP_BY_HOP = {"host", "connection", "keep-alive", "transfer-encoding", "content-length", "date", "server"}
KEPT = {"content-type", "content-length", "xxl-job-access-token", "xxl-job-appname", "xxl-rpc-access-token"}
"""Headers that are part of the contract; the others belong to the HTTP libraries."""

Exchange = dict[str, Any]


class Recorder:
    """Listens for the executor in place of the node, and for the node in place of the executor.

    Attributes:
        exchanges: What was said, in the order of the answers.

    Args:
        admin_url: Where the node takes calls of executors.
        peer_url: Where the executor will listen.
    """

    def __init__(self, admin_url: str, peer_url: str) -> None:
        self.exchanges: list[Exchange] = []
        self._lock = threading.Lock()
        self._admin = _Server(self, "peer", admin_url)
        self._peer = _Server(self, "xwheel", peer_url)
        self.admin_url = f"http://127.0.0.1:{self._admin.server_port}{urlsplit(admin_url).path}"
        self.peer_url = f"http://127.0.0.1:{self._peer.server_port}"
        self._peer_url = peer_url

    def close(self) -> None:
        """Stop listening."""
        for server in (self._admin, self._peer):
            server.shutdown()
            server.server_close()

    def keep(self, exchange: Exchange) -> None:
        """Note an exchange."""
        with self._lock:
            self.exchanges.append(exchange)

    def rewritten(self, body: bytes) -> bytes:
        """Return what a peer said with the proxy's address in place of the peer's."""
        return body.replace(self._peer_url.encode(), self.peer_url.encode())


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, recorder: Recorder, speaker: str, target: str) -> None:
        self.recorder = recorder
        self.speaker = speaker
        self.target = target
        super().__init__(("127.0.0.1", 0), _Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_POST(self) -> None:
        server = self.server
        body = self._body()
        address = urlsplit(server.target)
        assert address.hostname is not None
        sent = server.recorder.rewritten(body) if server.speaker == "peer" else body
        headers = {name: value for name, value in self.headers.items() if name.lower() not in HOP_BY_HOP}
        connection = http.client.HTTPConnection(address.hostname, address.port or 80, timeout=FORWARD_S)
        try:
            connection.request("POST", self.path, sent, headers)
            answer = connection.getresponse()
            reply = answer.read()
        except OSError:
            self.close_connection = True
            return
        finally:
            connection.close()
        server.recorder.keep(
            {
                "from": server.speaker,
                "method": "POST",
                "path": self.path,
                "headers": {name.lower(): value for name, value in self.headers.items() if name.lower() in KEPT},
                "body": body.decode(),
                "status": answer.status,
                "type": answer.headers.get("Content-Type", ""),
                "reply": reply.decode(),
            }
        )
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.headers.get("Content-Type", ""))
        self.send_header("Content-Length", str(len(reply)))
        self.end_headers()
        self.wfile.write(reply)

    def log_message(self, *_: object) -> None:
        pass

    def _body(self) -> bytes:
        if "chunked" not in self.headers.get("Transfer-Encoding", ""):
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        parts = []
        while size := int(self.rfile.readline().split(b";")[0], 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)


def dumps(value: object) -> str:
    """Return JSON that people can compare line by line."""
    return json.dumps(value, indent=1, ensure_ascii=False) + "\n"
