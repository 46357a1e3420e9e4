"""Private authorities, and TLS in front of plain listeners, as a proxy has it in both directions."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import trustme

from tests.support.ports import free_port

CLIENT_S = 60


class Authority:
    """A private authority with its certificate in a folder.

    Args:
        folder: Where files are written, with the authority's name in front.
        name: Which of several it is.
    """

    def __init__(self, folder: Path, name: str = "ours") -> None:
        self._ca = trustme.CA()
        self._folder = folder
        self._name = name
        self.file = folder / f"{name}-ca.pem"
        self._ca.cert_pem.write_to_path(self.file)

    def issue(self, name: str, *hosts: str) -> tuple[Path, Path]:
        """Return the files of a certificate for these hosts (one of them serves as a client's too), and of its key."""
        made = self._ca.issue_cert(*(hosts or ("127.0.0.1", "localhost")))
        cert, key = (self._folder / f"{self._name}-{name}.{kind}" for kind in ("crt", "key"))
        cert.unlink(missing_ok=True)
        for blob in made.cert_chain_pems:
            blob.write_to_path(cert, append=True)
        made.private_key_pem.write_to_path(key)
        key.chmod(0o600)
        return cert, key


class TlsFront:
    """Speaks TLS, wants a client certificate of an authority, and passes everything on to a plain port."""

    def __init__(self, behind: int, authority: Authority, cert: Path, key: Path, port: int) -> None:
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(cert, key)
        self._context.load_verify_locations(authority.file)
        self._context.verify_mode = ssl.CERT_REQUIRED
        self._behind = behind
        self._open: list[socket.socket] = []
        self.served = 0
        self.refused: list[str] = []
        self._socket = socket.create_server(("127.0.0.1", port))
        self.url = f"https://127.0.0.1:{self._socket.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        for item in (self._socket, *self._open):
            with contextlib.suppress(OSError):
                item.shutdown(socket.SHUT_RDWR)
            item.close()

    def _accept(self) -> None:
        while True:
            try:
                plain, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(plain,), daemon=True).start()

    def _serve(self, plain: socket.socket) -> None:
        plain.settimeout(CLIENT_S)
        try:
            outer = self._context.wrap_socket(plain, server_side=True)
        except (ssl.SSLError, OSError) as error:
            self.refused.append(str(error))
            plain.close()
            return
        self.served += 1
        with (
            contextlib.suppress(OSError),
            outer,
            socket.create_connection(("127.0.0.1", self._behind), CLIENT_S) as inner,
        ):
            self._open += [outer, inner]
            back = threading.Thread(target=_copy, args=(inner, outer), daemon=True)
            back.start()
            _copy(outer, inner)
            back.join(CLIENT_S)


def _copy(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError, ssl.SSLError):
        while data := source.recv(65536):
            target.sendall(data)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_RDWR)


@contextlib.contextmanager
def tls_front(behind: int, authority: Authority, cert: Path, key: Path, port: int | None = None) -> Iterator[TlsFront]:
    """Give TLS in front of a port until the block ends."""
    front = TlsFront(behind, authority, cert, key, port or free_port())
    try:
        yield front
    finally:
        front.close()
