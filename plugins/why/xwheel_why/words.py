"""How the sentences spell times, stretches of time, and who did something."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

from xwheel.model.access import ActorKind
from xwheel.model.deeds import clean
from xwheel.model.versions import JobVersion

from xwheel_why.audit import AuditedDeed

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
LONGEST: Final = 200
UNITS: Final = ((86_400_000, "day"), (3_600_000, "hour"), (60_000, "minute"))
SECOND_MS: Final = 1000
TWO_MINUTES_MS: Final = 120_000


def moment(at_ms: int) -> str:
    """Return an instant as ISO 8601 in UTC."""
    text = (EPOCH + timedelta(milliseconds=at_ms)).isoformat(
        timespec="milliseconds" if at_ms % SECOND_MS else "seconds"
    )
    return text.replace("+00:00", "Z")


def span(length_ms: int) -> str:
    """Return a stretch of time in words: its seconds if it is short, or whole minutes, hours or days."""
    if length_ms < SECOND_MS:
        return f"{length_ms} ms"
    if length_ms < TWO_MINUTES_MS:
        return f"{length_ms / SECOND_MS:.1f} s"
    size, unit = next((size, unit) for size, unit in UNITS if length_ms >= 2 * size)
    return f"{length_ms // size} {unit}s"


def quoted(text: str) -> str:
    """Return a text of somebody else's as part of a sentence: of one line, and not too long."""
    line = " ".join(clean(text, LONGEST + 1).split())
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 3]}..."


def who(by: JobVersion | AuditedDeed | None) -> str:
    """Return who did something, and why if they said so."""
    if by is None or (not by.actor and by.actor_kind == ActorKind.UNKNOWN):
        return "somebody whose name is not kept"
    name = f"{by.actor_kind} {quoted(by.actor)}" if by.actor else f"the {by.actor_kind}"
    return f'{name} ("{quoted(by.reason)}")' if by.reason else name
