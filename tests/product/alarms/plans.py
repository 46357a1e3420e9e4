"""Many alarms next to the million runs, and a call of every function about alarms that asks a database."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from sqlalchemy import text
from xwheel_alarms.records import AlarmKind, AlarmState, AlarmTarget, AlarmWhen, AttemptState
from xwheel_alarms.storage import alarms, attempts, lists, news, rules, watch
from xwheel_alarms.storage.alarms import AlarmChange, Episode, EpisodeKey, NewAlarm
from xwheel_alarms.storage.attempts import EndedAttempt, NewAttempt
from xwheel_alarms.storage.lists import AlarmFilter
from xwheel_alarms.storage.rules import RuleFilter

from tests.support.million import BUSY_GROUP, BUSY_JOB, GROUPS, JOBS, QUIET_JOB, _copy
from tests.support.plan_cases import ALL, FEW_GROUPS, MANY, OPEN, PAST, SOME_JOBS, Case
from tests.support.rows import NOW
from xwheel.storage import executors, runs
from xwheel.storage.database.engine import Database

ALARMS: Final = 40_000
WAITING: Final = 300
"""The newest alarms are to be looked at, the newest attempts are to be made."""

RULES: Final = 200
AT_ONCE: Final = ("alarms.alarms.find_due_alarms", "alarms.attempts.find_due_attempts")
"""Asked by the loop of every node, all the time."""

SOME: Final = tuple(range(ALARMS // 2, ALARMS // 2 + MANY))
NEW: Final = tuple(range(ALARMS - MANY + 1, ALARMS + 1))


def fill(db: Database) -> None:
    """Write alarms of many jobs, a quarter of them of one."""
    owner = {
        "job_id": f"CASE WHEN n % 4 = 0 THEN {BUSY_JOB} ELSE 1 + (n * 7919) % {JOBS} END",
        "group_id": f"n % {GROUPS} + 1",
    }
    is_new = f"n > {ALARMS - WAITING}"
    due = f"CASE WHEN {is_new} THEN {NOW} - n ELSE NULL END"
    rows: dict[str, tuple[int, dict[str, str]]] = {
        "alarm_rule": (RULES, {**_rule_columns(), "job_id": "CASE WHEN n % 2 = 0 THEN n ELSE NULL END"}),
        "alarm": (ALARMS, {**owner, **_alarm_columns(is_new), "due_ms": due}),
        "alarm_episode": (ALARMS, _episode_columns()),
        "alarm_attempt": (ALARMS, {**owner, **_attempt_columns(is_new), "due_ms": due}),
    }
    with db.write() as conn:
        for table, (count, columns) in rows.items():
            _copy(conn, table, count, {"id": "n", **columns})
            if db.backend == "postgresql":
                conn.execute(text(f"SELECT setval('{table}_id_seq', (SELECT max(id) FROM {table}))"))


def analyze(db: Database) -> None:
    """Let MariaDB analyze these tables; the others analyzed all of theirs."""
    if db.backend == "mysql":
        with db.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as conn:
            conn.execute(text("ANALYZE TABLE alarm_rule, alarm, alarm_episode, alarm_attempt")).all()


def cases() -> Iterator[Case]:
    """Give all calls."""
    yield from _rules()
    yield from _pages()
    yield from _alarms()
    yield from _attempts()
    yield from _watch()
    yield from _news()


def _news() -> Iterator[Case]:
    for words, after in (("news", ALARMS - MANY), ("many", 5), ("none", ALARMS + 5)):
        yield Case(f"alarms.news.list_alarmed: {words}", lambda conn, a=after: news.list_alarmed(conn, a, MANY))
    yield Case("alarms.news.find_newest_id", news.find_newest_id)


def _rules() -> Iterator[Case]:
    values: dict[str, Any] = {
        "name": "",
        "job_id": 1,
        "group_id": None,
        "kinds": (AlarmKind.FAILED,),
        "when": AlarmWhen.LAST,
        "targets": (AlarmTarget(channel="pager"),),
        "window_s": 0,
        "recovery": True,
        "quiet_from": "",
        "quiet_to": "",
        "quiet_timezone": "UTC",
        "quiet_pass": (),
        "not_run_s": 0,
        "still_running_s": 0,
        "enabled": True,
        "revision": 1,
        "created_ms": NOW,
        "updated_ms": NOW,
    }
    yield Case("alarms.rules.insert_rule", lambda conn: rules.insert_rule(conn, values))
    yield Case("alarms.rules.get_rule", lambda conn: rules.get_rule(conn, 5, lock=True))
    yield Case("alarms.rules.update_rule", lambda conn: rules.update_rule(conn, 5, {"name": "x"}))
    yield Case("alarms.rules.delete_rule", lambda conn: rules.delete_rule(conn, 5))
    yield Case("alarms.rules.delete_orphans", rules.delete_orphans)
    yield Case("alarms.rules.count_rules", rules.count_rules)
    yield Case("alarms.rules.rules_version", rules.rules_version)
    yield Case("alarms.rules.group_of", lambda conn: rules.group_of(conn, rules.get_rule(conn, 6)))
    some = RuleFilter(groups=FEW_GROUPS)
    for wanted in (RuleFilter(), RuleFilter(job_id=6), RuleFilter(group_id=BUSY_GROUP), some):
        yield Case("alarms.rules.list_rules", lambda conn, w=wanted: rules.list_rules(conn, w, limit=MANY))


def _pages() -> Iterator[Case]:
    wanted = (
        AlarmFilter(),
        AlarmFilter(job_id=BUSY_JOB),
        AlarmFilter(job_id=QUIET_JOB),
        AlarmFilter(group_id=BUSY_GROUP),
        AlarmFilter(groups=FEW_GROUPS),
        AlarmFilter(groups=FEW_GROUPS, job_id=QUIET_JOB),
        AlarmFilter(groups=FEW_GROUPS, job_id=BUSY_JOB),
        AlarmFilter(groups=FEW_GROUPS, alarm_id=5),
        AlarmFilter(alarm_id=5),
        AlarmFilter(run_id=5),
    )
    every = "of a job that was in many groups, all its alarms may be read for a page of those of some groups"
    for one in wanted:
        more = (ALARMS // 4, every) if one.groups and one.job_id == BUSY_JOB else ()
        yield Case(
            f"alarms.lists.list_alarms: {one}",
            lambda conn, w=one: lists.list_alarms(conn, w, before_id=ALARMS // 2, limit=MANY),
            *more,
        )
        if one.run_id is None:
            yield Case(
                f"alarms.lists.list_attempts: {one}",
                lambda conn, w=one: lists.list_attempts(conn, w, before_id=ALARMS // 2, limit=MANY),
                *more,
            )
    yield Case("alarms.lists.get_alarm", lambda conn: lists.get_alarm(conn, 5))
    yield Case("alarms.lists.get_attempt", lambda conn: lists.get_attempt(conn, 5))
    yield Case("executors.get_groups", lambda conn: executors.get_groups(conn, range(1, MANY)))
    yield Case("runs.get_runs", lambda conn: runs.get_runs(conn, PAST))


def _alarms() -> Iterator[Case]:
    new = [
        NewAlarm(rule_id=1, job_id=item, group_id=1, partition=1, kind=AlarmKind.FAILED, at_ms=NOW)
        for item in range(1, MANY)
    ]
    changes = [AlarmChange(item, AlarmState.TOLD, None, 2, NOW, None, "", "", None, "") for item in NEW]
    episodes = [
        Episode(key=EpisodeKey(item, 1 + item % RULES, AlarmKind.LOST), id=known, is_open=True)
        for item in range(1, MANY)
        for known in (0, item)
    ]
    yield Case("alarms.alarms.insert_alarms", lambda conn: alarms.insert_alarms(conn, new))
    yield Case("alarms.alarms.insert_test", lambda conn: alarms.insert_test(conn, NOW))
    yield Case("alarms.alarms.find_due_alarms", lambda conn: alarms.find_due_alarms(conn, ALL, NOW, MANY))
    yield Case("alarms.alarms.find_due_alarms: few", lambda conn: alarms.find_due_alarms(conn, (5, 6), NOW, MANY))
    yield Case("alarms.alarms.lock_alarms", lambda conn: alarms.lock_alarms(conn, NEW))
    yield Case("alarms.alarms.update_alarms", lambda conn: alarms.update_alarms(conn, changes))
    yield Case("alarms.alarms.get_alarms", lambda conn: alarms.get_alarms(conn, SOME))
    yield Case("alarms.alarms.list_merged", lambda conn: alarms.list_merged(conn, (1, 2, 3), "summary", MANY))
    yield Case("alarms.alarms.find_held", lambda conn: alarms.find_held(conn, range(1, MANY)))
    yield Case("alarms.alarms.lock_episodes", lambda conn: alarms.lock_episodes(conn, range(1, MANY)))
    yield Case("alarms.alarms.save_episodes", lambda conn: alarms.save_episodes(conn, episodes))
    yield Case("alarms.alarms.list_open_episodes", lambda conn: alarms.list_open_episodes(conn, NOW - MANY * 1000))


def _attempts() -> Iterator[Case]:
    target = AlarmTarget(channel="pager")
    new = [NewAttempt(item, 1, 1, 1, target, 1, NOW) for item in range(1, MANY)]
    ended = [EndedAttempt(item, AttemptState.SENT, NOW, 5, "ok") for item in NEW]
    yield Case("alarms.attempts.insert_attempts", lambda conn: attempts.insert_attempts(conn, new))
    yield Case("alarms.attempts.insert_ended", lambda conn: attempts.insert_ended(conn, new[0], ended[0]))
    for channel in ("pager", "sms"):
        yield Case(
            "alarms.attempts.find_due_attempts",
            lambda conn, c=channel: attempts.find_due_attempts(conn, ALL, c, NOW, MANY),
        )
    yield Case("alarms.attempts.find_orphans", lambda conn: attempts.find_orphans(conn, ALL, ("pager",), MANY))
    yield Case("alarms.attempts.lock_attempts", lambda conn: attempts.lock_attempts(conn, NEW))
    yield Case("alarms.attempts.update_attempts", lambda conn: attempts.update_attempts(conn, ended))
    yield Case("alarms.attempts.delete_alarms", lambda conn: attempts.delete_alarms(conn, NOW, MANY))
    yield Case("alarms.attempts.delete_episodes", lambda conn: attempts.delete_episodes(conn, NOW, MANY))


def _watch() -> Iterator[Case]:
    yield Case("alarms.watch.list_sent", lambda conn: watch.list_sent(conn, (0, 0), MANY))
    yield Case("alarms.watch.list_sent: next", lambda conn: watch.list_sent(conn, (NOW, 5), MANY))
    yield Case("alarms.watch.find_told_runs", lambda conn: watch.find_told_runs(conn, OPEN))
    yield Case("alarms.watch.list_started_jobs", lambda conn: watch.list_started_jobs(conn, 500, MANY))
    yield Case(
        "alarms.watch.list_started_jobs: group",
        lambda conn: watch.list_started_jobs(conn, 500, MANY, group_id=BUSY_GROUP),
    )
    yield Case("alarms.watch.list_started_jobs: one", lambda conn: watch.list_started_jobs(conn, 0, MANY, ids=(5,)))
    yield Case("alarms.watch.find_ran", lambda conn: watch.find_ran(conn, SOME_JOBS, NOW - 10_000_000))


def _rule_columns() -> dict[str, str]:
    texts = {"name": "", "kinds": '["failed"]', "when": "last", "targets": "[]", "quiet_from": "", "quiet_to": ""}
    texts |= {"quiet_timezone": "UTC", "quiet_pass": "[]"}
    numbers = ("window_s", "not_run_s", "still_running_s", "revision", "created_ms", "updated_ms")
    return {
        **{name: f"'{value}'" for name, value in texts.items()},
        **dict.fromkeys(numbers, "1"),
        "group_id": f"CASE WHEN n % 4 = 1 THEN n % {GROUPS} + 1 ELSE NULL END",
        "recovery": "(n % 2 = 0)",
        "enabled": "(n % 2 = 0)",
    }


def _alarm_columns(is_new: str) -> dict[str, str]:
    return {
        "rule_id": f"n % {RULES} + 1",
        "run_id": "n",
        "shard_index": "0",
        "partition": "n % 64",
        "kind": "CASE WHEN n % 9 = 0 THEN 'still_running' ELSE 'failed' END",
        "state": f"CASE WHEN {is_new} THEN 'new' WHEN n % 3 = 0 THEN 'merged' ELSE 'told' END",
        "at_ms": f"{NOW} - n",
        "last_ms": f"{NOW} - n",
        "count": "1",
        "reason": "''",
        "message": "'done'",
        "notice_id": "CASE WHEN n % 3 = 0 THEN n / 30 ELSE NULL END",
        "note": "CASE WHEN n % 3 = 0 THEN 'summary' ELSE '' END",
    }


def _episode_columns() -> dict[str, str]:
    return {
        "job_id": "n",
        "rule_id": f"n % {RULES} + 1",
        "kind": "'failed'",
        "is_open": "(n % 3 = 0)",
        "until_ms": str(NOW),
        "shard_index": "0",
        "touched_ms": f"{NOW} - n * 1000",
    }


def _attempt_columns(is_new: str) -> dict[str, str]:
    return {
        "alarm_id": "n",
        "partition": "n % 64",
        "channel": "CASE WHEN n % 2 = 0 THEN 'pager' ELSE 'fax' END",
        "open_channel": f"CASE WHEN {is_new} THEN CASE WHEN n % 2 = 0 THEN 'pager' ELSE 'fax' END ELSE NULL END",
        "receivers": "'[]'",
        "number": "1",
        "state": f"CASE WHEN {is_new} THEN 'waiting' ELSE 'sent' END",
        "answer": "'ok'",
    }
