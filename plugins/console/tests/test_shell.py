"""Signing in, the shell around all pages, keys and the palette."""

from __future__ import annotations

import re

import pytest
from conftest import PASSWORD, Contexts, Open, Site, Watch, dialog, opened, visit
from playwright.sync_api import Page, Route, expect


def sign_in(page: Page, name: str, password: str) -> None:
    page.get_by_label("Name").fill(name)
    page.get_by_label("Password", exact=True).fill(password)
    page.get_by_role("button", name="Sign in").click()


def test_who_is_not_signed_in_is_asked_and_comes_to_the_page_that_was_asked_for(open_page: Open, watch: Watch) -> None:
    watch.allowed.append("401")
    page = open_page("/me", name=None)
    assert page.locator("[data-page=login]").is_visible()
    sign_in(page, "editor", "not the password of it")
    expect(page.get_by_role("alert")).to_have_text("Name or password are wrong.")
    sign_in(page, "editor", PASSWORD)
    expect(page.locator("[data-page=me] h1")).to_be_visible()
    page.reload()
    expect(page.locator("[data-page=me] h1")).to_be_visible()


@pytest.mark.parametrize(("name", "more"), [("viewer", set()), ("chief", {"audit", "accounts"})])
def test_the_menu_has_what_a_role_may_see(open_page: Open, name: str, more: set[str]) -> None:
    page = open_page("/me", name)
    found = page.locator("nav.side [data-nav]").evaluate_all("all => all.map(one => one.dataset.nav)")
    everybody = {"dashboard", "jobs", "runs", "nodes", "executors", "alarms", "calendars", "system"}
    assert set(found) == everybody | more


def test_the_language_changes_without_a_reload_and_stays(open_page: Open) -> None:
    page = open_page("/me", "viewer")
    page.evaluate("globalThis.stays = true")
    page.get_by_label("Language").first.select_option("zh-CN")
    expect(page.locator("nav.side [data-nav=jobs] .nav-words")).to_have_text("任务管理")
    assert page.evaluate("globalThis.stays")
    assert page.locator("html").get_attribute("lang") == "zh-CN"
    page.reload()
    expect(page.locator("nav.side [data-nav=jobs] .nav-words")).to_have_text("任务管理")


def test_the_palette_finds_a_job_and_runs_it(open_page: Open, site: Site) -> None:
    job_id = site.job("palette job")
    page = open_page("/me", "operator")
    page.keyboard.press("Control+k")
    page.keyboard.type("run palette job now")
    expect(page.get_by_role("option", name="Run palette job now")).to_be_visible()
    page.keyboard.press("Enter")
    expect(page.locator(".note.good")).to_contain_text("palette job will run now")
    site.wait_for_runs(job_id, 1)


def test_what_is_typed_while_the_palette_is_on_its_way_is_typed_into_it(
    contexts: Contexts, site: Site, watch: Watch
) -> None:
    """And no key of it is one of the page below: ``g j`` would go to the jobs."""
    site.job("early gj job")
    held: list[Route] = []
    with opened(contexts.browser, site, watch) as context:
        context.add_cookies([site.signed_in("operator")])
        page = context.new_page()
        page.route("**/components/palette.js*", lambda route: held.append(route))  # noqa: PLW0108
        visit(page, site, "/me")
        page.keyboard.press("Control+k")
        page.keyboard.type("run early gj job now")
        expect(dialog(page)).to_have_count(0)
        assert page.url.endswith("#/me")
        for route in held:
            route.continue_()
        expect(dialog(page).get_by_role("combobox")).to_have_value("run early gj job now")
        expect(dialog(page).get_by_role("option").first).to_have_text(re.compile("^Run early gj job now"))
        page.keyboard.press("Backspace")
        expect(dialog(page).get_by_role("combobox")).to_have_value("run early gj job no")


@pytest.mark.parametrize(
    ("hours", "said"),
    [
        (0, "now"),
        (1.5, "in 1 hour"),
        (-1, "1 hour ago"),
        (24, "in 24 hours"),
        (-30, "30 hours ago"),
        (47.9, "in 47 hours"),
        (48, "in 2 days"),
        (-72, "3 days ago"),
    ],
)
def test_u25_how_far_a_time_is_needs_no_word_for_a_day(open_page: Open, hours: float, said: str) -> None:
    """On a Saturday, 30 hours away may be Monday, which no word for tomorrow is."""
    page = open_page("/me")
    ask = "async (hours) => (await import(new URL('i18n.js', document.baseURI))).ago(1e12 + hours * 3_600_000, 1e12)"
    assert page.evaluate(ask, hours) == said
