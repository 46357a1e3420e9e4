"""Links that sign in once: the page names the account and waits for a click; who is somebody else now is told so."""

from __future__ import annotations

import pytest
from axe_playwright_python.sync_playwright import Axe
from conftest import Open, Site, Watch, visit
from playwright.sync_api import Page, expect


def link_of(site: Site, name: str) -> str:
    number = next(item["id"] for item in site.node.call("GET", "accounts")["items"] if item["name"] == name)
    return f"/login?link={site.node.call('POST', f'accounts/{number}/link')['link_secret']}"


def follow(page: Page, site: Site, place: str) -> None:
    """Open a link as from an e-mail: the page is loaded again."""
    page.goto("about:blank")
    page.goto(f"{site.url}/#{place}")
    page.locator("#app[data-ready]").wait_for()


def named(page: Page) -> str:
    """Return who is signed in, as the API says it."""
    name: str = page.evaluate("async () => (await (await fetch('api/v1/session')).json()).name")
    return name


def test_a_link_names_its_account_and_waits_for_a_click(open_page: Open, site: Site, watch: Watch) -> None:
    watch.allowed.append("401")
    place = link_of(site, "editor")
    page = open_page("/login", name=None)
    follow(page, site, place)
    asked = page.locator("[data-link-of=editor]")
    expect(asked).to_contain_text("This link signs you in as editor.")
    assert place.split("=")[1] not in page.url
    assert page.context.cookies() == []
    faults = Axe().run(page, options={"resultTypes": ["violations"]}).response["violations"]
    assert not [item["id"] for item in faults if item["impact"] in {"serious", "critical"}]
    asked.get_by_role("button", name="Sign in as editor").press("Enter")
    expect(page.locator("nav.side")).to_be_visible()
    expect(page.locator(".note.good")).to_have_text("You are signed in as editor now.✕")
    assert named(page) == "editor"
    follow(page, site, link_of(site, "editor"))
    expect(page.locator("nav.side")).to_be_visible()
    expect(page.locator(".note.good")).to_contain_text("You are signed in as editor now.")
    page.context.clear_cookies()
    follow(page, site, place)
    expect(page.get_by_role("alert")).to_contain_text("This link has ended or was used.")
    expect(page.get_by_label("Password", exact=True)).to_be_visible()


def test_who_is_signed_in_chooses_whether_to_become_somebody_else(open_page: Open, site: Site) -> None:
    page = open_page("/jobs", "viewer")
    place = link_of(site, "editor")
    # the console is open: the page is not loaded again
    page.evaluate("place => { location.hash = place }", place)
    asked = page.locator("[data-link-of=editor]")
    expect(asked).to_contain_text("You are signed in as viewer. That session ends then.")
    asked.get_by_role("button", name="Stay viewer").click()
    expect(page.locator("[data-page=jobs]")).to_be_visible()
    assert named(page) == "viewer"
    follow(page, site, place)
    page.get_by_role("button", name="Sign in as editor").click()
    expect(page.locator(".note.good")).to_contain_text("You are signed in as editor now.")
    expect(page.get_by_role("button", name="Menu of editor")).to_be_visible()


@pytest.mark.parametrize("is_refused_first", [False, True], ids=["told", "refused-first"])
def test_other_tabs_say_that_the_browser_is_somebody_else_now(
    open_page: Open, site: Site, watch: Watch, is_refused_first: bool
) -> None:
    # a tab asks for news each second: it may be refused before it is told why
    watch.allowed.append("401")
    page = open_page("/jobs", "viewer")
    # their pages keep who they are
    page.evaluate("globalThis.stays = true")
    if is_refused_first:
        page.route("**/api/v1/events*", lambda route: route.fulfill(status=401, json={}))
        expect(page.get_by_role("dialog", name="Your session has ended")).to_be_visible()
    other = page.context.new_page()
    follow(other, site, link_of(site, "operator"))
    other.get_by_role("button", name="Sign in as operator").click()
    expect(other.locator("nav.side")).to_be_visible()
    banner = page.locator("[data-banner=who]")
    expect(banner).to_contain_text("In another tab of this browser you signed in as operator")
    page.unroute_all()
    banner.get_by_role("button", name="Load again").click()
    expect(page.locator("[data-page=jobs]")).to_be_visible()
    expect(page.get_by_role("button", name="Menu of operator")).to_be_visible()
    expect(banner).to_have_count(0)


def test_the_sign_in_page_leads_on_whoever_is_signed_in(open_page: Open, site: Site) -> None:
    page = open_page("/jobs", "viewer")
    visit(page, site, "/login")
    expect(page.locator("[data-page=jobs]")).to_be_visible()


def test_who_tried_too_often_is_told_how_long_to_wait(open_page: Open, watch: Watch) -> None:
    watch.allowed.append("429")
    page = open_page("/login", name=None)
    page.route(
        "**/api/v1/session",
        lambda route: route.fulfill(
            status=429, headers={"Retry-After": "7"}, json={"type": "urn:xwheel:problem:throttled", "status": 429}
        ),
    )
    page.get_by_label("Name").fill("viewer")
    page.get_by_label("Password", exact=True).fill("guessed")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_have_text("Too many wrong passwords: try again in 7 s.")
