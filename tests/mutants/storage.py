"""Mistakes in storage functions, bulk statements, deadlines, outages and the checks of the schema."""

from __future__ import annotations

from typing import Final

from tests.mutants import Mistake

STORED: Final = "tests/component/storage"
SCHEDULER: Final = "tests/component/scheduler"
ENGINE: Final = f"{STORED}/database/test_engine.py"
DEADLINE: Final = "tests/unit/storage/database/test_deadline.py"
ERRORS: Final = "tests/unit/storage/database/test_errors.py"
MIGRATIONS: Final = f"{STORED}/schema/test_migrations.py"
KEPT: Final = (f"{STORED}/test_retention.py", f"{SCHEDULER}/upkeep/test_retention.py")
LEASE: Final = f"{SCHEDULER}/cluster/test_lease.py"

MISTAKES: Final = [
    Mistake(
        file="xwheel/storage/runs.py",
        old="locked = [row[:4] for row in found if row[4] == RunState.PLANNED]",
        new="locked = [row[:4] for row in found]",
        why="A run that was cancelled between the reading and the lock is fenced.",
        tests=(f"{STORED}/test_runs.py",),
    ),
    Mistake(
        file="xwheel/storage/runs.py",
        old="waiting = {run_id for run_id, _, _, _, state in locked if state == RunState.DISPATCHING}",
        new="waiting = {run_id for run_id, *_ in locked}",
        why="The answer of a send opens a run again whose outcome came before it.",
        tests=(f"{SCHEDULER}/send/test_results.py", f"{SCHEDULER}/test_delivery.py"),
    ),
    Mistake(
        file="xwheel/storage/runs.py",
        old='case((run.c.kill_requested.is_(True), bindparam("now_ms")), else_=bindparam("later_ms"))',
        new='bindparam("later_ms")',
        why="A kill that came before the executor's answer waits for the usual check.",
        tests=(f"{SCHEDULER}/send/test_results.py", f"{SCHEDULER}/runs/test_kill.py"),
    ),
    Mistake(
        file="xwheel/storage/runs.py",
        old="            run.c.partition.in_(sorted(partitions)),\n        )\n        .order_by(run.c.check_ms)",
        new="        )\n        .order_by(run.c.check_ms)",
        why="A node settles the unanswered sends of all other nodes.",
        tests=(f"{STORED}/test_runs.py",),
    ),
    Mistake(
        file="xwheel/storage/runs.py",
        old="return [item for item in locked if item.state is RunState.PLANNED]",
        new="return locked",
        why="An edit cancels a run that was sent between the search and the lock.",
        tests=(f"{STORED}/test_runs.py",),
    ),
    Mistake(
        file="xwheel/storage/runs.py",
        old="reason, now_ms, None, -item)",
        new="reason, now_ms, None, 0)",
        why="A job can have one cancelled run, and the next edit fails.",
        tests=(f"{SCHEDULER}/jobs/test_edits.py",),
    ),
    Mistake(
        file="xwheel/storage/runs.py",
        old="tuple((part, 1, epochs[part] - 1) for part in sorted(unfinished))",
        new="tuple((part, 1, epochs[part]) for part in sorted(unfinished))",
        why="What this node adopted itself is taken for left by a former holder.",
        tests=(f"{SCHEDULER}/plan/test_adopt.py",),
    ),
    Mistake(
        file="xwheel/storage/runs.py",
        old="tuple_(after.partition, after.epoch, after.due_ms, after.id))",
        new="tuple_(after.partition, after.epoch, after.due_ms + 1, 0))",
        why="Of rows with one due time those on the second page of a reconciliation are never seen.",
        tests=(f"{STORED}/test_runs.py",),
    ),
    Mistake(
        file="xwheel/storage/open_runs.py",
        old="and_(\n                run.c.state == RunState.DISPATCHING,\n"
        '                or_(run.c.check_ms <= bindparam("unanswered_ms"), run.c.kill_requested.is_(True)),\n',
        new="and_(\n                run.c.state == RunState.DISPATCHING,\n"
        '                run.c.check_ms <= bindparam("unanswered_ms"),\n',
        why="A kill of a run without an answer waits until its send was given up.",
        tests=(f"{STORED}/test_open_runs.py",),
    ),
    Mistake(
        file="xwheel/storage/open_runs.py",
        old="            run.c.address == holder.address,\n            run.c.state.in_(SENT),\n        )\n"
        "        .order_by(run.c.id + 0)  # nor",
        new="            run.c.state.in_(SENT),\n        )\n        .order_by(run.c.id + 0)  # nor",
        why="A kill that one foreign executor confirms counts for runs of the job at another one.",
        tests=(f"{STORED}/test_open_runs.py",),
    ),
    Mistake(
        file="xwheel/storage/open_runs.py",
        old="if row.max_running > 0}",
        new="}",
        why="A group without a limit lets nothing run.",
        tests=(f"{STORED}/test_open_runs.py",),
    ),
    Mistake(
        file="xwheel/storage/open_runs.py",
        old=".where(run.c.state.not_in((RunState.SKIPPED, RunState.CANCELLED)))",
        new=".where(run.c.state != RunState.SKIPPED)",
        why="A missed fire that was cancelled counts as made up for.",
        tests=(f"{STORED}/test_open_runs.py",),
    ),
    Mistake(
        file="xwheel/storage/leases.py",
        old="if row.renewal == seen[row.id]]",
        new="]",
        why="The row of a node that renews while it is forgotten is deleted.",
        tests=(f"{LEASE}::test_r7_dead_nodes_are_forgotten_by_key_and_not_in_the_renewal",),
    ),
    Mistake(
        file="xwheel/storage/leases.py",
        old="if row.owner == wanted[row.partition]]",
        new="]",
        why="A node takes a partition that went to another one since it looked.",
        tests=(f"{LEASE}::test_n17_a_take_leaves_what_has_another_owner_by_now",),
    ),
    Mistake(
        file="xwheel/storage/leases.py",
        old="if row.renewal != dead.get(row.id)}",
        new="if row.id not in dead}",
        why="A node that renews after it was found dead loses its partitions.",
        tests=(f"{LEASE}::test_a_dead_node_that_renews_in_the_last_moment_keeps_its_partitions",),
    ),
    Mistake(
        file="xwheel/storage/leases.py",
        old="row for row in _lock_free(conn, moves) if (row.owner, row.epoch) == (owner, epochs[row.partition])",
        new="row for row in _lock_free(conn, moves)",
        why="A node gives away a partition that is another's by now.",
        tests=(f"{LEASE}::test_a_node_gives_away_only_what_it_holds_under_the_epoch_it_knows",),
    ),
    Mistake(
        file="xwheel/storage/leases.py",
        old="query.values(owner=owner, epoch=partition_lease.c.epoch + 1)",
        new="query.values(owner=owner)",
        why="A partition changes hands under the same epoch.",
        tests=(f"{LEASE}::test_r1_a_join_moves_half_within_a_second_a_few_partitions_at_a_time",),
    ),
    Mistake(
        file="xwheel/storage/retention.py",
        old="        or max(row.due_ms, row.finished_ms) >= before.get(row.job_id, 0)\n",
        new="        or row.due_ms >= before.get(row.job_id, 0)\n",
        why="A run that was due long ago is deleted the day it ends.",
        tests=KEPT,
    ),
    Mistake(
        file="xwheel/storage/retention.py",
        old="        if row.state in OPEN_STATES\n        or row.finished_ms is None\n",
        new="        if row.finished_ms is None\n        and row.state not in OPEN_STATES\n",
        why="A fire loses its old runs while a retry of it is open.",
        tests=KEPT,
    ),
    Mistake(
        file="plugins/reports/xwheel_reports/storage.py",
        old="delete(hourly_report).where(hour == hour_ms, job_id <= last_id)",
        new="delete(hourly_report).where(hour == hour_ms, job_id < last_id)",
        why="The last job of each hour keeps its report for ever.",
        tests=("tests/product/reports/test_sweep.py",),
    ),
    Mistake(
        file="xwheel/storage/retention.py",
        old="job.c.deleted_ms.is_not(None), ~has_run)",
        new="~has_run)",
        why="A job that never ran is removed once its neighbours are.",
        tests=KEPT,
    ),
    Mistake(
        file="xwheel/storage/database/bulk.py",
        old='value.replace("\\\\", "\\\\\\\\").replace(\'"\', \'\\\\"\')',
        new='value.replace(\'"\', \'\\\\"\').replace("\\\\", "\\\\\\\\")',
        why="A text with a quote ends its place in an array for PostgreSQL.",
        tests=("tests/unit/storage/database/test_bulk.py",),
    ),
    Mistake(
        file="xwheel/storage/database/bulk.py",
        old='if value is None:\n        return "NULL"',
        new="if value is None:\n        return '\"\"'",
        why="Nothing arrives in PostgreSQL as an empty text.",
        tests=("tests/unit/storage/database/test_bulk.py",),
    ),
    Mistake(
        file="xwheel/storage/database/bulk.py",
        old='    if parts:\n        yield ",".join(parts), texts\n',
        new='    if texts:\n        yield ",".join(parts), texts\n',
        why="The last rows of a batch for MariaDB are lost if they have no text.",
        tests=("tests/unit/storage/database/test_bulk.py",),
    ),
    Mistake(
        file="xwheel/storage/database/bulk.py",
        old="            parts, texts, length = [], [], 0\n",
        new="            parts, length = [], 0\n",
        why="Texts of the first part of a large batch for MariaDB go into the second one's rows.",
        tests=("tests/unit/storage/database/test_bulk.py",),
    ),
    Mistake(
        file="xwheel/storage/database/deadline.py",
        old="limits.until_s = min(limits.until_s, time.monotonic() + deadline_ms / 1000)",
        new="limits.until_s = time.monotonic() + deadline_ms / 1000",
        why="An inner block outlasts the deadline of the outer one.",
        tests=(DEADLINE, ENGINE),
    ),
    Mistake(
        file="xwheel/storage/database/deadline.py",
        old="self.until_s = min(now_s + self._limits.statement_s, self._limits.until_s)",
        new="self.until_s = now_s + self._limits.statement_s",
        why="A statement is waited for beyond the deadline of its thread.",
        tests=(DEADLINE, ENGINE),
    ),
    Mistake(
        file="xwheel/storage/database/deadline.py",
        old="if self._service is None or not self._service.is_alive():",
        new="if self._service is None:",
        why="In a forked process overdue answers are waited for without end.",
        tests=(DEADLINE, ENGINE),
    ),
    Mistake(
        file="xwheel/storage/database/deadline.py",
        old="            twin.detach()\n",
        new="            twin.close()\n",
        why="A connection that is shut closes a descriptor that is another's by then.",
        tests=(DEADLINE,),
    ),
    Mistake(
        file="xwheel/storage/database/outage.py",
        old="    if phase is Phase.COMMIT:\n",
        new="    if phase is not Phase.WORK and not is_lost:\n",
        why="A transaction whose COMMIT broke is taken for one that was undone.",
        tests=(ERRORS, ENGINE),
    ),
    Mistake(
        file="xwheel/storage/database/outage.py",
        old="if told is None or not is_lost or isinstance(told, DatabaseRefusedError):",
        new="if told is None or not is_lost:",
        why="A read-only server's refusal at COMMIT counts as unknown.",
        tests=(ERRORS, ENGINE),
    ),
    Mistake(
        file="xwheel/storage/database/outage.py",
        old="frozenset({1205, 1213})",
        new="frozenset({1213})",
        why="A wait for a lock that is over is no reason to try again.",
        tests=(ERRORS, ENGINE),
    ),
    Mistake(
        file="xwheel/storage/schema/migrate.py",
        old="            _drop_remains(conn)\n            _refuse_foreign_tables(conn)\n",
        new="            _drop_remains(conn)\n",
        why="An upgrade puts its tables among those of another program.",
        tests=(MIGRATIONS,),
    ),
    Mistake(
        file="xwheel/storage/schema/migrate.py",
        old="or not ours <= {*metadata.tables, *HANDED_OVER}:",
        new="or not ours & {*metadata.tables, *HANDED_OVER}:",
        why="Another program's tables are taken for remains of an upgrade, and dropped.",
        tests=(MIGRATIONS,),
    ),
    Mistake(
        file="xwheel/storage/schema/migrate.py",
        old='    for name in ours & {"executor_group", "job", "run"}:\n',
        new='    for name in ours & {"job"}:\n',
        why="Tables with data are dropped as remains of an upgrade.",
        tests=(MIGRATIONS,),
    ),
]
