"""Pictures of the console: ``python tests/pictures.py``, or with a folder for every page in both languages and themes.

A real node with a made-up company's jobs is shown in real Chromium. Without a folder the few pictures of the docs are
made, in ``docs/images/console``.
"""

from __future__ import annotations

import base64
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from conftest import SAID, Site, Watch, launched, opened, visit
from playwright.sync_api import Browser, Page
from tests.support.console_history import HOUR_MS, made_up_year, write_history

HOME: Final = Path(__file__).resolve().parents[3] / "docs" / "images" / "console"
SIZE: Final = {"width": 1280, "height": 800}
MOST_BYTES: Final = 60_000
QUALITIES: Final = (80, 72, 64, 56, 48)
JOBS: Final = (
    ("nightly invoices", "hello", "0 0 2 * * ?", "Invoices of the day, to the archive"),
    ("stock levels", "hello", "0 */5 * * * ?", "From the warehouse, each five minutes"),
    ("price import", "fail", "0 10 * * * ?", "The supplier's file, once an hour"),
    ("newsletter", "hello", "0 0 9 ? * MON", "To all who asked for it"),
    ("clean up sessions", "hello", "0 30 3 * * ?", ""),
    ("search index", "talk", "0 0 */4 * * ?", "Builds it again"),
)
LINES: Final = (
    *("INFO month 2026-11, 31 stores", "INFO reading orders", "INFO 48,211 orders in 3.2 s"),
    *("WARN store 17: 2 orders without a price, left out", "INFO adding up taxes", "INFO store 1 of 31: 1,840 orders"),
    *(f"INFO store {number} of 31: {900 + number * 137 % 1100:,} orders" for number in range(2, 9)),
    *("ERROR store 9: no connection, trying again in 5 s", "INFO store 9 of 31: 1,204 orders"),
    *(f"INFO store {number} of 31: {900 + number * 137 % 1100:,} orders" for number in range(10, 15)),
)
PAGES: Final = {
    "dashboard": "/",
    "jobs": "/jobs",
    "job": "/jobs/6",
    "job-form": "/jobs/6/edit",
    "runs": "/runs",
    "timeline": "/runs?view=timeline&by=job",
    "run": "/runs/{run}",
    "nodes": "/nodes",
    "executors": "/executors",
    "alarms": "/alarms",
    "calendars": "/calendars",
    "audit": "/audit",
    "accounts": "/accounts",
    "system": "/system",
    "me": "/me",
    "welcome": "/welcome",
    "wall": "/wall",
    "login": "/login",
}


class Picture(NamedTuple):
    """A picture: its name, the page, and what it is shown in; ``part`` is scrolled to first."""

    name: str
    page: str
    language: str = "en"
    theme: str = "light"
    part: str | None = None


TOUR: Final = (
    Picture("dashboard", "dashboard"),
    Picture("jobs", "jobs"),
    Picture("job-preview", "job-form", part="#part-schedule"),
    Picture("run", "run"),
    Picture("timeline", "timeline"),
    Picture("cluster", "nodes"),
    Picture("dark", "job", theme="dark"),
    Picture("chinese", "runs", language="zh"),
)
"""What the docs show."""


def fill(site: Site, now_ms: int) -> int:
    """Give the node jobs, runs and a history; return the run that is shown, which goes on until None is said."""
    numbers = [
        site.job(name, handler=handler, schedule_type="CRON", schedule_conf=conf, description=words, enabled=True)
        for name, handler, conf, words in JOBS
    ]
    # a year cannot be waited for
    write_history(site.node._node._db, made_up_year(numbers, site.group_id, now_ms + HOUR_MS - 60_000))
    site.run(numbers[5], "400")
    for number in numbers:
        site.run(number)
    site.node.call("PUT", "calendars/holidays", {"dates": ["2026-12-25", "2026-12-26", "2027-01-01"]})
    for line in LINES:
        SAID.put(line)
    report = site.job("month's report", handler="say", param="2026-11", description="For the board")
    return site.run(report, wait=False)


def take(page: Page, path: Path) -> None:
    """Save what the window shows, as small as the docs want it; WebP is a fifth of PNG."""
    session = page.context.new_cdp_session(page)
    path.parent.mkdir(parents=True, exist_ok=True)
    for quality in QUALITIES:
        shot = session.send("Page.captureScreenshot", {"format": "webp", "quality": quality})
        data = base64.b64decode(shot["data"])
        if len(data) <= MOST_BYTES:
            break
    path.write_bytes(data)


def all_pages() -> Iterator[Picture]:
    """Every page in both languages and themes."""
    for language in ("en", "zh"):
        for theme in ("light", "dark"):
            for page in PAGES:
                yield Picture(f"{page}-{language}-{theme}", page, language, theme)


def take_one(browser: Browser, site: Site, shown: int, picture: Picture, folder: Path) -> None:
    """Save one picture in a browser of its own language and theme."""
    watch = Watch()
    locale = {"en": "en-US", "zh": "zh-CN"}[picture.language]
    with opened(browser, site, watch, locale=locale, color_scheme=picture.theme) as context:
        if picture.page != "login":
            context.add_cookies([site.cookie("chief")])  # type: ignore[list-item]
        page = context.new_page()
        page.set_viewport_size(SIZE)  # type: ignore[arg-type]
        visit(page, site, PAGES[picture.page].format(run=shown))
        if picture.part:
            page.locator(picture.part).scroll_into_view_if_needed()
            page.locator(picture.part).evaluate("one => one.scrollIntoView()")
        page.wait_for_timeout(1500)  # charts are drawn
        take(page, folder / f"{picture.name}.webp")
    for problem in watch.found:
        if "401" not in problem:
            print(f"{picture.name}: {problem}")


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else HOME
    with tempfile.TemporaryDirectory() as data:
        site = Site(Path(data) / "node")
        try:
            shown = fill(site, time.time_ns() // 1_000_000)
            with launched() as browser:
                for picture in TOUR if folder is HOME else all_pages():
                    take_one(browser, site, shown, picture, folder)
        finally:
            SAID.put(None)
            site.node.close()


if __name__ == "__main__":
    main()
