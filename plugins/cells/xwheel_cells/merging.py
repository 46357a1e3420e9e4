"""One page of a list from the pages of all cells, and the cursor that leads through all of them; no I/O.

Each cell has a place of its own in the cursor: what was shown of it is before that place, what was not is behind it. So
nothing is left out and nothing comes twice, whatever other cells do.
"""

from __future__ import annotations

import base64
import binascii
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, NamedTuple

import msgspec
from msgspec import Meta
from xwheel.plugin import FieldError

from xwheel_cells.answers import Key, Kind, Part, Row

MAX_CURSOR: Final = 4096

Places = dict[str, str | None]
"""Cell to the place after which its list goes on; None for one that is at its end."""

_Cursor = tuple[str, Annotated[Places, Meta(max_length=64)]]


class Merged(NamedTuple):
    """Rows of all cells in the order of the list, and where each cell goes on.

    Attributes:
        end: Up to where in the order all rows are known and stand here or before; None if the list ends here.
    """

    rows: Sequence[Row]
    places: Places
    end: Key | None


def merge(kind: Kind[Any], parts: Mapping[str, Part], places: Mapping[str, str | None], limit: int) -> Merged:
    """Return at most ``limit`` rows of the pages of cells that begin at these places.

    A page may be short though its list goes on. What lies behind its end in other cells waits then, since rows before
    that may follow: the answer may be short, too, or empty.
    """
    ends = [kind.key_of(part.next) for part in parts.values() if part.next is not None]
    horizon = min(ends, default=None)
    found = []
    for order, (name, part) in enumerate(parts.items()):
        for row in part.rows:
            row.cell = name
            key = kind.key(row)
            if horizon is None or key <= horizon:
                found.append((key, order, row))
    found.sort(key=lambda item: item[:2])
    end = found[limit - 1][0] if len(found) > limit else horizon
    taken = [row for _, _, row in found[:limit]]
    counts = Counter(row.cell for row in taken)
    after: Places = {}
    for name, part in parts.items():
        count = counts[name]
        if count == len(part.rows):
            after[name] = part.next
        else:
            after[name] = kind.place(part.rows[count - 1]) if count else places.get(name) or ""
    return Merged(taken, after, end if any(place is not None for place in after.values()) else None)


def write_cursor(kind: Kind[Any], places: Places) -> str:
    """Return places as a text for ``after``."""
    return base64.urlsafe_b64encode(msgspec.json.encode((kind.path, places))).decode("ascii").rstrip("=")


def read_cursor(kind: Kind[Any], text: str) -> Places:
    """Return the places of a cursor.

    Raises:
        FieldError: It is none of this list's.
    """
    problem = FieldError("after", f"must be a value of next, as an answer of cells/{kind.path} has it")
    if len(text) > MAX_CURSOR:
        raise problem
    try:
        content = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        path, places = msgspec.json.decode(content, type=_Cursor)
    except (binascii.Error, msgspec.MsgspecError, ValueError):
        raise problem from None
    if path != kind.path or not all(not place or kind.form.fullmatch(place) for place in places.values()):
        raise problem
    return places
