"""Each schedule type: strictly later, in phase, inside its window, and clear about nonsense."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.node import plugins
from tests.support.rows import NOW, make_job
from xwheel.calendars import parse_calendar
from xwheel.errors import ScheduleError
from xwheel.plugin import ScheduleSpec
from xwheel.scheduler.timetable import Timetable

ZONES = ("UTC", "Asia/Shanghai", "America/New_York", "Europe/London", "Australia/Lord_Howe")
TYPES = plugins().schedule_types
YEAR = st.integers(1_735_689_600_000, 1_798_761_600_000)  # 2025 and 2026

CONFS = {
    "CRON": ["0/7 * * * * ?", "0 30 1,2 * * ?", "0 0 9 ? * MON-FRI", "0 0 0 L * ?"],
    "UNIX_CRON": ["*/5 * * * *", "30 2 * * *", "0 9 * * 1-5"],
    "FIX_RATE": ["1", "90s", "1500ms", "1d"],
    "FIX_DELAY": ["1", "250ms", "2h"],
    "ONCE": ["2026-03-08T12:00:00", "2025-06-01"],
    "DAILY_INTERVAL": [
        "from=09:00 to=17:30 every=15m days=MON-FRI",
        "from=00:00 to=23:59:59 every=7s",
        "from=02:30 to=02:30 every=1d",
    ],
    "NONE": [""],
}
CASES = [(name, conf) for name, confs in CONFS.items() for conf in confs]


def spec(conf: str, timezone: str = "UTC", anchor_ms: int = NOW) -> ScheduleSpec:
    return ScheduleSpec(conf=conf, timezone=timezone, anchor_ms=anchor_ms)


def test_every_shipped_type_is_tested_here() -> None:
    assert set(TYPES) == set(CONFS)


@pytest.mark.parametrize(("name", "conf"), CASES)
@given(after_ms=YEAR, timezone=st.sampled_from(ZONES))
def test_fires_are_strictly_later_and_skip_nothing(name: str, conf: str, after_ms: int, timezone: str) -> None:
    kind, given_spec = TYPES[name], spec(conf, timezone)
    kind.check(given_spec)
    first = kind.next_ms(given_spec, after_ms)
    if first is None:
        assert name in {"NONE", "ONCE"}
        return
    assert first > after_ms
    assert first == kind.next_ms(given_spec, after_ms), "the same question must have the same answer"
    if name != "FIX_DELAY":
        assert kind.next_ms(given_spec, first - 1) == first, "nothing lies between an instant and its next fire"
        second = kind.next_ms(given_spec, first)
        assert second > first if second is not None else name == "ONCE"


@given(step_ms=st.integers(1, 10_000_000), anchor_ms=YEAR, after_ms=YEAR)
def test_a_fixed_rate_keeps_its_phase(step_ms: int, anchor_ms: int, after_ms: int) -> None:
    due = TYPES["FIX_RATE"].next_ms(spec(f"{step_ms}ms", anchor_ms=anchor_ms), after_ms)
    assert due is not None
    assert (due - anchor_ms) % step_ms == 0
    assert due >= anchor_ms
    assert after_ms < due <= max(anchor_ms, after_ms + step_ms)


@given(after_ms=YEAR, delay_ms=st.integers(1, 10**9))
def test_a_fixed_delay_counts_from_the_end(after_ms: int, delay_ms: int) -> None:
    assert TYPES["FIX_DELAY"].next_ms(spec(f"{delay_ms}ms"), after_ms) == after_ms + delay_ms


def window_by_hand(
    day: datetime, place: ZoneInfo, first: tuple[int, int], last: tuple[int, int], every: timedelta
) -> list[int]:
    """Walk a day's wall times one by one: the slow way to say what DAILY_INTERVAL means."""
    found = []
    shown = day.replace(hour=first[0], minute=first[1])
    while shown <= day.replace(hour=last[0], minute=last[1]):
        instant = shown.replace(tzinfo=place, fold=0).astimezone(UTC)
        if instant.astimezone(place).replace(tzinfo=None) == shown:
            found.append(int(instant.timestamp() * 1000))
        shown += every
    return found


@pytest.mark.parametrize("timezone", ZONES)
@pytest.mark.parametrize("month_day", [(3, 7), (4, 4), (10, 3), (10, 24), (10, 31)])
@pytest.mark.parametrize(
    ("first", "last", "every_min"), [((0, 0), (23, 59), 30), ((1, 15), (3, 45), 10), ((9, 0), (9, 0), 60)]
)
def test_daily_windows_agree_with_a_walk_over_clock_changes(
    timezone: str, month_day: tuple[int, int], first: tuple[int, int], last: tuple[int, int], every_min: int
) -> None:
    place, begin = ZoneInfo(timezone), datetime(2026, *month_day)
    days = [begin + timedelta(days=number) for number in range(3)]
    expected = [at for day in days for at in window_by_hand(day, place, first, last, timedelta(minutes=every_min))]
    conf = f"from={first[0]:02}:{first[1]:02} to={last[0]:02}:{last[1]:02} every={every_min}m"
    found, after_ms = [], expected[0] - 1
    for _ in expected:
        due = TYPES["DAILY_INTERVAL"].next_ms(spec(conf, timezone), after_ms)
        assert due is not None
        found.append(due)
        after_ms = due
    assert found == sorted(expected)


def test_daily_windows_open_on_their_days_only() -> None:
    given_spec = spec("from=09:00 to=10:00 every=30m days=SAT,MON", "Asia/Shanghai")
    found, after_ms = [], NOW  # Thursday, 1 January 2026
    for _ in range(7):
        after_ms = TYPES["DAILY_INTERVAL"].next_ms(given_spec, after_ms) or 0
        found.append(datetime.fromtimestamp(after_ms / 1000, ZoneInfo("Asia/Shanghai")).strftime("%a %d %H:%M"))
    assert found == [
        "Sat 03 09:00",
        "Sat 03 09:30",
        "Sat 03 10:00",
        "Mon 05 09:00",
        "Mon 05 09:30",
        "Mon 05 10:00",
        "Sat 10 09:00",
    ]


NONSENSE = [
    ("FIX_RATE", "0"),
    ("FIX_RATE", "-5"),
    ("FIX_RATE", "1.5"),
    ("FIX_RATE", ""),
    ("FIX_RATE", "5x"),
    ("FIX_RATE", "9" * 20),
    ("FIX_RATE", "99999999999999999999999"),
    ("FIX_RATE", "1\x00"),
    ("FIX_RATE", "٣"),
    ("FIX_DELAY", "0ms"),
    ("FIX_DELAY", "soon"),
    ("ONCE", "tomorrow"),
    ("ONCE", ""),
    ("ONCE", "2026-13-01T00:00"),
    ("ONCE", "9999-12-31T23:59:59.999999+00:00x"),
    ("NONE", "5"),
    ("CRON", "* * *"),
    ("CRON", "x" * 10_000),
    ("CRON", "0 0 12 * * ?\x00"),
    ("UNIX_CRON", "61 * * * *"),
    ("UNIX_CRON", "0 0 12 * * ?"),
    ("UNIX_CRON", "*" * 10_000),
    ("DAILY_INTERVAL", "from=10:00 to=09:00 every=5m"),
    ("DAILY_INTERVAL", "from=24:00 to=25:00 every=5m"),
    ("DAILY_INTERVAL", "from=09:00 to=17:00 every=0s"),
    ("DAILY_INTERVAL", "from=09:00 to=17:00 every=2d"),
    ("DAILY_INTERVAL", "from=09:00 every=5m"),
    ("DAILY_INTERVAL", "from=09:00 to=17:00 every=5m days=FUNDAY"),
    ("DAILY_INTERVAL", "from=09:00 from=10:00 to=17:00 every=5m"),
    ("DAILY_INTERVAL", "at=09:00"),
    ("DAILY_INTERVAL", "f" * 10_000),
]


@pytest.mark.timeout(60)  # no loop
@pytest.mark.parametrize(("name", "conf"), NONSENSE, ids=lambda text: text[:30])
def test_nonsense_is_refused_at_once(name: str, conf: str) -> None:
    with pytest.raises(ScheduleError) as caught:
        TYPES[name].check(spec(conf))
    assert caught.value.field
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize("name", ["CRON", "UNIX_CRON", "ONCE", "DAILY_INTERVAL"])
@pytest.mark.parametrize("timezone", ["Mars/Base", "", "../../etc/passwd", "/etc/localtime", "UTC\x00", "x" * 10_000])
def test_unknown_zones_are_refused(name: str, timezone: str) -> None:
    with pytest.raises(ScheduleError) as caught:
        TYPES[name].check(spec(CONFS[name][0], timezone))
    assert caught.value.field == "timezone"


# timetables: start and end, calendars, jitter

CALENDARS = {
    "cn": parse_calendar({"holidays": "CN"}),
    "cn-work": parse_calendar({"workdays": "CN"}),
    "weekend": parse_calendar({"weekdays": "SAT,SUN"}),
    "always": parse_calendar({"weekdays": "MON-SUN"}),
    "freeze": parse_calendar({"times": ["2026-11-10T22:00..2026-11-11T06:00"]}),
    "busy": parse_calendar(
        {"times": [f"2026-01-{1 + n // 40:02}T{n % 20:02}:{n // 20 % 2 * 30:02}..2026-02-01" for n in range(1000)]}
    ),
    "empty": parse_calendar({"dates": ["1999-01-01"]}),
}
TIMETABLE = Timetable(TYPES, lambda: CALENDARS)


def days(job_changes: dict[str, object], first: str, count: int) -> list[str]:
    job = make_job(schedule_type="CRON", timezone="Asia/Shanghai", **job_changes)
    place = ZoneInfo("Asia/Shanghai")
    after_ms = int(datetime.fromisoformat(first).replace(tzinfo=place).timestamp() * 1000) - 1
    return [
        datetime.fromtimestamp(at / 1000, place).strftime("%m-%d %H:%M")
        for at in TIMETABLE.preview(job, after_ms, count)
    ]


def test_make_up_working_days_count_as_working_days() -> None:
    # Spring Festival 2026: off from 15 to 23 February; Saturdays 14 and 28 are worked
    found = days({"schedule_conf": "0 0 9 * * ?", "calendar_require": ("cn-work",)}, "2026-02-13", 5)
    assert found == ["02-13 09:00", "02-14 09:00", "02-24 09:00", "02-25 09:00", "02-26 09:00"]


def test_holidays_are_left_out() -> None:
    found = days({"schedule_conf": "0 0 9 * * ?", "calendar_exclude": ("cn",)}, "2026-09-30", 2)
    assert found == ["09-30 09:00", "10-04 09:00"]  # the fourth is a plain Sunday to the holiday calendar


def test_blackouts_may_be_hours() -> None:
    found = days({"schedule_conf": "0 0 0/4 * * ?", "calendar_exclude": ("freeze",)}, "2026-11-10T20:00", 3)
    assert found == ["11-10 20:00", "11-11 08:00", "11-11 12:00"]


@pytest.mark.parametrize(
    "rules",
    [{"calendar_exclude": ("always",)}, {"calendar_require": ("empty",)}, {"calendar_exclude": ("always", "busy")}],
)
@pytest.mark.timeout(60)
@pytest.mark.parametrize("conf", ["0 0 9 * * ?", "* * * * * ?"])
def test_calendars_that_leave_nothing_are_refused_and_never_loop(rules: dict[str, object], conf: str) -> None:
    job = make_job(schedule_type="CRON", schedule_conf=conf, **rules)
    with pytest.raises(ScheduleError, match="calendar_(exclude|require): leave no due time"):
        TIMETABLE.next_fire(job, NOW)


def test_stretches_may_touch_and_overlap() -> None:
    calendar = parse_calendar(
        {
            "times": [
                "2026-01-01T10:00..2026-01-01T12:00",
                "2026-01-01T11:00..2026-01-01T13:00",
                "2026-01-01T13:00..2026-01-01T14:00",
            ]
        }
    )
    inside = [calendar.covers(datetime(2026, 1, 1, hour)) for hour in range(9, 15)]
    assert inside == [False, True, True, True, True, False]
    assert calendar.until(datetime(2026, 1, 1, 9)) == datetime(2026, 1, 1, 10)
    assert calendar.until(datetime(2026, 1, 1, 10)) == datetime(2026, 1, 1, 14)
    assert calendar.until(datetime(2026, 1, 1, 14)) == datetime(2026, 1, 2)


def test_n24_a_day_taken_out_is_out_of_the_stretches_too() -> None:
    """N24: ``without`` rules over ``times`` as over days, from midnight to midnight."""
    calendar = parse_calendar(
        {"times": ["2026-11-10T22:00..2026-11-12T06:00"], "without": ["2026-11-11"], "weekdays": "WED"}
    )
    covered = {
        "2026-11-10T23:59": True,
        "2026-11-11T00:00": False,
        "2026-11-11T23:59": False,
        "2026-11-12T00:00": True,
        "2026-11-18T12:00": True,
    }
    assert {text: calendar.covers(datetime.fromisoformat(text)) for text in covered} == covered


def test_an_unknown_calendar_is_named() -> None:
    with pytest.raises(ScheduleError, match="'moon'; known: always, busy, cn"):
        TIMETABLE.check(make_job(calendar_exclude=("moon",)))


@given(
    start_ms=YEAR,
    after=st.integers(-(10**8), 10**9),
    length_ms=st.integers(0, 10**9),
    step_s=st.integers(1, 100_000),
    is_last=st.booleans(),
)
def test_fires_are_those_between_start_and_end(
    start_ms: int, after: int, length_ms: int, step_s: int, is_last: bool
) -> None:
    after_ms, step_ms = start_ms + after, step_s * 1000
    earliest_ms = max(after_ms + 1, start_ms)
    wanted = max(NOW, earliest_ms + (NOW - earliest_ms) % step_ms)
    end_ms = wanted if is_last else start_ms + length_ms  # a fire at the end itself counts
    job = make_job(schedule_conf=f"{step_s}s", anchor_ms=NOW, start_ms=start_ms, end_ms=end_ms)
    assert TIMETABLE.next_fire(job, after_ms) == (wanted if wanted <= end_ms else None)


@given(planned_ms=YEAR, jitter_ms=st.integers(0, 86_400_000), job_id=st.integers(1, 10**9))
def test_jitter_stays_in_its_bounds_and_is_the_same_each_time(planned_ms: int, jitter_ms: int, job_id: int) -> None:
    job = make_job(id=job_id, jitter_ms=jitter_ms)
    due = TIMETABLE.due_ms(job, planned_ms)
    assert planned_ms <= due <= planned_ms + jitter_ms
    assert due == TIMETABLE.due_ms(job, planned_ms)


def test_jitter_spreads_jobs() -> None:
    offsets = {TIMETABLE.due_ms(make_job(id=number, jitter_ms=60_000), NOW) for number in range(200)}
    assert len(offsets) > 190


BAD_CALENDARS = [
    {},
    [],
    "CN",
    {"holiday": "CN"},
    {"holidays": "Atlantis"},
    {"holidays": "US/Nowhere"},
    {"holidays": 5},
    {"workdays": ""},
    {"weekdays": "FUNDAY"},
    {"dates": "2026-01-01"},
    {"dates": ["01.02.2026"]},
    {"dates": ["2026-02-01..2026-01-01"]},
    {"dates": ["0001-01-01..9999-12-31"]},
    {"dates": [1]},
    {"dates": ["2026-01-01"] * 1001},
    {"times": ["2026-01-01"]},
    {"times": ["2026-01-01T10:00..2026-01-01T09:00"]},
    {"times": ["2026-01-01T10:00Z..2026-01-01T11:00Z"]},
    {"without": ["never"], "holidays": "CN"},
]


@pytest.mark.parametrize("definition", BAD_CALENDARS, ids=str)
def test_bad_calendars_name_their_entry(definition: object) -> None:
    with pytest.raises(ScheduleError) as caught:
        parse_calendar(definition)  # type: ignore[arg-type]
    assert caught.value.field.startswith("calendar")
