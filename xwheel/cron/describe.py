"""Describe a cron expression in plain words, English or Chinese.

cron-descriptor makes the sentences. It is given a tidy expression, made from what was understood and not from what
was typed, so that no leniency of Quartz misleads it; and what it cannot say in both languages (days from the
month's end and nearest weekdays) is added here.
"""

from __future__ import annotations

from collections.abc import Sequence

from xwheel.cron.days import LAST_OF_MONTH, DayRule, TwoRules
from xwheel.cron.quartz_parse import FIRST_YEAR, LAST_YEAR, Fields
from xwheel.errors import ConfigError, ScheduleError
from xwheel.extras import extra

with extra("cli", lambda why: ConfigError(f"describing a cron expression {why}")):
    from cron_descriptor import ExpressionDescriptor, FormatException, Options  # type: ignore[import-untyped]

_LOCALES = {"en": "en_US", "zh": "zh_CN"}

# the library takes these names from the calendar module, which knows them in the system's language only
_ENGLISH = (
    "Monday Tuesday Wednesday Thursday Friday Saturday Sunday "
    "January February March April May June July August September October November December"
)
_CHINESE = (
    "星期一 星期二 星期三 星期四 星期五 星期六 星期日 一月 二月 三月 四月 五月 六月 七月 八月 九月 十月 十一月 十二月"
)

ALL_DAYS = (2 << 31) - 2
ALL_WEEKDAYS = (2 << 7) - 2
_NTH = {
    "en": ("first", "second", "third", "fourth", "fifth", "last"),
    "zh": ("第一个", "第二个", "第三个", "第四个", "第五个", "最后一个"),
}


def describe_quartz(fields: Fields, language: str) -> str:
    """Return a sentence for a Quartz expression."""
    _check(language)
    rule = fields.days
    assert isinstance(rule, DayRule)  # noqa: S101 - read from Quartz's fields
    has_days = rule.weekdays or rule.ends or rule.near_ends or rule.days or rule.near_days & ~1
    if not (rule.months and fields.years and has_days):
        return {"en": "Never", "zh": "从不"}[language]
    parts = [
        _tidy(fields.seconds, 0, 59),
        _tidy(fields.minutes, 0, 59),
        _tidy(fields.hours, 0, 23),
        "*",
        _tidy(rule.months, 1, 12),
        "?",
        _tidy(fields.years << FIRST_YEAR, FIRST_YEAR, LAST_YEAR),
    ]
    words = ""
    if rule.weekdays:
        parts[3], parts[5] = "?", _weekdays(rule)
    elif rule.ends or rule.jumps:
        words = _days(rule, language)
    else:
        parts[3] = _tidy(rule.days, 1, 31)
    if parts[6] == "*":
        parts.pop()
    return _say(" ".join(parts), language, sunday=1) + words


def describe_unix(fields: Fields, language: str) -> str:
    """Return a sentence for a Unix expression."""
    _check(language)
    rule = fields.days
    assert isinstance(rule, TwoRules)  # noqa: S101 - read from five fields
    month, week = rule.of_month, rule.of_week
    all_days, all_week = month.days == ALL_DAYS, week[0].weekdays == ALL_WEEKDAYS
    if not rule.are_both and (all_days or all_week):
        all_days = all_week = True
    is_plain = not (month.ends or month.jumps)
    time = f"0 {_tidy(fields.minutes, 0, 59)} {_tidy(fields.hours, 0, 23)}"
    days = _tidy(month.days, 1, 31) if is_plain and not all_days else "*"
    weekdays = _weekdays(week[0]) if all_days and not all_week and len(week) == 1 else "*"
    base = f"{time} {days} * {weekdays}"
    words = _say(base, language, sunday=1)
    if not is_plain and not all_days:
        words += _days(month, language)
    if not all_week and weekdays == "*":
        words += _also(week, language, are_both=rule.are_both, are_alone=all_days)
    # the library says months at the end
    months = _tidy(rule.months, 1, 12)
    if months != "*":
        words += _say(f"{time} * {months} *", language, sunday=1).removeprefix(
            _say(f"{time} * * *", language, sunday=1)
        )
    return words


def _check(language: str) -> None:
    if language not in _LOCALES:
        raise ScheduleError("language", f"is one of {', '.join(_LOCALES)}, not {language[:40]!r}")


def _say(expression: str, language: str, *, sunday: int) -> str:
    options = Options(
        locale_code=_LOCALES[language], day_of_week_start_index_zero=sunday == 0, use_24hour_time_format=True
    )
    try:
        words = ExpressionDescriptor(expression, options).get_description()
    except FormatException:
        return {"en": f"As {expression} says", "zh": f"按照 {expression}"}[language]
    if language == "zh":
        for english, chinese in zip(_ENGLISH.split(), _CHINESE.split(), strict=True):
            words = words.replace(english, chinese)
    return " ".join(words.split())


def _numbers(bits: int) -> list[int]:
    return [number for number in range(bits.bit_length()) if bits >> number & 1]


def _tidy(bits: int, low: int, high: int) -> str:
    values = _numbers(bits)
    step = values[1] - values[0] if len(values) > 1 else 0
    if len(values) == 2 and values[0] == low and step * 2 == high + 1 - low:  # noqa: PLR2004
        return f"*/{step}"
    if len(values) > 2 and values == list(range(values[0], values[-1] + 1, step)):  # noqa: PLR2004
        open_end = values[-1] + step > high
        if open_end and values[0] == low:
            return "*" if step == 1 else f"*/{step}"
        if open_end and step > 1:
            return f"{values[0]}/{step}"
        return f"{values[0]}-{values[-1]}" + (f"/{step}" if step > 1 else "")
    return ",".join(map(str, values))


def _weekdays(rule: DayRule) -> str:
    if not rule.nth:
        return _tidy(rule.weekdays, 1, 7)
    lowest = _numbers(rule.weekdays)[0]
    return f"{lowest}L" if rule.nth == LAST_OF_MONTH else f"{lowest}#{rule.nth}"


def _also(week: Sequence[DayRule], language: str, *, are_both: bool, are_alone: bool) -> str:
    """Return what the weekdays of a rule add to its days of the month, if it has any."""
    names = (_CHINESE if language == "zh" else _ENGLISH).split()
    is_nth = week[0].nth > 0
    gap = "" if language == "zh" else " "
    found = [
        f"{_NTH[language][rule.nth - 1] + gap if is_nth else ''}{names[(day - 2) % 7]}"
        for rule in week
        for day in _numbers(rule.weekdays)
    ]
    if language == "zh":
        every = "每月的" if is_nth else "每个"
        return f", {every if are_alone else '且为' if are_both else '以及' + every}{'、'.join(found)}"
    is_if = are_both and not are_alone
    listed = f" {'or' if is_if else 'and'} ".join(filter(None, [", ".join(found[:-1]), found[-1]]))
    if is_nth:
        listed = f"the {listed} of the month"
    elif not is_if:
        listed = f"every {listed}"
    return f", {'on' if are_alone else 'if that is' if is_if else 'and on'} {listed}"


def _days(rule: DayRule, language: str) -> str:
    if language == "zh":
        fixed = [f"{day} 号" for day in _numbers(rule.days)]
        fixed += [f"倒数第 {before + 1} 天" if before else "最后一天" for before in _numbers(rule.ends)]
        near = [f"最接近 {day} 号的平日" for day in _numbers(rule.near_days & ~1)]
        near += [
            f"最接近倒数第 {before + 1} 天的平日" if before else "最后一个平日" for before in _numbers(rule.near_ends)
        ]
        return ", 在每月的" + "、".join(fixed + near)
    fixed = [f"day {day}" for day in _numbers(rule.days)]
    ends = [_before(before) if before else "the last day" for before in _numbers(rule.ends)]
    near = [f"the weekday nearest day {day}" for day in _numbers(rule.near_days & ~1)]
    near += [
        f"the weekday nearest {_before(before)}" if before else "the last weekday"
        for before in _numbers(rule.near_ends)
    ]
    return ", on " + " and ".join(fixed + ends + near) + " of the month"


def _before(days: int) -> str:
    return f"the day {days} day{'s' if days > 1 else ''} before the last day"
