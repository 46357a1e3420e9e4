"""A real node with the console, and real Chromium, which may reach nothing but that node."""

from __future__ import annotations

import os
import queue
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import requests
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Route, expect, sync_playwright
from xwheel.executor import JobContext, job
from xwheel.testing import NodeProcess, NodeSite, wait_until

sys.path.append(str(Path(__file__).resolve().parents[3]))

from tests.support import chromium

PASSWORD = "correct horse battery staple 42"
FIRST_PASSWORD = "somebody else chose this one 7"
ROLES = {"viewer": "viewer", "operator": "operator", "editor": "editor", "chief": "admin"}
WAIT_MS = 15_000
expect.set_options(timeout=WAIT_MS)


@job("talk")
def talk(context: JobContext) -> str:
    """Write the lines that the parameter counts, or the parameter itself."""
    count = int(context.param) if context.param.isdigit() else 0
    for number in range(count):
        context.log(f"line {number + 1} of {count}")
    if not count:
        context.log(context.param)
    return f"{count} lines"


@job("sleep")
def sleep(context: JobContext) -> str:
    """Run for as many seconds as the parameter says, saying so each half second."""
    end = time.monotonic() + float(context.param or "60")
    while time.monotonic() < end:
        context.log(f"{end - time.monotonic():.1f} s left")
        context.wait(0.5)
    return "slept"


SAID: queue.SimpleQueue[str | None] = queue.SimpleQueue()
"""What a run of the handler ``say`` writes into its log, line by line; None ends it."""


@job("say")
def say(context: JobContext) -> str:
    """Write what a test says, when it says it."""
    while (line := SAID.get(timeout=60)) is not None:
        context.log(line)
    return "said"


def make_account(node: NodeProcess | NodeSite, url: str, name: str, **rights: Any) -> str:
    """Make an account whose password is that of the tests, chosen by itself; return its name."""
    node.call("POST", "accounts", {"name": name, "password": FIRST_PASSWORD, **rights})
    with requests.Session() as session:
        begun = session.post(
            f"{url}/api/v1/session", json={"name": name, "password": FIRST_PASSWORD}, timeout=30
        )
        begun.raise_for_status()
        changed = session.put(
            f"{url}/api/v1/me/password",
            json={"old_password": FIRST_PASSWORD, "password": PASSWORD},
            headers={"X-Xwheel-CSRF": begun.json()["csrf"]},
            timeout=30,
        )
        changed.raise_for_status()
    return name


def cookie_of(url: str, name: str) -> dict[str, Any]:
    """Return the cookie of a session that begins now."""
    answer = requests.post(f"{url}/api/v1/session", json={"name": name, "password": PASSWORD}, timeout=30)
    answer.raise_for_status()
    return {"name": "xwheel_session", "value": answer.cookies["xwheel_session"], "url": url}


class Site:
    """A node with the console and an executor, and accounts of each role.

    Attributes:
        node: Calls of the management API with the first token.
        url: Where the console is.
    """

    def __init__(self, folder: Path, *plugins: object, **more: Any) -> None:
        self.node = NodeSite(folder, "console", *plugins, handlers=[talk, sleep, say], **more)
        self.url = self.node.url
        self.group_id: int = self.node.call("GET", "groups")["items"][0]["id"]
        for name, role in ROLES.items():
            self.account(name, role=role)

    def account(self, name: str, **rights: Any) -> str:
        """Make an account whose password is that of the tests; return its name."""
        return make_account(self.node, self.url, name, **rights)

    def job(self, name: str, **fields: Any) -> int:
        """Make a job; return its id."""
        known = {"group_id": self.group_id, "name": name, "handler": "hello"}
        return int(self.node.call("POST", "jobs", {**known, **fields})["id"])

    def run(self, job_id: int, param: str | None = None, *, wait: bool = True) -> int:
        """Run a job once; return the run's id."""
        run_id = int(self.node.call("POST", f"jobs/{job_id}/run", {"param": param} if param else {})["id"])
        if wait:
            self.node.wait_for_run(run_id)
        return run_id

    def wait_for_runs(self, job_id: int, count: int) -> list[dict[str, Any]]:
        """Wait until a job has so many runs, and return them, the newest first."""

        def found() -> Any:
            items = self.node.call("GET", f"runs?job_id={job_id}")["items"]
            return items if len(items) >= count else None

        items: list[dict[str, Any]] = wait_until(found)
        return items

    def cookie(self, name: str) -> dict[str, Any]:
        """Return a session's cookie of an account."""
        return cookie_of(self.url, name)


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    found = Site(tmp_path_factory.mktemp("site") / "node")
    yield found
    found.node.close()


@contextmanager
def launched() -> Iterator[Browser]:
    """Start Chromium."""
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(
            executable_path=chromium.PLACE, headless=True, args=chromium.flags()
        )
        yield found
        found.close()


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    if not Path(chromium.PLACE).exists() and not os.environ.get("REQUIRE_SERVERS"):
        pytest.skip("Chromium is not installed: apt-get install chromium")
    with launched() as found:
        yield found


class Watch:
    """What went wrong in a page: scripts, the console, the policy for content, calls to elsewhere.

    Attributes:
        found: Sentences; a test fails if any are left.
        allowed: Parts of those that a test expects, such as ``404``.
    """

    def __init__(self) -> None:
        self.found: list[str] = []
        self.allowed: list[str] = []

    def attach(self, context: BrowserContext, url: str) -> None:
        def on_route(route: Route) -> None:
            if route.request.url.startswith((url, "data:", "blob:")):
                route.continue_()
            else:
                self.found.append(f"asked for {route.request.url}")
                route.abort()

        def on_console(message: ConsoleMessage) -> None:
            if message.type in {"error", "warning"}:
                self.found.append(f"{message.type}: {message.text} ({message.location.get('url', '')})")

        context.route("**/*", on_route)
        context.on("console", on_console)
        context.on("weberror", lambda error: self.found.append(f"uncaught: {error.error}"))

    @property
    def problems(self) -> list[str]:
        """What is left when what was expected is taken out."""
        return [item for item in self.found if not any(part in item for part in self.allowed)]


Open = Callable[..., Page]


@pytest.fixture
def watch() -> Iterator[Watch]:
    found = Watch()
    yield found
    assert not found.problems, "\n".join(found.problems)


@contextmanager
def opened(browser: Browser, site: Site, watch: Watch, **options: Any) -> Iterator[BrowserContext]:
    """Give a browser context that watches what goes wrong."""
    known = {"locale": "en-US", "timezone_id": "UTC", "reduced_motion": "reduce"}
    context = browser.new_context(**{"viewport": {"width": 1440, "height": 900}, **known, **options})
    watch.attach(context, site.url)
    # as in a browser in which somebody has signed in before
    context.add_init_script("try { localStorage.setItem('xwheel.known', 'yes') } catch {}")
    try:
        yield context
    finally:
        context.close()


def visit(page: Page, site: Site, place: str) -> Page:
    """Open a place behind the # and wait until the console shows it."""
    page.goto(f"{site.url}/#{place}")
    page.locator("#app[data-ready]").wait_for()
    page.locator("[data-page] h1").first.wait_for()
    return page


@pytest.fixture
def open_page(browser: Browser, site: Site, watch: Watch) -> Iterator[Open]:
    """Give a function that opens a place as an account (``name``), in a context of its own."""
    contexts: list[Any] = []

    def make(place: str = "/", name: str | None = "chief", **options: Any) -> Page:
        manager = opened(browser, site, watch, **options)
        context = manager.__enter__()
        contexts.append(manager)
        if name is not None:
            context.add_cookies([site.cookie(name)])
        return visit(context.new_page(), site, place)

    yield make
    for manager in reversed(contexts):
        manager.__exit__(None, None, None)
