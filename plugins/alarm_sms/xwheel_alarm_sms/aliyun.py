"""Aliyun's (Alibaba Cloud's) text messages: SendSms of Dysmsapi 2017-05-25, signed with ACS3-HMAC-SHA256.

The older signature (SignatureVersion 1.0, HMAC-SHA1) is discontinued by the provider and not offered here.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Final
from urllib.parse import quote, urlsplit

from xwheel.plugin import SecretMask
from xwheel_alarms import AlarmTemplate
from xwheel_egress import Answer

from xwheel_alarm_sms.options import EXTRA, AliyunOptions
from xwheel_alarm_sms.provider import RETRY_S, Call, SmsError, retry_after, short

ACTION: Final = "SendSms"
VERSION: Final = "2017-05-25"
ALGORITHM: Final = "ACS3-HMAC-SHA256"
EMPTY: Final = "-"  # the provider refuses a message one of whose values is empty
# a number, a template or an account had enough messages for now
THROTTLED: Final = ("isv.BUSINESS_LIMIT_CONTROL", "Throttling", "ServiceUnavailable")
OK_STATUS: Final = 200
MAINLAND: Final = "+86"


class Aliyun:
    """Signs requests for one account; immutable.

    Args:
        options: The account and the template.
        now: Gives the time, which is part of the signature.
    """

    def __init__(self, options: AliyunOptions, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._options = options
        assert options.access_key_secret is not None  # noqa: S101 -- a required secret
        self._secret = options.access_key_secret.get_secret_value()
        self._mask = SecretMask([self._secret])
        self._params = {name: AlarmTemplate(text, EXTRA) for name, text in options.params.items()}
        self._now = now

    def call(self, values: Mapping[str, str], number: str) -> Call:
        """Return the signed request for one number."""
        known = {**values, "number": number, "digits": number.removeprefix("+"), "secret": ""}
        query = {
            "OutId": values.get("id", ""),
            "PhoneNumbers": _as_aliyun_writes(number),
            "SignName": self._options.sign_name,
            "TemplateCode": self._options.template_code,
        }
        if self._params:
            limit = self._options.max_param_length
            filled = {name: _param(template.fill(known), limit) for name, template in self._params.items()}
            query["TemplateParam"] = json.dumps(filled, ensure_ascii=False)
        endpoint = self._options.endpoint
        canonical = "&".join(f"{_encode(name)}={_encode(value)}" for name, value in sorted(query.items()))
        headers = self._signed(canonical, _host_header(endpoint))
        return Call(method="POST", url=f"{endpoint}/?{canonical}", headers=headers, body=b"")

    def _signed(self, query: str, host: str) -> dict[str, str]:
        """Return the headers, without ``host``, which the client sets itself."""
        empty = hashlib.sha256(b"").hexdigest()
        headers = {
            "host": host,
            "x-acs-action": ACTION,
            "x-acs-content-sha256": empty,
            "x-acs-date": self._now().strftime("%Y-%m-%dT%H:%M:%SZ"),
            "x-acs-signature-nonce": secrets.token_hex(16),
            "x-acs-version": VERSION,
        }
        names = ";".join(sorted(headers))
        lines = "".join(f"{name}:{headers[name]}\n" for name in sorted(headers))
        request = f"POST\n/\n{query}\n{lines}\n{names}\n{empty}"
        to_sign = f"{ALGORITHM}\n{hashlib.sha256(request.encode()).hexdigest()}"
        signature = hmac.new(self._secret.encode(), to_sign.encode(), hashlib.sha256).hexdigest()
        del headers["host"]
        headers["Authorization"] = (
            f"{ALGORITHM} Credential={self._options.access_key_id},SignedHeaders={names},Signature={signature}"
        )
        return headers

    def judge(self, answer: Answer) -> str:
        """Return Aliyun's id of the message if it was taken."""
        document = answer.document
        fields = document if isinstance(document, dict) else {}
        code, said = fields.get("Code"), fields.get("Message")
        if answer.status == OK_STATUS and code == "OK":
            return short(self._mask.hide(f"OK, BizId {fields.get('BizId')}"))
        if not isinstance(code, str):
            words = short(self._mask.hide(f"{answer.status} {answer.text}"))
            raise SmsError(f"Aliyun answered {words}", retry_after(answer))
        retry_s = retry_after(answer)
        if retry_s is None and code.startswith(THROTTLED):
            retry_s = RETRY_S
        raise SmsError(f"Aliyun answered {answer.status} {short(self._mask.hide(f'{code}: {said}'))}", retry_s)


def _encode(text: str) -> str:
    # RFC 3986, as the signature wants it: all but letters, digits and -_.~
    return quote(text, safe="")


def _as_aliyun_writes(number: str) -> str:
    """Return a number as SendSms wants it: mainland ones without, all others with their country's code, no plus."""
    return number.removeprefix(MAINLAND) if number.startswith(MAINLAND) else number.removeprefix("+")


def _param(value: str, limit: int) -> str:
    return " ".join(value.split())[:limit] or EMPTY


def _host_header(endpoint: str) -> str:
    """Return the header Host that a client sends for an endpoint: without the scheme's usual port."""
    parts = urlsplit(endpoint)
    usual = {"https": 443, "http": 80}[parts.scheme]
    return parts.netloc.removesuffix(f":{usual}")
