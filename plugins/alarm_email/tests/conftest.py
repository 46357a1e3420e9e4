"""Real mail servers on loopback: one whose answers tests choose, and a raw one for broken behaviour."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest
import trustme
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session
from hypothesis import HealthCheck, settings
from xwheel import Config
from xwheel_devtools.testing import sample_alarm

from xwheel_alarm_email import EmailChannel, xwheel_register_alarms

USER, PASSWORD = "xwheel", "s3cret-canary"
DEADLINE_S = 60.0

# examples may be slow on a busy machine; how long they take is no claim of any test
settings.register_profile("xwheel", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("xwheel")


alarm_of = partial(sample_alarm, receivers=("ops@example.com",))


def register(**options: Any) -> list[EmailChannel]:
    config = Config(plugins={"options": {"alarm_email": options}})  # type: ignore[arg-type]
    return list(xwheel_register_alarms(config))


class MailServer:
    """A server whose answers can be set, and that keeps the mails that it took.

    Args:
        tls: For TLS from the first byte.
        starttls: For STARTTLS.
        login: Whether it asks for one.
    """

    def __init__(self, *, tls: ssl.SSLContext | None, starttls: ssl.SSLContext | None, login: bool) -> None:
        self.receiver_replies: dict[str, str] = {}
        self.data_reply = "250 kept as 42"
        self.login_reply: str | None = None
        self.logins: list[str] = []
        self.mails: list[tuple[list[str], bytes]] = []
        self._login = login
        self._protocols: list[SMTP] = []
        self._starttls = starttls
        self._tls = tls
        self._loop = asyncio.new_event_loop()
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="test-mail-server")
        self._thread.start()
        assert self._started.wait(DEADLINE_S)

    def _make(self) -> SMTP:
        server = SMTP(
            self,
            hostname="mail.test",
            ident="test",
            tls_context=self._starttls,
            require_starttls=self._starttls is not None,
            authenticator=self._authenticate,
            auth_required=self._login,
            loop=self._loop,
        )
        server._auth_require_tls = self._tls is None  # it does not see the TLS of its listener
        self._protocols.append(server)
        return server

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._server = self._loop.run_until_complete(
            self._loop.create_server(self._make, "127.0.0.1", 0, ssl=self._tls)
        )
        self.port: int = self._server.sockets[0].getsockname()[1]
        self._started.set()
        self._loop.run_forever()
        self._server.close()
        for protocol in self._protocols:
            if protocol.transport is not None:
                # Python before 3.11.4 fails at this for a TLS connection that has ended
                with contextlib.suppress(AttributeError):
                    protocol.transport.abort()
        tasks = asyncio.all_tasks(self._loop)
        for task in tasks:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*tasks, self._settle(), return_exceptions=True))
        self._loop.close()

    async def _settle(self) -> None:
        for _ in range(5):
            await asyncio.sleep(0)

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(DEADLINE_S)
        assert not self._thread.is_alive()

    def _authenticate(
        self, server: SMTP, session: Session, envelope: Envelope, mechanism: str, data: Any
    ) -> AuthResult:
        given = cast(LoginPassword, data)
        self.logins.append(given.login.decode())
        if self.login_reply is not None:
            return AuthResult(success=False, handled=False, message=self.login_reply)
        return AuthResult(success=(given.login, given.password) == (USER.encode(), PASSWORD.encode()), handled=False)

    async def handle_RCPT(  # noqa: N802 -- aiosmtpd's name
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        reply = self.receiver_replies.get(address, "250 OK")
        if reply.startswith("250"):
            envelope.rcpt_tos.append(address)
        return reply

    async def handle_DATA(  # noqa: N802
        self, server: SMTP, session: Session, envelope: Envelope
    ) -> str:
        if self.data_reply.startswith("250"):
            self.mails.append((list(envelope.rcpt_tos), cast(bytes, envelope.original_content)))
        return self.data_reply

    def parsed(self, index: int = -1) -> EmailMessage:
        return cast(EmailMessage, message_from_bytes(self.mails[index][1], policy=default))


class RawServer:
    """Calls a function with each connection, on a thread."""

    def __init__(self, serve: Callable[[socket.socket], None]) -> None:
        self._serve = serve
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._accept, name="test-raw-server")
        self._thread.start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection, contextlib.suppress(OSError):
                connection.settimeout(DEADLINE_S)
                self._serve(connection)

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(DEADLINE_S)
        assert not self._thread.is_alive()


@pytest.fixture(scope="session")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="session")
def ca_file(authority: trustme.CA, tmp_path_factory: pytest.TempPathFactory) -> str:
    path: Path = tmp_path_factory.mktemp("ca") / "ca.pem"
    authority.cert_pem.write_to_path(str(path))
    return str(path)


@pytest.fixture(scope="session")
def server_tls(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    return context


@pytest.fixture
def start(server_tls: ssl.SSLContext) -> Iterator[Callable[..., MailServer]]:
    servers: list[MailServer] = []

    def begin(security: str, *, login: bool = False) -> MailServer:
        servers.append(
            MailServer(
                tls=server_tls if security == "tls" else None,
                starttls=server_tls if security == "starttls" else None,
                login=login,
            )
        )
        return servers[-1]

    yield begin
    for server in servers:
        server.close()


@pytest.fixture
def plain(start: Callable[..., MailServer]) -> MailServer:
    return start("plain")


@pytest.fixture
def raw() -> Iterator[Callable[[Callable[[socket.socket], None]], RawServer]]:
    servers: list[RawServer] = []

    def begin(serve: Callable[[socket.socket], None]) -> RawServer:
        servers.append(RawServer(serve))
        return servers[-1]

    yield begin
    for server in servers:
        server.close()
