"""``alarmEmail`` of XXL-JOB's job calls: an alarm rule of the job, where there is a channel for mails."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final

from xwheel.errors import ConflictError, FieldError
from xwheel.plugin.registries import where_it_comes_from

from xwheel_alarms.records import AlarmKind, AlarmTarget
from xwheel_alarms.rules import AlarmManager
from xwheel_alarms.storage.rules import RuleFilter

CHANNEL: Final = "email"
RULE_NAME: Final = "alarmEmail"
"""By which the rule is found again."""

KINDS: Final = (AlarmKind.FAILED, AlarmKind.LOST, AlarmKind.REFUSED)
KEPT: Final = "alarmEmail is kept in the job's description, no mail is sent to it"
_BETWEEN: Final = re.compile(r"[,;\s]+")


class AlarmMails:
    """Keeps the rules that ``alarmEmail`` asks for.

    Args:
        rules: Changes rules.
        channels: Names of the installed channels.
    """

    def __init__(self, rules: AlarmManager, channels: Collection[str]) -> None:
        self._rules = rules
        self._channels = channels

    def keep_mails(self, job_id: int, addresses: str) -> str:
        """Let a job's alarms be mailed to addresses, or no longer; return what to tell the caller, or an empty text.

        What a person changed in the rule stays, but for the addresses.

        Args:
            job_id: The job.
            addresses: With commas between them; empty for none.
        """
        receivers = tuple(dict.fromkeys(filter(None, _BETWEEN.split(addresses))))
        known = [
            rule
            for rule in self._rules.list_rules(RuleFilter(job_id=job_id))
            if rule.job_id == job_id and rule.name == RULE_NAME
        ]
        for rule in known[1:] if receivers else known:
            self._rules.delete(rule.id)
        if not receivers:
            return ""
        is_installed = CHANNEL in self._channels
        targets = (AlarmTarget(channel=CHANNEL, receivers=receivers),)
        try:
            if known:
                self._rules.update(known[0].id, {"targets": targets})
            elif is_installed:
                self._rules.create(
                    {"name": RULE_NAME, "job_id": job_id, "kinds": KINDS, "targets": targets, "recovery": False}
                )
        except (FieldError, ConflictError) as error:
            return f"{KEPT}: {error}"
        if is_installed:
            return ""
        return f"{KEPT}: {where_it_comes_from('alarm channel', CHANNEL) or f'no alarm channel is called {CHANNEL}'}"
