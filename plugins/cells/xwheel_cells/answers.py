"""What cells answer, checked for type and size, and what is shown of it.

Cells may be of other versions: what a row needs is required, all else has a default, and what is not known is left out.
A cell is not trusted: texts and numbers are bounded, rows are put in their order, and a page must lead on.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Any, Final, Generic, NamedTuple, TypeVar

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from xwheel_cells.problems import malformed

MAX_NUMBER: Final = 2**53 - 1
"""What a browser keeps exactly."""

Number = Annotated[int, Meta(ge=0, le=MAX_NUMBER)]
Id = Annotated[int, Meta(ge=1, le=MAX_NUMBER)]
Word = Annotated[str, Meta(max_length=1024)]
Text = Annotated[str, Meta(max_length=65_536)]
RUN_PLACE: Final = r"\A[0-9]{1,16}-[0-9]{1,16}\Z"
Place = Annotated[str, Meta(pattern=RUN_PLACE)]
Labels = Annotated[dict[Word, Word], Meta(max_length=100)]

S = TypeVar("S")
R = TypeVar("R", bound="Row")
Key = tuple[int, ...]
"""Where a row stands in the order of its list."""


class Row(Struct, kw_only=True):
    """What every list shows of an item; ``cell`` is the name of its cell, in which alone its id counts."""

    cell: str = ""
    id: Id


class GroupRow(Row, kw_only=True):
    """An executor group."""

    app_name: Word
    title: Word = ""
    max_running: Number = 0


class ExecutorRow(Row, kw_only=True):
    """A live executor."""

    group_id: Id
    address: Word
    kind: Word = ""
    source: Word = ""
    labels: Labels = {}
    seen_ms: Number = 0
    suspect_until_ms: Number = 0


class JobRow(Row, kw_only=True):
    """A job, without its parameter and script."""

    group_id: Id
    name: Word
    description: Text = ""
    handler: Word = ""
    glue_type: Word = ""
    schedule_type: Word = ""
    schedule_conf: Word = ""
    timezone: Word = ""
    enabled: bool = False
    state: Word = ""
    next_fire_ms: Number | None = None
    last_fire_ms: Number | None = None


class RunRow(Row, kw_only=True):
    """A run, without its parameter."""

    job_id: Id
    group_id: Id
    job_name: Word = ""
    app_name: Word = ""
    state: Word
    reason: Word = ""
    message: Text = ""
    origin: Word = ""
    attempt: Number = 0
    shard_index: Number = 0
    shard_total: Number = 0
    address: Word | None = None
    due_ms: Number
    dispatched_ms: Number | None = None
    accepted_ms: Number | None = None
    began_ms: Number | UnsetType | None = UNSET  # older cells do not say it
    finished_ms: Number | None = None


class _Groups(Struct):
    items: list[GroupRow]
    next: Id | None = None


class _Executors(Struct):
    items: list[ExecutorRow]
    next: Id | None = None


class _Jobs(Struct):
    items: list[JobRow]
    next: Id | None = None


class _Runs(Struct):
    items: list[RunRow]
    next: Place | None = None


class Part(NamedTuple):
    """A page of one cell: rows in order, and the place after which the list goes on there; None at its end."""

    rows: Sequence[Row]
    next: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind(Generic[R]):
    """A list that every cell has.

    A place is how the list's ``after`` says where a page begins; an empty one is the beginning.
    """

    path: str  #: below ``/api/v1/``
    page: type[Any]
    key: Callable[[R], Key]
    place: Callable[[R], str]
    key_of: Callable[[str], Key]  #: the key of the last row before a place
    form: re.Pattern[str]  #: what a place looks like
    paged: bool = True  #: whether it has more than one page

    def read(self, content: bytes, *, after: str, limit: int) -> Part:
        """Return a page that a cell answered, its rows in order; raises CellError if it is none after this place."""
        page = decode(content, self.page)
        rows, following = page.items, None if page.next is None or not self.paged else str(page.next)
        if len(rows) > limit:
            raise malformed("it answers with more rows than were asked for")
        lower = self.key_of(after) if after else None
        upper = None if following is None else self.key_of(following)
        if lower is not None and upper is not None and upper <= lower:
            raise malformed("its list does not lead on")
        # a row may move while a cell reads it: what is not between both ends comes with another page, or came before
        keyed = [(self.key(row), row) for row in rows]
        inside = [
            (key, row) for key, row in keyed if (lower is None or key > lower) and (upper is None or key <= upper)
        ]
        inside.sort(key=lambda item: item[0])
        if any(one[0] == other[0] for one, other in pairwise(inside)):
            raise malformed("it has a row twice")
        return Part([row for _, row in inside], following)


def _id(row: Row) -> Key:
    return (row.id,)


def _id_place(row: Row) -> str:
    return str(row.id)


def _key_of_id(place: str) -> Key:
    return (int(place),)


def _run(row: RunRow) -> Key:
    return (-row.due_ms, -row.id)


def _run_place(row: RunRow) -> str:
    return f"{row.due_ms}-{row.id}"


def _key_of_run(place: str) -> Key:
    due_ms, _, run_id = place.partition("-")
    return (-int(due_ms), -int(run_id))


def _next_fire(row: JobRow) -> Key:
    return (row.next_fire_ms or 0, row.id)


def _by_id(path: str, page: type[Any]) -> Kind[Any]:
    return Kind(path=path, page=page, key=_id, place=_id_place, key_of=_key_of_id, form=re.compile("[0-9]{1,16}"))


GROUPS: Final = _by_id("groups", _Groups)
EXECUTORS: Final = _by_id("executors", _Executors)
JOBS: Final = _by_id("jobs", _Jobs)
NEXT_JOBS: Final[Kind[JobRow]] = Kind(
    path="jobs", page=_Jobs, key=_next_fire, place=_id_place, key_of=_key_of_id, form=re.compile("[0-9]+"), paged=False
)
"""Jobs that fire again, soonest first: one page."""

RUNS: Final[Kind[RunRow]] = Kind(
    path="runs", page=_Runs, key=_run, place=_run_place, key_of=_key_of_run, form=re.compile(RUN_PLACE)
)
KINDS: Final = {kind.path: kind for kind in (GROUPS, EXECUTORS, JOBS, RUNS)}


class DayCounts(Struct, kw_only=True):
    """What became of the runs that were due in the last 24 hours, as the hourly report of a cell has it."""

    succeeded: Number = 0
    failed: Number = 0
    timed_out: Number = 0
    killed: Number = 0
    lost: Number = 0
    refused: Number = 0
    cancelled: Number = 0
    skipped: Number = 0


class Overview(Struct, kw_only=True):
    """How much there is in a cell, or in all."""

    groups: Number = 0
    executors: Number = 0
    jobs: Number = 0
    scheduled_jobs: Number = 0
    planned_runs: Number = 0
    open_runs: Number = 0
    last_day: DayCounts


class _Node(Struct):
    alive: bool
    version: Word | None = None
    is_me: bool = False


class _Nodes(Struct):
    items: Annotated[list[_Node], Meta(max_length=1000)]


class Nodes(NamedTuple):
    """How many nodes of a cell are alive, and the version of the one that answered."""

    alive: int
    version: str | None


def read_nodes(content: bytes) -> Nodes:
    """Return what a cell says of its nodes."""
    nodes = decode(content, _Nodes).items
    return Nodes(sum(node.alive for node in nodes), next((node.version for node in nodes if node.is_me), None))


def read_overview(content: bytes) -> Overview:
    """Return what a cell says of how much it has."""
    return decode(content, Overview)


def summed(found: Sequence[Overview]) -> Overview:
    """Return several overviews as one."""
    counts = {
        name: sum(getattr(one, name) for one in found) for name in Overview.__struct_fields__ if name != "last_day"
    }
    day = {name: sum(getattr(one.last_day, name) for one in found) for name in DayCounts.__struct_fields__}
    return Overview(**counts, last_day=DayCounts(**day))


def decode(content: bytes, kind: type[S]) -> S:
    """Return a cell's answer as what it should be; raises CellError if it is not that."""
    try:
        return msgspec.json.decode(content, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        # what it says instead is not repeated: it may be anything
        raise malformed("it is not what a node answers") from None
