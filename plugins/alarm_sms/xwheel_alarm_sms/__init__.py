"""The alarm channel ``sms``."""

from __future__ import annotations

import time
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from xwheel.plugin import ConfigError, hookimpl, read_options
from xwheel_alarms import (
    Alarm,
    AlarmKind,
    AlarmReceipts,
    AlarmRetryLater,
    AlarmTemplate,
    alarm_values,
    checked_receivers,
)
from xwheel_egress import EgressClient, EgressError, EgressPolicy, EgressRefusedError

from xwheel_alarm_sms.aliyun import Aliyun
from xwheel_alarm_sms.gateway import Gateway
from xwheel_alarm_sms.numbers import parse_number
from xwheel_alarm_sms.options import MAX_RECEIVERS, PLUGIN, Options
from xwheel_alarm_sms.provider import Provider, SmsError, short
from xwheel_alarm_sms.throttle import Throttle

if TYPE_CHECKING:
    from xwheel import Config

__all__ = ["SmsChannel", "SmsError", "xwheel_register_alarms"]

MAX_ANSWER: Final = 1500
MAX_ANSWER_BYTES: Final = 16_384
FAIR_CALL_S: Final = 2.0
LEAST_CALL_S: Final = 0.1
CUT: Final = "..."


@dataclass(slots=True)
class Outcome:
    """What became of an alarm's numbers.

    Attributes:
        sent: The number, and what the provider said.
        held: Those that had enough messages.
        failed: The number, and why.
        retry_s: When to ask again, in seconds, if the provider said so.
    """

    sent: dict[str, str] = field(default_factory=dict)
    held: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    retry_s: float | None = None

    def __str__(self) -> str:
        """Return it in words."""
        parts = [f"not sent to {number}: {why}" for number, why in self.failed.items()]
        parts += [f"sent to {number}: {said}" for number, said in self.sent.items()]
        return "; ".join(parts)


class SmsChannel:
    """Sends alarms as text messages, one request a number.

    Args:
        options: The plugin's options.
        client: What makes the requests.
        monotonic: Gives seconds that only rise.
    """

    name = "sms"

    def __init__(self, options: Options, client: EgressClient, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._options = options
        self._client = client
        self._monotonic = monotonic
        self._text = AlarmTemplate(options.text)
        self._throttle = Throttle(options.per_number, options.window_s, monotonic)
        self._receipts = AlarmReceipts()
        self._provider = _provider(options)

    def send(self, alarm: Alarm) -> str:
        """Send to all numbers that did not get it yet, and return what the provider said, and which were held back.

        Raises:
            AlarmRetryLater: The provider wants to be asked later.
            SmsError: Not all receivers got it.
        """
        wanted = alarm.receivers or self._options.receivers
        if not wanted:
            raise SmsError(f"no receivers: neither the rule nor plugins.options.{PLUGIN}.receivers names one")
        good, bad = checked_receivers(wanted, parse_number)
        missing = self._receipts.missing(alarm, good)
        if len(missing) > MAX_RECEIVERS:
            raise SmsError(f"{len(missing)} receivers are more than {MAX_RECEIVERS}")
        outcome = Outcome(failed=bad)
        self._send_all(missing, self._values(alarm), outcome)
        return self._conclude(alarm, outcome)

    def _values(self, alarm: Alarm) -> Mapping[str, str]:
        limit = self._options.max_length
        values = {name: _cut(_printable(value), limit) for name, value in alarm_values(alarm).items()}
        values["message"] = _cut(self._text.fill(values), limit)
        return values

    def _send_all(self, numbers: Sequence[str], values: Mapping[str, str], outcome: Outcome) -> None:
        deadline = self._monotonic() + self._options.timeout_s
        for index, number in enumerate(numbers):
            if self._throttle.is_full(number):
                outcome.held.append(number)
                continue
            left = deadline - self._monotonic()
            if left < LEAST_CALL_S:
                outcome.failed[number] = f"no time left of {self._options.timeout_s:g} s"
                continue
            # a number on which the gateway hangs leaves time for the others
            share = min(left, max(FAIR_CALL_S, left / (len(numbers) - index)))
            try:
                outcome.sent[number] = self._send_one(values, number, share)
                self._throttle.note(number)
            except SmsError as error:
                outcome.failed[number] = str(error)
                if error.retry_s is not None:
                    outcome.retry_s = max(error.retry_s, outcome.retry_s or 0.0)
            except EgressError as error:
                outcome.failed[number] = short(str(error))

    def _send_one(self, values: Mapping[str, str], number: str, timeout_s: float) -> str:
        call = self._provider.call(values, number)
        answer = self._client.request(
            call.method,
            call.url,
            headers=call.headers,
            body=call.body,
            timeout_s=timeout_s,
            max_answer=MAX_ANSWER_BYTES,
        )
        return self._provider.judge(answer)

    def _conclude(self, alarm: Alarm, outcome: Outcome) -> str:
        words = str(outcome)
        if outcome.held:
            told = f"held back: {', '.join(outcome.held)} had {self._throttle}"
            words = f"{told}; {words}" if words else told
        words = short(words, limit=MAX_ANSWER)
        if not outcome.failed:
            self._receipts.forget(alarm)
            return words or "all receivers have it already"
        if alarm.kind is not AlarmKind.TEST:
            self._receipts.note(alarm, outcome.sent)
        if outcome.retry_s is not None:
            raise AlarmRetryLater(words, outcome.retry_s)
        raise SmsError(words)


def _provider(options: Options) -> Provider:
    if options.aliyun is not None:
        return Aliyun(options.aliyun)
    assert options.gateway is not None  # noqa: S101 -- the options have one of both
    return Gateway(options.gateway)


def _printable(text: str) -> str:
    """Return the text without control characters, which no telephone shows."""
    return "".join(char if char == "\n" or unicodedata.category(char) != "Cc" else " " for char in text)


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - len(CUT)] + CUT


@hookimpl
def xwheel_register_alarms(config: Config) -> Iterable[SmsChannel]:
    """Register the channel ``sms``, if the configuration has options for it."""
    if not config.plugin(PLUGIN):
        return []
    options = read_options(config, PLUGIN, Options)
    client = EgressClient(EgressPolicy.from_config(config))
    table = "aliyun" if options.aliyun is not None else "gateway"
    call = _provider(options).call({}, "0")
    try:
        client.call(call.method, call.url, headers=call.headers, body=call.body)  # checks it and sends nothing
    except EgressRefusedError as error:
        raise ConfigError(f"plugins.options.{PLUGIN}.{table}: {error}") from None
    return [SmsChannel(options, client)]
