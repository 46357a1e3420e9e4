"""What bulk statements send to servers, as text; that servers read it so is tested on them."""

from __future__ import annotations

from xwheel.storage.database import bulk


def test_an_array_for_postgresql_quotes_texts_and_tells_nothing_from_an_empty_text() -> None:
    assert bulk.array_text(['a"b', "c\\d", '\\"', "", None]) == r'{"a\"b","c\\d","\\\"","",NULL}'
    assert bulk.array_text([1, True, -2]) == "{1,True,-2}"
    assert bulk.array_text([1, None]) == "{1,NULL}"


def test_parts_for_mariadb_hold_every_row_once_with_its_own_texts() -> None:
    rows = [(number, f"t{number}") for number in range(bulk.MOST_ROWS + 1)] + [(-1, "")]
    first, second = bulk._mariadb_parts(rows)
    assert first[1] == [f"t{number}" for number in range(bulk.MOST_ROWS)]
    assert first[0].count("%s") == bulk.MOST_ROWS
    assert second == (f"({bulk.MOST_ROWS},%s),(-1,'')", [f"t{bulk.MOST_ROWS}"])


def test_the_last_rows_for_mariadb_need_no_text() -> None:
    assert list(bulk._mariadb_parts([(1, None, True), (2, "", False)])) == [("(1,NULL,1),(2,'',0)", [])]
