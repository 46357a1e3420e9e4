"""Forms in dialogs: Escape and ✕ lose nothing unasked."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest
from axe_playwright_python.sync_playwright import Axe
from conftest import Open, Site, Watch
from playwright.sync_api import Dialog, Locator, Page, Route, expect


def top(page: Page) -> Locator:
    return page.locator("dialog[open]").last


def test_a_form_that_was_not_changed_closes_at_once(open_page: Open) -> None:
    page = open_page("/executors")
    page.get_by_role("button", name="New group").click()
    expect(top(page)).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("dialog[open]")).to_have_count(0)


@pytest.mark.parametrize("way", ["Escape", "✕"])
def test_a_form_that_was_changed_asks_first(open_page: Open, way: str) -> None:
    page = open_page("/executors")
    page.get_by_role("button", name="New group").click()
    form = top(page)
    form.get_by_label("Title").fill("typed by hand")

    def leave() -> None:
        if way == "Escape":
            page.keyboard.press("Escape")
        else:
            page.locator("dialog[open]").first.locator("header .close").click()

    # Chromium closes at the second Escape in a row unless that is refused as well
    for _ in range(3):
        leave()
        expect(page.get_by_role("heading", name="Discard what you changed?")).to_be_visible()
        page.keyboard.press("Escape")
        expect(page.locator("dialog[open]")).to_have_count(1)
        expect(top(page).get_by_label("Title")).to_have_value("typed by hand")
    leave()
    top(page).get_by_role("button", name="Discard").click()
    expect(page.locator("dialog[open]")).to_have_count(0)


def test_what_is_shown_once_is_not_closed_by_a_key_alone(open_page: Open, site: Site) -> None:
    page = open_page("/accounts/secrets")
    page.get_by_role("button", name="New secret").click()
    top(page).get_by_label("Name", exact=True).fill("shown-once")
    top(page).get_by_role("button", name="Create").click()
    shown = page.locator("[data-once]")
    expect(shown).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("heading", name="This is shown only once. Close it?")).to_be_visible()
    page.keyboard.press("Escape")
    expect(shown).to_be_visible()
    top(page).get_by_role("button", name="Close").last.click()
    expect(page.locator("dialog[open]")).to_have_count(0)


def test_a_run_can_be_asked_for_later(open_page: Open, site: Site, watch: Watch) -> None:
    watch.allowed.append("422")
    job_id = site.job("later", param="old")
    page = open_page("/jobs?q=later", timezone_id="Asia/Shanghai")
    page.get_by_role("button", name="Menu of later").click()
    page.get_by_role("menuitem", name="Run with…").click()
    form = top(page)
    form.get_by_label("When").select_option("at")
    form.get_by_label("Time").fill("1999-01-01T08:00")
    expect(form.get_by_text("In the zone Asia/Shanghai")).to_be_visible()
    form.get_by_role("button", name="Run", exact=True).click()
    expect(form.locator("[data-field=at] .field-error")).to_be_visible()
    faults = Axe().run(page, options={"resultTypes": ["violations"]}).response["violations"]
    assert not [item["id"] for item in faults if item["impact"] in {"serious", "critical"}]
    form.get_by_label("Parameter").fill("new")
    day = (datetime.now(UTC) + timedelta(days=200)).date()
    form.get_by_label("Time").fill(f"{day}T08:30")
    form.get_by_role("button", name="Run", exact=True).click()
    expect(page.locator(".note.good")).to_contain_text(f"later will run at {day:%m/%d/%Y}")
    (run,) = site.node.call("GET", f"runs?job_id={job_id}")["items"]
    due = datetime.fromtimestamp(run["due_ms"] / 1000, UTC)
    assert (run["param"], run["state"]) == ("new", "planned")
    assert due == datetime(day.year, day.month, day.day, 0, 30, tzinfo=UTC), "as a clock of the zone says it"


def test_a_run_whose_answer_was_lost_is_made_once(open_page: Open, site: Site, watch: Watch) -> None:
    watch.allowed.append("ERR_FAILED")
    job_id = site.job("lost answer")
    page = open_page("/jobs?q=lost answer")
    page.get_by_role("button", name="Menu of lost answer").click()
    page.get_by_role("menuitem", name="Run with…").click()

    def lose(route: Route) -> None:
        route.fetch()
        route.abort()

    page.route("**/run", lose, times=1)
    run = top(page).get_by_role("button", name="Run", exact=True)
    run.click()
    expect(page.locator(".note.bad, .failure, .field-error").first).to_be_visible()
    run.click()
    expect(page.locator(".note.good")).to_contain_text("lost answer will run now")
    assert len(site.node.call("GET", f"runs?job_id={job_id}")["items"]) == 1


def test_a_job_is_deleted_only_by_its_name(open_page: Open, site: Site) -> None:
    job_id = site.job("named to be deleted")
    page = open_page("/jobs?q=named to be")
    page.get_by_role("button", name="Menu of named to be deleted").click()
    page.get_by_role("menuitem", name="Delete").click()
    name = top(page).locator("input[name=typed]")
    delete = top(page).get_by_role("button", name="Delete")
    name.fill("named to be")
    expect(delete).to_be_disabled()
    name.press("Enter")
    assert site.node.call("GET", f"jobs/{job_id}")["name"] == "named to be deleted"
    name.fill("named to be deleted")
    delete.click()
    expect(page.locator(".note.good")).to_contain_text("named to be deleted")


def test_u25_a_dialog_does_not_stay_over_the_next_page(open_page: Open) -> None:
    page = open_page("/jobs")
    page.locator("nav.side a[href='#/executors']").click()
    page.get_by_role("button", name="New group").click()
    expect(top(page)).to_be_visible()
    page.go_back()
    expect(page.locator("dialog[open]")).to_have_count(0)
    expect(page).to_have_url(re.compile(r"#/jobs$"))


def test_u25_what_was_typed_in_a_dialog_is_not_left_unasked(open_page: Open) -> None:
    page = open_page("/jobs")
    page.locator("nav.side a[href='#/executors']").click()
    page.get_by_role("button", name="New group").click()
    top(page).get_by_label("Title").fill("typed by hand")
    asked: list[str] = []

    def answer(dialog: Dialog) -> None:
        asked.append(dialog.message)
        if len(asked) == 1:
            dialog.dismiss()
        else:
            dialog.accept()

    page.on("dialog", answer)
    page.go_back()
    expect(top(page).get_by_label("Title")).to_have_value("typed by hand")
    expect(page).to_have_url(re.compile(r"#/executors$"))
    page.go_back()
    expect(page.locator("dialog[open]")).to_have_count(0)
    assert asked == ["Discard what you changed?"] * 2
