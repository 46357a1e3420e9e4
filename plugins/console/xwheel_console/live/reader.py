"""Asks the database for news, once a second at most, and only while somebody wants to know."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from sqlalchemy import Connection
from xwheel.clock import Clock
from xwheel.errors import StorageError, XwheelError
from xwheel.model import RegisteredExecutor, RunState
from xwheel.plugin import PluginDatabase
from xwheel.plugin.news import BringsNews
from xwheel.storage import leases, settings
from xwheel.storage.leases import LeaseRow, NodeRow
from xwheel.storage.retention import DAY_MS

from xwheel_console.live import queries
from xwheel_console.live.compare import RunsNow, executor_events, node_events, run_events
from xwheel_console.live.feed import EventFeed, LiveCounts, LiveEvent, LiveScope, News
from xwheel_console.live.sources import NewsSource

READ_MS: Final = 1000
AGE_MS: Final = 3 * READ_MS
"""Older news are not told where a loop reads them: who asks reads first."""

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

MOST_ANSWERS: Final = 256
"""Answers that are kept for callers that ask for the same; consoles that are open ask for a handful of them."""

FAILED_MS: Final = 30_000
LATE_MS: Final = 30_000


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


class LiveReader:
    """Knows what changed lately, for all who ask.

    Thread-safety: any thread may ask; one at a time reads the database.

    Args:
        db: The database.
        clock: Where time comes from.
        live_executors: Returns all live executors, from memory.
        find_bringers: Returns the plugins that bring news; asked at the first reading.
    """

    def __init__(
        self,
        db: PluginDatabase,
        clock: Clock,
        live_executors: Callable[[], Iterable[RegisteredExecutor]],
        find_bringers: Callable[[], Iterable[BringsNews]],
    ) -> None:
        self._db = db
        self._clock = clock
        self._live_executors = live_executors
        self._find_bringers = find_bringers
        self._sources: Sequence[NewsSource] | None = None
        self._has_loop = False
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
        self._failed: Mapping[int, int] = {}
        self._failed_ms: int | None = None

    def step(self, now_ms: int) -> int:
        """Read what changed if somebody asked lately; return how long to wait in milliseconds."""
        self._has_loop = True
        if not self._is_older(self._asked_ms, ASKED_MS):
            self._refresh(now_ms)
        return READ_MS

    def ask(self, cursor: str | None, scope: LiveScope) -> SharedAnswer:
        """Return what may be seen of what came after a cursor, and the counts.

        Raises:
            XwheelError: The database did not answer for a while, nor now.
        """
        self._asked_ms = self._clock.monotonic_ms()
        # without a loop, as in a process that only serves the management API, who asks reads
        if self._is_older(self._read_ms, (AGE_MS if self._has_loop else READ_MS) - 1):
            self._refresh(self._clock.now_ms())
        answers = self._answers  # another thread may begin a new one; then what is found now is not kept in that
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
        executors = {item.id: item for item in self._live_executors()}
        before = None if is_new else self._seen
        events: list[LiveEvent] = []
        with self._db.read() as conn:
            runs = _read_runs(conn, now_ms - gap_ms - OVERLAP_MS, now_ms)
            if before is not None:
                events += _compare_runs(conn, before.runs, runs)
            seen = _Seen(
                runs=runs,
                executors=executors,
                nodes=_states(leases.list_nodes(conn), now_ms),
                leases=leases.list_leases(conn),
                paused_since_ms=_number(settings.find_setting(conn, settings.PAUSED)),
            )
            if is_new or self._is_older(self._failed_ms, FAILED_MS - 1):
                self._failed = queries.count_failed(conn, now_ms - DAY_MS)
                self._failed_ms = self._clock.monotonic_ms()
        if before is None:
            self._begin(now_ms)
        else:
            for source in self._sources or ():
                events += source.events(runs.rows, now_ms)
            events += executor_events(before.executors, executors)
            events += node_events(before.nodes, seen.nodes, before.leases, seen.leases)
            self._feed.put(events)
        self._counts = _count(seen, self._failed, now_ms)
        self._answers = {}
        self._seen = seen

    def _begin(self, now_ms: int) -> None:
        """Forget what was told, and take what plugins know now as known."""
        if self._sources is None:
            self._sources = [NewsSource(item, self._db, self._clock) for item in self._find_bringers()]
        for source in self._sources:
            source.begin(now_ms)
        self._feed.begin()


def _read_runs(conn: Connection, after_ms: int, now_ms: int) -> RunsNow:
    waiting = queries.list_waiting(conn, OPEN + 1)
    # behind those that wait, so that none is in neither
    sent = queries.list_sent(conn, OPEN + 1)
    recent = queries.list_recent(conn, after_ms, now_ms, RECENT + 1)
    is_whole = len(waiting) <= OPEN and len(sent) <= OPEN and len(recent) <= RECENT
    return RunsNow({row.id: row for rows in (waiting, sent, recent) for row in rows}, is_whole)


def _compare_runs(conn: Connection, before: RunsNow, now: RunsNow) -> list[LiveEvent]:
    gone = now.gone(before)
    if len(gone) > GONE:
        before, gone = before._replace(is_whole=False), []
    return run_events(before, now, queries.list_by_id(conn, gone) if gone else [], gone)


def _states(nodes: Collection[NodeRow], now_ms: int) -> dict[str, str]:
    return {row.id: "away" if row.until_ms <= now_ms else "draining" if row.draining else "alive" for row in nodes}


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
