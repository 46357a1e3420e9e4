"""Mistakes in what routers choose and what jobs without code of their own do."""

from __future__ import annotations

from typing import Final

from tests.mutants import Mistake

MISTAKES: Final = [
    Mistake(
        file="xwheel/builtin/routers.py",
        old="        trusted = context.trusted\n        return trusted[-1:]",
        new="        return context.executors[-1:]",
        why="LAST would choose an executor whose last send failed.",
        tests=("tests/unit/builtin/test_routers.py",),
    ),
    Mistake(
        file="xwheel/builtin/routers.py",
        old="return sorted(context.executors, key",
        new="return sorted(context.trusted, key",
        why="A broadcast would leave out suspects, and number the other shards differently.",
        tests=("tests/unit/builtin/test_routers.py",),
    ),
    Mistake(
        file="xwheel/builtin/routers.py",
        old=(
            "self._counts.get(context.job.id, random.randrange(100)) + 1  # noqa: S311\n"
            "            self._counts[context.job.id] = count"
        ),
        new=(
            "self._counts.get(context.job.group_id, random.randrange(100)) + 1  # noqa: S311\n"
            "            self._counts[context.job.group_id] = count"
        ),
        why="Jobs of one group would share one turn, and each see a part of the executors.",
        tests=("tests/unit/builtin/test_routers.py",),
    ),
    Mistake(
        file="plugins/router_extra/xwheel_router_extra/hashing.py",
        old="start = bisect_left(self.places, place)",
        new="start = bisect_left(self.places, place) - 1",
        why="Jobs would be on other executors than XXL-JOB's ring has them.",
        tests=("plugins/router_extra/tests/test_hash.py",),
    ),
    Mistake(
        file="plugins/router_extra/xwheel_router_extra/selector.py",
        old=("        if value is None:\n            return not self.wanted\n"),
        new=("        if value is None:\n            return False\n"),
        why="An executor without a label would not be one of those that must not have it.",
        tests=("plugins/router_extra/tests/test_choices.py",),
    ),
]
