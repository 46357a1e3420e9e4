"""A kind of robots as an alarm channel: which of them get an alarm, and what became of it."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence

from xwheel_alarms import Alarm, AlarmReceipts, AlarmRetryLater
from xwheel_egress import EgressClient, EgressError

from xwheel_alarm_webhook.robots import MENTION, Robot, SendError

DEFAULT = "default"


class WebhookChannel:
    """Sends alarms to the robots of one kind.

    A rule's receivers are names of robots, and ``@NAME`` for people to be mentioned by them. Without a name the robot
    ``default`` gets it, or the only one that there is. Where some robots fail, the alarm counts as failed; the
    next attempt goes to those only.

    Args:
        name: The kind; what rules call the channel.
        robots: By name; at least one.
        client: Makes the calls.
        timeout_s: Limit for an alarm to all its robots; each may use an equal share of what is left.
    """

    def __init__(self, name: str, robots: Mapping[str, Robot], client: EgressClient, *, timeout_s: float) -> None:
        self.name = name
        self._robots = dict(robots)
        self._client = client
        self._timeout_s = timeout_s
        self._receipts = AlarmReceipts()

    def send(self, alarm: Alarm) -> str:
        """Send an alarm and return what each robot said."""
        names, mention, wrong = self._choose(alarm.receivers)
        said: list[str] = []
        later: list[float] = []
        failed = bool(wrong)
        end = time.monotonic() + self._timeout_s
        waiting = self._receipts.missing(alarm, names)
        for place, name in enumerate(waiting):
            share = max(0.1, (end - time.monotonic()) / (len(waiting) - place))
            try:
                said.append(f"{name}: {self._robots[name].send(self._client, alarm, mention, share)}")
                self._receipts.note(alarm, [name])
            except AlarmRetryLater as error:
                said.append(f"{name}: {error}")
                later.append(error.after_s)
            except (SendError, EgressError) as error:
                said.append(f"{name}: {error}")
                failed = True
        told = "; ".join([*wrong, *said])
        if later:
            raise AlarmRetryLater(told, max(later))
        if failed:
            raise SendError(told)
        self._receipts.forget(alarm)
        return told

    def _choose(self, receivers: Sequence[str]) -> tuple[list[str], list[str], list[str]]:
        """Return the names of robots and of mentioned people, and what is wrong with the receivers."""
        people = [one[1:] for one in receivers if one.startswith("@")]
        mention = [one for one in people if re.match(MENTION, one)]
        strange = [f"@{one[:64]!r} is no name to mention" for one in people if one not in mention]
        wanted = [one for one in receivers if not one.startswith("@")]
        if not wanted:
            if DEFAULT in self._robots or len(self._robots) == 1:
                return [DEFAULT if DEFAULT in self._robots else next(iter(self._robots))], mention, strange
            known = ", ".join(sorted(self._robots))
            return ([], mention, [*strange, f"{self.name} has several robots: name one of them as receiver: {known}"])
        unknown = [one for one in wanted if one not in self._robots]
        wrong = strange + [
            f"{self.name} has no robot {one[:64]!r}; there are {', '.join(sorted(self._robots))}" for one in unknown
        ]
        return [one for one in wanted if one in self._robots], mention, wrong
