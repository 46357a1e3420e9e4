"""Quiet hours. Pure."""

from __future__ import annotations

from datetime import datetime, time, timedelta
from typing import Final

from xwheel.alarm_model import AlarmKind, AlarmRule
from xwheel.cron import zone
from xwheel.errors import ScheduleError

MINUTE_MS: Final = 60_000


def quiet_until_ms(rule: AlarmRule, kind: AlarmKind, now_ms: int) -> int | None:
    """Return when a rule's quiet hours end, or None if a kind may be told now."""
    if not rule.quiet_from or kind in rule.quiet_pass:
        return None
    try:
        place = zone(rule.quiet_timezone)
    except ScheduleError:
        return None  # a zone that this machine no longer knows keeps nothing back
    local = datetime.fromtimestamp(now_ms / 1000, place)
    begin, end = time.fromisoformat(rule.quiet_from), time.fromisoformat(rule.quiet_to)
    clock = local.time().replace(second=0, microsecond=0)
    if begin < end:
        is_quiet, days = begin <= clock < end, 0
    else:
        is_quiet, days = clock >= begin or clock < end, 1 if clock >= begin else 0
    if not is_quiet:
        return None
    edge = datetime.combine(local.date() + timedelta(days=days), end, place)
    # where the clock is set back, the end may come twice; the first one may be over
    for moment in (edge, edge.replace(fold=1)):
        until_ms = int(moment.timestamp() * 1000)
        if until_ms > now_ms:
            return until_ms
    return now_ms + MINUTE_MS
