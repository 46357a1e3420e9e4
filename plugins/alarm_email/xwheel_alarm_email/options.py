"""The plugin's options: ``[plugins.options.alarm_email]``."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Final, Literal, Self

from pydantic import Field, SecretStr, field_validator, model_validator
from xwheel.plugin import PluginOptions
from xwheel_alarms import AlarmTemplate

from xwheel_alarm_email.addresses import parse_address

PLUGIN: Final = "alarm_email"
MAX_RECEIVERS: Final = 100  # what every server must take for one mail (RFC 5321, 4.5.3.1.8)
PORTS: Final = {"tls": 465, "starttls": 587, "plain": 25}

SUBJECT: Final = "[xwheel] {title}"
# the text of an alarm begins with its title
TEXT: Final = """{text}

alarm {id}, {kind}, {time}
"""
HTML: Final = """<!DOCTYPE html>
<html><body style="font-family: sans-serif">
<pre style="white-space: pre-wrap; font-family: inherit">{text}</pre>
<p style="color: #666666; font-size: 0.85em">alarm {id}, {kind}, {time}</p>
</body></html>
"""


class Options(PluginOptions):
    """How mails are sent, and what they look like."""

    public = ("host", "username", "sender", "sender_name", "receivers", "subject", "text", "html", "hello_name")

    host: str = Field(min_length=1, max_length=253, pattern=r"^[A-Za-z0-9._:-]+$")
    """The mail server's name or address."""
    port: int | None = Field(default=None, ge=1, le=65535)
    """Its port; 465 for tls, 587 for starttls, 25 for plain if not given."""
    security: Literal["tls", "starttls", "plain"] = "tls"
    """TLS from the first byte, STARTTLS, or no encryption at all. A server that cannot do it gets no mail."""
    ca_file: Path | None = None
    """PEM file of the authorities that are trusted instead of the system's."""
    username: str | None = Field(default=None, min_length=1, max_length=254)
    """Account for the login; none if not given."""
    password: SecretStr | None = None
    """Its password."""
    password_file: Path | None = None
    """A file that holds the password."""
    sender: str
    """Address that mails come from."""
    sender_name: str = Field(default="xwheel", max_length=100, pattern=r"^[^\x00-\x1f\x7f-\x9f\u2028\u2029]*$")
    """Name that mails come from."""
    receivers: tuple[str, ...] = Field(default=(), max_length=MAX_RECEIVERS)
    """Who gets alarms whose rule names no receivers."""
    subject: str = Field(default=SUBJECT, min_length=1, max_length=1000)
    """Template of the subject."""
    text: str = Field(default=TEXT, max_length=100_000)
    """Template of the plain text."""
    html: str = Field(default=HTML, max_length=100_000)
    """Template of the HTML alternative, in which values are escaped; empty for none."""
    hello_name: str | None = Field(default=None, max_length=253, pattern=r"^[A-Za-z0-9.\[\]:_-]+$")
    """What the node calls itself towards the server; its host name if not given."""
    timeout_s: float = Field(default=10, ge=1, le=60)
    """The longest time that one mail may take, from the look-up of the server's name to its last answer."""

    @field_validator("sender")
    @classmethod
    def _check_sender(cls, value: str) -> str:
        return parse_address(value)

    @field_validator("receivers")
    @classmethod
    def _check_receivers(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(parse_address(receiver) for receiver in value))

    @field_validator("subject", "text", "html")
    @classmethod
    def _check_template(cls, value: str) -> str:
        AlarmTemplate(value)
        return value

    @field_validator("ca_file")
    @classmethod
    def _check_authorities(cls, value: Path | None) -> Path | None:
        if value is not None:
            try:
                ssl.create_default_context(cafile=str(value))
            except (OSError, ValueError) as error:  # an SSLError is an OSError
                reason = error.strerror if isinstance(error, OSError) and error.strerror else "unreadable"
                raise ValueError(f"{value} must be a file of PEM certificates: {reason}") from None
        return value

    @model_validator(mode="after")
    def _check_together(self) -> Self:
        if (self.username is None) != (self.password is None):
            raise ValueError("username and password (or password_file) belong together: give both or none")
        if self.username is not None and self.security == "plain":
            raise ValueError("security 'plain' would show the password to the network: take 'tls' or 'starttls'")
        if self.ca_file is not None and self.security == "plain":
            raise ValueError("ca_file has no use with security 'plain': take 'tls' or 'starttls'")
        return self

    @property
    def port_number(self) -> int:
        """The port, also if not given."""
        return self.port if self.port is not None else PORTS[self.security]
