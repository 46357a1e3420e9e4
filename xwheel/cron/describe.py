"""Describe a cron expression in plain words, English or Chinese.

cron-descriptor makes the sentences. It is given a tidy expression, made from what was understood and not from what
was typed, so that no leniency of Quartz misleads it; and what it cannot say in both languages (days from the
month's end and nearest weekdays) is added here.
"""

from __future__ import annotations

from xwheel.cron.quartz_parse import FIRST_YEAR, LAST_OF_MONTH, LAST_YEAR, DayRule, Fields
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


def describe_quartz(fields: Fields, language: str) -> str:
    """Return a sentence for a Quartz expression."""
    _check(language)
    rule = fields.days
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


def describe_unix(expression: str, language: str) -> str:
    """Return a sentence for a Unix expression."""
    _check(language)
    return _say(expression, language, sunday=0)


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
