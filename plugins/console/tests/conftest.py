"""A real node with the console, and real Chromium, which may reach nothing but that node."""

from __future__ import annotations

import os
import queue
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Protocol

import pytest
import requests
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Locator,
    Page,
    Request,
    ViewportSize,
    WebError,
    expect,
    sync_playwright,
)
from xwheel.executor import JobContext, job
from xwheel.plugin import hookimpl
from xwheel_alarms import Alarm
from xwheel_devtools.testing import NodeProcess, NodeSite, wait_until

sys.path.append(str(Path(__file__).resolve().parents[3]))

from tests.support import chromium

PASSWORD = "nine herons above the weir 42"
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


@job("stumble")
def stumble(context: JobContext) -> str:
    """Fail after a moment, and say the parameter: the node knows when it began."""
    context.wait(0.5)
    raise RuntimeError(context.param)


SAID: queue.SimpleQueue[str | None] = queue.SimpleQueue()
"""What a run of the handler ``say`` writes into its log, line by line; None ends it."""


@job("say")
def say(context: JobContext) -> str:
    """Write what a test says, when it says it."""
    while (line := SAID.get(timeout=600)) is not None:
        context.log(line)
    return "said"


def make_account(node: NodeProcess | NodeSite, url: str, name: str, **rights: Any) -> str:
    """Make an account whose password is that of the tests, chosen by itself; return its name."""
    node.call("POST", "accounts", {"name": name, "password": FIRST_PASSWORD, **rights})
    with requests.Session() as session:
        begun = session.post(f"{url}/api/v1/session", json={"name": name, "password": FIRST_PASSWORD}, timeout=30)
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
    """Return the cookie of a session that begins now, and in which the password was typed once more."""
    with requests.Session() as session:
        answer = session.post(f"{url}/api/v1/session", json={"name": name, "password": PASSWORD}, timeout=30)
        answer.raise_for_status()
        csrf = {"X-Xwheel-CSRF": answer.json()["csrf"]}
        confirmed = session.post(f"{url}/api/v1/session/confirm", json={"password": PASSWORD}, headers=csrf, timeout=30)
        confirmed.raise_for_status()
    return {"name": "xwheel_session", "value": answer.cookies["xwheel_session"], "url": url}


CONFIRMED_S = 600
"""How long a session may make tokens and the like after the password was typed."""

ANSWER = "the gateway said 503: come back later"


class Gateway:
    """A plugin whose alarm channel always fails."""

    name = "gateway"

    def send(self, alarm: Alarm) -> str:
        raise RuntimeError(ANSWER)

    @hookimpl
    def xwheel_register_alarms(self) -> list[Gateway]:
        return [self]


class Served(Protocol):
    """What has a console at an address."""

    url: str


class Site:
    """A node with the console and an executor, and accounts of each role.

    Attributes:
        node: Calls of the management API with the first token.
        url: Where the console is.
    """

    def __init__(self, folder: Path, *plugins: object, settings: Mapping[str, Any] | None = None, **more: Any) -> None:
        # enough places for calls to executors and plugins that none of a page that was just left is in the way
        with_places = {"api": {"threads": 64}, **(settings or {})}
        handlers = [talk, sleep, stumble, say]
        self.node = NodeSite(
            folder, "console", "jobs_as_code", *plugins, handlers=handlers, settings=with_places, **more
        )
        self.url = self.node.url
        self.group_id: int = self.node.call("GET", "groups")["items"][0]["id"]
        self._cookies: dict[str, tuple[dict[str, Any], float]] = {}
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
        """Wait until a job has this many runs, and return them, the newest first."""

        def found() -> Any:
            items = self.node.call("GET", f"runs?job_id={job_id}")["items"]
            return items if len(items) >= count else None

        items: list[dict[str, Any]] = wait_until(found)
        return items

    def cookie(self, name: str) -> dict[str, Any]:
        """Return the cookie of a session of an account that begins now."""
        return cookie_of(self.url, name)

    def signed_in(self, name: str) -> dict[str, Any]:
        """Return the cookie of a session of an account, the same for minutes as long as no page ends that session."""
        known, begun_s = self._cookies.get(name, (None, 0.0))
        if known is None or time.monotonic() - begun_s > CONFIRMED_S / 2 or not self._is_open(known["value"]):
            known = self.cookie(name)
            self._cookies[name] = known, time.monotonic()
        return known

    def _is_open(self, cookie: str) -> bool:
        answer = requests.get(f"{self.url}/api/v1/session", cookies={"xwheel_session": cookie}, timeout=30)
        return answer.status_code == 200

    def forget_preferences(self, cookie: str) -> None:
        """Delete what pages saved as the preferences of a session's account, and end the session.

        A page saves what was chosen a moment later: what it still asks for in this session is refused from then on.
        """
        with requests.Session() as session:
            session.cookies.set("xwheel_session", cookie)
            known = session.get(f"{self.url}/api/v1/session", timeout=30).json()
            if known.get("name") not in ROLES:
                return
            csrf = {"X-Xwheel-CSRF": known["csrf"]}
            session.delete(f"{self.url}/api/v1/session", headers=csrf, timeout=30).raise_for_status()
            session.cookies.clear()
            session.cookies.set("xwheel_session", self.signed_in(known["name"])["value"])
            known = session.get(f"{self.url}/api/v1/session", timeout=30).json()
            address = f"{self.url}/api/v1/me/settings/preferences"
            gone = session.delete(address, headers={"X-Xwheel-CSRF": known["csrf"]}, timeout=30)
            if gone.status_code != 404:  # nothing may have been saved
                gone.raise_for_status()


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    found = Site(tmp_path_factory.mktemp("site") / "node", Gateway())
    yield found
    found.node.close()


@contextmanager
def launched() -> Iterator[Browser]:
    """Start Chromium."""
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=chromium.PLACE, headless=True, args=chromium.flags())
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

    def attach(self, context: BrowserContext, url: str) -> Callable[[], None]:
        """Note what goes wrong in a context, until what is returned is called.

        Nothing is held up: what a page asks others for ends at the browser's own resolver, and is noted here.
        """
        own = (url, "data:", "blob:", "about:")

        def on_request(request: Request) -> None:
            if not request.url.startswith(own):
                self.found.append(f"asked for {request.url}")

        def on_console(message: ConsoleMessage) -> None:
            if message.type in {"error", "warning"}:
                self.found.append(f"{message.type}: {message.text} ({message.location.get('url', '')})")

        def on_error(error: WebError) -> None:
            self.found.append(f"uncaught: {error.error}")

        context.on("request", on_request)
        context.on("console", on_console)
        context.on("weberror", on_error)

        def detach() -> None:
            context.remove_listener("request", on_request)
            context.remove_listener("console", on_console)
            context.remove_listener("weberror", on_error)

        return detach

    @property
    def problems(self) -> list[str]:
        """The sentences that no test expects."""
        return [item for item in self.found if not any(part in item for part in self.allowed)]


Open = Callable[..., Page]

# for tests of pages that must be whole in all of them
in_all_looks = pytest.mark.parametrize(
    ("language", "dark"),
    [
        pytest.param("en", False, id="en-light"),
        pytest.param("zh-CN", True, id="zh-CN-dark"),
        pytest.param("en", True, id="en-dark", marks=pytest.mark.nightly),
        pytest.param("zh-CN", False, id="zh-CN-light", marks=pytest.mark.nightly),
    ],
)


@pytest.fixture
def watch() -> Iterator[Watch]:
    found = Watch()
    yield found
    assert not found.problems, "\n".join(found.problems)


KNOWN_OPTIONS = {
    "viewport": {"width": 1440, "height": 900},
    "locale": "en-US",
    "timezone_id": "UTC",
    "reduced_motion": "reduce",
}


def new_context(browser: Browser, **options: Any) -> BrowserContext:
    """Return a context as of a browser in which somebody has signed in before."""
    context = browser.new_context(**{**KNOWN_OPTIONS, **options})
    context.add_init_script("try { localStorage.setItem('xwheel.known', 'yes') } catch {}")
    return context


@contextmanager
def opened(browser: Browser, site: Served, watch: Watch, **options: Any) -> Iterator[BrowserContext]:
    """Give a browser context of its own that watches what goes wrong."""
    context = new_context(browser, **options)
    watch.attach(context, site.url)
    try:
        yield context
    finally:
        context.close()


def visit(page: Page, site: Served, place: str, *, waits: bool = True) -> Page:
    """Open a place behind the #, and wait until the console shows it and, unless told not to, all that it asked for."""
    page.goto(f"{site.url}/#{place}")
    page.locator("#app[data-ready]").wait_for()
    page.locator("[data-page] h1").first.wait_for()
    return settled(page) if waits else page


def go_to(page: Page, place: str) -> Page:
    """Change the address as a link does, in a page that is open, and wait until what is there is loaded."""
    page.evaluate("place => { location.hash = place; }", place)
    return settled(page)


def row(page: Page, name: str, text: str) -> Locator:
    """Return the first row with a text in a list."""
    return page.locator(f"[data-list={name}] tbody tr[data-id]").filter(has_text=text).first


def choose(page: Page, menu: str, item: str) -> None:
    """Choose an item of a menu."""
    page.get_by_role("button", name=menu, exact=True).click()
    page.get_by_role("menuitem", name=item, exact=True).click()


def dialog(page: Page) -> Locator:
    """Return the topmost dialog."""
    return page.locator("dialog[open]").last


def settled(page: Page) -> Page:
    """Wait until nothing of the page is still loaded."""
    expect(page.locator("#app .skeleton")).to_have_count(0)
    expect(page.locator("#app [aria-busy=true]")).to_have_count(0)
    return page


CHOSEN = "(() => { try { return localStorage.getItem('xwheel.preferences') !== null; } catch { return false; } })()"
"""Whether a person has chosen a language or the like in a page, whether that was saved with the account or will be."""


def page_of(context: BrowserContext) -> Page:
    """Return the page of a context, empty: a new one costs more than all that most tests do."""
    return context.pages[0] if context.pages else context.new_page()


class Contexts:
    """Contexts of one browser, used again by later tests: each keeps one page, and what was loaded in its cache.

    Cookies, what pages stored, where the page was, how large it was, and preferences that were saved with the account
    are gone before the next test.
    """

    def __init__(self, browser: Browser) -> None:
        self.browser = browser
        self._idle: dict[str, list[BrowserContext]] = {}

    @contextmanager
    def one(self, site: Site, watch: Watch, **options: Any) -> Iterator[BrowserContext]:
        """Give a context that no other test uses meanwhile."""
        idle = self._idle.setdefault(f"{site.url} {sorted(options.items())}", [])
        context = idle.pop() if idle else new_context(self.browser, **options)
        detach = watch.attach(context, site.url)
        yield context
        is_chosen = any(page.evaluate(CHOSEN) for page in context.pages)
        detach()
        context.unroute_all(behavior="ignoreErrors")
        page, *others = context.pages or [context.new_page()]
        for other in others:
            other.close()
        page.unroute_all(behavior="ignoreErrors")
        if is_chosen:
            for cookie in context.cookies(site.url):
                site.forget_preferences(cookie["value"])
        self._empty(page, site.url, {**KNOWN_OPTIONS, **options})
        context.clear_cookies()
        idle.append(context)

    @staticmethod
    def _empty(page: Page, url: str, options: dict[str, Any]) -> None:
        """Leave a page as a new one is."""
        page.goto("about:blank")
        page.set_viewport_size(options["viewport"])
        page.emulate_media(color_scheme=options.get("color_scheme", "light"))
        page.mouse.move(0, 0)
        session = page.context.new_cdp_session(page)
        session.send("Storage.clearDataForOrigin", {"origin": url, "storageTypes": "local_storage"})
        session.send("Page.resetNavigationHistory")
        session.detach()


@pytest.fixture(scope="session")
def contexts(browser: Browser) -> Contexts:
    return Contexts(browser)


@pytest.fixture
def open_page(contexts: Contexts, site: Site, watch: Watch) -> Iterator[Open]:
    """Give a function that opens a place as an account (``name``), as in a browser of its own.

    With ``alone=True`` no later test gets its context: for what cannot be undone there, such as another clock or a slow
    network.
    """
    with ExitStack() as stack:

        def make(
            place: str = "/",
            name: str | None = "chief",
            *,
            alone: bool = False,
            viewport: ViewportSize | None = None,
            dark: bool = False,
            **options: Any,
        ) -> Page:
            taken = opened(contexts.browser, site, watch, **options) if alone else contexts.one(site, watch, **options)
            context = stack.enter_context(taken)
            if name is not None:
                context.add_cookies([site.signed_in(name)])
            page = page_of(context)
            if viewport:
                page.set_viewport_size(viewport)
            if dark:
                page.emulate_media(color_scheme="dark")
            return visit(page, site, place)

        yield make


NAMED_RULES = ["heading-order", "empty-heading", "empty-table-header"]
"""Rules of axe whose breach is wrong here, though axe calls it moderate or minor."""


@cache
def _axe() -> str:
    return Axe().axe_script


def faults(page: Page, part: str = "html", *, rules: Sequence[str] = ()) -> list[str]:
    """Return what axe calls serious or critical in a part of a page, and what is wrong by rules that are named here."""
    if page.evaluate("typeof axe") == "undefined":
        page.evaluate(_axe())
    found = page.evaluate(
        "([part, rules, named]) => axe.run(part, {resultTypes: ['violations'], runOnly: rules.length ? rules : void 0})"
        ".then(found => found.violations.map(item => ({id: item.id, is_grave: named.includes(item.id) ||"
        " ['serious', 'critical'].includes(item.impact), where: item.nodes.map(node => node.html.slice(0, 200))})))",
        [part, list(rules), NAMED_RULES],
    )
    return [f"{item['id']}: {item['where'][:3]}" for item in found if item["is_grave"]]
