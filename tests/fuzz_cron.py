"""A slow, independent reading of Quartz expressions, and a fuzzer that compares it with the engine.

The oracle shares no code and no method with :mod:`xwheel.cron`: it expands each field by walking its grammar item by
item into a Python set, then walks calendar days with :mod:`datetime`, and on each matching day the hours, minutes and
seconds that the sets allow, asking :mod:`zoneinfo` about every single local time. Run by hand::

    python -m tests.fuzz_cron --pairs 1000000 --seed 1
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

from xwheel.cron import parse

ZONES = (
    "UTC",
    "America/New_York",
    "Europe/London",
    "Australia/Lord_Howe",
    "America/Sao_Paulo",
    "Asia/Shanghai",
    "Asia/Kolkata",
    "Europe/Dublin",
    "Africa/Casablanca",
    "Pacific/Auckland",
    "America/Santiago",
    "Africa/Cairo",
    "America/Nuuk",
    "Antarctica/Troll",
    "Asia/Kathmandu",
)
MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
WEEKDAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
NAMES = {
    "month": {name: at for at, name in enumerate(MONTHS, 1)},
    "weekday": {name: at for at, name in enumerate(WEEKDAYS, 1)},
}
BOUNDS = {
    "second": (0, 59),
    "minute": (0, 59),
    "hour": (0, 23),
    "day": (1, 31),
    "month": (1, 12),
    "weekday": (1, 7),
    "year": (1970, 2200),
}


class Oracle:
    """One expression in one zone."""

    def __init__(self, expression: str, zone: str) -> None:
        texts = expression.upper().split()
        texts += ["*"] * (7 - len(texts))
        self.zone = ZoneInfo(zone)
        self.sets: dict[str, set[int]] = {}
        self.marks: list[tuple[str, int]] = []  # ("end", 3) for L-3, ("near", 15) for 15W, ("near_end", 0) for LW
        self.weekday_mark: tuple[str, int] | None = None
        for kind, text in zip(BOUNDS, texts, strict=True):
            self.sets[kind] = set()
            for item in text.split(","):
                self.expand(kind, item)
        self.by_weekday = texts[3] == "?"

    def expand(self, kind: str, item: str) -> None:
        low, high = BOUNDS[kind]
        values = self.sets[kind]
        if item == "?":
            return
        if kind == "day" and item[0] == "L":
            back = int(item[2:].rstrip("W") or 0) if item[1:2] == "-" else 0
            self.marks.append(("near_end" if item.endswith("W") else "end", back))
        elif kind == "day" and item.endswith("W"):
            self.marks.append(("near", int(item[:-1])))
        elif kind == "weekday" and item == "L":
            values.add(7)
        elif kind == "weekday" and item.endswith("L"):
            self.weekday_mark = ("last", self.number(kind, item[:-1]))
        elif kind == "weekday" and "#" in item:
            name, nth = item.split("#")
            self.weekday_mark = (nth, self.number(kind, name))
        else:
            body, _, step = item.partition("/")
            first, _, last = body.partition("-")
            if body in ("*", ""):
                start, stop = low, high
            else:
                start = self.number(kind, first)
                stop = self.number(kind, last) if last else high if step else start
            at = start
            if stop < start:  # around the end: count on until the other side
                stop += high - low + 1
            while at <= stop:
                values.add(at if at <= high else at - (high - low + 1))
                at += int(step or 1)

    def number(self, kind: str, text: str) -> int:
        return NAMES.get(kind, {}).get(text) or int(text)

    def in_month(self, day: date) -> int:
        following = day.replace(day=28) + timedelta(days=4)
        return (following.replace(day=1) - timedelta(days=1)).day

    def plain(self, day: date) -> bool:
        """Whether the day matches, nearest weekdays aside."""
        if self.by_weekday:
            weekday = day.isoweekday() % 7 + 1
            if self.weekday_mark is None:
                return weekday in self.sets["weekday"]
            mark, wanted = self.weekday_mark
            if weekday != wanted:
                return False
            if mark == "last":
                return day.day + 7 > self.in_month(day)
            return (day.day + 6) // 7 == int(mark)
        if day.day in self.sets["day"]:
            return True
        return any(
            kind == "end"
            and self.in_month(day) - back == day.day
            and not any(day.day < other < 31 - back for other in self.sets["day"] if other <= self.in_month(day))
            for kind, back in self.marks
        )

    def moved(self, day: date) -> date | None:
        """Where the first nearest-weekday mark from this day of its month on leads."""
        length = self.in_month(day)
        near = {base for kind, base in self.marks if kind == "near" and day.day <= base <= length}
        ends = {
            (length - back, 31 - back) for kind, back in self.marks if kind == "near_end" and length - back >= day.day
        }
        # as with plain days, Quartz compares as if the month had 31 days
        bases = near | {base for base, raw in ends if not any(base < other < raw for other in near)}
        if not bases:
            return None
        base = day.replace(day=min(bases))
        if base.isoweekday() == 6:
            return base + timedelta(days=2 if base.day == 1 else -1)
        if base.isoweekday() == 7:
            return base + timedelta(days=-2 if base.day == length else 1)
        return base

    def clocks(self, after: tuple[int, int, int]) -> Iterator[tuple[int, int, int]]:
        """The matching times of a day from a time on."""
        return (
            (hour, minute, second)
            for hour in sorted(self.sets["hour"])
            if hour >= after[0]
            for minute in sorted(self.sets["minute"])
            if (hour, minute) >= after[:2]
            for second in sorted(self.sets["second"])
            if (hour, minute, second) >= after
        )

    def instant(self, day: date, clock: tuple[int, int, int]) -> int | None:
        """Seconds since the epoch; None if clocks skip this time, the later one if they show it twice."""
        local = datetime(day.year, day.month, day.day, *clock, tzinfo=self.zone, fold=1)
        if local.astimezone(UTC).astimezone(self.zone).replace(tzinfo=None) != local.replace(tzinfo=None):
            return None
        return int(local.timestamp())

    def next_ms(self, after_ms: int) -> int | None:
        second = after_ms // 1000 + 1
        while (start := datetime.fromtimestamp(second, self.zone)).utcoffset() != start.replace(fold=1).utcoffset():
            second += 1  # nothing fires in the first of two showings
        if any(kind.startswith("near") for kind, _ in self.marks):
            return self.next_near(start.replace(tzinfo=None))
        day, clock = start.date(), (start.hour, start.minute, start.second)
        years = self.sets["year"]
        while day.year <= min(start.year + 100, max(years, default=0)):
            if day.year not in years:
                day, clock = date(day.year + 1, 1, 1), (0, 0, 0)
            elif day.month not in self.sets["month"]:
                day, clock = (day.replace(day=28) + timedelta(days=4)).replace(day=1), (0, 0, 0)
            else:
                if self.plain(day):
                    for time_of_day in self.clocks(clock):
                        found = self.instant(day, time_of_day)
                        if found is not None:
                            return found * 1000
                day, clock = day + timedelta(days=1), (0, 0, 0)
        return None

    def next_near(self, after: datetime) -> int | None:
        """Quartz's way with W: time of day first, kept when the day moves; a day moved to later fires once."""
        earliest = next(self.clocks((0, 0, 0)))
        day = after.date()
        clock = next(self.clocks((after.hour, after.minute, after.second)), None)
        if clock is None:
            day, clock = day + timedelta(days=1), earliest
        while day.year <= after.year + 100:
            if day.month in self.sets["month"] and day.year in self.sets["year"]:
                fixed = next((at for at in self.rest_of_month(day) if self.plain(at)), None)
                near = self.moved(day)
                if near is not None and datetime(near.year, near.month, near.day, *clock) < after:
                    near = None
                if near is not None and (fixed is None or near <= fixed):
                    return self.settle(near, clock)
                if fixed == day:
                    return self.settle(fixed, clock)
                if fixed is not None:
                    day, clock = fixed, earliest
                    continue
            day = (day.replace(day=28) + timedelta(days=4)).replace(day=1)
            clock = earliest
        return None

    def rest_of_month(self, day: date) -> list[date]:
        return [day.replace(day=number) for number in range(day.day, self.in_month(day) + 1)]

    def settle(self, day: date, clock: tuple[int, int, int]) -> int | None:
        found = self.instant(day, clock)
        if found is not None:
            return found * 1000
        # the time is skipped: the search goes on from the first time after the gap
        local = datetime(day.year, day.month, day.day, *clock)
        while self.instant(local.date(), (local.hour, local.minute, local.second)) is None:
            local += timedelta(seconds=1)
        return self.next_near(local)


def number_field(source: random.Random, low: int, high: int) -> str:
    value = lambda: source.randint(low, high)  # noqa: E731
    step = lambda: source.randint(1, min(high, 20))  # noqa: E731
    return source.choice(
        [
            lambda: str(value()),
            lambda: f"{value()}/{step()}",
            lambda: f"*/{step()}",
            lambda: "*",
            lambda: f"{value()}-{value()}",
            lambda: f"{value()}-{value()}/{step()}",
            lambda: ",".join(str(value()) for _ in range(source.randint(2, 4))),
        ]
    )()


def day_field(source: random.Random) -> str:
    return source.choice(
        [
            lambda: number_field(source, 1, 31),
            lambda: number_field(source, 1, 31),
            lambda: "*",
            lambda: "L",
            lambda: f"L-{source.randint(0, 30)}",
            lambda: f"{source.randint(1, 31)},L-{source.randint(0, 5)}",
            lambda: f"{source.randint(1, 31)}W",
            lambda: "LW",
            lambda: f"L-{source.randint(0, 30)}W",
            lambda: f"{source.randint(1, 31)}W,{source.randint(1, 31)}W",
            lambda: f"{source.randint(1, 31)},{source.randint(1, 31)}W,LW",
        ]
    )()


def weekday_field(source: random.Random) -> str:
    name = lambda: source.choice(list(NAMES["weekday"]))  # noqa: E731
    return source.choice(
        [
            lambda: number_field(source, 1, 7),
            lambda: f"{name()}-{name()}",
            name,
            lambda: "L",
            lambda: f"{source.randint(1, 7)}L",
            lambda: f"{name()}L",
            lambda: f"{source.randint(1, 7)}#{source.randint(1, 5)}",
            lambda: f"{name()}#{source.randint(1, 5)}",
        ]
    )()


def expression(source: random.Random) -> str:
    """Return a random valid expression."""
    month = source.choice(["*", "*", "*", number_field(source, 1, 12), source.choice(list(NAMES["month"]))])
    fields = [source.choice(["0", number_field(source, 0, 59)]), number_field(source, 0, 59)]
    fields.append(number_field(source, 0, 23))
    fields += [day_field(source), month, "?"] if source.random() < 0.5 else ["?", month, weekday_field(source)]
    if source.random() < 0.15:
        fields.append(source.choice(["*", "2026-2030", "2027", "*/4", "2020/3", "2028,2032", "1999"]))
    return " ".join(fields)


BEGIN_S, END_S = 1_262_304_000, 2_082_758_400  # 2010 to 2036


def changes(zone: ZoneInfo, begin_s: int = BEGIN_S, end_s: int = END_S) -> list[int]:
    """Return the seconds at which the zone's offset changes."""
    found = []
    week = 7 * 86_400
    for start in range(begin_s, end_s, week):
        low, high = start, start + week
        if datetime.fromtimestamp(low, zone).utcoffset() == datetime.fromtimestamp(high, zone).utcoffset():
            continue
        while high - low > 1:
            middle = (low + high) // 2
            same = datetime.fromtimestamp(middle, zone).utcoffset() == datetime.fromtimestamp(low, zone).utcoffset()
            low, high = (middle, high) if same else (low, middle)
        found.append(high)
    return found


def instants(source: random.Random, zone: ZoneInfo, count: int) -> list[int]:
    """Return random instants in milliseconds, every other one shortly before or after a change of the clocks."""
    near = changes(zone)
    found = []
    for at in range(count):
        second = source.randrange(BEGIN_S, END_S)
        if near and at % 2:
            second = source.choice(near) + source.randint(-90_000, 10_000)
        found.append(second * 1000 + source.choice([0, 1, 500, 999]))
    return found


def compare(pairs: int, seed: int, each: int = 10) -> list[str]:
    """Compare engine and oracle on this many pairs; return what differs, in words."""
    source = random.Random(seed)
    zones = {name: ZoneInfo(name) for name in ZONES}
    pools = {name: instants(random.Random(seed), zone, 300) for name, zone in zones.items()}
    differences = []
    done = 0
    while done < pairs:
        name = source.choice(ZONES)
        text = expression(source)
        engine, oracle = parse(text, timezone=name), Oracle(text, name)
        for after_ms in source.sample(pools[name], min(each, pairs - done)):
            done += 1
            found, expected = engine.next_ms(after_ms), oracle.next_ms(after_ms)
            if found != expected:
                differences.append(f"{text!r} {name} after {after_ms}: engine {found}, oracle {expected}")
    return differences


def main() -> None:
    arguments = argparse.ArgumentParser(description="Compare the Quartz engine with a slow oracle")
    arguments.add_argument("--pairs", type=int, default=10_000)
    arguments.add_argument("--seed", type=int, default=1)
    given = arguments.parse_args()
    start = time.perf_counter()
    differences = compare(given.pairs, given.seed)
    for line in differences[:50]:
        print(line)
    seconds = time.perf_counter() - start
    print(f"{given.pairs} pairs, seed {given.seed}: {len(differences)} differences in {seconds:.0f} s")


if __name__ == "__main__":
    main()
