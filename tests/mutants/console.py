"""Mistakes in what pages are told of changes, and in how they ask."""

from __future__ import annotations

from tests.mutants import Mistake

FEED = ("tests/product/console/test_feed.py",)
READER = ("tests/product/console/test_reader.py",)
SOURCES = ("tests/product/console/test_sources.py",)
CONTRACT = ("tests/product/console/test_answers.py",)
EVENTS = ("tests/product/console/test_events.py",)
LIST = ("tests/component/storage/test_run_list.py",)

MISTAKES = [
    Mistake(
        file="plugins/console/xwheel_console/live/feed.py",
        old="            return scope.is_admin\n",
        new="            return scope.groups is None\n",
        why="Who reads all groups is told of accounts, as only admins are.",
        tests=FEED,
    ),
    Mistake(
        file="plugins/console/xwheel_console/live/feed.py",
        old="if seen < 0 or not 0 <= missed <= len(self._events):",
        new="if seen < 0 or not 0 <= missed <= len(self._events) + 1:",
        why="A cursor that is one event too old is answered as if nothing was lost.",
        tests=FEED,
    ),
    Mistake(
        file="plugins/console/xwheel_console/live/feed.py",
        old="            self._name = secrets.token_hex(8)\n",
        new='            self._name = "feed"\n',
        why="After a gap a cursor of before is still known.",
        tests=FEED,
    ),
    Mistake(
        file="plugins/console/xwheel_console/live/feed.py",
        old="if event.id is not None else (event.kind, event.group_id, event.state)",
        new="if event.id is not None else (event.kind, None)",
        why="Of several events without an id only the last is told.",
        tests=FEED,
    ),
    Mistake(
        file="plugins/console/xwheel_console/live/compare.py",
        old="    if not (before.is_whole and now.is_whole):",
        new="    if not now.is_whole:",
        why="Runs that were not looked at the last time are compared as if they had been.",
        tests=READER,
    ),
    Mistake(
        file="plugins/console/xwheel_console/live/compare.py",
        old="    events += [_run_event(before.rows[run_id])._replace(state=None) for run_id in deleted]\n",
        new="",
        why="Pages are not told that a run was deleted.",
        tests=READER,
    ),
    Mistake(
        file="plugins/console/xwheel_console/live/compare.py",
        old="row.state.value, chain_id=row.chain_id)",
        new="row.state.value, chain_id=row.id)",
        why="The page of a run does not show retries and children of its chain when they come.",
        tests=READER,
    ),
    Mistake(
        file="plugins/accounts/xwheel_accounts/audit/news.py",
        old='kind = row.object_kind if row.outcome == AuditOutcome.DONE else ""',
        new="kind = row.object_kind",
        why="A change that was refused is told as if it was made.",
        tests=READER,
    ),
    Mistake(
        file="plugins/console/xwheel_console/live/compare.py",
        old="row.release, bool(row.suspect_until_ms)",
        new="row.release",
        why="Pages are not told that an executor failed to take a run.",
        tests=READER,
    ),
    Mistake(
        file="plugins/console/xwheel_console/live/reader.py",
        old="        if not self._is_older(self._asked_ms, ASKED_MS):",
        new="        if self._asked_ms is not None:",
        why="The database is asked each second though no page is open.",
        tests=READER,
    ),
    Mistake(
        file="plugins/console/xwheel_console/live/reader.py",
        old="        self._answers = {}\n        self._seen = seen",
        new="        self._seen = seen",
        why="An answer is given again after what it says changed.",
        tests=READER,
    ),
    Mistake(
        file="plugins/console/xwheel_console/live/reader.py",
        old="            late[row.group_id] += row.due_ms < now_ms - LATE_MS",
        new="            late[row.group_id] += row.due_ms < now_ms",
        why="Runs count as late as soon as they are due.",
        tests=READER,
    ),
    Mistake(
        file="plugins/console/xwheel_console/live/queries.py",
        old="func.sum(told.failed + told.timed_out + told.lost + told.refused)",
        new="func.sum(told.failed + told.timed_out + told.lost)",
        why="Refused runs are not among those that failed.",
        tests=READER,
    ),
    Mistake(
        file="plugins/console/xwheel_console/live/resources.py",
        old="    counts = _counts_view(answer.counts, answer.scope.groups)",
        new="    counts = _counts_view(answer.counts, None)",
        why="Callers are told how much there is in groups that they may not read.",
        tests=EVENTS,
    ),
    Mistake(
        file="plugins/console/xwheel_console/live/resources.py",
        old="            chain_id=event.chain_id,\n",
        new="            chain_id=None,\n",
        why="Events of runs do not name their chain.",
        tests=EVENTS,
    ),
    Mistake(
        file="plugins/console/xwheel_console/live/sources.py",
        old="        except XwheelError as error:\n            self._say(error)\n            return []\n",
        new="        except TypeError as error:\n            self._say(error)\n            return []\n",
        why="A plugin whose news cannot be read ends all news.",
        tests=SOURCES,
    ),
    Mistake(
        file="plugins/console/xwheel_console/live/sources.py",
        old="if self._said_ms is None or at_ms - self._said_ms >= AGAIN_MS:",
        new="if at_ms >= 0:",
        why="A plugin whose news cannot be read fills the log.",
        tests=SOURCES,
    ),
    Mistake(
        file="plugins/console/xwheel_console/live/sources.py",
        old="        if is_first or (len(rows)",
        new="        if (len(rows)",
        why="What a plugin had news of before it could be asked is told as if it happened now.",
        tests=SOURCES,
    ),
    Mistake(
        file="plugins/console/xwheel_console/live/answers.py",
        old="require(len(found) <= limit, ",
        new="require(len(found) <= 10**9, ",
        why="A plugin may bring more news than memory holds.",
        tests=CONTRACT,
    ),
    Mistake(
        file="xwheel/storage/run_list.py",
        old="[_walker(wanted, root), _walker(wanted, others,",
        new="[_walker(wanted, others,",
        why="The chain of a run is listed without its shards and retries.",
        tests=LIST,
    ),
]
