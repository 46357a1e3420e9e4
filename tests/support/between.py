"""What people put between nodes and PostgreSQL: PgBouncer and HAProxy, from Debian's packages, on free ports."""

from __future__ import annotations

import contextlib
import http.server
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from sqlalchemy import make_url

from tests.support.listings import one_listing
from tests.support.pair import Pair
from tests.support.ports import free_port
from tests.support.server_homes import become, find, folder, owner

START_S = 20


@contextlib.contextmanager
def pgbouncer(base: str, mode: str, *, further: str = "") -> Iterator[str]:
    """Run PgBouncer before a PostgreSQL server; give its URL, to which the name of a database belongs.

    Args:
        mode: Its ``pool_mode``.
        further: More lines of its settings.
    """
    url, port = make_url(base), free_port()
    with folder("postgres") as home:
        users = home / "users"
        users.write_text(f'"{url.username}" "{url.password}"\n')
        settings = home / "ini"
        settings.write_text(
            f"[databases]\n* = host=127.0.0.1 port={url.port}\n[pgbouncer]\nlisten_addr = 127.0.0.1\n"
            f"listen_port = {port}\nunix_socket_dir =\nauth_type = plain\nauth_file = {users}\npool_mode = {mode}\n"
            f"{further}\n"
        )
        for file in (users, settings):
            shutil.chown(file, *owner("postgres"))
        with _running([*become("postgres"), find("pgbouncer", "/usr/sbin"), "-q", str(settings)], home, port):
            yield url.set(port=port).render_as_string(hide_password=False)


@contextlib.contextmanager
def haproxy(pair: Pair) -> Iterator[str]:
    """Run HAProxy before a pair, as the guide does; what Patroni answers there is answered here.

    Gives its URL, to which the name of a database belongs.
    """
    with _answering(pair) as checks, folder("postgres") as home:
        port = free_port()
        text = one_listing("docs/howto/databases.md", "defaults").text.replace("127.0.0.1:5000", f"127.0.0.1:{port}")
        for name, number, check in zip(("db1", "db2"), pair.ports, checks, strict=True):
            text = text.replace(f"{name}.example:5432", f"127.0.0.1:{number} port {check}")
        settings = home / "cfg"
        settings.write_text(text)
        with _running([find("haproxy", "/usr/sbin"), "-db", "-f", str(settings)], home, port):
            yield (
                make_url(pair.url.replace(f",127.0.0.1:{pair.ports[1]}", ""))
                .set(port=port)
                .render_as_string(hide_password=False)
            )


@contextlib.contextmanager
def _answering(pair: Pair) -> Iterator[Sequence[int]]:
    """Answer ``GET /primary`` for each server of a pair; give the ports where that is asked."""

    def handler(number: int) -> type[http.server.BaseHTTPRequestHandler]:
        class Check(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(200 if pair.takes_writes(number) else 503)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        return Check

    with contextlib.ExitStack() as stack:
        found = []
        for number in pair.ports:
            server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler(number))
            stack.callback(server.server_close)
            thread = threading.Thread(target=server.serve_forever, args=(0.1,))
            thread.start()
            stack.callback(thread.join)
            stack.callback(server.shutdown)
            found.append(server.server_port)
        yield found


@contextlib.contextmanager
def _running(command: Sequence[str], home: Path, port: int) -> Iterator[None]:
    log = home / "log"
    with log.open("wb") as sink:
        process = subprocess.Popen(command, stdout=sink, stderr=sink, stdin=subprocess.DEVNULL, cwd=home)
    try:
        end = time.monotonic() + START_S
        while True:
            if process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"{command!r} did not start:\n{log.read_text(errors='replace')[-2000:]}")
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            time.sleep(0.05)
        yield
    finally:
        process.terminate()
        process.wait()
