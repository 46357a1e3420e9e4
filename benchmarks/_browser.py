"""Real Chromium for benchmarks, and what pages are asked to note of themselves while it shows them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from tests.support import chromium as installed

LIMIT_S = 60
NOTES = """
globalThis.bench = {shownMs: null, wanted: null, frames: [], tasks: []};
bench.painted = () => new Promise((done) => requestAnimationFrame(() => setTimeout(() => done(performance.now()))));
bench.look = (selector) => {
  const found = () => document.querySelector(selector);
  const note = async () => {
    if (bench.shownMs !== null || !found()) return;
    watch.disconnect();
    bench.shownMs = await bench.painted();
  };
  const watch = new MutationObserver(note);
  watch.observe(document, {childList: true, subtree: true});
  note();
};
// each text that is typed, until the page shows what its last letter brings
bench.type = (field, rows, isShown, kind = "input") => {
  bench.keyMs = null;
  document.querySelector(field).addEventListener(kind, (event) => {
    const begin = event.timeStamp;
    const watch = new MutationObserver(async () => {
      if (!isShown([...document.querySelectorAll(rows)], event.target.value)) return;
      watch.disconnect();
      bench.keyMs = await bench.painted() - begin;
    });
    watch.observe(document, {childList: true, subtree: true, characterData: true, attributes: true});
  }, {once: true});
};
bench.watchFrames = () => {
  bench.frames = [];
  bench.goes = true;
  let before = null;
  const next = (at) => {
    if (before !== null) bench.frames.push(at - before);
    before = at;
    if (bench.goes) requestAnimationFrame(next);
  };
  requestAnimationFrame(next);
};
bench.watchTasks = () => {
  bench.tasks = [];
  const note = (list) => { for (const item of list.getEntries()) bench.tasks.push(item.duration); };
  new PerformanceObserver(note).observe({type: "longtask"});
};
"""
"""What pages get before their own scripts. Times are those of the page's own clock, from the start of navigation."""


@contextmanager
def chromium() -> Iterator[Browser]:
    """Start Chromium without a window."""
    if not Path(installed.PLACE).exists():
        raise SystemExit("Chromium is not installed: apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=installed.PLACE, headless=True, args=installed.flags())
        yield browser
        browser.close()


@contextmanager
def fresh(browser: Browser, url: str, cookie: str) -> Iterator[BrowserContext]:
    """Give a context with nothing in its cache, in which somebody has signed in."""
    context = browser.new_context(
        locale="en-US", timezone_id="UTC", reduced_motion="reduce", viewport={"width": 1440, "height": 900}
    )
    name, _, value = cookie.partition("=")
    context.add_cookies([{"name": name, "value": value, "url": url}])
    context.add_init_script("try { localStorage.setItem('xwheel.known', 'yes') } catch {}")
    context.add_init_script(NOTES)
    try:
        yield context
    finally:
        context.close()


def open_at(context: BrowserContext, url: str, place: str, selector: str) -> Page:
    """Open a place behind the # and wait until an element is painted; the page notes when that was."""
    page = context.new_page()
    page.add_init_script(f"bench.look({selector!r})")
    page.goto(f"{url}/#{place}", wait_until="commit")
    wait_for(page, "() => bench.shownMs !== null")
    return page


def wait_for(page: Page, condition: str) -> None:
    """Wait until a function says yes; Playwright's own way to wait needs eval, which pages forbid."""
    end = time.monotonic() + LIMIT_S
    while not page.evaluate(condition):
        if time.monotonic() > end:
            raise SystemExit(f"not seen in {LIMIT_S} s at {page.url}: {condition}")
        time.sleep(0.05)
