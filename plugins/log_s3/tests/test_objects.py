"""Which objects a log becomes, how few requests that takes, and what a crash in between leaves."""

from __future__ import annotations

import gzip
import random
import threading
from collections.abc import Callable

import pytest
from conftest import Make, Server, read_log
from hypothesis import given
from hypothesis import strategies as st
from meddling import Meddling, error
from xwheel_devtools.testing import sample_log_chunk, sample_log_key
from xwheel_run_logs import LogEnd, LogKey

from xwheel_log_s3.memory import Known, Memory
from xwheel_log_s3.parts import PART, TAIL, Part, cover, folder_of, groups, join, needed, parse_name
from xwheel_log_s3.store import S3Logs

KEY = LogKey(42, 1_795_000_000_123)


def lines_of(count: int, length: int = 90) -> list[str]:
    chance = random.Random(count)
    return [f"{number} {chance.randbytes(length // 2).hex()}" for number in range(1, count + 1)]


def grow(store: S3Logs, key: LogKey, lines: list[str], *, end: bool) -> None:
    """Append a line a call, as a run that goes on for long."""
    for number, line in enumerate(lines, 1):
        last = end and number == len(lines)
        assert store.append([sample_log_chunk(key, number, [line], is_last=last)]) == [number + 1]


def text_of(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def test_a_short_log_is_one_object_and_one_request(server: Server, bucket: str, make: Make, meddling: Meddling) -> None:
    store = make(bucket, endpoint_url=meddling.url, prefix="team/logs")
    assert store.append([sample_log_chunk(KEY, 1, ["begun", "done"], is_last=True)]) == [3]
    assert [request.method for request in meddling.seen] == ["PUT"]
    name = "team/logs/2026-11-18/42-1795000000123/000000000001-2-11-end.gz"
    assert server.names(bucket) == [name]
    body = server.client.get_object(Bucket=bucket, Key=name)["Body"].read()
    assert gzip.decompress(body) == b"begun\ndone\n"


def test_a_line_each_second_costs_one_request_each_and_leaves_one_object(
    server: Server, bucket: str, make: Make, meddling: Meddling
) -> None:
    store, lines = make(bucket, endpoint_url=meddling.url), lines_of(150)
    grow(store, KEY, lines, end=False)
    assert len(server.names(bucket)) == 1
    assert meddling.count("PUT") == 150
    assert meddling.count("GET") == 1  # once, to find out that no other node has more
    assert read_log(store, KEY) == text_of(lines)
    assert store.append([sample_log_chunk(KEY, 151, [], is_last=True)]) == [151]
    assert len(server.names(bucket)) == 1
    assert store.find(KEY) == LogEnd(151, True)
    assert read_log(store, KEY) == text_of(lines)


def test_a_long_log_grows_in_objects_of_some_size_and_ends_in_few(server: Server, bucket: str, make: Make) -> None:
    store, lines = make(bucket), lines_of(60, 8000)
    grow(store, KEY, lines, end=False)
    growing = server.names(bucket)
    assert len(growing) <= len(text_of(lines)) // TAIL + 1
    assert read_log(store, KEY) == text_of(lines)
    assert store.append([sample_log_chunk(KEY, 61, ["the end"], is_last=True)]) == [62]
    assert len(server.names(bucket)) <= len(text_of(lines)) // PART + 1 < len(growing)
    assert read_log(store, KEY) == text_of([*lines, "the end"])
    assert store.find(KEY) == LogEnd(62, True)


def test_much_text_in_one_call_is_cut(server: Server, bucket: str, make: Make) -> None:
    store, lines = make(bucket), lines_of(4000, 1000)
    assert store.append([sample_log_chunk(KEY, 1, lines, is_last=True)]) == [4001]
    names = server.names(bucket)
    assert len(names) == -(-len(text_of(lines)) // (PART + 1010))
    assert [name.endswith("-end.gz") for name in names] == [False] * (len(names) - 1) + [True]
    assert read_log(store, KEY, 1, 1_000_000) == text_of(lines)


def test_a_repetitive_megabyte_takes_less_than_a_tenth(server: Server, bucket: str, make: Make) -> None:
    lines = [f"row {number} of 40000 was written" for number in range(40_000)]
    make(bucket).append([sample_log_chunk(KEY, 1, lines, is_last=True)])
    found = server.client.list_objects_v2(Bucket=bucket)["Contents"]
    assert len(text_of(lines)) > 1_000_000
    assert sum(item["Size"] for item in found) < len(text_of(lines)) / 10


def test_five_hundred_logs_are_written_some_at_a_time(bucket: str, make: Make, meddling: Meddling) -> None:
    store = make(bucket, endpoint_url=meddling.url, parallel=8)
    keys = [sample_log_key(number) for number in range(1, 501)]
    assert store.append([sample_log_chunk(key, 1, ["first"]) for key in keys]) == [2] * 500
    assert meddling.count("PUT") == len(meddling.seen) == 500
    assert 1 < meddling.most <= 8
    meddling.seen.clear()
    store.delete(keys)
    assert (meddling.count("GET"), meddling.count("POST"), meddling.count("DELETE")) == (500, 1, 0)
    assert store.find(keys[7]) is None


def test_a_page_gets_the_objects_that_it_needs(bucket: str, make: Make, meddling: Meddling) -> None:
    store, lines = make(bucket, endpoint_url=meddling.url), lines_of(1000, 4000)
    store.append([sample_log_chunk(KEY, 1, lines, is_last=True)])
    meddling.seen.clear()
    assert store.read(KEY, 700, 65_536).startswith("700 ")
    assert meddling.count("GET", ".gz") <= 2
    assert meddling.count("GET") - meddling.count("GET", ".gz") == 1


# -- crashes and races


def test_a_crash_before_objects_are_deleted_harms_nothing(
    server: Server, bucket: str, make: Make, meddling: Meddling
) -> None:
    """What was put together is there twice: nothing is read twice, and deleting the log takes all."""
    meddling.rule = lambda request: error(403, "AccessDenied") if request.method in {"POST", "DELETE"} else None
    store, lines = make(bucket, endpoint_url=meddling.url), lines_of(60, 4000)
    grow(store, KEY, lines, end=True)
    assert len(server.names(bucket)) > 60
    for reader in (store, make(bucket)):
        assert read_log(reader, KEY) == text_of(lines)
        assert reader.find(KEY) == LogEnd(61, True)
    make(bucket).delete([KEY])
    assert server.names(bucket) == []


def test_a_crash_between_any_two_requests_loses_no_line(server: Server, make: Make, meddling: Meddling) -> None:
    """The service stops answering after each number of requests in turn, while a log ends."""
    lines = lines_of(8, 23_000)
    for allowed in range(9):
        bucket = server.new_bucket()
        store = make(bucket, endpoint_url=meddling.url, attempts=1, parallel=1)
        meddling.rule = lambda request: None
        grow(store, KEY, lines[:-1], end=False)
        left = iter(range(allowed))
        meddling.rule = lambda request, left=left: (  # type: ignore[misc]
            error(500, "InternalError") if next(left, None) is None else None
        )
        try:
            store.append([sample_log_chunk(KEY, 8, lines[-1:], is_last=True)])
            is_kept = True
        except Exception:
            is_kept = False
        other = make(bucket)
        found = other.find(KEY)
        assert found is not None
        assert found.next_line >= (9 if is_kept else 8)
        assert found.is_complete or not is_kept
        assert read_log(other, KEY) == text_of(lines[: found.next_line - 1])
        # the executor sends it again, to another node
        assert other.append([sample_log_chunk(KEY, 8, lines[-1:], is_last=True)]) == [9]
        assert other.find(KEY) == LogEnd(9, True)
        assert read_log(other, KEY) == text_of(lines)


def test_what_is_put_together_while_it_is_read(server: Server, bucket: str, make: Make, meddling: Meddling) -> None:
    writer, lines = make(bucket), lines_of(60, 2000)
    grow(writer, KEY, lines, end=False)
    ended = threading.Event()

    def rule(request: object) -> None:
        # between the list and the first object that it names, the log ends
        if getattr(request, "path", "").endswith(".gz") and not ended.is_set():
            ended.set()
            writer.append([sample_log_chunk(KEY, 61, ["the end"], is_last=True)])

    meddling.rule = rule
    assert read_log(make(bucket, endpoint_url=meddling.url), KEY) == text_of([*lines, "the end"])
    assert ended.is_set()


def test_nodes_that_take_turns_lose_nothing(bucket: str, make: Make) -> None:
    stores, lines = [make(bucket), make(bucket), make(bucket)], lines_of(90)
    line, chance = 1, random.Random(3)
    while line <= len(lines):
        size = chance.randint(1, 9)
        part = lines[line - 1 : line - 1 + size]
        (line,) = chance.choice(stores).append([sample_log_chunk(KEY, line, part)])
    stores[0].append([sample_log_chunk(KEY, 91, [], is_last=True)])
    for store in stores:
        assert read_log(store, KEY) == text_of(lines)
        assert store.find(KEY) == LogEnd(91, True)


def test_nodes_that_write_the_same_log_to_its_end(
    server: Server, bucket: str, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Small objects, so that there is much to write again, to put together and to delete, while another node reads."""
    monkeypatch.setattr("xwheel_log_s3.store.TAIL", 600)
    monkeypatch.setattr("xwheel_log_s3.parts.PART", 2500)
    lines, failures = lines_of(120), list[BaseException]()
    is_over, is_followed = threading.Event(), threading.Event()
    whole = text_of(lines)

    def write(store: S3Logs, size: int) -> None:
        line, last = 1, False
        while not last:
            part = lines[line - 1 : line - 1 + size]
            last = line + len(part) > len(lines)
            (line,) = store.append([sample_log_chunk(KEY, line, part, is_last=last)])
            assert is_followed.wait(60)

    def follow(store: S3Logs) -> None:
        while not is_over.is_set():
            found = store.find(KEY)
            text = read_log(store, KEY)
            assert whole.startswith(text)
            if found is not None or is_followed.is_set():
                assert found is not None, "a log that was there is gone"
                is_followed.set()
                assert text.count("\n") >= found.next_line - 1

    def guarded(work: Callable[..., None], *arguments: object) -> None:
        try:
            work(*arguments)
        except BaseException as failure:
            failures.append(failure)

    writers = [threading.Thread(target=guarded, args=(write, make(bucket), size)) for size in (1, 2, 3, 5, 8, 13)]
    reader = threading.Thread(target=guarded, args=(follow, make(bucket)))
    for thread in (*writers, reader):
        thread.start()
    for thread in writers:
        thread.join()
    is_over.set()
    reader.join()
    assert failures == []
    assert make(bucket).find(KEY) == LogEnd(121, True)
    assert read_log(make(bucket), KEY) == whole
    # one that comes late finds all of it, and tidies up what the others left
    store = make(bucket)
    assert store.append([sample_log_chunk(KEY, 120, lines[-1:], is_last=True)]) == [121]
    assert read_log(store, KEY) == whole
    store.delete([KEY])
    assert server.names(bucket) == []


def test_an_end_without_lines_on_another_node_stays(server: Server, bucket: str, make: Make) -> None:
    lines = lines_of(700, 1000)
    make(bucket).append([sample_log_chunk(KEY, 1, lines)])
    for _ in range(2):
        assert make(bucket).append([sample_log_chunk(KEY, 701, [], is_last=True)]) == [701]
        assert make(bucket).find(KEY) == LogEnd(701, True)
        names = [name.rpartition("/")[2] for name in server.names(bucket)]
        assert (len(names), names[-1]) == (3, "000000000701-0-0-end.gz")
    assert read_log(make(bucket), KEY) == text_of(lines)


def test_a_log_that_another_node_deleted_begins_anew(bucket: str, make: Make) -> None:
    store, other = make(bucket), make(bucket)
    for line in (1, 2, 3):
        store.append([sample_log_chunk(KEY, line, ["x"])])
    other.delete([KEY])
    assert store.append([sample_log_chunk(KEY, 9, ["x"])]) == [1]
    assert store.append([sample_log_chunk(KEY, 1, ["new"])]) == [2]
    assert read_log(other, KEY) == "new\n"


def test_a_node_that_starts_anew_answers_how_far_a_log_is(bucket: str, make: Make) -> None:
    lines = lines_of(30)
    grow(make(bucket), KEY, lines, end=False)
    # one that was kept in just this size is known again
    first = sample_log_chunk(KEY, 1, lines)
    store = make(bucket)
    assert store.append([first]) == [31]
    assert store.append([sample_log_chunk(KEY, 31, ["more"])]) == [32]
    assert read_log(store, KEY) == text_of([*lines, "more"])


def test_other_objects_in_the_folder_are_left_alone(server: Server, bucket: str, make: Make) -> None:
    store = make(bucket)
    folder = folder_of("xwheel-logs", KEY)
    server.client.put_object(Bucket=bucket, Key=f"{folder}notes.txt", Body=b"mine")
    assert store.find(KEY) is None
    store.append([sample_log_chunk(KEY, 1, ["first"])])
    assert read_log(store, KEY) == "first\n"


# -- pure


PARTS = st.lists(
    st.builds(
        lambda first, lines, last: Part(first, lines, lines, last), st.integers(1, 30), st.integers(0, 9), st.booleans()
    ),
    max_size=25,
)


@given(PARTS, st.integers(1, 40), st.integers(1, 20))
def test_parts_that_overlap_are_read_once(parts: list[Part], from_line: int, max_bytes: int) -> None:
    chosen, end = cover(parts)
    there = {line for part in parts for line in range(part.first_line, part.next_line)}
    missing = next(line for line in range(1, 50) if line not in there)
    assert end.next_line == missing
    assert end.is_complete == any(part.is_last and part.next_line == missing for part in parts)
    assert len(chosen) <= len(parts)
    texts = {
        part: b"".join(b"%c\n" % (60 + line) for line in range(part.first_line, part.next_line)) for part in chosen
    }
    whole = join(chosen, [texts[part] for part in chosen], 1)
    assert whole == b"".join(b"%c\n" % (60 + line) for line in range(1, missing))
    wanted = needed(chosen, from_line, max_bytes)
    some = join(wanted, [texts[part] for part in wanted], from_line)
    assert whole[2 * (from_line - 1) :].startswith(some)
    assert len(some) >= min(2, len(whole[2 * (from_line - 1) :]))


@given(PARTS)
def test_names_tell_all(parts: list[Part]) -> None:
    assert [parse_name(part.name) for part in parts] == parts


@pytest.mark.parametrize("name", ["", "1-2-3.gz", "000000000001-2-3", "000000000001-2-3-end.gz.part", "a/b.gz"])
def test_names_of_others(name: str) -> None:
    assert parse_name(name) is None


def test_groups_are_bounded() -> None:
    parts = [Part(number, 1, PART // 4, False) for number in range(1, 11)]
    found = list(groups(parts))
    assert [len(group) for group in found] == [4, 4, 2]
    assert list(groups(parts[:1])) == []
    assert list(groups([Part(1, 1, PART, False), Part(2, 1, PART, False)])) == []


def test_memory_is_bounded() -> None:
    memory = Memory(max_logs=3, max_bytes=100)
    keys = [LogKey(number, 1) for number in range(6)]
    for key in keys:
        memory.note(key, Known(next_line=2, tail=b"x" * 30))
    assert [memory.get(key) is not None for key in keys] == [False] * 3 + [True] * 3
    memory.note(keys[5], Known(next_line=3, tail=b"x" * 90))
    assert [memory.get(key) is not None for key in keys[3:]] == [False, False, True]
    memory.note(keys[5], Known(next_line=2))
    found = memory.get(keys[5])
    assert found is not None
    assert found.next_line == 3
    memory.forget(keys)
    memory.note(keys[0], Known(tail=b"x" * 100))
    assert memory.get(keys[0]) is not None
