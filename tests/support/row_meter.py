"""How much a database reads for a statement, as the database itself counts it while the statement runs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, event

_STATUS: Final = (
    "SHOW SESSION STATUS WHERE Variable_name LIKE 'Handler\\_read%' OR Variable_name LIKE 'Handler_icp_att%'"
)
STEPS: Final = 100
"""SQLite's virtual machine is looked at once in this many steps."""

STEPS_PER_ROW: Final = 50
PAGES_PER_ROW: Final = 12
"""Of an index and a table, with the way down to each; more of them mean that index entries were read in vain."""


class Cost(NamedTuple):
    """A statement that ran, and how many rows or index entries were read for it."""

    statement: str
    rows: int
    plan: str


@contextmanager
def metered(conn: Connection) -> Iterator[list[Cost]]:
    """Give a list that grows by one with each statement of a connection."""
    costs: list[Cost] = []
    meters = {"sqlite": _sqlite, "mysql": _mariadb, "postgresql": _postgresql}
    with meters[conn.dialect.name](conn, costs):
        yield costs


@contextmanager
def _listening(conn: Connection, before: Any, after: Any) -> Iterator[None]:
    event.listen(conn, "before_cursor_execute", before)
    event.listen(conn, "after_cursor_execute", after)
    try:
        yield
    finally:
        event.remove(conn, "before_cursor_execute", before)
        event.remove(conn, "after_cursor_execute", after)


@contextmanager
def _sqlite(conn: Connection, costs: list[Cost]) -> Iterator[None]:
    """Count steps of the virtual machine; the plan says which index is walked."""
    driver = conn.connection.driver_connection
    steps, plan = 0, ""

    def count() -> None:
        nonlocal steps
        steps += STEPS

    def before(_conn: object, _cursor: object, statement: str, parameters: Any, *_: object) -> None:
        nonlocal steps, plan
        values = parameters[0] if isinstance(parameters, list) and parameters else parameters
        explained = driver.execute(f"EXPLAIN QUERY PLAN {statement}", values).fetchall()
        plan = "; ".join(row[-1] for row in explained)
        steps = 0

    def after(_conn: object, cursor: Any, statement: str, parameters: Any, *_: object) -> None:
        values = parameters[0] if isinstance(parameters, list) and parameters else parameters
        if statement.lstrip().startswith(("SELECT", "WITH")):
            # what the caller reads later is read here once more, so that it counts
            driver.execute(statement, values).fetchall()
        costs.append(Cost(statement, steps // STEPS_PER_ROW, plan))

    driver.set_progress_handler(count, STEPS)
    try:
        with _listening(conn, before, after):
            yield
    finally:
        driver.set_progress_handler(None, 0)


@contextmanager
def _mariadb(conn: Connection, costs: list[Cost]) -> Iterator[None]:
    """Count what the storage engine was asked for; the plan is asked for only where rows were read."""
    driver = conn.connection.driver_connection
    start = 0

    def total() -> int:
        with driver.cursor() as cursor:
            cursor.execute(_STATUS)
            return sum(int(value) for _, value in cursor.fetchall())

    def before(*_: object) -> None:
        nonlocal start
        start = total()

    def after(_conn: object, _cursor: object, statement: str, parameters: Any, *_: object) -> None:
        rows = total() - start
        plan = ""
        if rows and statement.lstrip("( ").startswith(("SELECT", "UPDATE", "DELETE")):
            with driver.cursor() as cursor:
                cursor.execute(f"EXPLAIN {statement}", parameters)
                plan = "; ".join(str(row[2:]) for row in cursor.fetchall())
        costs.append(Cost(statement, rows, plan))

    with _listening(conn, before, after):
        yield


@contextmanager
def _postgresql(conn: Connection, costs: list[Cost]) -> Iterator[None]:
    """Take the plans that really ran, with what they read: the server sends each of them as a notice."""
    driver: Any = conn.connection.driver_connection
    settings = {
        "log_min_duration": "0",
        "log_analyze": "on",
        "log_buffers": "on",
        "log_timing": "off",
        "log_format": "json",
        "log_level": "notice",
    }
    driver.execute("LOAD 'auto_explain'")

    def take(notice: Any) -> None:
        _, mark, found = notice.message_primary.partition("plan:\n")
        if mark:
            plan = json.loads(found)
            pages = plan["Plan"].get("Shared Hit Blocks", 0) + plan["Plan"].get("Shared Read Blocks", 0)
            rows = max(_rows_read(plan["Plan"]), pages // PAGES_PER_ROW)
            costs.append(Cost(plan["Query Text"], rows, "; ".join(_nodes(plan["Plan"]))))

    for name, value in settings.items():
        driver.execute(f"SET LOCAL auto_explain.{name} = {value}")
    driver.add_notice_handler(take)
    try:
        yield
    finally:
        # the settings end with the transaction
        driver.remove_notice_handler(take)


def _rows_read(node: dict[str, Any]) -> int:
    rows = sum(_rows_read(child) for child in node.get("Plans", ()))
    if "Scan" in node["Node Type"] and "Subquery" not in node["Node Type"]:
        given = ("Actual Rows", "Rows Removed by Filter", "Rows Removed by Index Recheck")
        rows += sum(int(node.get(name, 0)) for name in given) * int(node["Actual Loops"])
    return rows


def _nodes(node: dict[str, Any]) -> Iterator[str]:
    place = node.get("Index Name") or node.get("Relation Name", "")
    yield f"{node['Node Type']} {place} rows={node.get('Actual Rows')}x{node.get('Actual Loops')}".replace("  ", " ")
    for child in node.get("Plans", ()):
        yield from _nodes(child)
