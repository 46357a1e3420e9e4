"""Many jobs written in transactions of a plugin, next to rows of its own."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from xwheel.model import Job
from xwheel.model.versions import JobAction

T = TypeVar("T")


class JobWriter(Protocol):
    """Checks jobs, and writes many of them in one transaction of the plugin's.

    It asks for no permission of the caller's but the one for scripts, and refuses no change of what another plugin
    owns: that is for the plugin to do. Jobs that are changed are locked before, in the order of their ids.
    """

    def draft(self, values: Mapping[str, object]) -> Job:
        """Return a job that could be created so, stopped and without an id.

        The values are every field of a new job but ``enabled`` and ``glue_source``.

        Raises:
            FieldError: A field is not acceptable; PluginError if the schedule cannot be asked.
        """

    def merge(self, job: Job, changes: Mapping[str, object]) -> Job:
        """Return a job as it would be with changed fields; raises like :meth:`draft`."""

    def transaction(self, work: Callable[[Any], T]) -> T:
        """Return what ``work`` returns inside a writing transaction, and let the scheduler see to the jobs at once.

        Schedule types are asked between its attempts, so ``work`` may begin again several times: it keeps its effects
        inside.
        """

    def need(self, jobs: Iterable[Job], now_ms: int) -> None:
        """Have the next fires of many jobs asked for at once, early in a transaction that starts them."""

    def next_fire(self, job: Job, now_ms: int) -> int | None:
        """Return when a job would fire next, or None."""

    def insert(self, conn: Any, draft: Job, now_ms: int, *, enabled: bool) -> Job:
        """Create a drafted job and return it, with its id; raises NameTakenError if its group has one of its name."""

    def edit(self, conn: Any, job: Job, changes: Mapping[str, object], now_ms: int) -> Job:
        """Change fields of a locked job as :meth:`merge` allowed, and return it.

        Raises:
            ForbiddenError: It has a script, and the caller may not change that.
        """

    def start(self, conn: Any, job: Job, now_ms: int) -> Job:
        """Let a locked job fire from its next due time on, and return it; raises ScheduleError if it never would."""

    def stop(self, conn: Any, jobs: Collection[Job], now_ms: int) -> None:
        """Let locked jobs fire no more; runs that were sent go on."""

    def touch(self, conn: Any, job: Job, now_ms: int) -> Job:
        """Raise the revision of a locked job: who has seen it as it was must see it again."""

    def record(self, conn: Any, action: JobAction, steps: Sequence[tuple[Job | None, Job]], now_ms: int) -> None:
        """Write into versions and audit what the caller did to jobs: each before, None for a new one, and after."""
