"""Mistakes in the channels of alarms: mail, text messages and robots."""

from __future__ import annotations

from typing import Final

from tests.mutants import Mistake

MISTAKES: Final = [
    Mistake(
        file="plugins/alarm_webhook/xwheel_alarm_webhook/channel.py",
        old="            raise AlarmRetryLater(told, max(later))",
        new="            raise AlarmRetryLater(told, min(later))",
        why="A robot that asks for a pause would be asked again before it is over.",
        tests=("plugins/alarm_webhook/tests/test_channel.py::test_the_longest_pause_counts",),
    ),
    Mistake(
        file="plugins/alarm_sms/xwheel_alarm_sms/throttle.py",
        old="if now - time < self._window_s) >= self._limit",
        new="if now - time < self._window_s) > self._limit",
        why="A telephone would get one message more than its limit.",
        tests=("plugins/alarm_sms/tests/test_gateway.py",),
    ),
    Mistake(
        file="plugins/alarm_sms/xwheel_alarm_sms/__init__.py",
        old="                self._throttle.note(number)\n",
        new="",
        why="Messages to a telephone would never be held back.",
        tests=("plugins/alarm_sms/tests/test_gateway.py",),
    ),
    Mistake(
        file="plugins/alarm_sms/xwheel_alarm_sms/__init__.py",
        old="            self._receipts.note(alarm, outcome.sent)\n",
        new="            self._receipts.note(alarm, outcome.failed)\n",
        why="A retry would go to those who have the message, and not to the others.",
        tests=("plugins/alarm_sms/tests/test_gateway.py",),
    ),
    Mistake(
        file="plugins/alarm_sms/xwheel_alarm_sms/__init__.py",
        old="share = min(left, max(FAIR_CALL_S, left / (len(numbers) - index)))",
        new="share = left",
        why="One number on which the gateway hangs would leave no time for the others.",
        tests=("plugins/alarm_sms/tests/test_gateway.py",),
    ),
    Mistake(
        file="plugins/alarm_sms/xwheel_alarm_sms/gateway.py",
        old='quote(value, safe="")',
        new="quote(value)",
        why="A job's name could change the path of a gateway's address.",
        tests=("plugins/alarm_sms/tests/test_gateway.py",),
    ),
    Mistake(
        file="plugins/alarm_sms/xwheel_alarm_sms/gateway.py",
        old="if said is None or said not in options.success_values:",
        new="if said is not None and said not in options.success_values:",
        why="An answer without the field that says success would count as one.",
        tests=("plugins/alarm_sms/tests/test_gateway.py",),
    ),
    Mistake(
        file="plugins/alarm_sms/xwheel_alarm_sms/gateway.py",
        old='words = short(self._mask.hide(f"{answer.status} {answer.text}"))',
        new='words = short(f"{answer.status} {answer.text}")',
        why="A gateway that repeats its key would bring it into the alarm's answer.",
        tests=("plugins/alarm_sms/tests/test_gateway.py",),
    ),
    Mistake(
        file="plugins/alarm_sms/xwheel_alarm_sms/aliyun.py",
        old=('number.removeprefix(MAINLAND) if number.startswith(MAINLAND) else number.removeprefix("+")'),
        new='number.removeprefix("+")',
        why="Aliyun would refuse numbers of the mainland.",
        tests=("plugins/alarm_sms/tests/test_aliyun.py",),
    ),
    Mistake(
        file="plugins/alarm_sms/xwheel_alarm_sms/aliyun.py",
        old='return " ".join(value.split())[:limit] or EMPTY',
        new='return " ".join(value.split())[:limit]',
        why="Aliyun would refuse a message one of whose values is empty.",
        tests=("plugins/alarm_sms/tests/test_aliyun.py",),
    ),
    Mistake(
        file="plugins/alarm_sms/xwheel_alarm_sms/aliyun.py",
        old='if answer.status == OK_STATUS and code == "OK":',
        new="if answer.status == OK_STATUS:",
        why="A message that Aliyun refused would count as sent.",
        tests=("plugins/alarm_sms/tests/test_aliyun.py",),
    ),
    Mistake(
        file="plugins/alarm_webhook/xwheel_alarm_webhook/channel.py",
        old="        waiting = self._receipts.missing(alarm, names)\n",
        new="        waiting = list(names)\n",
        why="A retry would tell robots once more that have the alarm.",
        tests=("plugins/alarm_webhook/tests/test_channel.py",),
    ),
    Mistake(
        file="plugins/alarm_webhook/xwheel_alarm_webhook/channel.py",
        old="        failed = bool(wrong)\n",
        new="        failed = False\n",
        why="An alarm for a robot that there is not would count as sent.",
        tests=("plugins/alarm_webhook/tests/test_channel.py",),
    ),
    Mistake(
        file="plugins/alarm_webhook/xwheel_alarm_webhook/robots.py",
        old=('text = cut_bytes(re.sub(r"<(?=/?at\\b)", "< ", self.fill(alarm), flags=re.IGNORECASE), FEISHU_TEXT)'),
        new="text = cut_bytes(self.fill(alarm), FEISHU_TEXT)",
        why="A job's name could mention all people of a chat.",
        tests=("plugins/alarm_webhook/tests/test_kinds.py",),
    ),
    Mistake(
        file="plugins/alarm_webhook/xwheel_alarm_webhook/robots.py",
        old="or code != 0 or isinstance(code, bool):",
        new="or (code or 0) != 0:",
        why="An answer without a code would count as success of a robot.",
        tests=("plugins/alarm_webhook/tests/test_kinds.py",),
    ),
    Mistake(
        file="plugins/alarm_webhook/xwheel_alarm_webhook/robots.py",
        old='        text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")\n',
        new='        text = text.replace("<", "&lt;").replace(">", "&gt;").replace("&", "&amp;")\n',
        why="Slack would show &lt; where a text has an angle bracket.",
        tests=("plugins/alarm_webhook/tests/test_kinds.py",),
    ),
    Mistake(
        file="plugins/alarm_webhook/xwheel_alarm_webhook/robots.py",
        old='sign={quote_plus(sign)}"',
        new='sign={sign}"',
        why="DingTalk would refuse signatures that hold a plus.",
        tests=("plugins/alarm_webhook/tests/test_kinds.py",),
    ),
    Mistake(
        file="plugins/alarm_webhook/xwheel_alarm_webhook/robots.py",
        old='        text = self._mask.hide(" ".join(text.split()))\n',
        new='        text = " ".join(text.split())\n',
        why="A robot that repeats its address would bring its key into the alarm's answer.",
        tests=("plugins/alarm_webhook/tests/test_kinds.py",),
    ),
    Mistake(
        file="plugins/alarm_email/xwheel_alarm_email/message.py",
        old='{"Cc", "Zl", "Zp"}',
        new='{"Zl", "Zp"}',
        why="A line feed in a job's name would break the mail's subject.",
        tests=("plugins/alarm_email/tests/test_message.py",),
    ),
    Mistake(
        file="plugins/alarm_email/xwheel_alarm_email/addresses.py",
        old='if not all(_LABEL.fullmatch(label) for label in ascii_domain.split(".")):',
        new='if not any(_LABEL.fullmatch(label) for label in ascii_domain.split(".")):',
        why="A receiver's domain could hold a line feed.",
        tests=("plugins/alarm_email/tests/test_message.py::test_what_is_no_address",),
    ),
    Mistake(
        file="plugins/alarm_email/xwheel_alarm_email/delivery.py",
        old='        start_tls=options.security == "starttls",\n',
        new="        start_tls=None,\n",
        why="A mail would go in clear text where a server does not offer encryption.",
        tests=("plugins/alarm_email/tests/test_delivery.py",),
    ),
    Mistake(
        file="plugins/alarm_email/xwheel_alarm_email/__init__.py",
        old='" ".join(self._mask.hide(text).split())',
        new='" ".join(text.split())',
        why="A mail server that repeats the login would bring the password into the alarm's answer.",
        tests=("plugins/alarm_email/tests/test_delivery.py",),
    ),
]
