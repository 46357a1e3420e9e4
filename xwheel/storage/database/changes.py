"""Changes of runs, noted where they are written and handed to listeners once they are committed.

What writes a state notes it on the connection of its transaction. A transaction that is rolled back or done again
takes its notes with it; one whose connection broke at COMMIT hands nothing over. Without listeners a note costs a
look-up.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final, Protocol

from sqlalchemy import Connection

from xwheel.model import RunState
from xwheel.plugin.contracts import RunChange

KEY: Final = "xwheel_changes"
MESSAGE_LENGTH: Final = 1000


class RunLike(Protocol):
    """What a note needs of a run, whole or not."""

    @property
    def id(self) -> int: ...  # noqa: D102
    @property
    def job_id(self) -> int: ...  # noqa: D102
    @property
    def group_id(self) -> int: ...  # noqa: D102
    @property
    def address(self) -> str | None: ...  # noqa: D102


def begin(conn: Connection) -> list[RunChange]:
    """Begin to take the notes of a transaction; return where they will be."""
    noted: list[RunChange] = []
    conn.info[KEY] = noted
    return noted


def note(conn: Connection, changes: Iterable[RunChange]) -> None:
    """Note changes that this transaction writes; without listeners a generator is not even begun."""
    noted: list[RunChange] | None = conn.info.get(KEY)
    if noted is not None:
        noted.extend(changes)


def change(run: RunLike, state: RunState, at_ms: int, reason: str = "", message: str = "") -> RunChange:
    """Return that a run comes into a state."""
    return RunChange(
        run.id, run.job_id, run.group_id, state, at_ms, reason, message[:MESSAGE_LENGTH], run.address or ""
    )


def note_cancelled(conn: Connection, runs: Iterable[RunLike], reason: str, at_ms: int) -> None:
    """Note that planned runs were cancelled."""
    note(conn, (change(run, RunState.CANCELLED, at_ms, reason) for run in runs))


def note_accepted(conn: Connection, runs: Iterable[RunLike], accepted: Collection[int], at_ms: int) -> None:
    """Note those of the runs that executors took."""
    note(conn, (change(run, RunState.RUNNING, at_ms) for run in runs if run.id in accepted))
