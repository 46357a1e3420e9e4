"""Mistakes in the wheel timer, the time ring, and the times of schedules."""

from __future__ import annotations

from typing import Final

from tests.mutants import Mistake

MISTAKES: Final = [
    Mistake(
        file="xwheel/timer.py",
        old=(
            "            self._wake.clear()\n"
            "            self._wake_at = _NEVER  # what is scheduled from here on wakes this thread\n"
            "            when = self.next_when()\n"
        ),
        new=(
            "            when = self.next_when()\n"
            "            self._wake.clear()\n"
            "            self._wake_at = _NEVER  # what is scheduled from here on wakes this thread\n"
        ),
        why="A call that is scheduled while the timer's thread goes to sleep would wait for the next one.",
        tests=("tests/unit/test_timer.py",),
    ),
    Mistake(
        file="xwheel/timer.py",
        old="        self._wake.set()\n        if thread is not None:\n            thread.join(timeout_s)",
        new="        if thread is not None:\n            thread.join(timeout_s)",
        why="A stop would wait out its whole time for a timer that sleeps.",
        tests=("tests/unit/test_timer.py",),
    ),
    Mistake(
        file="xwheel/timer.py",
        old="        self._after_fork()\n        self.drain()\n",
        new="        self._after_fork()\n",
        why="A child process would make its parent's calls.",
        tests=("tests/unit/test_timer.py",),
    ),
    Mistake(
        file="xwheel/_timer_py.py",
        old="if len(self._waiting) >= self._limit:",
        new="if len(self._waiting) > self._limit:",
        why="One call more than the limit would be taken.",
        tests=("tests/ring/test_timeout_wheel.py",),
    ),
    Mistake(
        file="xwheel/_timer_py.py",
        old="while self._due and not self._closed:",
        new="while self._due:",
        why="A stop would go on making the calls that were due at once.",
        tests=("tests/ring/test_timeout_wheel.py", "tests/unit/test_timer.py"),
    ),
    Mistake(
        file="xwheel/_timer_py.py",
        old="if self.is_cancelled or self.is_expired:",
        new="if self.is_cancelled:",
        why="Cancelling a call that was made would say that it was kept from being made.",
        tests=("tests/ring/test_timeout_wheel.py",),
    ),
    Mistake(
        file="xwheel/_timer_py.py",
        old="keys = [*self._due, *(key for _, key in self._ring.drain())]",
        new="keys = [key for _, key in self._ring.drain()]",
        why="What was due, and not made before the stop, would be lost.",
        tests=("tests/ring/test_timeout_wheel.py", "tests/unit/test_timer.py"),
    ),
    Mistake(
        file="xwheel/_timer_py.py",
        old="                timeout.cancel()\n                raise\n",
        new="                raise\n",
        why="A call whose scheduling raised would wait all the same.",
        tests=("tests/ring/test_timeout_wheel.py", "tests/unit/test_timer.py"),
    ),
    Mistake(
        file="xwheel/_timer_py.py",
        old="                if key in self._waiting:\n                    return self._waiting[key].when\n",
        new="                if key not in self._waiting:\n                    continue\n",
        why="Calls that are left from a due tick would wait for the next one.",
        tests=("tests/ring/test_timeout_wheel.py",),
    ),
    Mistake(
        file="xwheel/_ring_py.py",
        old="tick = due_ms // tick_ms if due_ms >= late else first",
        new="tick = due_ms // tick_ms",
        why="What is pushed for the past would never be due.",
        tests=("tests/ring/test_time_ring.py::test_what_is_already_due_comes_out_next",),
    ),
    Mistake(
        file="xwheel/_ring_py.py",
        old="while pairs and pairs[-1][0] >= end_ms:",
        new="while pairs and pairs[-1][0] > end_ms:",
        why="An id that was moved to the beginning of the next tick would be due a tick too early.",
        tests=("tests/ring/test_time_ring.py::test_limit",),
    ),
    Mistake(
        file="xwheel/_ring_py.py",
        old="if get(run_id, end_ms) <= now_ms]",
        new="if get(run_id, end_ms) < now_ms]",
        why="What is due at this very millisecond would wait for the next one.",
        tests=("tests/ring/test_time_ring.py::test_due_ids_come_out_in_order_of_due_time",),
    ),
    Mistake(
        file="xwheel/_ring_py.py",
        old=("            if run_id not in self._dues:\n                new.add(run_id)"),
        new=("            if run_id:\n                new.add(run_id)"),
        why="A full ring would refuse to move what it holds.",
        tests=("tests/ring/test_time_ring.py::test_limit",),
    ),
    Mistake(
        file="xwheel/_ring_py.py",
        old="if due is not None and due < end_ms]",
        new="if due is not None]",
        why="The owner of a ring would sleep beyond what is due, after an id was moved to later.",
        tests=("tests/ring/test_time_ring.py::test_next_due_knows_that_an_id_was_moved_to_later",),
    ),
    Mistake(
        file="xwheel/cron/quartz_search.py",
        old="second = after_ms // 1000 + 1",
        new="second = -(-after_ms // 1000)",
        why="A schedule would answer the instant that it was asked about, and a job fire twice.",
        tests=("tests/unit/cron/test_schedule.py",),
    ),
    Mistake(
        file="xwheel/cron/quartz_search.py",
        old="second = max(second, -DAY)  # nothing fires before 1970",
        new="",
        why="A schedule would fail for instants long before 1970.",
        tests=("tests/unit/cron/test_schedule.py::test_far_instants",),
    ),
    Mistake(
        file="xwheel/cron/quartz_search.py",
        old="        wall = min(wall, period.own_end)",
        new="        # wall = min(wall, period.own_end)",
        why="Asked in the first of two showings of an hour, Quartz's dialect would lose what fires in the second.",
        tests=("tests/unit/cron/test_schedule.py", "tests/unit/cron/test_crontab.py"),
    ),
    Mistake(
        file="xwheel/cron/unix.py",
        old="return found[1] if found and str(ends[0]) == str(ends[1]) else item",
        new="return item",
        why="0 9-9 * * * would fire every hour, as croniter reads it.",
        tests=("tests/unit/cron/test_crontab.py",),
    ),
    Mistake(
        file="xwheel/cron/unix.py",
        old="are_both = texts[2].startswith(_STARS) or texts[4].startswith(_STARS)",
        new='are_both = "*" in (texts[2], texts[4])',
        why="Of two day fields one would be enough where cron wants both.",
        tests=("tests/unit/cron/test_crontab.py",),
    ),
    Mistake(
        file="xwheel/cron/unix.py",
        old="            if match < wall:",
        new="            if match < 0:",
        why="What a clock leaves out would never fire.",
        tests=("tests/unit/cron/test_crontab.py", "tests/unit/cron/test_schedule.py"),
    ),
    Mistake(
        file="xwheel/builtin/schedule_types.py",
        old="if after_ms < spec.anchor_ms:",
        new="if after_ms <= spec.anchor_ms:",
        why="A fixed rate would fire its anchor twice.",
        tests=("tests/unit/builtin/test_schedule_types.py",),
    ),
    Mistake(
        file="xwheel/builtin/schedule_types.py",
        old="return at_ms if at_ms > after_ms else None",
        new="return at_ms if at_ms >= after_ms else None",
        why="A job for one instant would fire again and again.",
        tests=("tests/unit/builtin/test_schedule_types.py",),
    ),
    Mistake(
        file="xwheel/cron/quartz_search.py",
        old="if start > period.start and midnight + DAY <= period.own_end:",
        new="if start > period.start:",
        why="A day on which clocks are changed would be remembered as one without a change.",
        tests=("tests/unit/cron/test_schedule.py::test_daylight_saving_days",),
    ),
    Mistake(
        file="xwheel/cron/quartz_search.py",
        old="if start > period.start and midnight + DAY <= period.own_end:",
        new="if start >= period.start and midnight + DAY <= period.own_end:",
        why="A remembered day hides what an hour before it held that the clocks left out.",
        tests=("tests/unit/cron/test_crontab.py",),
    ),
    Mistake(
        file="xwheel/cron/unix.py",
        old="        if second == period.start:",
        new="        if False:",
        why="What a missing hour held is lost for who asks in its last second.",
        tests=("tests/unit/cron/test_crontab.py",),
    ),
    Mistake(
        file="xwheel/cron/days.py",
        old=("            if not days & between:\n                found |= 1 << day"),
        new="            found |= 1 << day",
        why="Days counted from the end of short months would fire where Quartz steps over them.",
        tests=("tests/unit/cron/test_schedule.py::test_engine_against_the_oracle",),
    ),
    Mistake(
        file="xwheel/cron/days.py",
        old="return 1 << day if day <= month.length else 0",
        new="return 1 << day",
        why="A fifth weekday that a month does not have would fire in the next one.",
        tests=("tests/unit/cron/test_schedule.py::test_what_never_comes_ends",),
    ),
    Mistake(
        file="xwheel/cron/quartz_search.py",
        old="for year in range(year_of(first) + 1, limit + 1):",
        new="for year in range(year_of(first) + 1, limit):",
        why="The last year of the search would never be looked at.",
        tests=("tests/unit/cron/test_schedule.py::test_horizon_is_a_hundred_years",),
    ),
]
