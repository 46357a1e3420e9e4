"""The alarm channel ``email``."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from xwheel.plugin import SecretMask, hookimpl, read_options
from xwheel_alarms import Alarm, AlarmKind, AlarmReceipts, AlarmRetryLater, checked_receivers

from xwheel_alarm_email.addresses import parse_address
from xwheel_alarm_email.options import MAX_RECEIVERS, PLUGIN, Options

if TYPE_CHECKING:
    from xwheel import Config

    from xwheel_alarm_email.delivery import Delivery

__all__ = ["EmailChannel", "EmailError", "xwheel_register_alarms"]

RETRY_S: Final = 60.0
MAX_WORDS: Final = 300
MAX_ERROR: Final = 2000
TEMPORARY: Final = range(400, 500)


class EmailError(Exception):
    """A mail did not reach all receivers; the message says which ones and why."""


class EmailChannel:
    """Sends alarms by e-mail.

    Args:
        options: The plugin's options.
    """

    name = "email"

    def __init__(self, options: Options) -> None:
        self._options = options
        self._receipts = AlarmReceipts()
        password = "" if options.password is None else options.password.get_secret_value()
        login = f"\0{options.username}\0{password}" if password else ""
        self._mask = SecretMask([password, _base64(password), _base64(login)])

    def send(self, alarm: Alarm) -> str:
        """Send one mail to all receivers that have not got it yet, and return the server's answer.

        Raises:
            AlarmRetryLater: The server refused something for now.
            EmailError: Not all receivers got it.
        """
        wanted = alarm.receivers or self._options.receivers
        if not wanted:
            raise EmailError(f"no receivers: neither the rule nor plugins.options.{PLUGIN}.receivers names one")
        good, bad = checked_receivers(wanted, parse_address)
        missing = self._receipts.missing(alarm, good)
        if len(missing) > MAX_RECEIVERS:
            raise EmailError(f"{len(missing)} receivers are more than {MAX_RECEIVERS}: take the address of a list")
        delivery = self._deliver(alarm, missing) if missing else None
        return self._conclude(alarm, missing, bad, delivery)

    def _deliver(self, alarm: Alarm, receivers: Sequence[str]) -> Delivery:
        from aiosmtplib import SMTPAuthenticationError, SMTPException, SMTPResponseException

        from xwheel_alarm_email.delivery import deliver
        from xwheel_alarm_email.message import MessageWriter

        options = self._options
        server = f"{options.host}:{options.port_number}"
        try:
            return deliver(options, receivers, MessageWriter(options).write(alarm, receivers))
        except TimeoutError:
            raise EmailError(f"{server} did not take the mail within {options.timeout_s:g} s") from None
        except SMTPResponseException as error:
            what = "the login" if isinstance(error, SMTPAuthenticationError) else "the mail"
            words = f"{server} refused {what}: {error.code} {self._words(error.message)}"
            if error.code in TEMPORARY:
                raise AlarmRetryLater(words, RETRY_S) from None
            raise EmailError(words) from None
        except (SMTPException, OSError) as error:
            raise EmailError(f"{server}: {self._words(str(error) or type(error).__name__)}") from None

    def _conclude(
        self, alarm: Alarm, receivers: Sequence[str], bad: Mapping[str, str], delivery: Delivery | None
    ) -> str:
        """Return the answer if all receivers have the mail now, else raise an error that names the others."""
        refused = delivery.refused if delivery is not None else {}
        failed = dict(bad)
        for receiver, reply in refused.items():
            failed[receiver] = f"{reply.code} {self._words(reply.text)}"
        sent = [receiver for receiver in receivers if receiver not in refused]
        if not failed:
            self._receipts.forget(alarm)
            answer = self._words(delivery.answer) if delivery is not None else "all receivers have it already"
            return f"sent to {', '.join(sent)}: {answer}" if sent else answer
        if alarm.kind is not AlarmKind.TEST:
            self._receipts.note(alarm, sent)
        parts = [f"not sent to {receiver}: {why}" for receiver, why in failed.items()]
        if sent:
            parts.append(f"sent to {', '.join(sent)}")
        if any(reply.code in TEMPORARY for reply in refused.values()):
            raise AlarmRetryLater(_cut("; ".join(parts), MAX_ERROR), RETRY_S)
        raise EmailError(_cut("; ".join(parts), MAX_ERROR))

    def _words(self, text: str) -> str:
        """Return what a server said, in one short line and without our password."""
        return _cut(" ".join(self._mask.hide(text).split()), MAX_WORDS)


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[:limit]}..."


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


@hookimpl
def xwheel_register_alarms(config: Config) -> Iterable[EmailChannel]:
    """Register the channel ``email``, if the configuration has options for it."""
    if not config.plugin(PLUGIN):
        return []
    return [EmailChannel(read_options(config, PLUGIN, Options))]
