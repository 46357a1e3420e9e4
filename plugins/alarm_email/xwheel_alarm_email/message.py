"""The mail of an alarm. Users may have written any text in an alarm, so no character of it is trusted."""

from __future__ import annotations

import hashlib
import html
import unicodedata
from collections.abc import Sequence
from email.header import Header
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import formatdate
from typing import Final

from xwheel_alarms import Alarm, AlarmTemplate, alarm_values

from xwheel_alarm_email.options import Options

CRLF: Final = "\r\n"
MAX_SUBJECT: Final = 200
MAX_VALUE: Final = 50_000
CUT: Final = " [...]"
# what no mail and no HTML document may hold; line feeds and tabs stay
_CONTROLS: Final = {code: "\ufffd" for code in (*range(32), 127) if chr(code) not in "\t\n\r"}


class MessageWriter:
    """Turns alarms into mails. Immutable.

    Args:
        options: The plugin's options.
    """

    def __init__(self, options: Options) -> None:
        self._from = Address(options.sender_name, addr_spec=options.sender)
        self._subject = AlarmTemplate(options.subject)
        self._text = AlarmTemplate(options.text)
        self._html = AlarmTemplate(options.html) if options.html else None

    def write(self, alarm: Alarm, receivers: Sequence[str]) -> bytes:
        """Return the mail as it goes over the wire.

        Args:
            alarm: What the mail is about.
            receivers: Checked addresses.
        """
        values = {name: _cut(value, MAX_VALUE) for name, value in alarm_values(alarm).items()}
        message = EmailMessage(policy=SMTP)
        message["From"] = self._from
        message["To"] = [Address(addr_spec=receiver) for receiver in receivers]
        message["Date"] = formatdate()
        message["Message-ID"] = _message_id(alarm, self._from.domain)
        message["Auto-Submitted"] = "auto-generated"
        message["X-Xwheel-Alarm"] = f"{alarm.id}"
        message["X-Xwheel-Kind"] = f"{alarm.kind}"
        message.set_content(self._text.fill(values).translate(_CONTROLS), cte="quoted-printable")
        if self._html is not None:
            filled = self._html.fill(values, html.escape).translate(_CONTROLS)
            message.add_alternative(filled, subtype="html", cte="quoted-printable")
        return _subject_line(_one_line(self._subject.fill(values))) + message.as_bytes()


def _subject_line(text: str) -> bytes:
    """Return the header of a subject, encoded here (RFC 2047).

    :class:`EmailMessage` takes what looks like an encoded word for one, and several releases of Python then write the
    line ends in it as they are: a name could add headers and a body.
    """
    if "=?" not in text and text.isascii():
        return f"Subject: {text}{CRLF}".encode("ascii")
    encoded = Header(text.encode("utf-8", "replace"), "utf-8", header_name="Subject")
    return f"Subject: {encoded.encode(linesep=CRLF)}{CRLF}".encode("ascii")


def _message_id(alarm: Alarm, domain: str) -> str:
    """Return an id that stays when the alarm is sent again, so that mailboxes can drop the repetition."""
    told = f"{alarm.kind} {alarm.at_ms} {alarm.count} {alarm.title}".encode("utf-8", "replace")
    return f"<xwheel-alarm-{alarm.id}-{hashlib.sha256(told).hexdigest()[:16]}@{domain}>"


def _one_line(text: str) -> str:
    """Return the text without anything that could end a header's line."""
    plain = "".join(" " if unicodedata.category(char) in {"Cc", "Zl", "Zp"} else char for char in text)
    return _cut(" ".join(plain.split()), MAX_SUBJECT)


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - len(CUT)] + CUT
