"""Any gateway that takes one HTTP request for a message."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import quote, quote_plus, urlencode

from xwheel.plugin import SecretMask
from xwheel_alarms import AlarmTemplate
from xwheel_egress import Answer

from xwheel_alarm_sms.options import EXTRA, GatewayOptions
from xwheel_alarm_sms.provider import Call, SmsError, retry_after, short

SUCCESS: Final = range(200, 300)
_ABSENT: Final = object()

Filler = Callable[[Mapping[str, str]], Any]


class Gateway:
    """Fills the operator's request with an alarm's values; immutable.

    Args:
        options: The gateway's options.
    """

    def __init__(self, options: GatewayOptions) -> None:
        self._options = options
        self._secret = options.secret.get_secret_value() if options.secret is not None else ""
        self._mask = SecretMask([self._secret])
        self._url = AlarmTemplate(options.url.get_secret_value(), EXTRA)
        self._query = {name: _text(value.get_secret_value()) for name, value in options.query.items()}
        self._headers = {name: _text(value.get_secret_value()) for name, value in options.headers.items()}
        self._body = {name: _tree(value) for name, value in options.body.items()}

    def call(self, values: Mapping[str, str], number: str) -> Call:
        """Return the request for one number."""
        known = {**values, "number": number, "digits": number.removeprefix("+"), "secret": self._secret}
        url = self._url.fill(known, lambda value: quote(value, safe=""))
        if self._query:
            filled = urlencode({name: fill(known) for name, fill in self._query.items()})
            url = f"{url}{'&' if '?' in url else '?'}{filled}"
        headers = {name: fill(known) for name, fill in self._headers.items()}
        content_type, body = self._encode(known)
        if content_type is not None and "content-type" not in {name.lower() for name in headers}:
            headers["Content-Type"] = content_type
        return Call(method=self._options.method, url=url, headers=headers, body=body)

    def _encode(self, known: Mapping[str, str]) -> tuple[str | None, bytes | None]:
        if not self._body:
            return None, None
        filled = {name: fill(known) for name, fill in self._body.items()}
        if self._options.body_type == "json":
            return "application/json", json.dumps(filled, ensure_ascii=False).encode()
        form = urlencode(filled, quote_via=quote_plus)
        return "application/x-www-form-urlencoded", form.encode()

    def judge(self, answer: Answer) -> str:
        """Return the gateway's answer in short if it took the message."""
        options = self._options
        words = short(self._mask.hide(f"{answer.status} {answer.text}"))
        statuses = options.success_status or SUCCESS
        if answer.status not in statuses:
            raise SmsError(f"the gateway answered {words}", retry_after(answer))
        if options.success_field:
            found = _value_at(answer.document, options.success_field)
            said = found if isinstance(found, str) else json.dumps(found) if found is not _ABSENT else None
            if said is None or said not in options.success_values:
                wanted = " or ".join(options.success_values)
                raise SmsError(f"the gateway answered {words}, and {options.success_field} is not {wanted}")
        return words


def _text(template: str) -> Callable[[Mapping[str, str]], str]:
    return AlarmTemplate(template, EXTRA).fill


def _tree(value: Any) -> Filler:
    """Return what fills the texts in a value of the body, however deep; keys and other values stay."""
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, dict):
        inner = {key: _tree(item) for key, item in value.items()}
        return lambda known: {key: fill(known) for key, fill in inner.items()}
    if isinstance(value, list):
        items = [_tree(item) for item in value]
        return lambda known: [fill(known) for fill in items]
    return lambda _: value


def _value_at(document: Any, path: str) -> Any:
    """Return what a path such as ``data.0.status`` leads to, or a mark if it leads nowhere."""
    for part in path.split("."):
        if isinstance(document, dict) and part in document:
            document = document[part]
        elif isinstance(document, list) and part.isdecimal() and int(part) < len(document):
            document = document[int(part)]
        else:
            return _ABSENT
    return document
