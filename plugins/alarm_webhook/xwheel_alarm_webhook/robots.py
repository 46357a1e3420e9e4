"""What each provider takes, and how its answer is read; no I/O.

Written from the providers' public documents. Text goes as plain text, so that no name of a job is taken for markup.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote_plus

from xwheel.plugin import SecretMask
from xwheel_alarms import Alarm, AlarmRetryLater, AlarmTemplate, alarm_values
from xwheel_egress import Answer, EgressClient

from xwheel_alarm_webhook.cutting import cut_bytes, cut_utf16, fit

JSON: Final = {"Content-Type": "application/json; charset=utf-8"}
MAX_SAID: Final = 200
MIN_SECRET: Final = 8
"""Characters; shorter parts of a URL are words."""
RETRY_S: Final = 30.0
"""How long to wait if a provider says "too many" and not how long."""

OK: Final = 200
TOO_MANY: Final = 429
UNAVAILABLE: Final = 503

DINGTALK_BODY: Final = 20_000
DINGTALK_TEXT: Final = 15_000

WECOM_TEXT: Final = 2048

FEISHU_BODY: Final = 20_000
FEISHU_TEXT: Final = 15_000

SLACK_TEXT: Final = 4000
SLACK_GROUPS: Final = frozenset({"here", "channel", "everyone"})
TELEGRAM_TEXT: Final = 4096

MENTION: Final = r"^[A-Za-z0-9_.+-]{1,64}$"
_MOBILE: Final = re.compile(r"\+?[0-9-]{5,20}")


class SendError(Exception):
    """A robot did not take an alarm; the message holds no secret."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outgoing:
    """A request."""

    url: str = field(repr=False)
    body: bytes | None = field(repr=False)
    method: str = "POST"
    headers: Mapping[str, str] = field(default_factory=lambda: JSON, repr=False)


class Robot:
    """One receiver of a kind. Immutable, so it may be used by any thread.

    Args:
        url: Where to; holds secrets.
        text: The message's template.
        mention: Names that every alarm mentions.
        secrets: What must be taken out of answers.
    """

    def __init__(self, url: str, text: str, mention: Sequence[str], *secrets: str) -> None:
        self._url = url
        self._template = AlarmTemplate(text)
        self._mention = tuple(mention)
        # a key in the query or the end of the path, as all providers have it
        parts = re.split(r"[/?&=]", url.partition("://")[2])[1:]
        parts += [part for secret in secrets for part in (secret, *re.split(r"[\s:]", secret))]
        self._mask = SecretMask(part for part in parts if len(part) >= MIN_SECRET)

    def check(self, client: EgressClient) -> None:
        """Raise :class:`~xwheel_egress.EgressRefusedError` if no alarm could be sent; without I/O."""
        client.call("POST", self._url)

    def send(self, client: EgressClient, alarm: Alarm, mention: Sequence[str], timeout_s: float) -> str:
        """Send an alarm and return what the other side said.

        Raises:
            AlarmRetryLater: It wants to be asked later.
            SendError: It did not take it.
            EgressError: There was no complete answer, or the policy forbids the call.
        """
        made = self.make(alarm, tuple(dict.fromkeys((*self._mention, *mention))))
        answer = client.request(made.method, made.url, headers=made.headers, body=made.body, timeout_s=timeout_s)
        return self.judge(answer)

    def make(self, alarm: Alarm, mention: Sequence[str]) -> Outgoing:
        """Return the request."""
        raise NotImplementedError

    def judge(self, answer: Answer) -> str:
        """Return what the other side said, if it took the alarm; else raise."""
        raise NotImplementedError

    def fill(self, alarm: Alarm) -> str:
        """Return the message."""
        return self._template.fill(alarm_values(alarm))

    def said(self, answer: Answer, words: object = None) -> str:
        """Return what the other side said in one short line without our secrets."""
        text = answer.text if words is None else str(words)
        text = self._mask.hide(" ".join(text.split()))
        return f"HTTP {answer.status} {cut_bytes(text, MAX_SAID)}".strip()

    def read(self, answer: Answer) -> dict[str, Any]:
        """Return the JSON object that a provider answers with; refuse everything else."""
        if answer.status in {TOO_MANY, UNAVAILABLE}:
            after_s = answer.retry_after_s
            if answer.status == TOO_MANY or after_s is not None:
                raise AlarmRetryLater(self.said(answer), RETRY_S if after_s is None else after_s)
        found = answer.document
        if not isinstance(found, dict):
            raise SendError(f"{self.said(answer)}: not the answer of this kind of robot")
        return found


def _encode(message: object) -> bytes:
    return json.dumps(message, ensure_ascii=False).encode("utf-8", "replace")


def _sign(key: str, text: str) -> str:
    return base64.b64encode(hmac.new(key.encode(), text.encode(), hashlib.sha256).digest()).decode()


class _CodeRobot(Robot):
    """A robot whose provider answers with a number, 0 for success.

    Args:
        url: As in :class:`Robot`.
        text: As there.
        mention: As there.
        secret: Key for the signature; empty for none.
    """

    code_names: Sequence[str] = ("errcode",)
    text_names: Sequence[str] = ("errmsg",)
    too_many: frozenset[int]
    pause_s: float

    def __init__(self, url: str, text: str, mention: Sequence[str], secret: str = "") -> None:
        super().__init__(url, text, mention, secret)
        self._secret = secret

    def judge(self, answer: Answer) -> str:
        """Judge by the number."""
        found = self.read(answer)
        code, words = (_first(found, names) for names in (self.code_names, self.text_names))
        said = self.said(answer, f"{self.code_names[0]} {code}: {words}")
        if isinstance(code, int) and code in self.too_many:
            raise AlarmRetryLater(said, self.pause_s)
        if answer.status != OK or code != 0 or isinstance(code, bool):
            raise SendError(said)
        return said


def _first(found: Mapping[str, Any], names: Sequence[str]) -> Any:
    return next((found[name] for name in names if name in found), None)


class DingTalk(_CodeRobot):
    """A custom robot of DingTalk; one that was too fast is muted for ten minutes."""

    too_many = frozenset({130101, 410100})
    pause_s = 600.0

    def make(self, alarm: Alarm, mention: Sequence[str]) -> Outgoing:
        """Return the request, signed if there is a key."""
        people = [one for one in mention if one != "all"]
        at = {
            "atMobiles": [one for one in people if _MOBILE.fullmatch(one)],
            "atUserIds": [one for one in people if not _MOBILE.fullmatch(one)],
            "isAtAll": "all" in mention,
        }
        # DingTalk shows a mention where the text names it
        tail = "".join(f" @{one}" for one in people)

        def body(text: str) -> bytes:
            return _encode({"msgtype": "text", "text": {"content": text + tail}, "at": at})

        url = self._url
        if self._secret:
            now_ms = str(time.time_ns() // 1_000_000)
            sign = _sign(self._secret, f"{now_ms}\n{self._secret}")
            url += f"{'&' if '?' in url else '?'}timestamp={now_ms}&sign={quote_plus(sign)}"
        return Outgoing(url=url, body=fit(cut_bytes(self.fill(alarm), DINGTALK_TEXT), body, DINGTALK_BODY))


class WeCom(_CodeRobot):
    """A group robot of WeCom."""

    too_many = frozenset({45009})
    pause_s = 60.0

    def make(self, alarm: Alarm, mention: Sequence[str]) -> Outgoing:
        """Return the request."""
        numbers = [one for one in mention if _MOBILE.fullmatch(one)]
        names = ["@all" if one == "all" else one for one in mention if one not in numbers]
        text = {
            "content": cut_bytes(self.fill(alarm), WECOM_TEXT),
            "mentioned_list": names,
            "mentioned_mobile_list": numbers,
        }
        return Outgoing(url=self._url, body=_encode({"msgtype": "text", "text": text}))


class Feishu(_CodeRobot):
    """A custom robot of Feishu or Lark; its older answers have the second names."""

    code_names = ("code", "StatusCode")
    text_names = ("msg", "StatusMessage")
    too_many = frozenset({11232, 99991400})
    pause_s = 60.0

    def make(self, alarm: Alarm, mention: Sequence[str]) -> Outgoing:
        """Return the request, signed if there is a key."""
        # the words of a job must not mention all people
        text = cut_bytes(re.sub(r"<(?=/?at\b)", "< ", self.fill(alarm), flags=re.IGNORECASE), FEISHU_TEXT)
        tail = "".join(f' <at user_id="{one}"></at>' for one in mention)
        signed: dict[str, str] = {}
        if self._secret:
            now_s = str(time.time_ns() // 1_000_000_000)
            # the key is what other providers sign, and nothing is signed with it
            signed = {"timestamp": now_s, "sign": _sign(f"{now_s}\n{self._secret}", "")}

        def body(text: str) -> bytes:
            return _encode({**signed, "msg_type": "text", "content": {"text": text + tail}})

        return Outgoing(url=self._url, body=fit(text, body, FEISHU_BODY))


class Slack(Robot):
    """An incoming webhook of Slack."""

    def make(self, alarm: Alarm, mention: Sequence[str]) -> Outgoing:
        """Return the request."""
        tail = "".join(f" <!{one}>" if one in SLACK_GROUPS else f" <@{one}>" for one in mention)
        text = cut_bytes(self.fill(alarm), SLACK_TEXT)
        text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        return Outgoing(url=self._url, body=_encode({"text": text + tail}))

    def judge(self, answer: Answer) -> str:
        """Judge by the body, which is ``ok``; other ones name what is wrong."""
        if answer.status == TOO_MANY:
            after_s = answer.retry_after_s
            raise AlarmRetryLater(self.said(answer), RETRY_S if after_s is None else after_s)
        if answer.status != OK or answer.text.strip() != "ok":
            raise SendError(self.said(answer))
        return self.said(answer)


class Telegram(Robot):
    """A bot of Telegram in one chat."""

    def __init__(self, server: str, text: str, mention: Sequence[str], token: str, chat: str) -> None:
        super().__init__(f"{server.rstrip('/')}/bot{token}/sendMessage", text, mention, token)
        self._chat: int | str = chat if chat.startswith("@") else int(chat)

    def make(self, alarm: Alarm, mention: Sequence[str]) -> Outgoing:
        """Return the request."""
        tail = "".join(f" @{one}" for one in mention)
        text = cut_utf16(self.fill(alarm), TELEGRAM_TEXT - len(tail)) + tail
        message = {"chat_id": self._chat, "text": text, "link_preview_options": {"is_disabled": True}}
        return Outgoing(url=self._url, body=_encode(message))

    def judge(self, answer: Answer) -> str:
        """Judge by ``ok``; ``retry_after`` stands in the body."""
        if answer.status == TOO_MANY:
            raise AlarmRetryLater(self.said(answer), self._after_s(answer))
        found = self.read(answer)
        if answer.status != OK or found.get("ok") is not True:
            raise SendError(self.said(answer, f"{found.get('error_code')}: {found.get('description')}"))
        return self.said(answer, "ok")

    def _after_s(self, answer: Answer) -> float:
        try:
            found = float(json.loads(answer.body)["parameters"]["retry_after"])
        except (ValueError, TypeError, KeyError, RecursionError, OverflowError):
            found = answer.retry_after_s if answer.retry_after_s is not None else RETRY_S
        return min(max(found, 0.0), 86_400.0) if found == found else RETRY_S  # noqa: PLR0124 -- no NaN


class Webhook(Robot):
    """Any other webhook."""

    def __init__(
        self,
        url: str,
        body: str,
        *,
        method: str,
        headers: Mapping[str, str],
        content_type: str,
        max_text: int,
        expect: str,
    ) -> None:
        super().__init__(url, body, (), *headers.values())
        self._method = method
        self._headers = {"Content-Type": content_type, **headers}
        self._escape = ESCAPES[content_type]
        self._max_text = max_text
        self._expect = expect

    def check(self, client: EgressClient) -> None:
        """Check the headers, too."""
        client.call(self._method, self._url, headers=self._headers)

    def make(self, alarm: Alarm, mention: Sequence[str]) -> Outgoing:
        """Return the request; mentions do not apply."""
        del mention
        values = alarm_values(alarm)
        values["text"] = cut_bytes(values["text"], self._max_text)
        body = self._template.fill(values, self._escape).encode("utf-8", "replace")
        return Outgoing(
            url=self._url, method=self._method, headers=self._headers, body=None if self._method == "GET" else body
        )

    def judge(self, answer: Answer) -> str:
        """Judge by the status, and by what the body must hold."""
        after_s = answer.retry_after_s
        if answer.status == TOO_MANY or (answer.status == UNAVAILABLE and after_s is not None):
            raise AlarmRetryLater(self.said(answer), RETRY_S if after_s is None else after_s)
        if answer.status // 100 != OK // 100:
            raise SendError(self.said(answer))
        if self._expect not in answer.text:
            raise SendError(f"{self.said(answer)}: the answer does not hold what expect names")
        return self.said(answer)


def _json_part(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]


ESCAPES: Final[Mapping[str, Callable[[str], str]]] = {
    "application/json": _json_part,
    "application/x-www-form-urlencoded": quote_plus,
    "text/plain": str,
}
"""How values are made harmless in a body, by its type."""
