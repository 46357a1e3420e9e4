"""The contract of providers of text messages, and what they share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

from xwheel_egress import Answer

MAX_WORDS: Final = 300
TOO_MANY_REQUESTS: Final = 429
UNAVAILABLE: Final = 503
RETRY_S: Final = 60.0
MAX_RETRY_S: Final = 3600.0


class SmsError(Exception):
    """A message did not reach all receivers; the error's message says which ones and why.

    Args:
        message: What went wrong; holds no secret.
        retry_s: When to ask again, in seconds, if the other side said so.
    """

    def __init__(self, message: str, retry_s: float | None = None) -> None:
        super().__init__(message)
        self.retry_s = retry_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One request; all of it may hold secrets."""

    method: str
    url: str = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    body: bytes | None = field(repr=False)


class Provider(Protocol):
    """Makes the request for one number, and understands the answer."""

    def call(self, values: Mapping[str, str], number: str) -> Call:
        """Return the request.

        Args:
            values: Those of the alarm's placeholders and ``message``; each cut to the limit.
            number: A checked number.
        """
        ...

    def judge(self, answer: Answer) -> str:
        """Return a few words if the message was taken.

        Raises:
            SmsError: It was not.
        """
        ...


def short(text: str, limit: int = MAX_WORDS) -> str:
    """Return a text in one short line."""
    text = " ".join(text.split())
    return text if len(text) <= limit else f"{text[:limit]}..."


def retry_after(answer: Answer) -> float | None:
    """Return when to ask again, if the answer's status says that this would help."""
    if answer.status not in {TOO_MANY_REQUESTS, UNAVAILABLE}:
        return None
    said = answer.retry_after_s
    return min(said, MAX_RETRY_S) if said is not None else RETRY_S
