"""The live table of the demonstration."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

COLOURS: Final = {"succeeded": "green", "failed": "red", "running": "cyan", "dispatching": "cyan", "planned": "dim"}


@dataclass(slots=True)
class Board:
    """What the table shows: the jobs, the latest run of each that was sent, and when its next one is due.

    Attributes:
        jobs: The jobs by id.
        last: The latest run of each job that was sent.
        upcoming: When the next run of each is due.
        began_ms: When the demonstration began.
        first_ms: When the first run was sent. None before, and while it is not known.
    """

    jobs: dict[int, Mapping[str, Any]] = field(default_factory=dict)
    last: dict[int, Mapping[str, Any]] = field(default_factory=dict)
    upcoming: dict[int, int] = field(default_factory=dict)
    began_ms: int = 0
    first_ms: int | None = None

    def update(self, jobs: Iterable[Mapping[str, Any]], runs: Iterable[Mapping[str, Any]], *, is_all: bool) -> None:
        """Take a page of jobs and a page of runs.

        Args:
            jobs: The jobs.
            runs: Runs of this demonstration.
            is_all: Whether it has no others. If it has, the first one is not known to be among these.
        """
        self.jobs.update((job["id"], job) for job in jobs)
        # what is planned already lies before the job's cursor, which is the next due time not yet planned
        self.upcoming = {job_id: job["next_fire_ms"] for job_id, job in self.jobs.items() if job["next_fire_ms"]}
        for run in runs:
            if run["state"] == "planned":
                self.upcoming[run["job_id"]] = min(run["due_ms"], self.upcoming.get(run["job_id"], run["due_ms"]))
            known = self.last.get(run["job_id"])
            if run["dispatched_ms"] is None:
                continue
            if is_all:
                self.first_ms = min(run["dispatched_ms"], self.first_ms or run["dispatched_ms"])
            if known is None or (run["due_ms"], run["id"]) >= (known["due_ms"], known["id"]):
                self.last[run["job_id"]] = run

    def end(self, lateness: Iterable[tuple[int, int]]) -> None:
        """Learn the first fire from what was executed, if the node did not answer while it could be seen.

        Args:
            lateness: The due time of each fire, and how late it began.
        """
        if self.first_ms is None:
            self.first_ms = min((due_ms + late_ms for due_ms, late_ms in lateness), default=None)

    def first_fire(self) -> str | None:
        """Return a line about the first fire, None before it."""
        if self.first_ms is None:
            return None
        took_s = (self.first_ms - self.began_ms) / 1000
        return f"first fire         {_clock(self.first_ms)} UTC, {took_s:.1f} s after the start"

    def table(self, now_ms: int, title: str) -> RenderableType:
        """Draw the table."""
        table = Table(title=title, title_justify="left", expand=True)
        for name, justify in (("job", "left"), ("next fire", "right"), ("last run", "right"), ("lateness", "right")):
            table.add_column(name, justify=justify, no_wrap=True)  # type: ignore[arg-type]
        table.add_column("result", ratio=1, no_wrap=True)
        for job in self.jobs.values():
            run = self.last.get(job["id"])
            table.add_row(
                str(job["name"]),
                _in(self.upcoming.get(job["id"]), now_ms),
                _clock(run["dispatched_ms"]) if run else "",
                f"{run['accepted_ms'] - run['due_ms']} ms" if run and run["accepted_ms"] else "",
                _result(run),
            )
        return table


def _in(at_ms: int | None, now_ms: int) -> str:
    return "-" if at_ms is None else f"in {max(0, at_ms - now_ms) / 1000:.1f} s"


def _clock(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%H:%M:%S")


def _result(run: Mapping[str, Any] | None) -> Text:
    if run is None:
        return Text("")
    # the first line only: a failure's message is a whole traceback
    last_line = run["message"].strip().splitlines()[-1:] or [""]
    return Text(f"{run['state']}  {last_line[0]}", style=COLOURS.get(run["state"], ""))
