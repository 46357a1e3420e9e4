"""Quartz next_ms against croniter's get_next(float): twenty expressions on which both agree, both objects kept.

For each expression both give the same thousand fires first, one after the other; then each gives them again, timed.
croniter gets the seconds first, and weekdays by name, since it numbers them differently.
"""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

from croniter import croniter

from benchmarks._report import Report, timed
from xwheel.cron import parse

START = datetime(2026, 1, 1)
CASES = (
    ("0/5 * * * * ?", "UTC"),
    ("* * * * * ?", "UTC"),
    ("0 * * * * ?", "America/New_York"),
    ("0 0/5 * * * ?", "UTC"),
    ("0 0/15 9-17 * * ?", "Asia/Shanghai"),
    ("30 10 * * * ?", "Asia/Shanghai"),
    ("0 0 12 * * ?", "UTC"),
    ("0 0 12 ? * MON-FRI", "UTC"),
    ("0 30 3 * * ?", "America/New_York"),
    ("0 15 10 ? * MON-FRI", "Asia/Shanghai"),
    ("0 0 8,12,18 * * ?", "America/New_York"),
    ("0 15 10 15 * ?", "Asia/Shanghai"),
    ("0 15 10 L * ?", "UTC"),
    ("0 0 0 1 * ?", "Asia/Shanghai"),
    ("0 0 0 1 1 ?", "UTC"),
    ("0 0 12 1/5 * ?", "UTC"),
    ("0 10,44 14 ? 3 WED", "UTC"),
    ("0 0 9 ? * FRI#2", "America/New_York"),
    ("0 0 0 29 2 ?", "UTC"),
    ("15,45 0/20 0/6 1,15 * ?", "Asia/Shanghai"),
)


def compare(report: Report, expression: str, timezone: str, fires: int, repeats: int) -> str:
    """Time one expression; return the name of its ratio."""
    start = START.replace(tzinfo=ZoneInfo(timezone))
    start_ms = int(start.timestamp() * 1000)
    schedule = parse(expression, timezone=timezone)
    peer = croniter(expression, start, second_at_beginning=True, max_years_between_matches=100)
    count = min(fires, 20 if " 29 2 " in expression else 60 if " 1 1 " in expression else fires)
    turns = max(1, fires // count)  # rare fires are few within the horizon, so they are computed again

    def ours() -> list[int | None]:
        found: list[int | None] = []
        for _ in range(turns):
            after: int | None = start_ms
            for _ in range(count):
                after = schedule.next_ms(after)
                found.append(after)
        return found

    def theirs() -> list[float]:
        found = []
        for _ in range(turns):
            peer.set_current(start, force=True)
            found += [peer.get_next(float) for _ in range(count)]
        return found

    assert ours() == [int(at * 1000) for at in theirs()], expression
    slow, fast = [], []
    for _ in range(repeats):
        slow.append(timed(theirs))
        fast.append(timed(ours))
    name = f"{expression} {timezone}"
    report.figure(f"ours {name}", [seconds / turns / count * 1e6 for seconds in fast], "us")
    report.figure(f"croniter {name}", [seconds / turns / count * 1e6 for seconds in slow], "us")
    report.ratio(name, slow, fast, goal=5)
    return name


def main() -> None:
    report = Report("Quartz next_ms against croniter", repeats=7)
    report.parser.add_argument("--fires", type=int, default=1_000, help="fires of each expression")
    args = report.parse()
    names = [compare(report, *case, args.fires, args.repeats) for case in CASES]
    worst = min(names, key=report.ratios.__getitem__)
    report.ratios["minimum"] = report.ratios[worst]
    report.figures["minimum.spread"] = report.figures[f"{worst}.spread"]
    report.note("minimum", f"goal 5, prize 10: {worst}")
    report.finish()


if __name__ == "__main__":
    main()
