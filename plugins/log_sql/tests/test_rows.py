"""How logs lie in rows: few rows, little space, and reading only what is wanted."""

from __future__ import annotations

import random
import string
from typing import Any

from conftest import Make, read_log
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import create_engine, event, text
from xwheel_devtools.testing import sample_log_chunk, sample_log_key
from xwheel_run_logs import LogChunk, LogKey

from xwheel_log_sql.pieces import LEAST_PIECE, PIECE, Log, extend
from xwheel_log_sql.store import SqlLogs


def ask(url: str, query: str) -> list[Any]:
    engine = create_engine(url)
    with engine.connect() as conn:
        rows = [tuple(row) for row in conn.execute(text(query))]
    engine.dispose()
    return rows


def fill(store: SqlLogs, key: LogKey, lines: list[str], size: int) -> None:
    """Append lines in chunks of a size, many chunks a call."""
    chunks = [sample_log_chunk(key, number + 1, lines[number : number + size]) for number in range(0, len(lines), size)]
    for number in range(0, len(chunks), 500):
        store.append(chunks[number : number + 500])


def test_a_line_each_second_makes_few_rows(url: str, make: Make) -> None:
    store, key = make(url), sample_log_key()
    lines = [
        f"2026-11-23 04:00:{number:04} INFO step {number} of the nightly report, {number * 7919 % 1000} rows"
        for number in range(1200)
    ]
    for number, line in enumerate(lines):
        assert store.append([sample_log_chunk(key, number + 1, [line])]) == [number + 2]
    ((rows, size),) = ask(url, "SELECT count(*), sum(length(body)) FROM xwheel_log_piece")
    whole = "".join(f"{line}\n" for line in lines)
    assert rows <= len(whole) // LEAST_PIECE
    assert size < len(whole) / 4
    assert read_log(store, key) == whole


def test_a_repetitive_megabyte_takes_less_than_a_tenth(url: str, make: Make) -> None:
    store, key = make(url), sample_log_key()
    lines = [f"row {number} of 40000 was written" for number in range(40_000)]
    fill(store, key, lines, 1000)
    ((size,),) = ask(url, "SELECT sum(length(body)) FROM xwheel_log_piece")
    whole = "".join(f"{line}\n" for line in lines)
    assert len(whole) > 1_000_000
    assert size < len(whole) / 10


def test_what_cannot_be_compressed_comes_back(url: str, make: Make) -> None:
    """Four megabytes in one call, more than a statement of some servers may hold."""
    store, key = make(url), sample_log_key()
    chance = random.Random(7)
    lines = ["".join(chance.choices(string.printable[:94], k=8191)) for _ in range(500)]
    (answer,) = store.append([sample_log_chunk(key, 1, lines, is_last=True)])
    assert answer == 501
    assert read_log(store, key, 1, 1_000_000).splitlines() == lines


def test_a_short_log_is_one_row(url: str, make: Make) -> None:
    store, key = make(url), sample_log_key()
    store.append([sample_log_chunk(key, 1, ["begun"]), sample_log_chunk(key, 2, ["done"], is_last=True)])
    assert ask(url, "SELECT count(*) FROM xwheel_log") == [(1,)]
    assert ask(url, "SELECT count(*) FROM xwheel_log_piece") == [(0,)]


def test_deleting_leaves_no_row(url: str, make: Make) -> None:
    store = make(url)
    keys = [sample_log_key(number) for number in range(1, 4)]
    for key in keys:
        fill(store, key, ["x" * 1000] * 200, 50)
    store.delete(keys[:2])
    for name in ("xwheel_log", "xwheel_log_piece"):
        assert ask(url, f"SELECT DISTINCT run_id FROM {name}") == [(3,)]


def test_a_page_reads_a_few_pieces_of_many(url: str, make: Make) -> None:
    store, key = make(url), sample_log_key()
    lines = [f"{number:06} {'x' * 93}" for number in range(1, 50_001)]  # 5 MB
    fill(store, key, lines, 500)
    fetched: list[int] = []
    engine = store._connections._get_engine()
    statements: list[str] = []
    event.listen(engine, "before_cursor_execute", lambda *given: statements.append(given[2]))
    import xwheel_log_sql.store as module

    unpack = module.unpack

    def counting(data: bytes) -> bytes:
        found = unpack(data)
        fetched.append(len(found))
        return found

    module.unpack = counting
    try:
        for line in (1, 25_000, 49_500):
            fetched.clear()
            statements.clear()
            text_ = store.read(key, line, 64 * 1024)
            assert text_.startswith(f"{line:06} ")
            assert 60_000 < len(text_) <= 64 * 1024 or line == 49_500
            assert sum(fetched) <= 64 * 1024 + 2 * (PIECE + 101)
            assert sum("SELECT" in statement for statement in statements) <= 3
    finally:
        module.unpack = unpack


def test_an_end_that_becomes_a_piece_while_it_is_read(url: str, make: Make) -> None:
    reader, writer, key = make(url), make(url), sample_log_key()
    lines = [f"{number:04} {'x' * 94}" for number in range(1, 901)]
    fill(writer, key, lines[:300], 300)
    fill_up = [sample_log_chunk(key, 301, lines[300:450]), sample_log_chunk(key, 451, lines[450:])]
    writer.append([sample_log_chunk(key, 301, lines[300:310])])
    asked: list[str] = []

    def listen(*given: Any) -> None:
        if "xwheel_log_piece" in given[2] and not asked:
            asked.append(given[2])
            writer.append(fill_up)

    reader.find(key)
    event.listen(reader._connections._get_engine(), "before_cursor_execute", listen)
    found = reader.read(key, 1, 1_000_000).splitlines()
    assert asked
    assert len(found) >= 310
    assert found == lines[: len(found)]


def test_a_call_is_few_statements_whatever_the_number_of_chunks(url: str, make: Make) -> None:
    store = make(url)
    keys = [sample_log_key(number) for number in range(1, 501)]
    store.append([sample_log_chunk(keys[0], 1, ["first"])])
    statements: list[str] = []
    event.listen(store._connections._get_engine(), "before_cursor_execute", lambda *given: statements.append(given[2]))
    assert store.append([sample_log_chunk(key, 1, ["first"]) for key in keys]) == [2] * 500
    assert store.append([sample_log_chunk(key, 2, ["x" * 99] * 200) for key in keys]) == [202] * 500
    words = [statement.split()[0] for statement in statements if not statement.startswith("BEGIN")]
    assert words == ["SELECT", "INSERT", "SELECT", "INSERT", "INSERT"]
    statements.clear()
    store.delete(keys)
    assert [statement.split()[0] for statement in statements if not statement.startswith("BEGIN")] == [
        "DELETE",
        "DELETE",
    ]


def test_all_statements_look_up_rows_by_their_key(url: str, make: Make) -> None:
    store = make(url)
    keys = [sample_log_key(number) for number in range(1, 4001)]
    for start in range(0, len(keys), 500):
        store.append([sample_log_chunk(key, 1, ["x" * 99] * 200) for key in keys[start : start + 500]])
    engine = store._connections._get_engine()
    asked: list[tuple[str, Any]] = []
    event.listen(engine, "before_cursor_execute", lambda *given: asked.append((given[2], given[3])))
    store.append([sample_log_chunk(key, 201, ["second"]) for key in keys[::20]])
    store.read(keys[77], 100, 1000)
    store.find(keys[78])
    store.delete(keys[::40])
    statements = [found for found in asked if found[0].startswith(("SELECT", "DELETE"))]
    assert len(statements) == 7
    with engine.connect() as conn:
        if engine.dialect.name == "postgresql":
            conn.exec_driver_sql("ANALYZE")
        word = "EXPLAIN QUERY PLAN" if engine.dialect.name == "sqlite" else "EXPLAIN"
        for statement, values in statements:
            plan = conn.exec_driver_sql(f"{word} {statement}", values).all()
            match engine.dialect.name:
                case "sqlite":
                    assert "SCAN xwheel" not in str(plan), plan
                case "mysql":
                    assert all(int(row.rows or 0) <= 1000 for row in plan), (statement[:200], plan)
                case _:
                    assert "Seq Scan" not in str(plan), plan


SIZES = st.lists(st.integers(0, 40_000), max_size=30)


@given(SIZES, st.lists(st.integers(1, 12), min_size=1, max_size=30))
def test_any_chunks_of_any_sizes_make_up_the_log(lengths: list[int], cuts: list[int]) -> None:
    """Whatever is appended lies in the pieces and the tail, once and in order."""
    lines = ["x" * length for length in lengths]
    log, pieces, place = Log(), [], 0
    key = LogKey(1, 1)
    while place < len(lines):
        chunks: list[LogChunk] = []
        for cut in cuts:
            if place < len(lines):
                chunks.append(sample_log_chunk(key, place + 1, lines[place : place + cut]))
                place += len(lines[place : place + cut])
        log, new, answers = extend(log, chunks)
        pieces += new
        assert answers == [chunk.next_line for chunk in chunks]
        assert len(log.tail) < LEAST_PIECE
    assert all(len(piece.text) >= LEAST_PIECE for piece in pieces)
    assert b"".join([*(piece.text for piece in pieces), log.tail]).decode() == "".join(f"{line}\n" for line in lines)
    line = 1
    for piece in pieces:
        assert piece.first_line == line
        line += piece.text.count(b"\n")
    assert (log.tail_line, log.next_line) == (line, len(lines) + 1)
