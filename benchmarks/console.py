"""How quick the console is in real Chromium, and what open consoles cost the node: 5,000 jobs, a million runs.

The node is a process of its own, with 200 executors in its database and a real one that fires twenty jobs a second.

* Paint: from the start of navigation in a context without a cache until the rows of the list, or the dashboard's tiles,
  are painted, by the page's own clock. Bytes: what was asked for until then, compressed as it came, without heads; the
  library of charts, which a page asks for when it has something to draw, is left out.
* Keys: from the event of a key in a filter until the list that it brings is painted.
* Log: the time between frames while a log of 200,000 lines is scrolled by the wheel; and the same of an empty
  box, for what else the machine does.
* Tail: tasks of the page's main thread while 500 lines a second come, after the first lines.
* Consoles: processor time of the node with fifty that ask for events each second, less that without, in turn;
  lateness is from due to accepted, of fires in the same stretches. Once more with fifty that show a list, too.

Needs Playwright:
``.venv/plugins/console/bin/python -m benchmarks.console [--json] [--backend mariadb] [--only keys]``.
"""

from __future__ import annotations

import http.client
import json
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from typing import Any

from playwright.sync_api import Browser, CDPSession, Page
from sqlalchemy import text
from xwheel_accounts.accounts import AccountManager

from benchmarks._browser import NOTES, chromium, fresh, open_at, wait_for
from benchmarks._history import fill
from benchmarks._report import Report
from benchmarks._site import Site, cpu_s, site, until
from tests.support.databases import BACKENDS
from xwheel.access.rights import Rights
from xwheel.clock import SystemClock
from xwheel.config import Config
from xwheel.model.access import ALL
from xwheel.plugin.discovery import load_plugins
from xwheel.scheduler.audit_trail import AuditTrail

NAME = "bench"
PASSWORD = "nine blue ducks on a wall"  # of an account that lives as long as the benchmark
PAGES = {
    "jobs": ("/jobs", "[data-list=jobs] tbody tr"),
    "runs": ("/runs", "[data-list=runs] tbody tr"),
    "dashboard": ("/", "[data-tile]"),
}
PAINT_MS, BYTES_KB, KEY_MS, FRAME_MS, TASK_MS, CORE_PERCENT = 1000, 80, 200, 50, 100, 10
LOG_LINES = 200_000
TAIL_S, TAIL_LINES = 20, 500
EMPTY_BOX = """<div class="log"><div class="lines" style="height: 600px; overflow: auto">
  <div style="height: 4000000px; background: linear-gradient(red, blue)"></div></div></div>"""
"""What the machine can do next to all else: scrolled in the same way."""

CONSOLES = 50
LISTS = ["/api/v1/jobs?limit=50", "/api/v1/jobs/recent?job_id=" + ",".join(map(str, range(1, 51)))]
STRETCH_S = 20
FIRES = 20

STEPS = ("paint", "keys", "log", "tail", "consoles", "lists")
NAME_FIELD, JOB_FIELD = "input[name=q]", "input[name=job]"
CONTAINS = "(rows, typed) => rows.length > 0 && rows.every((row) => row.textContent.includes(typed))"
OF_JOB = """(rows) => rows.length > 0
  && rows.every((row) => row.querySelector('[href*="/jobs/"]')?.textContent === '%s')"""


def sign_in(place: Site, count: int) -> list[str]:
    """Make an account that may do everything, and return the cookies of sessions of it."""
    clock = SystemClock()
    plugins = load_plugins(Config())
    trail = AuditTrail(plugins, place.db, clock)
    manager = AccountManager(place.db, clock, trail, Rights(plugins.gates))
    manager.create(NAME, ALL, password=PASSWORD, must_change=False)
    cookies = []
    for _ in range(count):
        conn = http.client.HTTPConnection("127.0.0.1", place.port)
        body = json.dumps({"name": NAME, "password": PASSWORD})
        conn.request("POST", "/api/v1/session", body, {"Content-Type": "application/json"})
        answer = conn.getresponse()
        answer.read()
        if answer.status != http.client.CREATED:
            raise SystemExit(f"no session: {answer.status}")
        cookies.append((answer.getheader("Set-Cookie") or "").partition(";")[0])
        conn.close()
    return cookies


class Bench:
    """One site, one browser, one report."""

    def __init__(self, report: Report, place: Site, browser: Browser, cookies: list[str]) -> None:
        self.report, self.place, self.browser, self.cookies = report, place, browser, cookies
        self.url = f"http://127.0.0.1:{place.port}"
        self.fires: list[int] = []

    def figure(self, name: str, samples: Iterable[float], unit: str) -> None:
        """Record a figure, and say it at once: all of them take ten minutes."""
        values = list(samples)
        self.report.figure(name, values, unit)
        print(f"{name}: {', '.join(f'{value:.4g}' for value in values)} {unit}", file=sys.stderr, flush=True)

    def limit(self, name: str, samples: Iterable[float], unit: str, most: float, of: str = "median") -> None:
        """Record a figure next to its limit; ``of`` says which of its samples must keep to it."""
        self.figure(name, samples, unit)
        value = float(self.report.figures[name][of])
        words = "held" if value < most else "MISSED"
        self.report.note(name, f"limit {most:g} {unit} ({of}): {words}")

    def job(self, name: str, **fields: Any) -> int:
        """Make a job; return its id."""
        body = {"group_id": self.place.group_id, "name": name, **fields}
        return int(self.place.client.call("POST", "/api/v1/jobs", body)["id"])

    def start(self, job_id: int, param: str) -> int:
        """Run a job; return the run's id."""
        return int(self.place.client.call("POST", f"/api/v1/jobs/{job_id}/run", {"param": param})["id"])

    # first paint

    def paint(self) -> None:
        """Open each page in contexts without a cache."""
        for name, (path, selector) in PAGES.items():
            found = [self._paint(path, selector) for _ in range(self.report.args.repeats)]
            self.limit(f"first paint, {name}", [one["shown"] for one in found], "ms", PAINT_MS)
            self.limit(f"bytes before charts, {name}", [one["bytes"] / 1000 for one in found], "KB", BYTES_KB)
            self.figure(f"of these, answers of the API, {name}", [one["api"] / 1000 for one in found], "KB")
            self.figure(f"requests until then, {name}", [one["count"] for one in found], "")

    def _paint(self, path: str, selector: str) -> dict[str, float]:
        with fresh(self.browser, self.url, self.cookies[0]) as context:
            page = open_at(context, self.url, path, selector)
            page.wait_for_timeout(500)  # what was asked for before the paint has come
            found: dict[str, float] = page.evaluate("""() => {
              const all = [...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource")]
                .filter((one) => one.startTime < bench.shownMs && !one.name.includes("vendor/charts.js"));
              const sum = (some) => some.reduce((bytes, one) => bytes + one.encodedBodySize, 0);
              const api = all.filter((one) => one.name.includes("/api/v1/"));
              return {shown: bench.shownMs, bytes: sum(all), api: sum(api), count: all.length};
            }""")
            return found

    # keys

    def keys(self) -> None:
        """Type into filters, letter by letter."""
        names = ("4712", "1234", "3057", "2468", "4999")[: max(1, min(5, self.report.args.repeats))]
        with fresh(self.browser, self.url, self.cookies[0]) as context:
            page = open_at(context, self.url, *PAGES["jobs"])
            took = []
            for typed in names:
                took += [self._key(page, (NAME_FIELD, PAGES["jobs"][1], CONTAINS), key) for key in typed]
                page.fill(NAME_FIELD, "")
                wait_for(page, "() => document.querySelectorAll('[data-list=jobs] tbody tr').length === 50")
                page.wait_for_timeout(500)
        self.limit("key in the filter of jobs, to its list", took, "ms", KEY_MS)
        self._job_of_runs(names)

    def _key(self, page: Page, of: tuple[str, str, str], key: str, kind: str = "input") -> float:
        field, rows, is_shown = of
        page.evaluate(f"([field, rows, kind]) => bench.type(field, rows, {is_shown}, kind)", [field, rows, kind])
        page.locator(field).press(key)
        wait_for(page, "() => bench.keyMs !== null")
        return float(page.evaluate("bench.keyMs"))

    def _job_of_runs(self, names: tuple[str, ...]) -> None:
        took = []
        for name in names:
            with fresh(self.browser, self.url, self.cookies[0]) as context:
                page = open_at(context, self.url, *PAGES["runs"])
                page.locator(JOB_FIELD).fill(name)
                page.locator(f"datalist option[value='{name}']").wait_for(state="attached")
                took.append(self._key(page, (JOB_FIELD, PAGES["runs"][1], OF_JOB % name), "Enter", "keydown"))
        self.limit("job chosen in the filter of runs, to its list", took, "ms", KEY_MS)

    # logs

    def log(self) -> None:
        """Scroll a long log by the wheel, to its beginning and back."""
        run_id = self.start(self.job("long log", handler="writes"), f"{LOG_LINES} 0")
        self._wait_for_log(run_id, LOG_LINES)
        longest, slow, frames, empty = [], [], [], []
        for _ in range(self.report.args.repeats):
            with fresh(self.browser, self.url, self.cookies[0]) as context:
                page = open_at(context, self.url, f"/runs/{run_id}", ".log .row")
                page.wait_for_timeout(1000)
                found = self._scroll(page)
                longest.append(max(found))
                frames.append(statistics.median(found))
                slow.append(sum(one > FRAME_MS for one in found))
                page.goto("about:blank")
                page.set_content(EMPTY_BOX)
                page.evaluate(f"() => {{ {NOTES} }}")
                empty.append(self._scroll(page))
        self.figure("an empty box scrolled, longest frame", [max(one) for one in empty], "ms")
        self.figure(f"an empty box, frames over {FRAME_MS} ms", [sum(ms > FRAME_MS for ms in one) for one in empty], "")
        self.figure(f"log of {LOG_LINES} lines scrolled, a frame", frames, "ms")
        self.limit(f"log of {LOG_LINES} lines scrolled, longest frame", longest, "ms", FRAME_MS)
        self.figure(f"frames over {FRAME_MS} ms", slow, "")

    def _wait_for_log(self, run_id: int, lines: int) -> None:
        def is_there() -> None:
            if not self.place.client.call("GET", f"/api/v1/runs/{run_id}/log?from_line={lines + 9}")["is_end"]:
                raise IndexError

        until(is_there, 120)

    def _scroll(self, page: Page) -> list[float]:
        box = page.locator(".log .lines").bounding_box()
        if box is None:
            raise SystemExit("there is no log")
        cdp = page.context.new_cdp_session(page)
        at = {"x": box["x"] + box["width"] / 2, "y": box["y"] + box["height"] / 2}
        page.evaluate("() => bench.watchFrames()")
        for way in (1, -1):  # down is a negative distance
            for speed in (2000, 40_000):
                cdp.send(
                    "Input.synthesizeScrollGesture",
                    {
                        **at,
                        "yDistance": way * speed * 2,
                        "speed": speed,
                        "gestureSourceType": "mouse",
                        "preventFling": True,
                    },
                )
        found: list[float] = page.evaluate("() => { bench.goes = false; return bench.frames; }")
        return found

    def tail(self) -> None:
        """Follow a log that grows."""
        job_id = self.job("live tail", handler="paced")
        longest, over, came, busy = [], [], [], []
        for _ in range(min(3, self.report.args.repeats)):
            run_id = self.start(job_id, f"{TAIL_S + 10} {TAIL_LINES}")
            with fresh(self.browser, self.url, self.cookies[0]) as context:
                page = open_at(context, self.url, f"/runs/{run_id}", ".log .row")
                page.wait_for_timeout(1000)
                cdp = page.context.new_cdp_session(page)
                cdp.send("Performance.enable", {"timeDomain": "threadTicks"})
                page.evaluate("() => bench.watchTasks()")
                worked_s = self._worked_s(cdp)
                lines = "() => Number(document.querySelector('.log').dataset.lines)"
                before, began = page.evaluate(lines), time.monotonic()
                page.wait_for_timeout(TAIL_S * 1000)
                came.append((page.evaluate(lines) - before) / (time.monotonic() - began))
                busy.append(1000 * (self._worked_s(cdp) - worked_s) / TAIL_S)
                tasks: list[float] = page.evaluate("bench.tasks")
                longest.append(max(tasks, default=0.0))
                over.append(sum(one > TASK_MS for one in tasks))
            self._wait_for_end(run_id)
        self.figure("live tail, lines that came", came, "1/s")
        self.limit("live tail, longest task (0: none over 50 ms)", longest, "ms", TASK_MS, "max")
        self.figure(f"tasks over {TASK_MS} ms", over, "")
        self.figure("live tail, the page's main thread works", busy, "ms/s")

    def _worked_s(self, cdp: CDPSession) -> float:
        """Return for how long the main thread of a page has had a processor."""
        found = {item["name"]: item["value"] for item in cdp.send("Performance.getMetrics")["metrics"]}
        return float(found["TaskDuration"])

    def _wait_for_end(self, run_id: int) -> None:
        def is_over() -> None:
            if not self.place.client.call("GET", f"/api/v1/runs/{run_id}")["finished_ms"]:
                raise IndexError

        until(is_over, 60)

    # open consoles

    def fire(self) -> None:
        """Let jobs fire each second from now on."""
        for number in range(FIRES):
            schedule = {"schedule_type": "FIX_RATE", "schedule_conf": "1s", "enabled": True}
            self.fires.append(self.job(f"each second {number}", handler="nothing", **schedule))

    def consoles(self, name: str, lists: list[str], most: float | None = CORE_PERCENT) -> None:
        """Compare the node with and without fifty open consoles, in turn."""
        cost, alone, p99 = [], [], []
        late: dict[bool, list[float]] = {False: [], True: []}
        for number in range(min(3, self.report.args.repeats)):
            used = {}
            for is_open in (False, True) if number % 2 else (True, False):
                used[is_open], took = self._stretch(lists) if is_open else (self._watch(), None)
                late[is_open].append(self._late_ms())
                p99 += [took] if took is not None else []
            cost.append(100 * (used[True] - used[False]) / STRETCH_S)
            alone.append(100 * used[False] / STRETCH_S)
        self.figure(f"core of the node without consoles ({name})", alone, "%")
        label = f"core more with {CONSOLES} consoles ({name})"
        if most is None:
            self.figure(label, cost, "%")
        else:
            self.limit(label, cost, "%", most)
        self.figure(f"their slowest call in a hundred ({name})", p99, "ms")
        self.figure(f"fires late, p99, without consoles ({name})", late[False], "ms")
        self.figure(f"fires late, p99, with consoles ({name})", late[True], "ms")
        self.report.ratio(f"late without / with ({name})", late[False], late[True])

    def _watch(self) -> float:
        time.sleep(2)
        self._began_ms = int(time.time() * 1000)
        before = cpu_s(self.place.node.pid)
        time.sleep(STRETCH_S)
        self._ended_ms = int(time.time() * 1000)
        return cpu_s(self.place.node.pid) - before

    def _stretch(self, lists: list[str]) -> tuple[float, float]:
        orders = {"port": self.place.port, "cookies": self.cookies, "lists": lists}
        command = [sys.executable, "-m", "benchmarks._consoles"]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
            assert child.stdin is not None
            child.stdin.write(json.dumps(orders).encode() + b"\n")
            child.stdin.flush()
            used = self._watch()
            said, _ = child.communicate()
        return used, float(json.loads(said)["p99_ms"])

    def _late_ms(self) -> float:
        time.sleep(1)
        names = ", ".join(map(str, self.fires))
        query = (
            "SELECT coalesce(accepted_ms, finished_ms) - due_ms FROM run_history WHERE due_ms BETWEEN :first "
            f"AND :last AND job_id IN ({names}) AND dispatched_ms IS NOT NULL"
        )
        with self.place.db.read() as conn:
            rows = conn.execute(text(query), {"first": self._began_ms, "last": self._ended_ms}).all()
        late = sorted(int(value) for (value,) in rows if value is not None)
        if len(late) < FIRES * STRETCH_S * 0.9:
            raise SystemExit(f"{len(late)} fires in {STRETCH_S} s, not {FIRES * STRETCH_S}")
        return late[int(0.99 * len(late))]


def main() -> None:
    """Measure, and print."""
    report = Report(__doc__ or "", repeats=5)
    option = report.parser.add_argument
    option("--backend", default="sqlite", choices=["sqlite", *sorted(BACKENDS)])
    option("--jobs", type=int, default=5_000)
    option("--runs", type=int, default=1_000_000)
    option("--only", action="append", choices=STEPS, help="again for more")
    args = report.parse()
    signal.signal(signal.SIGTERM, lambda *_: (_ for _ in ()).throw(KeyboardInterrupt()))
    wanted = args.only or STEPS
    with (
        tempfile.TemporaryDirectory() as logs,
        site(
            prepare=lambda db: fill(db, args.jobs, args.runs),
            backend=args.backend,
            handlers="benchmarks.console_handlers",
            settings={"run_logs": {"store": "file"}, "plugins.options.log_files": {"directory": logs}},
        ) as place,
        chromium() as browser,
    ):
        bench = Bench(report, place, browser, sign_in(place, CONSOLES))
        steps: dict[str, Callable[[], None]] = {
            "paint": bench.paint,
            "keys": bench.keys,
            "log": bench.log,
            "tail": bench.tail,
        }
        for name, step in steps.items():
            if name in wanted:
                step()
        if {"consoles", "lists"} & set(wanted):
            bench.fire()
        if "consoles" in wanted:
            bench.consoles("events", [])
        if "lists" in wanted:
            bench.consoles("events and a list of jobs", LISTS, None)
    report.finish()


if __name__ == "__main__":
    main()
