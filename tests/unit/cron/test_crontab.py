"""The Unix dialect against a plain oracle, Debian's way of reading it, and its own words."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from functools import cache
from itertools import islice
from zoneinfo import ZoneInfo, available_timezones

import pytest
from cronsim import CronSim, CronSimError
from hypothesis import example, given
from hypothesis import strategies as st

from tests.fuzz_cron import changes
from tests.unit.cron.crontab import MINUTE_S, MONTHS, WEEKDAYS, Crontab
from xwheel.cron import CronSchedule, parse
from xwheel.cron.days import year_table

BEGIN_S, END_S = (int(datetime(year, 1, 1, tzinfo=UTC).timestamp()) for year in (1990, 2060))
AROUND_S = 5 * 3600
DAY_S = 86_400
ZONES = sorted(available_timezones() - {"Factory", "localtime"})


def items(low: int, high: int, names: Sequence[str] = ()) -> st.SearchStrategy[str]:
    """Return items of a field: values, ranges of one value and of many, steps on each, names."""
    numbers = st.integers(low, high)
    values = st.one_of(numbers.map(str), st.sampled_from(names)) if names else numbers.map(str)
    ranges = st.tuples(numbers, numbers).map(lambda ends: "{}-{}".format(*sorted(ends)))
    alone = numbers.map(lambda number: f"{number}-{number}")
    steps = st.integers(1, high + 20).map("/{}".format)
    return st.one_of(
        st.just("*"), values, ranges, alone, st.tuples(st.one_of(st.just("*"), ranges, alone), steps).map("".join)
    )


def fields(low: int, high: int, names: Sequence[str] = ()) -> st.SearchStrategy[str]:
    return st.lists(items(low, high, names), min_size=1, max_size=3).map(",".join)


EXPRESSIONS = st.tuples(
    fields(0, 59), fields(0, 23), fields(1, 31), fields(1, 12, MONTHS[1:]), fields(0, 7, WEEKDAYS)
).map(" ".join)


def fires_of(schedule: CronSchedule, after_s: int) -> Iterator[int]:
    after_ms = after_s * 1000
    while (found := schedule.next_ms(after_ms)) is not None:
        yield (after_ms := found) // 1000


def first_fires(expression: str, count: int, after_s: int = BEGIN_S) -> list[int]:
    """Return the first fires of an expression, in UTC."""
    return list(islice(fires_of(parse(expression, "unix"), after_s), count))


@cache
def changes_of(zone: str) -> list[int]:
    return changes(ZoneInfo(zone), BEGIN_S, END_S) or [(BEGIN_S + END_S) // 2]


def check_around(expression: str, zone: str, change_s: int) -> None:
    """Compare with the oracle what fires around a change of the clocks, asked at any time before."""
    begin_s, end_s = change_s - AROUND_S, change_s + AROUND_S
    check_fires(parse(expression, "unix", zone), list(Crontab(expression, zone).fires(begin_s, end_s)), begin_s, end_s)


def check_quartz_around(minute: str, hour: str, zone: str, change_s: int) -> None:
    """Compare what fires each day in the Quartz dialect, too."""
    begin_s, end_s = change_s - AROUND_S, change_s + AROUND_S
    expected = list(Crontab(f"{minute} {hour} * * *", zone).fires_once(begin_s, end_s))
    check_fires(parse(f"0 {minute} {hour} * * ?", timezone=zone), expected, begin_s, end_s)


def check_fires(schedule: CronSchedule, expected: list[int], begin_s: int, end_s: int) -> None:
    found = [at for at in islice(fires_of(schedule, begin_s), len(expected) + 1) if at <= end_s]
    assert found == expected, f"{schedule} from {begin_s}"
    # the second before a fire, asked when its day is known already, is where a search begins at the fire itself
    each_fire = [second for at in expected for second in (at, at - 1)]
    for after_s in (*range(begin_s, end_s, 13 * MINUTE_S + 1), *each_fire):
        following = next((at for at in expected if at > after_s), None)
        if following is not None:
            assert schedule.next_ms(after_s * 1000) == following * 1000, f"{schedule} after {after_s}"


@given(expression=EXPRESSIONS, zone=st.sampled_from(ZONES), data=st.data())
def test_it_fires_when_its_fields_say_whatever_the_clocks_do(expression: str, zone: str, data: st.DataObject) -> None:
    check_around(expression, zone, data.draw(st.sampled_from(changes_of(zone))))


OFTEN = ("*/7 * * * *", "0,30 * * * *", "15 0-4 * * *", "5 */3 * * 0-7", "7,37 * * * *")


@pytest.mark.parametrize(
    ("zones", "changes_each"),
    [(40, 5), pytest.param(10_000, 10_000, marks=[pytest.mark.nightly, pytest.mark.timeout(3600)])],
)
def test_no_change_of_any_clock_loses_a_fire(zones: int, changes_each: int) -> None:
    """Each zone and each change from 1990 to 2060, by night; some of them otherwise."""
    dice, known = random.Random(20_261_128), ZONES
    for zone in dice.sample(known, min(zones, len(known))):
        found = changes_of(zone)
        for number, at in enumerate(dice.sample(found, min(changes_each, len(found)))):
            expression = OFTEN[number % len(OFTEN)]
            check_around(expression, zone, at)
            check_quartz_around(*expression.split()[:2], zone, at)


@pytest.mark.parametrize(
    ("expression", "zone", "end"),
    [
        ("30 2 * * *", "America/New_York", "2025-03-09T07:00:00Z"),
        ("15,30 23 * * *", "America/Nuuk", "2024-03-31T01:00:00Z"),  # the hour before midnight is left out
    ],
)
def test_what_a_missing_hour_held_fires_when_it_is_over_if_asked_in_its_last_second(
    expression: str, zone: str, end: str
) -> None:
    schedule, end_ms = parse(expression, "unix", zone), int(datetime.fromisoformat(end).timestamp()) * 1000
    for before_ms in (3_600_000, 1001, 1000, 1):
        assert schedule.next_ms(end_ms - before_ms) == end_ms
    following_ms = schedule.next_ms(end_ms)  # of a day that is remembered then
    assert following_ms is not None
    assert following_ms > end_ms
    assert schedule.next_ms(end_ms - 1) == end_ms


@example(expression="* * 30 2 *", after_s=BEGIN_S)
@given(
    expression=EXPRESSIONS, after_s=st.integers(BEGIN_S // MINUTE_S, END_S // MINUTE_S).map(lambda at: at * MINUTE_S)
)
def test_it_fires_when_debians_cron_does(expression: str, after_s: int) -> None:
    expression = re.sub(r"\b(\w+)-\1/\d+", r"\1", expression)  # cron's own 5-5/2 is 5, cronsim's is 5/2
    after = datetime.fromtimestamp(after_s, UTC)
    try:
        theirs = [int(found.timestamp()) for found in islice(CronSim(expression, after), 10)]
    except CronSimError:  # it refuses a day that none of the months has
        theirs = []
    assert first_fires(expression, len(theirs) or 1, after_s) == theirs


@pytest.mark.parametrize(
    ("expression", "means"),
    [
        ("0 9-9 * * *", "0 9 * * *"),
        ("5-5/2 3 * * *", "5 3 * * *"),
        ("0 0 01-1 jan-1 *", "0 0 1 1 *"),
        ("0 0 * * sun-0", "0 0 * * 0"),
        ("0 0 * * 1-MON,3", "0 0 * * 1,3"),
    ],
)
def test_a_range_of_one_value_is_that_value(expression: str, means: str) -> None:
    """R29: croniter takes it for the whole field."""
    assert first_fires(expression, 20) == first_fires(means, 20)


@pytest.mark.parametrize(
    ("expression", "days"),
    [
        ("0 0 15 * L5", [15, 30]),  # April 2027, whose last Friday is the 30th
        ("0 0 15 * 5#2", [9, 15]),
        ("0 0 1W * 3", [1, 7, 14, 21, 28]),
        ("0 0 */2 * 1", [5, 19]),
        ("0 0 10-20 * */7", [11, 18]),
        ("0 0 */100,1-7 * 1", [5]),
        ("0 0 1-7 * 1", [1, 2, 3, 4, 5, 6, 7, 12, 19, 26]),
        ("0 0 L,30 * 1#1,3#2", [5, 14, 30]),
        ("0 0 3W * *", [2]),
    ],
)
def test_the_two_day_fields(expression: str, days: list[int]) -> None:
    """R30: one of them is enough; both count where one begins with a star, as in cron."""
    begin_s, end_s = (int(datetime(2027, month, 1, tzinfo=UTC).timestamp()) for month in (4, 5))
    found = [at for at in first_fires(expression, 31, begin_s - 1) if at < end_s]
    assert [datetime.fromtimestamp(at, UTC).day for at in found] == days


DAYS = st.sampled_from(["*", "1", "1-3", "*/2", "1,3,5", "L", "1,L", "2W", "*,5"])
WEEK = st.sampled_from(["*", "1", "1-3", "*/2", "0,7", "5#2", "5#2,1#1", "L5", "L5,5#1", "1-1", "mon"])
FEW = st.tuples(
    st.sampled_from(["0", "*/30", "0,30", "5-5"]),
    st.sampled_from(["9", "9-9", "9-17"]),
    DAYS,
    st.sampled_from(["*", "3", "MAR"]),
    WEEK,
).map(" ".join)


@given(expressions=st.lists(FEW, min_size=15, max_size=15))
def test_the_same_words_mean_the_same_fires(expressions: list[str]) -> None:
    meant: dict[tuple[str, str], tuple[object, str]] = {}
    for expression in expressions:
        schedule = parse(expression, "unix")
        fields = schedule._fields  # type: ignore[attr-defined]
        days = [year_table(fields.days, leap, weekday) for leap in (False, True) for weekday in range(1, 8)]
        for language in ("en", "zh"):
            words = schedule.describe(language)
            fires, first = meant.setdefault((language, words), ((fields.minutes, fields.hours, days), expression))
            assert fires == (fields.minutes, fields.hours, days), f"{expression} and {first} are both: {words}"


@pytest.mark.parametrize(
    ("expression", "english", "chinese"),
    [
        ("0 9-9 * * *", "At 09:00", "在 09:00"),
        (
            "0 0 15 3 5",
            "At 00:00, on day 15 of the month, and on every Friday, only in March",
            "在 00:00, 每月的 15 号, 以及每个星期五, 仅在 三月",
        ),
        (
            "0 0 */2 * 1,2",
            "At 00:00, every 2 days, if that is Monday or Tuesday",
            "在 00:00, 每 2 天, 且为星期一、星期二",
        ),
        (
            "0 0 L * 5#2",
            "At 00:00, on the last day of the month, and on the second Friday of the month",
            "在 00:00, 在每月的最后一天, 以及每月的第二个星期五",
        ),
        (
            "0 0 * * 1#1,5#2",
            "At 00:00, on the first Monday and second Friday of the month",
            "在 00:00, 每月的第一个星期一、第二个星期五",
        ),
        (
            "0 0 L * */3",
            "At 00:00, on the last day of the month, if that is Sunday, Wednesday or Saturday",
            "在 00:00, 在每月的最后一天, 且为星期日、星期三、星期六",
        ),
    ],
)
def test_words(expression: str, english: str, chinese: str) -> None:
    assert parse(expression, "unix").describe() == english
    assert parse(expression, "unix").describe("zh") == chinese
