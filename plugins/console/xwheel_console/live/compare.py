"""Find what differs between what was read a second ago and what is read now. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from xwheel.model import OPEN_STATES, RegisteredExecutor
from xwheel.plugin.news import NewsItem
from xwheel.storage.leases import LeaseRow

from xwheel_console.live.feed import EventKind, LiveEvent, Receivers
from xwheel_console.live.queries import LiveRun

KINDS: Final = {
    "run": EventKind.RUN,
    "job": EventKind.JOB,
    "group": EventKind.GROUP,
    "schedule": EventKind.PAUSE,
    "calendar": EventKind.CALENDAR,
    "alarm_rule": EventKind.RULE,
    "account": EventKind.ACCOUNT,
    "alarm": EventKind.ALARM,
}
"""Kind of object to the kind of event that tells of it; others are on no page that stays open."""

OF_NO_GROUP: Final = {
    EventKind.PAUSE: Receivers.READERS,
    EventKind.CALENDAR: Receivers.READERS,
    EventKind.ACCOUNT: Receivers.ADMINS,
}


class RunsNow(NamedTuple):
    """The runs that were read together.

    Attributes:
        rows: By id.
        is_whole: Everything that is open, and everything that was due since the last time, is among them.
    """

    rows: Mapping[int, LiveRun]
    is_whole: bool

    def gone(self, before: RunsNow) -> list[int]:
        """Return ids of runs that were open before and are not among these."""
        return [row.id for row in before.rows.values() if row.state in OPEN_STATES and row.id not in self.rows]


def run_events(before: RunsNow, now: RunsNow, ended: Sequence[LiveRun], gone: Collection[int]) -> list[LiveEvent]:
    """Return which runs changed.

    Args:
        before: What was read the last time.
        now: What was read this time.
        ended: What became of those that were open before and are not among the latter.
        gone: Ids of these; one without a row was deleted.
    """
    if not (before.is_whole and now.is_whole):
        return [LiveEvent(EventKind.RUN, receivers=Receivers.READERS)]
    rows = [*now.rows.values(), *ended]
    events = [_run_event(row) for row in rows if before.rows.get(row.id) != row]
    deleted = set(gone).difference(row.id for row in ended)
    events += [_run_event(before.rows[run_id])._replace(state=None) for run_id in deleted]
    return sorted(events, key=lambda event: event.id or 0)


def _run_event(row: LiveRun) -> LiveEvent:
    return LiveEvent(EventKind.RUN, row.id, row.job_id, row.group_id, row.state.value, chain_id=row.chain_id)


def news_events(rows: Collection[NewsItem], runs: Mapping[int, LiveRun]) -> Iterator[LiveEvent]:
    """Give what plugins say changed; ``runs`` are known ones, whose state and job are told."""
    for row in rows:
        kind = KINDS.get(row.kind)
        if kind is None:
            continue
        known = runs.get(row.object_id or 0) if kind is EventKind.RUN else None
        if known is not None:
            yield _run_event(known)
            continue
        receivers = Receivers.GROUP if row.group_id is not None else OF_NO_GROUP.get(kind, Receivers.ALL)
        state = None if kind is EventKind.RUN else row.state
        yield LiveEvent(kind, row.object_id, row.job_id, row.group_id, state, receivers)


def executor_events(
    before: Mapping[int, RegisteredExecutor], now: Mapping[int, RegisteredExecutor]
) -> Iterator[LiveEvent]:
    """Give executors that came, left, moved, or failed to take a run."""
    for executor_id, row in before.items():
        if executor_id not in now:
            yield LiveEvent(EventKind.EXECUTOR, executor_id, None, row.group_id, "gone")
    for executor_id, row in now.items():
        was = before.get(executor_id)
        if was is None or _as_seen(was) != _as_seen(row):
            state = "suspect" if row.suspect_until_ms else "live"
            yield LiveEvent(EventKind.EXECUTOR, executor_id, None, row.group_id, state)


def _as_seen(row: RegisteredExecutor) -> tuple[object, ...]:
    return row.group_id, row.address, row.instance, row.boot, row.release, bool(row.suspect_until_ms)


def node_events(
    before: Mapping[str, str], now: Mapping[str, str], leases_before: Sequence[LeaseRow], leases: Sequence[LeaseRow]
) -> Iterator[LiveEvent]:
    """Give what became of nodes, each by the state that it has now; and whether partitions changed hands."""
    if before.keys() - now.keys():
        yield LiveEvent(EventKind.NODE, state="gone", receivers=Receivers.READERS)
    for name, state in now.items():
        if before.get(name) != state:
            yield LiveEvent(EventKind.NODE, state=state, receivers=Receivers.READERS)
    if list(leases_before) != list(leases):
        yield LiveEvent(EventKind.NODE, state="partitions", receivers=Receivers.READERS)
