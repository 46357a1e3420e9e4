"""Next to a long history and while runs come and go, no page asks much, and nothing that no index answers.

The pages are those of the router, those of plugins too: a page that is new here needs an address below.
``CONSOLE_RUNS`` says how long the history is: 100,000 runs unless told otherwise.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from conftest import Site, Watch, go_to, opened, settled, visit
from playwright.sync_api import Browser, Page, Request, expect
from sqlalchemy import event
from tests.support.console_history import make_long_history
from tests.support.million import BUSY_CHAIN

RUNS = int(os.environ.get("CONSOLE_RUNS", "100000"))
JOBS = 6000

ADDRESSES: Mapping[str, tuple[str, ...]] = {
    "dashboard": ("/",),
    "jobs": ("/jobs", "/jobs?q=99"),
    "newJob": ("/jobs/new",),
    "editJob": ("/jobs/{job}/edit",),
    "jobCode": ("/jobs/{script}/code",),
    "job": (
        *("/jobs/{job}", "/jobs/{busy}", "/jobs/{busy}/runs"),
        *("/jobs/{job}/children", "/jobs/{job}/history", "/jobs/{job}/operations"),
    ),
    "runs": (
        *("/runs", "/runs?chain={chain}", "/runs?fire={old}", "/runs?address=http://nobody:1"),
        *("/runs?message=nowhere", "/runs?view=timeline", "/runs?view=timeline&range=all&address=http://nobody:1"),
    ),
    "compare": ("/runs/compare/{old}/{ended}",),
    "run": ("/runs/{old}", "/runs/{chain}", "/runs/{ended}", "/runs/{alive}"),
    "nodes": ("/nodes",),
    "executors": ("/executors",),
    "calendars": ("/calendars",),
    "audit": ("/audit", "/audit?actor=nobody"),
    "alarms": ("/alarms", "/alarms/rules", "/alarms/attempts"),
    "accounts": ("/accounts", "/accounts/tokens", "/accounts/secrets", "/accounts/roles"),
    "system": ("/system", "/system/plugins", "/system/about"),
    "me": ("/me",),
    "welcome": ("/welcome",),
    "wall": ("/wall",),
    "packages": ("/packages",),
    "packageFiles": ("/packages/1/files",),
    "packageJob": ("/packages/jobs/{job}",),
}

OF_LOAD = 24
"""Requests until a page is shown whole."""

ANSWERS = 10
"""Answers of ``events`` while a page stays open, one a second or less, each of which says what runs did meanwhile."""

OF_STRETCH = 36
"""Requests of a page in so many seconds besides those for events; in more seconds, as many more."""

OF_LIST = 6
"""Pages of one list that are asked for without a person who wants more."""

FAST = """([job, group]) => {
  const rate = 40, later = setTimeout, each = setInterval, now = Date.now.bind(Date), ask = fetch;
  let heard = 0, wanted = 0, tell = null, gained = 0, from = null;
  // while no one waits for news, all goes as it does, so that a page that loads slowly asks no more
  const stop = clearTimeout, slow = new Map(), hastened = new Map();
  globalThis.setTimeout = (run, ms = 0, ...rest) => {
    const work = () => run(...rest);
    if (from !== null) return later(work, ms / rate);
    const id = later(() => { slow.delete(id); work(); }, ms);
    slow.set(id, {work, at: now() + ms});
    return id;
  };
  globalThis.clearTimeout = id => { stop(hastened.get(id) ?? id); slow.delete(id); };
  const hasten = () => {
    for (const [id, {work, at}] of slow) {
      stop(id);
      hastened.set(id, later(work, Math.max(0, at - now()) / rate));
    }
    slow.clear();
  };
  globalThis.setInterval = (run, ms = 0, ...rest) => {
    let ticks = 0;
    return each(() => { if (from !== null || ++ticks % rate === 0) run(...rest); }, ms / rate);
  };
  const more = () => (from === null ? 0 : (rate - 1) * (now() - from));
  Date.now = () => Math.round(now() + gained + more());
  globalThis.hear = count => new Promise(done => {
    wanted = heard + count;
    const began = from = now();
    hasten();
    tell = () => { gained += more(); from = null; done(rate * (now() - began) / 1000); };
  });
  globalThis.fetch = async (url, options) => {
    const answer = await ask(url, options);
    if (!String(url).includes("/api/v1/events") || !answer.ok) return answer;
    if (heard === wanted) return answer;
    const said = await answer.json(), id = 1e9 + (heard += 1);
    if (heard === wanted) tell();
    const run = {kind: "run", id, group_id: group, chain_id: id};
    said.items.push({...run, job_id: job, state: "running"}, {...run, id: id + 1e6, job_id: 1, state: "failed"});
    said.items.push({kind: "executor", id: 1, job_id: null, group_id: group, state: "live", chain_id: null});
    return Response.json(said);
  };
}"""
"""While a test waits for news, timers run forty times as fast, and in each second of theirs runs of two jobs change.

``hear`` says how many of its seconds that took the page.
"""

NAMES = """async () => {
  const {PAGES} = await import(new URL('pages.js', document.baseURI).href);
  return [...PAGES, ...globalThis.xwheel.added.value.pages].map(page => page.name);
}"""


Calls = list[tuple[str, dict[str, list[str]]]]


def cursors(calls: Calls) -> Counter[str]:
    """Return how many pages of each list were asked for beyond its first one."""
    pages = {
        (path, str(sorted(item for item in query.items() if item[0] != "after")), query["after"][0])
        for path, query in calls
        if path != "events" and "after" in query
    }
    return Counter(f"{path} {rest}" for path, rest, _ in pages)


@pytest.fixture(scope="module")
def long_site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("long") / "node"
    folder.mkdir()
    make_long_history(folder / "node.db", JOBS, RUNS)
    packages = {"store": {"directory": str(folder / "store"), "group": "demo"}}
    found = Site(folder, "job_package", options={"job_package": packages})
    groups = found.node.call("GET", "groups?limit=1000")["items"]
    found.group_id = next(item["id"] for item in groups if item["app_name"] == "demo")
    yield found
    found.node.close()


@contextmanager
def statements(site: Site) -> Iterator[dict[str, Any]]:
    """Give what a node asks its database meanwhile, with the parameters of one call each."""
    found: dict[str, Any] = {}

    def note(_conn: object, _cursor: object, statement: str, parameters: Any, *_: object) -> None:
        if statement.startswith(("SELECT", "WITH")):
            found.setdefault(statement, parameters)

    engine = site.node._node._db.engine
    event.listen(engine, "before_cursor_execute", note)
    yield found
    event.remove(engine, "before_cursor_execute", note)


GROWING = "run_history|run_log|job|job_version|audit|hourly_report"


def walks(site: Site, asked: Mapping[str, Any]) -> list[str]:
    """Return the statements that go through a whole table of those that grow."""
    found = []
    with site.node._node._db.read() as conn:
        for statement, parameters in asked.items():
            rows = conn.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters).fetchall()
            scans = [row[-1] for row in rows if re.match(rf"SCAN ({GROWING})\b(?! USING)", row[-1])]
            found += [f"{scan}: {statement[:600]}" for scan in scans]
    return found


def fields_of(site: Site) -> dict[str, int]:
    """Return jobs and runs that addresses name."""
    site.node.call("PATCH", f"groups/{site.group_id}", {"glue_types": ["GLUE_SHELL"]})
    return {
        "job": site.job("shown"),
        "busy": JOBS // 2 + 1,
        "script": site.job("script", glue_type="GLUE_SHELL", glue_source="exit 0", handler=""),
        "old": RUNS // 2,
        "chain": BUSY_CHAIN,
        "ended": site.run(site.job("ended")),
        "alive": site.run(site.job("asleep", handler="sleep"), "300", wait=False),
    }


def test_each_page_asks_little_next_to_a_long_history_while_runs_come_and_go(
    browser: Browser, long_site: Site, watch: Watch
) -> None:
    watch.allowed += ["404", "502"]  # packages that are not there, and logs at executors that never were
    fields = fields_of(long_site)
    calls: Calls = []

    def note(request: Request) -> None:
        parts = urlsplit(request.url)
        if parts.path.startswith("/api/v1/"):
            calls.append((parts.path.removeprefix("/api/v1/"), parse_qs(parts.query)))

    found: list[str] = []
    with opened(browser, long_site, watch) as context, statements(long_site) as asked:
        context.add_cookies([long_site.signed_in("chief")])
        context.add_init_script(f"({FAST})([{fields['job']}, {long_site.group_id}])")
        page = context.new_page()
        page.on("request", note)
        visit(page, long_site, "/me")
        assert set(page.evaluate(NAMES)) == set(ADDRESSES), "each page of the router has an address here"
        for name, place in [(name, place) for name, places in ADDRESSES.items() for place in places]:
            place = place.format(**fields)  # noqa: PLW2901
            calls.clear()
            go_to(page, place)
            page.locator(f"[data-page={name}] h1").first.wait_for()
            settled(page)
            found += too_much(f"{place} at first", calls, OF_LOAD)
            for what, count in cursors(calls).items():
                found += [f"{place} goes through {count} pages of {what}"] * (count > OF_LIST)
            calls.clear()
            passed_s = page.evaluate("count => hear(count)", ANSWERS)
            found += too_much(f"{place} meanwhile", calls, round(OF_STRETCH * max(1, passed_s / ANSWERS)))
            if name == "run":
                found += [f"{place} asks again for {query}" for _, query in calls if "chain_id" in query]
    found += walks(long_site, asked)
    assert not found, "\n".join(found)


@contextmanager
def fast_page(browser: Browser, site: Site, watch: Watch, *scripts: str) -> Iterator[Page]:
    """Give a page in which time goes fast."""
    with opened(browser, site, watch) as context:
        context.add_cookies([site.signed_in("chief")])
        for script in (f"({FAST})([1, {site.group_id}])", *scripts):
            context.add_init_script(script)
        yield visit(context.new_page(), site, "/me")


SLOW = """(() => {
  const ask = fetch;
  globalThis.fetch = async (url, options) => {
    if (String(url).includes("/api/v1/runs?")) await new Promise(done => setTimeout(done, 4000));
    options?.signal?.throwIfAborted();
    return ask(url, options);
  };
})()"""
"""Lists of runs are answered after four seconds."""


def test_a_list_is_shown_though_news_come_faster_than_its_answers(
    browser: Browser, long_site: Site, watch: Watch
) -> None:
    with fast_page(browser, long_site, watch, SLOW) as page:
        page.evaluate("() => { hear(100_000); }")
        go_to(page, "/runs")
        expect(page.locator("[data-list=runs] tbody tr")).to_have_count(50)


def test_pages_that_a_person_added_are_not_all_asked_for_again(browser: Browser, long_site: Site, watch: Watch) -> None:
    with fast_page(browser, long_site, watch) as page:
        go_to(page, "/runs")
        rows = page.locator("[data-list=runs] tbody tr")
        for count in range(1, 6):
            expect(rows).to_have_count(50 * count)
            page.get_by_role("button", name="Show more", exact=True).click()
        expect(rows).to_have_count(300)
        shown = rows.evaluate_all("all => all.map(one => one.dataset.id)")
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url) if "/runs?" in request.url else None)
        with page.expect_response(lambda _: len(asked) == 4):
            page.evaluate("hear(1)")
        # a fifth page would be asked for before this is answered
        page.evaluate("async () => { for (let n = 0; n < 3; n += 1) await (await fetch('api/v1/session')).text(); }")
        assert len(asked) == 4, "one event lets the first four of six pages be asked for, once"
        assert rows.evaluate_all("all => all.map(one => one.dataset.id)") == shown


def too_much(where: str, calls: Calls, most: int) -> Iterator[str]:
    """Yield what is wrong with the requests of a page."""
    others = [call for call in calls if call[0] != "events"]
    if len(others) > most:
        yield f"{where} asks {len(others)} times: {Counter(path for path, _ in others)}"
