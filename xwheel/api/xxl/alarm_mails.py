"""``alarmEmail`` of XXL-JOB's job calls: an alarm rule of the job, where there is a channel for mails."""

from __future__ import annotations

import re
from typing import Final

from xwheel.api.http.resource import ApiParts
from xwheel.errors import ConflictError, FieldError
from xwheel.model.alarms import AlarmKind, AlarmTarget
from xwheel.plugin.registries import where_it_comes_from
from xwheel.storage.alarms.rules import RuleFilter

CHANNEL: Final = "email"
RULE_NAME: Final = "alarmEmail"
"""By which the rule is found again."""

KINDS: Final = (AlarmKind.FAILED, AlarmKind.LOST, AlarmKind.REFUSED)
KEPT: Final = "alarmEmail is kept in the job's description, no mail is sent to it"
_BETWEEN: Final = re.compile(r"[,;\s]+")


class AlarmMails:
    """Keeps the rules that ``alarmEmail`` asks for.

    Args:
        parts: What the job calls work with.
    """

    def __init__(self, parts: ApiParts) -> None:
        self._parts = parts

    def keep_mails(self, job_id: int, addresses: str) -> str:
        """Let a job's alarms be mailed to addresses, or no longer; return what to tell the caller, or an empty text.

        What a person changed in the rule stays, but for the addresses.

        Args:
            job_id: The job.
            addresses: With commas between them; empty for none.
        """
        receivers = tuple(dict.fromkeys(filter(None, _BETWEEN.split(addresses))))
        alarms = self._parts.alarms
        known = [
            rule
            for rule in alarms.list_rules(RuleFilter(job_id=job_id))
            if rule.job_id == job_id and rule.name == RULE_NAME
        ]
        for rule in known[1:] if receivers else known:
            alarms.delete(rule.id)
        if not receivers:
            return ""
        is_installed = CHANNEL in self._parts.plugins.alarm_channels
        targets = (AlarmTarget(channel=CHANNEL, receivers=receivers),)
        try:
            if known:
                alarms.update(known[0].id, {"targets": targets})
            elif is_installed:
                alarms.create(
                    {
                        "name": RULE_NAME,
                        "job_id": job_id,
                        "kinds": KINDS,
                        "targets": targets,
                        "recovery": False,
                    }
                )
        except (FieldError, ConflictError) as error:
            return f"{KEPT}: {error}"
        return "" if is_installed else f"{KEPT}: {where_it_comes_from('alarm channel', CHANNEL)}"
