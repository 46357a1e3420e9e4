"""What the node asks for this plugin: when there is something to group or to send, and whether rules changed."""

from __future__ import annotations

from typing import Final

from sqlalchemy import func, select
from xwheel.storage.news import first_of

from xwheel_alarms.tables import alarm, alarm_attempt, alarm_episode, alarm_rule

# the number of a partition with an open attempt, which is a time long past: channels are asked which of them are due
_ATTEMPT: Final = first_of(alarm_attempt.c.partition, alarm_attempt.c.partition, alarm_attempt.c.open_channel > "")
_GROUP: Final = first_of(alarm.c.due_ms, alarm.c.partition)

DUE: Final = select(func.coalesce(_ATTEMPT.scalar_subquery(), _GROUP.scalar_subquery()))

_RULES: Final = select(
    func.count() * 1_000_000
    + func.coalesce(func.max(alarm_rule.c.id), 0) * 1000
    + func.coalesce(func.sum(alarm_rule.c.revision), 0)
)
_EPISODES: Final = select(func.coalesce(func.max(alarm_episode.c.touched_ms), 0))

VERSION: Final = select(_RULES.scalar_subquery() + _EPISODES.scalar_subquery())
"""Another number with each change of a rule or an episode."""
