"""Mistakes on the way of log lines from an executor to a store, and back to a reader."""

from __future__ import annotations

from typing import Final

from tests.mutants import Mistake

MISTAKES: Final = [
    Mistake(
        file="xwheel/model/executors.py",
        old="        return secret_id in (None, SHARED_SECRET)\n",
        new="        return True\n",
        why="Who holds the token that all share writes logs of runs that were sent under a group's secret (S21).",
        tests=("tests/product/run_logs/test_shipped.py",),
    ),
    Mistake(
        file="xwheel/executor/reporting/log_shipping.py",
        old="                    is_end = is_over\n                    break",
        new="                    is_end = shipment.is_over\n                    break",
        why="The last lines of a run that ends while its log is read would be lost.",
        tests=("tests/unit/executor/reporting/test_log_shipping.py",),
    ),
    Mistake(
        file="xwheel/executor/reporting/log_shipping.py",
        old="            self._is_begun = False  # what ended meanwhile is asked about, as after a start\n",
        new="",
        why="Logs of runs that ended while the scheduler had no store would never be shipped.",
        tests=("tests/unit/executor/reporting/test_log_shipping.py",),
    ),
    Mistake(
        file="xwheel/executor/reporting/log_shipping.py",
        old="                known.log = log  # its file was opened again",
        new="                known.is_asked = True  # its file was opened again",
        why="A log that is opened again would count as over.",
        tests=("tests/unit/executor/reporting/test_log_shipping.py",),
    ),
    Mistake(
        file="xwheel/executor/reporting/log_shipping.py",
        old="            if shipment.pause_ms and found:\n                continue",
        new="            if shipment.pause_ms < 0:\n                continue",
        why="A log that is not taken would hold up all others.",
        tests=("tests/unit/executor/reporting/test_log_shipping.py",),
    ),
    Mistake(
        file="xwheel/executor/reporting/log_shipping.py",
        old="        if self._is_wanted and not self.wakeup.is_set():\n            self.wakeup.set()\n",
        new="",
        why="The first lines of a run would wait for the idle time of the loop.",
        tests=("tests/unit/executor/reporting/test_log_shipping.py",),
    ),
    Mistake(
        file="xwheel/executor/reporting/log_shipping.py",
        old="skip_lines(shipment.path, line - 1)",
        new="skip_lines(shipment.path, line)",
        why="After a disagreement a line would be left out.",
        tests=("tests/unit/executor/reporting/test_log_shipping.py",),
    ),
    Mistake(
        file="xwheel/executor/reporting/log_shipping.py",
        old="            elif receipt.next_line == one.next_line and not shipment.is_asked:",
        new="            elif receipt.next_line <= one.next_line and not shipment.is_asked:",
        why="Lines that the store did not take would count as shipped.",
        tests=("tests/unit/executor/reporting/test_log_shipping.py",),
    ),
    Mistake(
        file="plugins/run_logs/xwheel_run_logs/shipped.py",
        old="if owner is None or owner.created_ms != part.created_ms:",
        new="if owner is None:",
        why="An executor with old logs would write into runs of a database that began again.",
        tests=("tests/product/run_logs/test_shipped.py",),
    ),
    Mistake(
        file="plugins/run_logs/xwheel_run_logs/shipped.py",
        old="if not instance or owner.instance != instance:",
        new="if not instance:",
        why="Any executor could write the log of any run of its group.",
        tests=("tests/product/run_logs/test_shipped.py",),
    ),
    Mistake(
        file="plugins/run_logs/xwheel_run_logs/shipped.py",
        old="if not reporter.may_report(owner.group_id, owner.secret_id):",
        new="if False:",
        why="One group's secret would write logs of another group.",
        tests=("tests/product/run_logs/test_shipped.py",),
    ),
    Mistake(
        file="plugins/run_logs/xwheel_run_logs/shipped.py",
        old="if why or owner is None or owner.ended:",
        new="if why or owner is None:",
        why="Lines would be added to a log that is complete.",
        tests=("tests/product/run_logs/test_shipped.py",),
    ),
    Mistake(
        file="plugins/run_logs/xwheel_run_logs/shipped.py",
        old='by_name[owner.store or (chosen.name if chosen else "")]',
        new='by_name[chosen.name if chosen else owner.store or ""]',
        why="A log that began in another store would go on in the new one, without its beginning.",
        tests=("tests/product/run_logs/test_shipped.py",),
    ),
    Mistake(
        file="plugins/run_logs/xwheel_run_logs/shipped.py",
        old="is_over = chunk.is_last and line >= chunk.next_line",
        new="is_over = chunk.is_last",
        why="A log would count as complete though the store lacks lines of it.",
        tests=("tests/product/run_logs/test_shipped.py",),
    ),
    Mistake(
        file="plugins/run_logs/xwheel_run_logs/shipped.py",
        old=(
            "        self._begin(store, list(new.values()))\n        answers = store.append(pieces) if pieces else []\n"
        ),
        new=(
            "        answers = store.append(pieces) if pieces else []\n        self._begin(store, list(new.values()))\n"
        ),
        why="A crash would leave lines in a store that no one finds or deletes.",
        tests=("tests/product/run_logs/test_shipped.py",),
    ),
    Mistake(
        file="plugins/run_logs/xwheel_run_logs/fetch.py",
        old=" or data.from_line != from_line:",
        new=":",
        why="Lines that an executor gave in place of others would be kept under wrong numbers.",
        tests=("tests/product/run_logs/test_fetch.py",),
    ),
    Mistake(
        file="plugins/run_logs/xwheel_run_logs/fetch.py",
        old="    if not is_final:\n        lines = lines[:-1]\n",
        new="",
        why="Half of a line that is being written would be kept as a whole one.",
        tests=("tests/product/run_logs/test_fetch.py",),
    ),
    Mistake(
        file="plugins/run_logs/xwheel_run_logs/dispatched.py",
        old="                if not run.instance\n",
        new="",
        why="Logs that executors ship would be asked for, too.",
        tests=("tests/product/run_logs/test_fetch.py",),
    ),
    Mistake(
        file="plugins/run_logs/xwheel_run_logs/expiry.py",
        old="lambda: 0 in partitions.held()",
        new="lambda: True",
        why="Every node deletes logs, not only the one that holds partition 0.",
        tests=("tests/product/run_logs/test_expiry.py",),
    ),
    Mistake(
        file="plugins/run_logs/xwheel_run_logs/storage.py",
        old="[number for number in ids if number not in there]",
        new="[number for number in ids if number in there]",
        why="Logs of runs that are there are deleted, and those of deleted runs stay.",
        tests=("tests/product/run_logs/test_expiry.py",),
    ),
]
