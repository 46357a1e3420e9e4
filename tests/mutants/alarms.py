"""Mistakes in alarms: which are raised, grouped, sent and sent again."""

from __future__ import annotations

from typing import Final

from tests.mutants import Mistake

MISTAKES: Final = [
    Mistake(
        file="plugins/alarms/xwheel_alarms/matching.py",
        old="known.items() if key != rule_id}",
        new="known.items() if value.root_id != row['root_id']}",
        why=(
            "A recovery by a later fire would leave the alarm open in memory, so each success would end it once more."
        ),
        tests=("tests/product/alarms/test_ends.py",),
    ),
    Mistake(
        file="plugins/alarms/xwheel_alarms/matching.py",
        old="if opened.noted_ms > now_ms - OVERLAP_MS:",
        new="if opened.noted_ms < now_ms - OVERLAP_MS:",
        why="An alarm noted just before all are read would be forgotten, and its recovery missed.",
        tests=("tests/product/alarms/test_ends.py",),
    ),
    Mistake(
        file="plugins/alarms/xwheel_alarms/grouping.py",
        old="until_ms = self._now_ms + rule.window_s * 1000 if",
        new="until_ms = self._now_ms + rule.window_s if",
        why="A rule's window would be a thousandth as long, and each alarm sent by itself.",
        tests=("tests/product/alarms/test_grouping.py",),
    ),
    Mistake(
        file="plugins/alarms/xwheel_alarms/grouping.py",
        old="1 if clock >= begin else 0",
        new="0",
        why="Quiet hours over midnight would end at once for what happens before midnight.",
        tests=("tests/product/alarms/test_grouping.py",),
    ),
    Mistake(
        file="plugins/alarms/xwheel_alarms/grouping.py",
        old="count, last_ms = notice.count + row.count,",
        new="count, last_ms = notice.count + 1,",
        why="What an alarm counts would be lost when it is counted in another one.",
        tests=("tests/product/alarms/test_grouping.py",),
    ),
    Mistake(
        file="plugins/alarms/xwheel_alarms/grouping.py",
        old="            self._told.remove(row.id)\n",
        new="",
        why="Each alarm of quiet hours would be sent by itself, next to their summary.",
        tests=("tests/product/alarms/test_grouping.py",),
    ),
    Mistake(
        file="plugins/alarms/xwheel_alarms/grouping.py",
        old="quiet_ms = quiet_until_ms(rule, row.kind, self._now_ms)\n        if quiet_ms is not None:",
        new=(
            "quiet_ms = quiet_until_ms(rule, row.kind, self._now_ms)\n"
            "        if quiet_ms is not None and row.note == QUIET:"
        ),
        why="What a window held back would be sent in quiet hours that began meanwhile.",
        tests=("tests/product/alarms/test_grouping.py",),
    ),
    Mistake(
        file="plugins/alarms/xwheel_alarms/grouping.py",
        old="if (key.job_id, key.rule_id) == (row.job_id, row.rule_id)",
        new="if key.job_id == row.job_id",
        why="A recovery for one rule would close the alarms of another rule.",
        tests=("tests/product/alarms/test_grouping.py",),
    ),
    Mistake(
        file="plugins/alarms/xwheel_alarms/grouping.py",
        old='and row.reason in ("", key.kind)',
        new="and row.reason is not None",
        why="A job that runs again would end the alarm that its runs fail.",
        tests=("tests/product/alarms/test_grouping.py",),
    ),
    Mistake(
        file="plugins/alarms/xwheel_alarms/matching.py",
        old="return run.root_id != opened.root_id or run.shard_index == opened.shard_index",
        new="return run.root_id != opened.root_id",
        why="A failed shard whose retry succeeds would not end its alarm.",
        tests=("tests/product/alarms/test_ends.py",),
    ),
    Mistake(
        file="plugins/alarms/xwheel_alarms/matching.py",
        old="if kind is None or (end.state is RunState.KILLED and run.kill_requested):",
        new="if kind is None:",
        why="A run that a person killed would be alarmed about as a failure.",
        tests=("tests/product/alarms/test_ends.py",),
    ),
    Mistake(
        file="plugins/alarms/xwheel_alarms/matching.py",
        old="if rule.when is AlarmWhen.EACH or kind not in RETRIED or",
        new="if kind not in RETRIED or",
        why="A rule for each attempt would be silent while retries are left.",
        tests=("tests/product/alarms/test_ends.py",),
    ),
    Mistake(
        file="plugins/alarms/xwheel_alarms/matching.py",
        old="if found is None:\n            found = levels.groups.get(group_id)",
        new="if not found:\n            found = levels.groups.get(group_id)",
        why="A job's rule without targets would not hide the rules of its group.",
        tests=("tests/product/alarms/test_rules.py", "tests/product/alarms/test_ends.py"),
    ),
    Mistake(
        file="plugins/alarms/xwheel_alarms/matching.py",
        old="            if not rule.enabled:\n                continue",
        new="            if not rule.kinds:\n                continue",
        why="A disabled rule would hide the rules of the levels below.",
        tests=("tests/product/alarms/test_rules.py", "tests/product/alarms/test_ends.py"),
    ),
    Mistake(
        file="plugins/alarm_email/xwheel_alarm_email/__init__.py",
        old="            self._receipts.note(alarm, sent)\n",
        new="            self._receipts.forget(alarm)\n",
        why="A retry would mail those once more who have the mail.",
        tests=("plugins/alarm_email/tests/test_delivery.py",),
    ),
    Mistake(
        file="plugins/alarm_email/xwheel_alarm_email/__init__.py",
        old="if any(reply.code in TEMPORARY for reply in refused.values()):",
        new="if all(reply.code in TEMPORARY for reply in refused.values()):",
        why="One address that is refused for good would keep the others from being retried.",
        tests=("plugins/alarm_email/tests/test_delivery.py",),
    ),
    Mistake(
        file="plugins/alarm_email/xwheel_alarm_email/message.py",
        old="filled = self._html.fill(values, html.escape)",
        new="filled = self._html.fill(values)",
        why="An alarm's text would be HTML of the one who wrote it.",
        tests=("plugins/alarm_email/tests/test_message.py",),
    ),
]
