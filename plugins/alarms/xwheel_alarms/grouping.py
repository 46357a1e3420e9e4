"""Decide which alarms are sent now, held back, counted in another one, or dropped. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, time, timedelta
from typing import Final

import msgspec
from xwheel.cron import zone
from xwheel.errors import ScheduleError

from xwheel_alarms.records import AlarmKind, AlarmRow, AlarmRule, AlarmState
from xwheel_alarms.storage.alarms import AlarmChange, DueAlarm, Episode, EpisodeKey
from xwheel_alarms.storage.attempts import NewAttempt

WINDOW: Final = "window"
QUIET: Final = "quiet hours"
SUMMARY: Final = "summary"
MINUTE_MS: Final = 60_000
NO_RULE: Final = "the rule was deleted or disabled"
NO_CHANNEL: Final = "the rule names no channel"
NOTHING_OPEN: Final = "no open alarm that this would end"
NO_RECOVERY: Final = "the rule asks for no notice of recovery"


@dataclass(slots=True)
class Grouped:
    """What a decision about alarms writes."""

    changes: list[AlarmChange] = field(default_factory=list)
    episodes: list[Episode] = field(default_factory=list)
    attempts: list[NewAttempt] = field(default_factory=list)


def group_alarms(
    due: Sequence[DueAlarm],
    holders: Iterable[DueAlarm],
    rules: Mapping[int, AlarmRule],
    episodes: Mapping[EpisodeKey, Episode],
    now_ms: int,
    *,
    channels: Collection[str],
) -> Grouped:
    """Decide about alarms that are due, and return what to write.

    The first of a job and kind is sent at once and opens the rule's window; those that follow are counted in one
    that is held until its end. In quiet hours everything is held until their end, and sent in one summary of the
    rule. A recovery closes open alarms, and includes what is held.

    Args:
        due: The alarms, locked, in id order.
        holders: The alarms that count others for these jobs, locked; some may be due themselves.
        rules: All rules by id.
        episodes: What was sent lately about these jobs, locked.
        now_ms: The shared time.
        channels: Names of the installed channels.
    """
    rows = {item.row.id: item.row for item in (*holders, *due)}
    work = _Grouping(rows, rules, dict(episodes), now_ms)
    for item in due:
        work.take(item)
    return work.finish(channels)


@dataclass(slots=True)
class _Grouping:
    _rows: dict[int, AlarmRow]
    _rules: Mapping[int, AlarmRule]
    _episodes: dict[EpisodeKey, Episode]
    _now_ms: int
    _changed: set[int] = field(default_factory=set)
    _touched: set[EpisodeKey] = field(default_factory=set)
    _told: list[int] = field(default_factory=list)
    _after_quiet: dict[int, list[int]] = field(default_factory=dict)

    def take(self, item: DueAlarm) -> None:
        """Decide about one alarm."""
        row = self._rows[item.row.id]
        if row.due_ms is None:
            return  # told, merged or dropped by now
        rule = self._rules.get(row.rule_id or 0)
        if rule is None or not rule.enabled:
            self._drop(row, NO_RULE)
        elif row.state is AlarmState.HELD:
            self._release(row, rule)
        elif row.kind is AlarmKind.RECOVERED:
            self._recover(row, rule)
        else:
            self._raise(item, row, rule)

    def finish(self, channels: Collection[str]) -> Grouped:
        """Return what to write."""
        for ids in self._after_quiet.values():
            if len(ids) > 1:
                self._summarize([self._rows[item] for item in ids])
        attempts = [attempt for item in sorted(self._told) for attempt in self._attempts(self._rows[item], channels)]
        rows = [self._rows[item] for item in sorted(self._changed)]
        names = AlarmChange.__struct_fields__
        return Grouped(
            changes=[AlarmChange(**{name: getattr(row, name) for name in names}) for row in rows],
            episodes=[self._episodes[key] for key in sorted(self._touched)],
            attempts=attempts,
        )

    def _raise(self, item: DueAlarm, row: AlarmRow, rule: AlarmRule) -> None:
        self._place(row, rule)
        self._save(self._episode(row), root_id=item.root_id, shard_index=item.shard_index)

    def _place(self, row: AlarmRow, rule: AlarmRule) -> None:
        """Count an alarm in one that is held, or hold it itself, or send it."""
        episode = self._episode(row)
        quiet_ms = quiet_until_ms(rule, row.kind, self._now_ms)
        if (held := self._held(episode)) is not None:
            self._merge(row, held)
        elif quiet_ms is not None:
            self._hold(row, quiet_ms, QUIET)
        elif episode.until_ms > self._now_ms:
            self._hold(row, episode.until_ms, WINDOW)
        else:
            self._send(row, rule)

    def _release(self, row: AlarmRow, rule: AlarmRule) -> None:
        """Send what was held back, unless quiet hours began meanwhile."""
        quiet_ms = quiet_until_ms(rule, row.kind, self._now_ms)
        if quiet_ms is not None:
            self._hold(row, quiet_ms, QUIET)
            return
        if row.note == QUIET:
            self._after_quiet.setdefault(rule.id, []).append(row.id)
        self._send(row, rule)

    def _recover(self, row: AlarmRow, rule: AlarmRule) -> None:
        ending = [
            episode
            for key, episode in sorted(self._episodes.items())
            if (key.job_id, key.rule_id) == (row.job_id, row.rule_id)
            and key.kind is not AlarmKind.RECOVERED
            and row.reason in ("", key.kind)
        ]
        kinds = [str(episode.key.kind) for episode in ending if episode.is_open]
        if not kinds:
            self._drop(row, NOTHING_OPEN)
            return
        for episode in ending:
            self._save(episode, is_open=False)
        if not rule.recovery:
            self._drop(row, NO_RECOVERY)
            return
        row = replace(row, reason=", ".join(kinds))
        for episode in ending:
            if (held := self._held(episode)) is not None:
                row = self._merge(held, row)
                self._save(self._episodes[episode.key], held_id=None)
        self._place(self._set(row), rule)

    def _send(self, row: AlarmRow, rule: AlarmRule) -> None:
        if not rule.targets:
            self._drop(row, NO_CHANNEL)
            return
        self._set(replace(row, state=AlarmState.TOLD, due_ms=None, note=""))
        self._told.append(row.id)
        is_open = row.kind is not AlarmKind.RECOVERED
        until_ms = self._now_ms + rule.window_s * 1000 if is_open else 0
        self._save(self._episode(row), is_open=is_open, until_ms=until_ms, held_id=None)

    def _hold(self, row: AlarmRow, until_ms: int, note: str) -> None:
        self._set(replace(row, state=AlarmState.HELD, due_ms=until_ms, note=note))
        self._save(self._episode(row), held_id=row.id)

    def _drop(self, row: AlarmRow, note: str) -> None:
        self._set(replace(row, state=AlarmState.DROPPED, due_ms=None, note=note))
        if (episode := self._episode(row)).held_id == row.id:
            self._save(episode, held_id=None)

    def _merge(self, row: AlarmRow, notice: AlarmRow, note: str = "") -> AlarmRow:
        """Count an alarm in another one, which shows the latest of them; return that."""
        self._set(replace(row, state=AlarmState.MERGED, due_ms=None, notice_id=notice.id, note=note))
        count, last_ms = notice.count + row.count, max(notice.last_ms, row.last_ms)
        if row.kind is notice.kind and not note:
            notice = replace(notice, run_id=row.run_id, reason=row.reason, message=row.message)
        return self._set(replace(notice, count=count, last_ms=last_ms))

    def _summarize(self, rows: Sequence[AlarmRow]) -> None:
        """Have one notice count everything that a rule held back in quiet hours."""
        notice = rows[0]
        for row in rows[1:]:
            notice = self._merge(row, notice, SUMMARY)
            self._told.remove(row.id)
        self._set(replace(notice, note=SUMMARY))

    def _attempts(self, row: AlarmRow, channels: Collection[str]) -> Iterable[NewAttempt]:
        for target in self._rules[row.rule_id or 0].targets:
            is_there = target.channel in channels
            yield NewAttempt(
                alarm_id=row.id,
                job_id=row.job_id,
                group_id=row.group_id,
                partition=row.partition,
                target=target,
                number=1,
                due_ms=self._now_ms if is_there else None,
                answer="" if is_there else missing_channel(target.channel, channels),
            )

    def _episode(self, row: AlarmRow) -> Episode:
        key = EpisodeKey(row.job_id or 0, row.rule_id or 0, row.kind)
        return self._episodes.get(key) or Episode(key=key)

    def _held(self, episode: Episode) -> AlarmRow | None:
        """Return the alarm that is held for an episode and counts further ones."""
        row = self._rows.get(episode.held_id or 0)
        return row if row is not None and row.state is AlarmState.HELD else None

    def _save(self, episode: Episode, **changes: int | bool | None) -> None:
        self._episodes[episode.key] = msgspec.structs.replace(episode, touched_ms=self._now_ms, **changes)
        self._touched.add(episode.key)

    def _set(self, row: AlarmRow) -> AlarmRow:
        self._rows[row.id] = row
        self._changed.add(row.id)
        return row


def missing_channel(channel: str, channels: Collection[str]) -> str:
    """Return why an attempt through a channel failed that no plugin brings."""
    return f"channel {channel} is not installed; installed: {', '.join(sorted(channels)) or 'none'}"


def quiet_until_ms(rule: AlarmRule, kind: AlarmKind, now_ms: int) -> int | None:
    """Return when a rule's quiet hours end, or None if a kind may be sent now."""
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
