"""No statement of the pipeline reads a whole table, whatever it holds."""

from __future__ import annotations

import re
from typing import Any

from sqlalchemy import event

from tests.support.node import HandNode
from tests.support.rows import NOW
from xwheel.model import RunState
from xwheel.scheduler.ports import Fate
from xwheel.storage.engine import Database
from xwheel.testing import ManualClock

# small tables that are meant to be read whole
SMALL = {
    "node",
    "executor",
    "executor_group",
    "partition_lease",
    "setting",
    "calendar",
    "v",
    "api_token",
    "CONSTANT",
}


def test_the_pipeline_scans_no_table(sqlite_db: Database) -> None:
    db = sqlite_db
    statements: dict[str, Any] = {}

    def note(_conn: object, _cursor: object, statement: str, parameters: Any, *_: object) -> None:
        if statement.lstrip().startswith(("SELECT", "UPDATE", "DELETE")):
            statements.setdefault(statement, parameters)

    event.listen(db.engine, "before_cursor_execute", note)
    node = HandNode(db, ManualClock(NOW))
    node.group()
    node.register("http://127.0.0.1:9001")
    rate = node.job(schedule_conf="1", max_retries=1)
    node.job(schedule_type="FIX_DELAY", schedule_conf="2s")
    node.run_for(3000, each=lambda: node.finish(node.answer(), RunState.FAILED))
    node.scheduler.manager.run_now(rate.id)
    node.run_for(300)
    node.answer(Fate.UNKNOWN)
    node.run_for(12_000, step_ms=500)
    node.scheduler.manager.edit(rate.id, {"schedule_conf": "2"})
    node.scheduler.switchboard.pause()
    node.scheduler.manager.stop(rate.id)
    heir = node.successor()
    heir.run_for(300)

    assert len(statements) > 25
    with db.read() as conn:
        for statement, parameters in statements.items():
            plan = conn.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters).fetchall()
            for row in plan:
                scanned = re.match(r"SCAN (\w+)\b(?! VIRTUAL)", row[-1])
                if scanned and not row[-1].startswith("SCAN part"):
                    assert scanned[1] in SMALL, f"{row[-1]}:\n{statement}"
