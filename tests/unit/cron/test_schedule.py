"""Cron expressions: errors, limits, daylight saving, words. The vectors and the oracle test the times."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import TZPATH, ZoneInfo, available_timezones

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz_cron import compare
from tests.support.paths import DATA
from xwheel.cron import parse, zone
from xwheel.errors import ScheduleError

FIELDS = {"second", "minute", "hour", "day_of_month", "month", "day_of_week", "year", "expression"}
GOLDEN = sorted((DATA / "cron-daylight-saving").glob("*.txt"))


def ms(text: str, timezone: str = "UTC") -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(timezone)).timestamp() * 1000)


def fires(schedule, after_ms: int, until_ms: int) -> list[int]:
    found = []
    while (after_ms := schedule.next_ms(after_ms)) is not None and after_ms <= until_ms:
        found.append(after_ms)
    return found


@pytest.mark.parametrize(
    ("expression", "field"),
    [
        ("60 * * * * ?", "second"),
        ("0 5-61 * * * ?", "minute"),
        ("0 0 24 * * ?", "hour"),
        ("0 0 0 32 * ?", "day_of_month"),
        ("0 0 0 L-31 * ?", "day_of_month"),
        ("0 0 0 , * ?", "day_of_month"),
        ("0 0 0 1 13 ?", "month"),
        ("0 0 0 1 JAN-XXX ?", "month"),
        ("0 0 0 ? * 8", "day_of_week"),
        ("0 0 0 ? * 8#1", "day_of_week"),
        ("0 0 0 ? * MON#6", "day_of_week"),
        ("0 0 0 * * 2", "day_of_week"),
        ("0 0 0 ? * ?", "day_of_week"),
        ("0 0 0 1 1 ? 2030-2027", "year"),
        ("0 0 0 1 1", "expression"),
        ("0 0 0 1 1 ? 2030 1", "expression"),
        ("", "expression"),
        ("0 0 0 * * ?\0", "expression"),
        ("0 0 0\n* * ?", "expression"),
        ("0 0 0 ı * ?", "expression"),
        ("*" * 10_000, "expression"),
        ("0 0 0 1" + ",1" * 5_000 + " * ?", "expression"),
    ],
)
def test_quartz_errors_name_the_field(expression, field):
    with pytest.raises(ScheduleError) as refused:
        parse(expression)
    assert refused.value.field == field
    assert len(str(refused.value)) < 300


@pytest.mark.parametrize(
    ("expression", "field"),
    [
        ("60 * * * *", "minute"),
        ("* 24 * * *", "hour"),
        ("* * 32 * *", "day_of_month"),
        ("* * * FOO *", "month"),
        ("* * * * 8", "day_of_week"),
        ("R * * * *", "minute"),
        ("H(0-9) * * * *", "minute"),
        ("@reboot", "expression"),
        ("0 * * * * *", "expression"),
        ("", "expression"),
        ("* * * *\0*", "expression"),
        ("1," * 5_000 + "1 * * * *", "expression"),
    ],
)
def test_unix_errors_name_the_field(expression, field):
    with pytest.raises(ScheduleError) as refused:
        parse(expression, "unix")
    assert refused.value.field == field


@pytest.mark.parametrize(
    "name",
    [
        *("", "Mars/Olympus", "../../etc/passwd", "/etc/localtime", "Europe", "UTC\0", "a" * 10_000, "日本", "."),
        *("localtime", "Factory", "posixrules", "right/Europe/Berlin", "right/UTC", "posix/Asia/Shanghai"),
        *("leapseconds", "tzdata.zi", "zone.tab", "posix", "right", "Etc/../Factory", "./UTC", "Etc//UTC", "UTC/"),
    ],
)
def test_unknown_zones(name):
    for make in (zone, lambda timezone: parse("0 0 0 * * ?", timezone=timezone)):
        with pytest.raises(ScheduleError) as refused:
            make(name)
        assert refused.value.field == "timezone"


def test_u28_a_zone_is_one_of_ianas_and_the_same_on_each_machine() -> None:
    """U28: all that lies in a machine's folder of zones passed, such as its own zone."""
    folders = [Path(place) for place in TZPATH if Path(place).is_dir()]
    names = {str(path.relative_to(place)) for place in folders for path in place.rglob("*") if path.is_file()}
    known = available_timezones() - {"Factory", "localtime"}
    assert len(known) > 400
    for name in known:
        assert zone(name).key == name
    for name in names - known:
        with pytest.raises(ScheduleError):
            zone(name)


def test_unknown_dialect_and_language():
    with pytest.raises(ScheduleError, match="dialect: is one of quartz, unix"):
        parse("0 0 0 * * ?", "spring")
    with pytest.raises(ScheduleError, match="language: is one of en, zh"):
        parse("0 0 0 * * ?").describe("fr")


@pytest.mark.parametrize("dialect", ["quartz", "unix"])
@given(text=st.one_of(st.text(max_size=40), st.text("0123456789*/,-?LW#CFRIMONTUESJABP \t", max_size=40)))
def test_any_text_parses_or_is_refused(dialect, text):
    try:
        schedule = parse(text, dialect)
    except ScheduleError as error:
        refused = error
    else:
        check_first_fire(schedule)
        return
    assert refused.field in FIELDS
    assert len(str(refused)) < 400


TIMES = st.sampled_from(["*", "0", "7", "*/7", "5-20/3", "22-23,1", "1,2,3"])
MONTH_DAYS = st.sampled_from(["*", "1", "31", "10-20", "*/9", "L", "1,15"])
MONTHS = st.sampled_from(["*", "2", "FEB", "*/5", "JAN-MAR", "4,6,9,11"])
WEEKDAYS = st.sampled_from(["MON", "MON-FRI", "2,4", "SUN,WED"])
QUARTZ_DAYS = st.one_of(
    st.tuples(st.one_of(MONTH_DAYS, st.sampled_from(["15W", "LW", "L-3"])), MONTHS, st.just("?")),
    st.tuples(st.just("?"), MONTHS, st.one_of(WEEKDAYS, st.sampled_from(["*", "6L", "TUE#2", "6#5"]))),
)
GOOD = {
    "quartz": st.tuples(TIMES, TIMES, TIMES, QUARTZ_DAYS).map(lambda found: (*found[:3], *found[3])),
    "unix": st.tuples(TIMES, TIMES, MONTH_DAYS, MONTHS, st.one_of(WEEKDAYS, st.just("*"))),
}


@pytest.mark.parametrize("dialect", GOOD)
@given(data=st.data())
def test_good_fields_make_a_schedule_whatever_their_mixture(dialect, data):
    check_first_fire(parse(" ".join(data.draw(GOOD[dialect])), dialect))


def check_first_fire(schedule):
    """Check what must hold whatever the schedule says: there is nothing between an instant and its next fire."""
    now_ms = 1_700_000_000_000
    found = schedule.next_ms(now_ms)
    if found is None:
        assert may_be_over(schedule), schedule
    else:
        assert found > now_ms
        # with W, Quartz takes the time of day from where the search begins
        between = () if has_nearest_weekday(schedule) else ((now_ms + found) // 2, found - 1)
        assert {schedule.next_ms(at) for at in between} <= {found}
    assert schedule.describe()


def has_nearest_weekday(schedule):
    return schedule.dialect == "quartz" and "W" in schedule.expression.upper().split()[3]


def may_be_over(schedule):
    """Return whether it names years or months: 30 February never comes, and what January has always does."""
    texts = schedule.expression.split()
    month = texts[4 if schedule.dialect == "quartz" else 3]
    return len(texts) == 7 or not month.startswith("*")


@given(name=st.text(max_size=30))
def test_any_zone_name_is_found_or_refused(name):
    try:
        found = zone(name)
    except ScheduleError as error:
        refused = error
    else:
        assert found.key == name
        return
    assert refused.field == "timezone"
    assert name not in available_timezones()


@pytest.mark.parametrize(
    "expression",
    [
        "0 0 0 30 2 ?",
        "0 0 0 31 4,6,9,11 ?",
        "0 0 0 ? 2 2#5 2027",
        "0 0 0 31W 2 ?",
        "0 0 0 L-30 2 ?",
        "0 0 0 1 1 ? 1999",
    ],
)
def test_what_never_comes_ends(expression):
    schedule = parse(expression, timezone="America/New_York")
    assert schedule.next_ms(ms("2026-01-01")) is None


def test_unix_that_never_comes_ends():
    assert parse("0 0 31 2 *", "unix").next_ms(ms("2026-01-01")) is None


def test_the_search_is_bounded():
    """A hundred years of misses stay far from a loop; counted in tables, not in seconds."""
    from xwheel.cron.quartz_search import year_table

    year_table.cache_clear()
    assert parse("1 2 3 29 2 ?").next_ms(ms("2096-03-01")) == ms("2104-02-29T03:02:01")
    assert parse("0 0 0 30 2 ?").next_ms(ms("2026-01-01")) is None
    assert year_table.cache_info().misses <= 28


def test_horizon_is_a_hundred_years():
    schedule = parse("0 0 0 1 1 ? 2127,2999")
    assert schedule.next_ms(ms("2026-12-31")) is None
    assert schedule.next_ms(ms("2027-01-01")) == ms("2127-01-01")
    assert schedule.next_ms(ms("2998-01-01")) == ms("2999-01-01")
    assert schedule.next_ms(ms("2999-01-01")) is None


@pytest.mark.parametrize(
    ("after_ms", "expected"), [(-(1 << 62), 0), (-1, 0), (0, 365 * 86_400_000), (1 << 45, None), (1 << 62, None)]
)
@pytest.mark.parametrize("dialect", ["quartz", "unix"])
def test_far_instants(dialect, after_ms, expected):
    schedule = parse("0 0 0 1 1 ?" if dialect == "quartz" else "0 0 1 1 *", dialect)
    assert schedule.next_ms(after_ms) == expected


def test_milliseconds_are_dropped():
    schedule = parse("0/5 * * * * ?")
    assert schedule.next_ms(1_000_000_004_999) == 1_000_000_005_000
    assert schedule.next_ms(1_000_000_005_000) == 1_000_000_010_000
    assert parse("* * * * * ?").next_ms(1_999) == 2_000


def test_a_schedule_answers_in_any_order():
    """What a schedule remembers between calls changes no answer."""
    schedule = parse("0 0/7 3-20 ? * MON-FRI", timezone="America/New_York")
    instants = [ms("2026-03-06T12:00") + hour * 3_600_000 for hour in range(0, 24 * 300, 11)]
    fresh = [parse("0 0/7 3-20 ? * MON-FRI", timezone="America/New_York").next_ms(at) for at in instants]
    assert [schedule.next_ms(at) for at in reversed(instants)][::-1] == fresh
    assert [schedule.next_ms(at) for at in instants] == fresh
    assert fresh == sorted(fresh)


@pytest.mark.parametrize("pairs", [1_500, pytest.param(200_000, marks=pytest.mark.nightly)])
def test_engine_against_the_oracle(pairs):
    assert compare(pairs, seed=20_261_121) == []


@pytest.mark.parametrize("path", GOLDEN, ids=[path.stem for path in GOLDEN])
def test_daylight_saving_days(path):
    """Each file lists, for one zone, what fires on the days on which its clocks change."""
    lines = [line for line in path.read_text().splitlines() if line and not line.startswith("#")]
    timezone = lines.pop(0).removeprefix("zone ")
    blocks: list[tuple[str, list[str]]] = []
    for line in lines:
        if line.startswith("    "):
            blocks[-1][1].append(line.strip())
        else:
            blocks.append((line, []))
    assert len(blocks) > 3
    for title, expected in blocks:
        dialect, rest = title.split(": ", 1)
        expression, window = rest.rsplit(" from ", 1)
        start, end = window.split(" to ")
        schedule = parse(expression, dialect, timezone)
        found = fires(schedule, ms(start, timezone) - 1, ms(end, timezone))
        assert [datetime.fromtimestamp(at / 1000, ZoneInfo(timezone)).isoformat(" ") for at in found] == expected


def test_five_zones_are_listed():
    assert len(GOLDEN) == 5


def test_the_unix_dialect():
    schedule = parse("*/15 9-17 * * mon-fri", "unix", "Europe/London")
    assert (schedule.dialect, schedule.timezone) == ("unix", "Europe/London")
    assert schedule.next_ms(ms("2026-07-03T17:45", "Europe/London")) == ms("2026-07-06T09:00", "Europe/London")
    assert parse("@daily", "unix").next_ms(ms("2026-07-03T17:45")) == ms("2026-07-04")
    assert parse("0 0 1 * 1", "unix").next_ms(ms("2026-07-02")) == ms("2026-07-06")


def test_the_unix_dialect_knows_sunday_as_zero_and_quartz_as_one():
    after = ms("2026-07-01")
    sunday, monday = ms("2026-07-05"), ms("2026-07-06")
    assert parse("0 0 * * 0", "unix").next_ms(after) == parse("0 0 0 ? * 1").next_ms(after) == sunday
    assert parse("0 0 * * 1", "unix").next_ms(after) == parse("0 0 0 ? * 2").next_ms(after) == monday


@pytest.mark.parametrize(
    ("expression", "english", "chinese"),
    [
        ("0/5 * * * * ?", "Every 5 seconds", "每 5 秒"),
        ("0 0 12 ? * MON-FRI", "At 12:00, Monday through Friday", "在 12:00, 星期一 到 星期五"),
        ("0 0 9 ? * 6#3", "At 09:00, on the third Friday of the month", "在 09:00, 在 第三个星期五 每月"),
        ("0 0 9 ? * 1", "At 09:00, only on Sunday", "在 09:00, 仅在 星期日"),
        ("0 0 9 ? * L", "At 09:00, only on Saturday", "在 09:00, 仅在 星期六"),
        ("0 0 0 L * ?", "At 00:00, on the last day of the month", "在 00:00, 在每月的最后一天"),
        (
            "0 0 0 L-3W * ?",
            "At 00:00, on the weekday nearest the day 3 days before the last day of the month",
            "在 00:00, 在每月的最接近倒数第 4 天的平日",
        ),
        (
            "0 0 0 1,15W,LW * ?",
            "At 00:00, on day 1 and the weekday nearest day 15 and the last weekday of the month",
            "在 00:00, 在每月的1 号、最接近 15 号的平日、最后一个平日",
        ),
        ("0 0 0 1 L ?", "Never", "从不"),
    ],
)
def test_words(expression, english, chinese):
    schedule = parse(expression)
    assert schedule.describe() == english
    assert schedule.describe("zh") == chinese


def test_unix_words():
    assert parse("0 9 * * 1-5", "unix").describe() == "At 09:00, Monday through Friday"
    assert parse("@weekly", "unix").describe("zh") == "在 00:00, 仅在 星期日"


def test_nothing_depends_on_the_wall_clock(monkeypatch):
    def forbidden(*_: object) -> float:
        raise AssertionError("the wall clock was read")

    monkeypatch.setattr(time, "time", forbidden)
    assert parse("0 0 0 1 1 ?").next_ms(0) == int(datetime(1971, 1, 1, tzinfo=UTC).timestamp() * 1000)


@pytest.mark.parametrize("second", [0, 30])
def test_r32_between_two_showings_the_second_one_is_still_to_come(second):
    """Berlin shows 02:00 to 03:00 twice on 25 October 2026; asked in the first, the fire in the second is found."""
    schedule = parse("0 0 2 ? * SUN", timezone="Europe/Berlin")
    second_showing = int(datetime(2026, 10, 25, 1, 0, tzinfo=UTC).timestamp() * 1000)
    for minute in range(60):
        after = int(datetime(2026, 10, 25, 0, minute, second, tzinfo=UTC).timestamp() * 1000)
        assert schedule.next_ms(after) == second_showing
    assert schedule.next_ms(second_showing) == ms("2026-11-01T02:00", "Europe/Berlin")
