"""Paging over cells: whatever they hold and however short their pages are, a walk gives each row once, in order."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from xwheel.plugin import FieldError

from xwheel_cells.answers import JOBS, RUNS, Kind, Row
from xwheel_cells.merging import MAX_CURSOR, Places, merge, read_cursor, write_cursor

Held = dict[str, list[tuple[int, int]]]
"""Cell to the due times and ids of its runs."""

runs = st.lists(st.tuples(st.integers(1, 6), st.integers(1, 40)), max_size=12, unique_by=lambda item: item[1])
held = st.dictionaries(st.sampled_from(["here", "north", "south", "west"]), runs, min_size=1)


def row_of(kind: Kind[Any], due_ms: int, number: int) -> dict[str, object]:
    if kind is RUNS:
        return {"id": number, "job_id": 1, "group_id": 1, "state": "running", "due_ms": due_ms}
    return {"id": number, "group_id": 1, "name": "j"}


def rows_of(kind: Kind[Any], of: list[tuple[int, int]]) -> list[Any]:
    content = msgspec.json.encode({"items": [row_of(kind, *item) for item in of], "next": None})
    return sorted(msgspec.json.decode(content, type=kind.page).items, key=kind.key)


def page_of(kind: Kind[Any], of: list[tuple[int, int]], after: str, limit: int, look: int) -> bytes:
    """Answer as a cell does that looks at so many rows for a page, of which it shows every second one."""
    rows = [row for row in rows_of(kind, of) if not after or kind.key(row) > kind.key_of(after)]
    seen = rows[:look]
    shown = [row for row in seen if row.id % 2][:limit]
    cut = shown[-1] if len([row for row in seen if row.id % 2]) > limit else seen[-1] if len(rows) > look else None
    following = None if cut is None else kind.place(cut) if kind is RUNS else cut.id
    plain = [{name: value for name, value in msgspec.to_builtins(row).items() if name != "cell"} for row in shown]
    return msgspec.json.encode({"items": plain, "next": following})


def walk(kind: Kind[Any], cells: Held, limit: int, look: int) -> list[tuple[str, Row]]:
    places: Places = dict.fromkeys(cells, "")
    found: list[tuple[str, Row]] = []
    for _ in range(1000):
        parts = {}
        for name, place in places.items():
            if place is not None:
                content = page_of(kind, cells[name], place, limit, look)
                parts[name] = kind.read(content, after=place, limit=limit)
        merged = merge(kind, parts, places, limit)
        assert len(merged.rows) <= limit
        found += [(row.cell, row) for row in merged.rows]
        if merged.end is None:
            return found
        assert all(kind.key(row) <= merged.end for row in merged.rows)
        text = write_cursor(kind, {**places, **merged.places})
        assert len(text) <= MAX_CURSOR
        places = read_cursor(kind, text)
    raise AssertionError("it goes on and on")


@given(held, st.integers(1, 5), st.integers(1, 5))
@pytest.mark.parametrize("kind", [JOBS, RUNS], ids=["jobs", "runs"])
def test_a_walk_gives_each_row_once_in_the_order_of_the_list(
    kind: Kind[Any], cells: Held, limit: int, look: int
) -> None:
    order = list(cells)
    wanted = sorted(
        (
            (kind.key(row), order.index(name), name)
            for name, of in cells.items()
            for row in rows_of(kind, of)
            if row.id % 2
        ),
        key=lambda item: item[:2],
    )
    found = walk(kind, cells, limit, look)
    assert [(kind.key(row), name) for name, row in found] == [(key, name) for key, _, name in wanted]


def test_rows_behind_the_end_of_a_short_page_wait() -> None:
    """The north has looked back to 50 only, so what is older elsewhere may not be shown before it."""
    north = RUNS.read(b'{"items": [], "next": "50-9"}', after="", limit=10)
    content = msgspec.json.encode({"items": [row_of(RUNS, 60, 2), row_of(RUNS, 40, 1)], "next": None})
    south = RUNS.read(content, after="", limit=10)
    merged = merge(RUNS, {"north": north, "south": south}, {"north": "", "south": ""}, 10)
    assert [row.id for row in merged.rows] == [2]
    assert merged.places == {"north": "50-9", "south": "60-2"}
    assert merged.end == RUNS.key_of("50-9")


def test_a_row_outside_of_the_ends_of_its_page_belongs_to_another_one() -> None:
    """One that moved while the cell was reading."""
    rows = [row_of(RUNS, due_ms, number) for number, due_ms in ((1, 80), (2, 60), (3, 40))]
    part = RUNS.read(msgspec.json.encode({"items": rows, "next": "50-9"}), after="70-1", limit=10)
    assert [row.id for row in part.rows] == [2]


def test_a_cursor_of_32_cells_fits_an_address() -> None:
    places: Places = {f"{'x' * 30}{number:02}": f"{10**15}-{10**15}" for number in range(32)}
    text = write_cursor(RUNS, places)
    assert len(text) <= MAX_CURSOR
    assert read_cursor(RUNS, text) == places


@pytest.mark.parametrize(
    "text",
    [
        "x",
        "é",
        "W10",
        "?" * 10,
        write_cursor(RUNS, {"here": "1-1"}),
        write_cursor(JOBS, {"here": "1&limit=9"}),
        write_cursor(JOBS, {"here": "-1"}),
        write_cursor(JOBS, {f"c{number}": "" for number in range(65)}),
        "A" * (MAX_CURSOR + 1),
    ],
)
def test_what_is_no_cursor_is_refused(text: str) -> None:
    with pytest.raises(FieldError, match="after.*value of next"):
        read_cursor(JOBS, text)
