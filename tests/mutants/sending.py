"""Mistakes between a send and the end of its run."""

from __future__ import annotations

from typing import Final

from tests.mutants import Mistake

MISTAKES: Final = [
    Mistake(
        file="xwheel/scheduler/check/loop.py",
        old="before = dispatched_ms is not None and dispatched_ms <= question.asked_ms",
        new="before = dispatched_ms is not None",
        why="A kill that a foreign executor confirms would count for runs that were sent after it.",
        tests=("tests/component/scheduler/check/test_foreign.py",),
    ),
    Mistake(
        file="xwheel/scheduler/check/loop.py",
        old="if partition in epochs and check_ms == moves[run_id][0]",
        new="if partition in epochs",
        why="A kill that comes between the reading and the claim of a check would wait for the check after it.",
        tests=("tests/component/scheduler/check/test_foreign.py",),
    ),
    Mistake(
        file="xwheel/scheduler/check/loop.py",
        old="if locked.get(decision.row.id, (0, None, None))[1] == question.claimed_ms",
        new="if decision.row.id in locked",
        why="A kill that comes while its executor is asked would be put off with the answer.",
        tests=("tests/component/scheduler/check/test_foreign.py",),
    ),
    Mistake(
        file="xwheel/scheduler/send/results.py",
        old='if fate is Fate.UNKNOWN and not delivery.tried and delivery.parcel.executor.kind != "xwheel":',
        new="if False:",
        why="A run for a foreign executor that was never sent would count as running, and end as lost.",
        tests=("tests/component/scheduler/send/test_results.py",),
    ),
    Mistake(
        file="xwheel/scheduler/finish/finish.py",
        old="planned = [run for run in locked.values() if run.state is RunState.PLANNED]\n        runs.cancel_runs",
        new="planned = list(locked.values())\n        runs.cancel_runs",
        why="A late outcome would cancel a recovery run that was sent meanwhile.",
        tests=("tests/component/scheduler/finish/test_retry_recovery.py",),
    ),
    Mistake(
        file="xwheel/executor/intake/queues.py",
        old="if execution.stage is not Stage.ENDED:\n                    execution.stage = Stage.STARTING",
        new="if execution.stage is not None:\n                    execution.stage = Stage.STARTING",
        why="A run that was killed while it waited for a place would start.",
        tests=("tests/unit/executor/intake/test_queues.py",),
    ),
    Mistake(
        file="xwheel/executor/intake/endpoints.py",
        old="            if request.instance:\n",
        new="            if not request:\n",
        why="A run for an earlier instance of an executor would run on the one that replaced it.",
        tests=("tests/unit/executor/intake/test_endpoints.py",),
    ),
    Mistake(
        file="xwheel/scheduler/send/resend.py",
        old="if run.state is RunState.DISPATCHING and run.partition in epochs",
        new="if run.state is RunState.DISPATCHING",
        why="Two nodes would send runs of one partition again.",
        tests=("tests/component/scheduler/send/test_results.py",),
    ),
    Mistake(
        file="xwheel/scheduler/check/loop.py",
        old="for run_id, row in sorted(locked.items()) if row[0] in epochs]",
        new="for run_id, row in sorted(locked.items())]",
        why="A node would hurry the checks of a partition that another node has.",
        tests=("tests/component/scheduler/check/test_loop.py",),
    ),
    Mistake(
        file="plugins/alarms/xwheel_alarms/watch.py",
        old="alarm for alarm in found if alarm.partition in ours and (",
        new="alarm for alarm in found if (",
        why="Two nodes would tell of one run that does not end.",
        tests=("tests/product/alarms/test_watch.py",),
    ),
    Mistake(
        file="plugins/cluster_zookeeper/xwheel_cluster_zookeeper/node.py",
        old="connection.session != self._session or connection.link is Link.LOST:\n            return",
        new="connection.link is Link.LOST:\n            return",
        why="A node would take runs between a new session and joining again.",
        tests=("plugins/cluster_zookeeper/tests/test_node.py",),
    ),
    Mistake(
        file="xwheel/scheduler/check/decide.py",
        old="    if row.kill_requested:\n        again_ms",
        new="    if row.kill_requested and not wait_ms:\n        again_ms",
        why="A kill would not be sent to a foreign executor that says it is idle.",
        tests=("tests/component/scheduler/check/test_foreign.py",),
    ),
    Mistake(
        file="xwheel/scheduler/send/results.py",
        old="return Fate.UNKNOWN if delivery.again and _waits(shard, now_ms) else Fate.REFUSED",
        new="return Fate.REFUSED",
        why="Not yet would refuse a run whose first request may still arrive, and another one would run next to it.",
        tests=("tests/component/scheduler/send/test_not_yet.py",),
    ),
    Mistake(
        file="xwheel/scheduler/route/due.py",
        old="if now_ms < said.until_ms or may_wait:",
        new="if now_ms < said.until_ms:",
        why="Each fire of a job would ask an executor that takes none yet, and not the oldest alone.",
        tests=("tests/component/scheduler/send/test_not_yet.py",),
    ),
    Mistake(
        file="xwheel/storage/executors.py",
        old="not_(_PROVES_LESS), not_(_IS_NAMED))",
        new="not_(_PROVES_LESS), True)",
        why="The shared token would go to an address by hand, where a node of the version before took a registration.",
        tests=("tests/component/api/xxl/test_entered_addresses.py",),
    ),
    Mistake(
        file="xwheel/scheduler/executors/registry.py",
        old="if _proves_less(facts) and executors.is_named(",
        new="if facts.by_hand and executors.is_named(",
        why="A registration with the shared token would replace an address that a person entered with a secret.",
        tests=("tests/component/api/xxl/test_entered_addresses.py",),
    ),
]
