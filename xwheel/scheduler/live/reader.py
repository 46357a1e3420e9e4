"""Asks the database for news, once a second at most, and only while somebody wants to know."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from xwheel.clock import Clock
from xwheel.errors import PluginError, StorageError, XwheelError
from xwheel.model import RegisteredExecutor, RunState
from xwheel.plugin.news import BringsNews, NewsItem, find_newest, read_news
from xwheel.scheduler.live.compare import (
    RunsNow,
    alarm_events,
    executor_events,
    news_events,
    node_events,
    run_events,
)
from xwheel.scheduler.live.feed import (
    EventFeed,
    EventKind,
    LiveCounts,
    LiveEvent,
    LiveScope,
    News,
    Receivers,
)
from xwheel.storage import leases, settings
from xwheel.storage.database.engine import Connection, Database
from xwheel.storage.leases import LeaseRow, NodeRow
from xwheel.storage.live import news
from xwheel.storage.live.news import LiveAlarm
from xwheel.storage.reports import DAY_MS

logger = logging.getLogger(__name__)

READ_MS: Final = 1000
ASKED_MS: Final = 10_000
"""Nothing is read once no one has asked for this long."""

FORGET_MS: Final = 60_000
"""After a longer time without a look, what happened meanwhile is not looked for."""

OPEN: Final = 2000
"""Runs that are compared, of those that are planned and of those that are at executors."""

RECENT: Final = 2000
OVERLAP_MS: Final = 3000
"""A run may be committed this long after it was due and still be seen, though it ended at once."""

GONE: Final = 1000
NEWS: Final = 1000
COMMIT_MS: Final = 30_000
"""Rows with smaller ids may be committed so much later than others, and are seen."""

MOST_ANSWERS: Final = 256
"""Answers that are kept for callers that ask for the same; consoles that are open ask for a handful of them."""

FAILED_MS: Final = 30_000
LATE_MS: Final = 30_000


R = TypeVar("R", NewsItem, LiveAlarm)


@dataclass(frozen=True, slots=True, eq=False)
class SharedAnswer:
    """What is answered to callers that ask after the same cursor and may see the same; one object until it changes.

    Attributes:
        scope: What these callers may see. The counts are those of all groups: show no more of them than this.
    """

    news: News
    counts: LiveCounts
    scope: LiveScope


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """What was read together."""

    runs: RunsNow
    executors: Mapping[int, RegisteredExecutor]
    nodes: Mapping[str, str]
    leases: Sequence[LeaseRow]
    paused_since_ms: int | None


class _Newest(Generic[R]):
    """Rows of a table by growing id that were seen, and from which id on they are looked for again.

    Args:
        newest: The greatest id at the beginning; rows that commit late have smaller ones.
        now_ms: When that was.
    """

    def __init__(self, newest: int = 0, now_ms: int = 0) -> None:
        self.before = max(0, newest - NEWS // 2)
        self.marks = [(now_ms, newest)]
        self.rows: dict[int, R] = {}

    def note(self, rows: Sequence[R], now_ms: int) -> None:
        """Note rows, newest first; what is older than transactions last is looked for no more."""
        self.rows.update((row.id, row) for row in rows)
        self.marks.append((now_ms, rows[0].id if rows else self.before))
        while len(self.marks) > 1 and self.marks[1][0] <= now_ms - COMMIT_MS:
            del self.marks[0]
        if self.marks[0][0] <= now_ms - COMMIT_MS:
            self.before = self.marks[0][1]
        self.rows = {row_id: row for row_id, row in self.rows.items() if row_id > self.before}


class LiveReader:
    """Knows what changed lately, for all who ask.

    Thread-safety: any thread may ask; one at a time reads the database.

    Args:
        db: The database.
        clock: Where time comes from.
        live_executors: Returns all live executors at a time, from memory.
        news: Plugins that say what was changed.
        max_age_ms: When somebody asks, older news are read first: by the caller, where no loop did.
    """

    def __init__(
        self,
        db: Database,
        clock: Clock,
        live_executors: Callable[[int], Iterable[RegisteredExecutor]],
        news: Sequence[BringsNews] = (),
        *,
        max_age_ms: int = 3 * READ_MS,
    ) -> None:
        self._db = db
        self._clock = clock
        self._live_executors = live_executors
        self._max_age_ms = max_age_ms
        self._lock = threading.Lock()
        self._feed = EventFeed()
        self._counts = LiveCounts()
        # answers since the last look, by cursor and scope
        self._answers: dict[tuple[str | None, LiveScope], SharedAnswer] = {}
        self._asked_ms: int | None = None
        self._tried_ms: int | None = None
        self._read_ms: int | None = None
        self._error = ""
        self._seen: _Seen | None = None
        self._bringers = tuple(news)
        self._brought: list[_Newest[NewsItem]] = [_Newest() for _ in self._bringers]
        self._alarmed: _Newest[LiveAlarm] = _Newest()
        self._failed: Mapping[int, int] = {}
        self._failed_ms: int | None = None

    def step(self, now_ms: int) -> int:
        """Read what changed if somebody asked lately; return how long to wait in milliseconds."""
        if not self._is_older(self._asked_ms, ASKED_MS):
            self._refresh(now_ms)
        return READ_MS

    def ask(self, cursor: str | None, scope: LiveScope) -> SharedAnswer:
        """Return what may be seen of what came after a cursor, and the counts.

        Raises:
            XwheelError: The database did not answer for a while, nor now.
        """
        self._asked_ms = self._clock.monotonic_ms()
        if self._is_older(self._read_ms, self._max_age_ms - 1):
            self._refresh(self._clock.now_ms())
        answers = (
            self._answers
        )  # another thread may begin a new one; then what is found now is not kept in that
        found = answers.get((cursor, scope))
        if found is None:
            found = SharedAnswer(self._feed.after(cursor, scope), self._counts, scope)
            if len(answers) < MOST_ANSWERS:
                answers[cursor, scope] = found
        return found

    def _is_older(self, at_ms: int | None, age_ms: int) -> bool:
        return at_ms is None or self._clock.monotonic_ms() - at_ms > age_ms

    def _refresh(self, now_ms: int) -> None:
        """Read, unless somebody did so, or tried to, within the last second.

        Raises:
            XwheelError: The database does not answer, or did not a moment ago.
        """
        with self._lock:
            if not self._is_older(self._tried_ms, READ_MS - 1):
                if self._error:
                    raise StorageError(self._error)
                return
            self._tried_ms = self._clock.monotonic_ms()
            try:
                self._read(now_ms)
            except XwheelError as error:
                self._error = str(error)
                raise
            self._error = ""
            self._read_ms = self._tried_ms

    def _read(self, now_ms: int) -> None:
        gap_ms = 0 if self._read_ms is None else self._clock.monotonic_ms() - self._read_ms
        is_new = self._read_ms is None or gap_ms > FORGET_MS or self._seen is None
        executors = {item.id: item for item in self._live_executors(now_ms)}
        with self._db.read() as conn:
            if is_new:
                self._begin(conn, now_ms)
            events: list[LiveEvent] = []
            runs = _read_runs(conn, now_ms - gap_ms - OVERLAP_MS, now_ms)
            before = self._seen
            if before is not None:
                events += _compare_runs(conn, before.runs, runs)
            brought = [
                _read_news(item, conn, seen.before)
                for item, seen in zip(self._bringers, self._brought, strict=True)
            ]
            alarmed = news.list_alarmed(conn, self._alarmed.before, NEWS)
            seen = _Seen(
                runs=runs,
                executors=executors,
                nodes=_states(leases.list_nodes(conn), now_ms),
                leases=leases.list_leases(conn),
                paused_since_ms=_number(settings.find_setting(conn, settings.PAUSED)),
            )
            if is_new or self._is_older(self._failed_ms, FAILED_MS - 1):
                self._failed = news.count_failed(conn, now_ms - DAY_MS)
                self._failed_ms = self._clock.monotonic_ms()
        for known, rows in zip(self._brought, brought, strict=True):
            events += _news_of_edits(known, rows, runs, now_ms)
        events += self._news_of_alarms(alarmed, now_ms)
        if before is not None:
            events += executor_events(before.executors, executors)
            events += node_events(before.nodes, seen.nodes, before.leases, seen.leases)
        if is_new:
            self._feed.begin()
        else:
            self._feed.put(events)
        self._counts = _count(seen, self._failed, now_ms)
        self._answers = {}
        self._seen = seen

    def _begin(self, conn: Connection, now_ms: int) -> None:
        self._seen = None
        self._brought = [_Newest(find_newest(item, conn), now_ms) for item in self._bringers]
        self._alarmed = _Newest(news.find_newest_alarm(conn), now_ms)

    def _news_of_alarms(self, rows: Sequence[LiveAlarm], now_ms: int) -> list[LiveEvent]:
        events = list(alarm_events(self._alarmed.rows, rows[::-1]))
        self._alarmed.note(rows, now_ms)
        if len(rows) >= NEWS and len(events) == len(rows):
            return [LiveEvent(EventKind.ALARM, receivers=Receivers.READERS)]
        return events


def _read_news(item: BringsNews, conn: Connection, after: int) -> Sequence[NewsItem]:
    """Return what a plugin says was changed; nothing if it fails, which the log tells."""
    try:
        return read_news(item, conn, after, NEWS)
    except PluginError as error:
        logger.warning("%s", error)
        return ()


def _news_of_edits(
    known: _Newest[NewsItem], rows: Sequence[NewsItem], runs: RunsNow, now_ms: int
) -> list[LiveEvent]:
    fresh = [row for row in reversed(rows) if row.id not in known.rows]
    known.note(rows, now_ms)
    if len(rows) >= NEWS and len(fresh) == len(rows):
        return [LiveEvent(kind, receivers=Receivers.READERS) for kind in EventKind]
    return list(news_events(fresh, runs.rows))


def _read_runs(conn: Connection, after_ms: int, now_ms: int) -> RunsNow:
    waiting = news.list_waiting(conn, OPEN + 1)
    # behind those that wait, so that none is in neither
    sent = news.list_sent(conn, OPEN + 1)
    recent = news.list_recent(conn, after_ms, now_ms, RECENT + 1)
    is_whole = len(waiting) <= OPEN and len(sent) <= OPEN and len(recent) <= RECENT
    return RunsNow({row.id: row for rows in (waiting, sent, recent) for row in rows}, is_whole)


def _compare_runs(conn: Connection, before: RunsNow, now: RunsNow) -> list[LiveEvent]:
    gone = now.gone(before)
    if len(gone) > GONE:
        before, gone = before._replace(is_whole=False), []
    return run_events(before, now, news.list_by_id(conn, gone) if gone else [], gone)


def _states(nodes: Collection[NodeRow], now_ms: int) -> dict[str, str]:
    return {
        row.id: "away" if row.until_ms <= now_ms else "draining" if row.draining else "alive" for row in nodes
    }


def _number(text: str | None) -> int | None:
    return None if text is None else int(text)


def _count(seen: _Seen, failed: Mapping[int, int], now_ms: int) -> LiveCounts:
    running: Counter[int] = Counter()
    waiting: Counter[int] = Counter()
    late: Counter[int] = Counter()
    for row in seen.runs.rows.values():
        if row.state in (RunState.DISPATCHING, RunState.RUNNING):
            running[row.group_id] += 1
        elif row.state is RunState.PLANNED and row.due_ms <= now_ms:
            waiting[row.group_id] += 1
            late[row.group_id] += row.due_ms < now_ms - LATE_MS
    states = Counter(seen.nodes.values())
    return LiveCounts(
        running=running,
        waiting=waiting,
        failed=failed,
        late=late,
        executors=Counter(item.group_id for item in seen.executors.values()),
        nodes=states.total() - states["away"],
        nodes_away=states["away"],
        paused_since_ms=seen.paused_since_ms,
    )
