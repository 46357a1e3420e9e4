"""What plugins that bring news must answer, and what is refused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from xwheel_console.live.answers import find_newest, read_kinds, read_news

from xwheel.errors import PluginError
from xwheel.model import MAX_ID
from xwheel.plugin import BringsNews, NewsItem


class Toys:
    """Brings what a test gives it; what can be called is called."""

    name = "toys"

    def __init__(self, kinds: Any = ("toy",), newest: Any = 0, rows: Any = ()) -> None:
        self._kinds, self._newest, self._rows = kinds, newest, rows
        self.asked: list[Any] = []

    @property
    def news_kinds(self) -> Any:
        return self._kinds() if callable(self._kinds) else self._kinds

    def newest(self, conn: Any) -> Any:
        return self._newest() if callable(self._newest) else self._newest

    def news(self, conn: Any, after: int, limit: int) -> Any:
        self.asked.append((conn, after, limit))
        return self._rows() if callable(self._rows) else self._rows


def row(number: int, **changes: Any) -> NewsItem:
    return NewsItem(number, "toy", 7, 1, "broken", 5)._replace(**changes)


def end(_: object = None) -> Any:
    raise SystemExit("enough")


@pytest.mark.parametrize("item", [Toys()])
def test_what_brings_news_is_found(item: object) -> None:
    assert isinstance(item, BringsNews)
    assert read_kinds(item)


def test_what_brings_none_is_not() -> None:
    class Half:
        name = "half"
        news_kinds = ("toy",)

        def newest(self, conn: Any) -> int:
            return 0

    assert not isinstance(Half(), BringsNews)


@pytest.mark.parametrize("kinds", [{"toy", "doll"}, ["toy", "doll"], lambda: iter(("doll", "toy"))])
def test_kinds_may_be_in_any_collection(kinds: Any) -> None:
    assert read_kinds(Toys(kinds)) == {"toy", "doll"}


@pytest.mark.parametrize("kinds", ["toy", 5, None, ("toy", 5), ("",), ("x" * 65,), end])
def test_kinds_that_are_no_words_are_refused(kinds: Any) -> None:
    with pytest.raises(PluginError, match="toys: news_kinds"):
        read_kinds(Toys(kinds))


def test_the_newest_is_an_id_or_nothing() -> None:
    assert find_newest(Toys(newest=0), None) == 0
    assert find_newest(Toys(newest=MAX_ID), None) == MAX_ID


@pytest.mark.parametrize("newest", [None, "5", -1, MAX_ID + 1, True, 5.0, end])
def test_a_newest_that_is_no_id_is_refused(newest: Any) -> None:
    with pytest.raises(PluginError, match=r"news toys: newest\(\)"):
        find_newest(Toys(newest=newest), None)


@pytest.mark.parametrize(
    "rows",
    [
        (),
        [row(9), row(8)],
        [row(MAX_ID, object_id=None, group_id=None, state=None, job_id=None), row(6, kind="", state="x" * 64)],
    ],
)
def test_what_is_brought_is_given(rows: Sequence[NewsItem]) -> None:
    toys, conn = Toys(rows=rows), object()
    assert read_news(toys, conn, 5, 2) == tuple(rows)
    assert toys.asked == [(conn, 5, 2)]


@pytest.mark.parametrize(
    "rows",
    [
        None,
        5,
        end,
        (item for item in [row(9)]),
        [row(9), row(8), row(7)],
        [tuple(row(9))],
        [row(9), None],
        [row(5)],
        [row(8), row(9)],
        [row(9), row(9)],
        [row(MAX_ID + 1)],
        [row(True, id=True)],
        [row(9, id="9")],
        [row(9, kind=None)],
        [row(9, kind="x" * 65)],
        [row(9, state=5)],
        [row(9, state="x" * 65)],
        [row(9, object_id="7")],
        [row(9, object_id=0)],
        [row(9, group_id=True)],
        [row(9, job_id=MAX_ID + 1)],
    ],
)
def test_what_is_no_news_is_refused(rows: Any) -> None:
    with pytest.raises(PluginError, match=r"news toys: news\(\)"):
        read_news(Toys(rows=rows), None, 5, 2)
