"""Plugins that own fields of jobs, which people then cannot change: what is asked of them, and what is shown."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any, Final, Protocol, runtime_checkable

import msgspec

from xwheel.errors import PluginError
from xwheel.plugin.validation import require

_TABLE: Final = re.compile(r"[a-z][a-z0-9_]{0,59}")


class DeclaredView(msgspec.Struct, frozen=True, kw_only=True):
    """What code says of a job.

    ``owned`` are the fields that only code may change, ``released`` those that people released from it. It
    ``is_retired`` if code declares it no more; then, and if the job as a whole ``is_released``, code owns nothing.
    ``problem`` says why what code says now is not done, or that two builds of the same release say different things.
    """

    place: str
    release: str
    owned: list[str]
    released: list[str]
    is_released: bool
    is_retired: bool
    is_in_conflict: bool
    problem: str


@runtime_checkable
class OwnsJobs(Protocol):
    """Resources of a plugin that owns fields of jobs: people neither change these, nor delete the job.

    What it knows of a job is in rows of its own. While xwheel changes a job it reads these rows, and asks the plugin
    about them before and never inside its transaction: if they are others then, it asks once more. A job without such a
    row is not asked about, and one that it cannot be asked about is not changed.
    """

    #: the table with these rows: one of the plugin's, whose column ``job_id`` has the job's id
    owner_table: str

    def owned(self, conn: Any, job_ids: Collection[int]) -> Mapping[int, DeclaredView]:
        """Return what it says of jobs, by id; those of which it says nothing are missing.

        It is asked about those that are shown or are to be changed, with a connection of SQLAlchemy for reading.
        """

    def refusal(self, job_id: int, said: DeclaredView, field: str) -> str:
        """Return why people cannot change a field that it owns, and what they can do instead; no I/O.

        It gets what it said of the job; the field is empty if the job is to be deleted.
        """

    def conflicts(self, conn: Any, groups: Collection[int] | None) -> int:
        """Return how many groups, of some or of all, have executors that contradict each other about their jobs."""


def check_owner_table(name: object) -> None:
    """Refuse what is no name of a table."""
    is_name = isinstance(name, str) and _TABLE.fullmatch(name) is not None
    require(is_name, f"owner_table must be the name of one of the plugin's tables, not {str(name)[:60]!r}")


def check_owned(owner: str, found: object, job_ids: Collection[int]) -> dict[int, DeclaredView]:
    """Return what a plugin of this name says of jobs, once it is known to be that, and of these alone."""
    if not isinstance(found, Mapping):
        raise PluginError(f"{owner}: owned() must return a mapping, not {type(found).__name__}")
    made: dict[int, DeclaredView] = {}
    for job_id, said in found.items():
        is_fit = job_id in job_ids and isinstance(said, DeclaredView)
        require(is_fit, f"{owner}: owned() must return a DeclaredView by id of a job that was asked about")
        try:
            made[job_id] = msgspec.convert(msgspec.to_builtins(said), DeclaredView)
        except (TypeError, msgspec.ValidationError) as error:
            raise PluginError(f"{owner}: owned(), job {job_id}: {error}") from error
    return made
