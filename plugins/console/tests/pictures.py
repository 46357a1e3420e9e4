"""Pictures of every page for the docs: ``python tests/pictures.py [PAGE...]``, in both languages and themes.

A real node with a made-up company's jobs is shown in real Chromium. The pictures stand in ``docs/pictures/console``.
"""

from __future__ import annotations

import base64
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from conftest import Site, Watch, launched, opened, visit
from playwright.sync_api import Browser, Page
from tests.support.console_history import made_up_year, write_history

HOME: Final = Path(__file__).resolve().parents[3] / "docs" / "pictures" / "console"
SIZE: Final = {"width": 1280, "height": 800}
QUALITY: Final = 72
JOBS: Final = (
    ("nightly invoices", "hello", "0 0 2 * * ?", "Invoices of the day, to the archive"),
    ("stock levels", "hello", "0 */5 * * * ?", "From the warehouse, each five minutes"),
    ("price import", "fail", "0 10 * * * ?", "The supplier's file, once an hour"),
    ("newsletter", "hello", "0 0 9 ? * MON", "To all who asked for it"),
    ("clean up sessions", "hello", "0 30 3 * * ?", ""),
    ("search index", "talk", "0 0 */4 * * ?", "Builds it anew"),
)
PAGES: Final = {
    "dashboard": "/",
    "jobs": "/jobs",
    "job": "/jobs/2",
    "job-form": "/jobs/2/edit",
    "runs": "/runs",
    "timeline": "/runs?view=timeline",
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


def fill(site: Site, now_ms: int) -> int:
    """Give the node jobs, runs and a history; return the run that is shown."""
    numbers = [
        site.job(
            name, handler=handler, schedule_type="CRON", schedule_conf=conf, description=words, enabled=True
        )
        for name, handler, conf, words in JOBS
    ]
    # a year cannot be waited for
    write_history(site.node._node._db, made_up_year(numbers, site.group_id, now_ms))
    shown = site.run(numbers[5], "400")
    for number in numbers:
        site.run(number)
    site.node.call("PUT", "calendars/holidays", {"dates": ["2026-12-25", "2026-12-26", "2027-01-01"]})
    site.run(site.job("long report", handler="sleep", param="600"), wait=False)
    return shown


def take(page: Page, path: Path) -> None:
    """Save what the window shows; WebP is a fifth of PNG."""
    session = page.context.new_cdp_session(page)
    shot = session.send("Page.captureScreenshot", {"format": "webp", "quality": QUALITY})
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(base64.b64decode(shot["data"]))


def take_all(browser: Browser, site: Site, shown: int, names: list[str]) -> None:
    """Save every page in both languages and themes."""
    for language, locale in (("en", "en-US"), ("zh", "zh-CN")):
        for theme in ("light", "dark"):
            watch = Watch()
            options = {"locale": locale, "color_scheme": theme}
            with opened(browser, site, watch, **options) as context:
                page = context.new_page()
                page.set_viewport_size(SIZE)  # type: ignore[arg-type]
                for name in [*(["login"] if "login" in names else []), *(set(names) - {"login"})]:
                    if name != "login":
                        context.add_cookies([site.cookie("chief")])  # type: ignore[list-item]
                    visit(page, site, PAGES[name].format(run=shown))
                    if name != "login":
                        page.reload()
                        page.locator("[data-page] h1").first.wait_for()
                    page.wait_for_timeout(1200)
                    take(page, HOME / f"{name}-{language}-{theme}.webp")
            for problem in watch.found:
                if "401" not in problem:
                    print(f"{language} {theme}: {problem}")


def main() -> None:
    names = sys.argv[1:] or list(PAGES)
    with tempfile.TemporaryDirectory() as folder:
        site = Site(Path(folder) / "node")
        try:
            shown = fill(site, time.time_ns() // 1_000_000)
            with launched() as browser:
                take_all(browser, site, shown, names)
        finally:
            site.node.close()


if __name__ == "__main__":
    main()
