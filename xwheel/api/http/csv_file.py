"""Lists as CSV files that spreadsheets open: sent page by page, and no cell is a formula."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import falcon
import msgspec

from xwheel.model.access import acting, current_actor

MEDIA: Final = "text/csv; charset=utf-8"
MOST_ROWS: Final = 10_000
PAGE: Final = 500
MOST_PAGES: Final = 200  # pages that are asked for one file, most of which find little where no index answers
MARK: Final = "\ufeff"  # without it, spreadsheets take UTF-8 for something else
FORMULAS: Final = ("=", "+", "-", "@", "\t", "\r")


CsvPage = tuple[Sequence[msgspec.Struct], object]
"""Rows, and after what the next page begins; None after the last one."""


def reply_csv(
    resp: falcon.Response, name: str, view: type[msgspec.Struct], pages: Callable[[Any, int], CsvPage]
) -> None:
    """Make a file the response: a line for each item of a list, 10,000 at most, with the fields of the view.

    ``pages`` returns a page after something, None for the first one, of at most this many items.
    """
    actor = current_actor()

    def page_of(after: Any, limit: int) -> CsvPage:
        # the call is over for all others when the file is read
        with acting(actor):
            return pages(after, limit)

    # what is wrong is said before the first byte
    first = page_of(None, PAGE)
    resp.content_type = MEDIA
    resp.downloadable_as = f"{name}.csv"
    resp.stream = _lines(view.__struct_fields__, first, page_of)


def _lines(columns: Sequence[str], page: CsvPage, pages: Callable[[Any, int], CsvPage]) -> Iterator[bytes]:
    yield (MARK + _line(columns)).encode()
    left = MOST_ROWS
    for number in range(1, MOST_PAGES + 1):
        found, following = page
        rows = found[:left]
        if rows:
            yield "".join(_line([cell(getattr(row, name)) for name in columns]) for row in rows).encode()
        left -= len(rows)
        if following is None or not left or number == MOST_PAGES:
            return
        page = pages(following, min(PAGE, left))


def cell(value: object) -> object:
    """Return what stands in a cell: text that a spreadsheet takes for text, lists and objects as JSON."""
    match value:
        case bool():
            return "true" if value else "false"
        case None | int() | float():
            return value
        case str():
            return f"'{value}" if value.startswith(FORMULAS) else value
        case _:
            return cell(msgspec.json.encode(value).decode())


def _line(cells: Sequence[object]) -> str:
    made = io.StringIO()
    csv.writer(made).writerow(cells)
    return made.getvalue()
