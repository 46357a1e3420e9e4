"""Lists as CSV files: no cell is a formula, and how much there is at most."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from xwheel.api.http import csv_file
from xwheel.api.http.csv_file import CsvPage, cell
from xwheel.model.access import Actor, ActorKind, acting, current_actor


@pytest.mark.parametrize("text", ["=1", "+1", "-1", "@a", "\ta", "\ra", "=", "-"])
def test_what_looks_like_a_formula_is_text(text: str) -> None:
    assert cell(text) == f"'{text}"


@pytest.mark.parametrize("value", ["", "a=1", " =1", "'=1", "1-2", 5, -5, 0, None, 1.5])
def test_other_cells_are_as_they_are(value: object) -> None:
    assert cell(value) == value


class _Row(msgspec.Struct):
    id: int


def test_a_file_ends_with_ten_thousand_rows_or_many_empty_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    class Sink:
        stream: Any = ()

    asked: list[tuple[Any, int]] = []

    def full(after: Any, limit: int) -> CsvPage:
        asked.append((after, limit))
        first = 0 if after is None else after
        return [_Row(id=number) for number in range(first, first + limit)], first + limit

    def empty(after: Any, limit: int) -> CsvPage:
        asked.append((after, limit))
        return [], (after or 0) + 1

    monkeypatch.setattr(csv_file, "MOST_ROWS", 1200)
    for pages, count, calls in ((full, 1200, [500, 500, 200]), (empty, 0, [500] * csv_file.MOST_PAGES)):
        asked.clear()
        sink: Any = Sink()
        csv_file.reply_csv(sink, "x", _Row, pages)
        text = b"".join(sink.stream).decode("utf-8-sig")
        assert text.splitlines() == ["id", *map(str, range(count))]
        assert [limit for _, limit in asked] == calls


def test_each_page_is_read_with_the_rights_of_the_caller() -> None:
    class Sink:
        stream: Any = ()

    who: list[str] = []

    def pages(after: Any, limit: int) -> CsvPage:
        del limit
        who.append(current_actor().name)
        return [_Row(id=len(who))], None if after == 2 else len(who)

    sink: Any = Sink()
    with acting(Actor(kind=ActorKind.ACCOUNT, name="ann")):
        csv_file.reply_csv(sink, "x", _Row, pages)
    list(sink.stream)  # as the server does it, after the call
    assert who == ["ann"] * 3
