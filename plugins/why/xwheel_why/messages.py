"""What the call takes and gives."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from re import compile as pattern
from typing import Annotated, Final

from msgspec import Meta, Struct
from xwheel.api.schema.fields import MAX_MS
from xwheel.api.schema.messages import Input
from xwheel.errors import FieldError

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
FORMS: Final = "ISO 8601 with an offset, such as 2026-11-23T18:00:00Z, or epoch milliseconds"
NUMBER: Final = pattern(r"[0-9]{1,15}")
# what becomes of a + that is not encoded in a query
LOST_PLUS: Final = pattern(r"(?<=[0-9]) (?=[0-9]{2}:?[0-9]{2}\Z)")

Moment = Annotated[str, Meta(min_length=1, max_length=40, extra={"hint": FORMS})]


class WhyQuery(Input, frozen=True, kw_only=True):
    """Which due time; the last one that has passed, unless ``at`` says another one."""

    at: Moment | None = None


def read_moment(text: str) -> int:
    """Return the instant of a query in epoch milliseconds; raises FieldError, which says what is taken."""
    if NUMBER.fullmatch(text):
        at_ms = int(text)
    else:
        try:
            found = datetime.fromisoformat(LOST_PLUS.sub("+", text) if "T" in text else text)
            at_ms = (found - EPOCH) // timedelta(milliseconds=1) if found.tzinfo else -1
        except (ValueError, OverflowError):
            at_ms = -1
    if not 1 <= at_ms <= MAX_MS:
        raise FieldError("at", f"must be {FORMS}, from the year 1970 to 9999")
    return at_ms


class WhyStage(Struct, frozen=True, kw_only=True):
    """A stretch of a run's life, called after what ended it.

    ``name`` is ``planned``, ``due``, ``dispatched``, ``accepted``, ``began`` or ``finished``; ``is_over`` is false for
    the stage that the run is in now.
    """

    name: str
    from_ms: int
    to_ms: int
    took_ms: int
    is_over: bool


class WhyRun(Struct, frozen=True, kw_only=True):
    """A run that the answer is about; ``says`` is what its row says of its state, in a sentence."""

    id: int
    origin: str
    attempt: int
    shard_index: int
    state: str
    reason: str
    says: str
    due_ms: int
    finished_ms: int | None


class WhyEvidence(Struct, frozen=True, kw_only=True):
    """A row that says so: ``key`` is its id or name; for a version, the job's id and the revision."""

    table: str
    key: str
    at_ms: int | None
    says: str


class WhyView(Struct, frozen=True, kw_only=True):
    """Why a due time of a job has no run, or how its run went.

    ``due_ms`` is null if there is no due time at the time that was asked for. ``runs`` begins with the run that it is
    about. ``took_most`` names the longest of the ``stages``. ``missing`` says what rows do not tell.
    """

    job_id: int
    job_name: str
    asked_ms: int | None
    due_ms: int | None
    before_ms: int | None
    after_ms: int | None
    kind: str
    cause: str
    sentence: str
    lateness_ms: int | None
    stages: list[WhyStage]
    took_most: str
    runs: list[WhyRun]
    facts: dict[str, object]
    evidence: list[WhyEvidence]
    missing: list[str]
