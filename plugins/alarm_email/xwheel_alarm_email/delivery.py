"""Send a mail through the server, within a time limit."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from aiosmtplib import SMTP, SMTPException, SMTPRecipientsRefused

from xwheel_alarm_email.options import Options

QUIT_S: Final = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """One answer of the server.

    Attributes:
        code: SMTP's; 4xx is temporary.
        text: Its words.
    """

    code: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """What became of a mail.

    Attributes:
        answer: What the server said to the mail itself; empty if it refused every receiver.
        refused: The receivers it refused, and why.
    """

    answer: str
    refused: Mapping[str, Reply]


def deliver(options: Options, receivers: Sequence[str], message: bytes) -> Delivery:
    """Send a mail to all receivers at once and return what the server answered.

    Raises:
        TimeoutError: It took too long.
        SMTPException: The server refused the mail or the login, or went away.
        OSError: There is no connection, or its certificate is not trusted.
    """
    # not asyncio.run(): that waits at its end for a look-up of the name that hangs
    loop = _Loop()
    try:
        return loop.run_until_complete(_deliver(options, receivers, message))
    finally:
        loop.run_until_complete(loop.drop_connections())
        loop.close()


class _Loop(asyncio.SelectorEventLoop):
    """Closes its connections at once: TLS would wait half a minute for the last message of a server that hangs."""

    def __init__(self) -> None:
        super().__init__()
        self._opened: list[asyncio.BaseTransport] = []

    async def create_connection(self, *args: Any, **options: Any) -> Any:
        found = await super().create_connection(*args, **options)
        self._opened.append(found[0])
        return found

    async def drop_connections(self) -> None:
        """Close what is open."""
        for transport in self._opened:
            if isinstance(transport, asyncio.WriteTransport):
                # Python before 3.11.4 fails at this for a TLS connection that was closed twice
                with contextlib.suppress(AttributeError):
                    transport.abort()
        for _ in range(3):  # until the protocols have seen the end of their connections
            await asyncio.sleep(0)


async def _deliver(options: Options, receivers: Sequence[str], message: bytes) -> Delivery:
    password = options.password
    client = SMTP(
        hostname=options.host,
        port=options.port_number,
        use_tls=options.security == "tls",
        start_tls=options.security == "starttls",
        tls_context=_tls_context(options),
        username=options.username,
        password=password.get_secret_value() if password is not None else None,
        # not its fully qualified name, whose look-up may hang
        local_hostname=options.hello_name or socket.gethostname(),
        timeout=options.timeout_s,
    )
    try:
        async with asyncio.timeout(options.timeout_s):
            await client.connect()
            refused, answer = await client.sendmail(options.sender, receivers, message)
        # the server has the mail now, so a QUIT that fails changes nothing
        with contextlib.suppress(SMTPException, OSError, TimeoutError):
            await client.quit(timeout=QUIT_S)
        replies = {receiver: Reply(code=reply.code, text=reply.message) for receiver, reply in refused.items()}
        return Delivery(answer=answer, refused=replies)
    except SMTPRecipientsRefused as error:
        every = {item.recipient: Reply(code=item.code, text=item.message) for item in error.recipients}
        return Delivery(answer="", refused=every)
    finally:
        client.close()


def _tls_context(options: Options) -> ssl.SSLContext | None:
    if options.security == "plain":
        return None
    return ssl.create_default_context(cafile=str(options.ca_file) if options.ca_file is not None else None)
