"""What lists and charts show at first, and in narrow windows."""

from __future__ import annotations

import time

import pytest
from conftest import Open, Site, visit
from playwright.sync_api import expect
from tests.support.console_history import DAY_MS, STATES, ended_run, write_history


def test_the_timeline_begins_with_the_last_day(open_page: Open, site: Site) -> None:
    job_id = site.job("drawn of late")
    site.run(job_id)
    due_ms = time.time_ns() // 1_000_000 - 3 * DAY_MS
    # three days cannot be waited for
    old = ended_run(900_000, job_id=job_id, group_id=site.group_id, due_ms=due_ms, took_ms=5, state=STATES[0])
    write_history(site.node._node._db, [old])
    page = open_page(f"/runs?job={job_id}&view=timeline")
    chosen = page.locator("select[name=range]")
    expect(chosen).to_have_value("24h")
    expect(page.get_by_role("img", name="One bar, rows: 1")).to_be_visible()
    chosen.select_option(label="any")
    expect(page.get_by_role("img", name="2 bars, rows: 2")).to_be_visible()
    page.get_by_role("button", name="As a list").click()
    expect(page.locator("table.list tbody tr")).to_have_count(2)


def test_the_next_fires_of_a_job_are_one_choice_of_its_menu(open_page: Open, site: Site) -> None:
    site.job("fires soon", schedule_type="CRON", schedule_conf="0 0 9 ? * MON", enabled=True)
    page = open_page("/jobs?q=fires soon", "viewer")
    page.get_by_role("button", name="Menu of fires soon").click()
    page.get_by_role("menuitem", name="Next fires").click()
    shown = page.get_by_role("dialog", name="Next fires of fires soon")
    expect(shown.locator("[data-fires='100'] li")).to_have_count(10)
    expect(shown.locator("[data-week]")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("button", name="Menu of fires soon")).to_be_focused()


@pytest.mark.parametrize("width", [1024, 1280])
def test_what_can_be_done_with_a_row_is_in_sight(open_page: Open, site: Site, width: int) -> None:
    name = f"a name of usual length {width}"
    conf = "0 0/30 8-18 ? * MON-FRI"
    site.run(site.job(name, schedule_type="CRON", schedule_conf=conf, enabled=True))
    page = open_page("/me", viewport={"width": width, "height": 800})
    for place in ("/jobs", "/runs"):
        visit(page, site, place)
        link = page.get_by_role("link", name=name).first
        # words are not broken
        assert link.evaluate("one => one.getClientRects().length") <= 3
        menu = page.locator("table.list tbody tr .menu-button").first
        right = menu.evaluate("one => one.getBoundingClientRect().right")
        assert right <= page.locator(".table-frame").evaluate("one => one.getBoundingClientRect().right")


def test_a_pause_is_marked_by_a_drawing_and_no_font(open_page: Open, site: Site) -> None:
    page = open_page("/me")
    site.node.call("PUT", "schedule/pause")
    try:
        banner = page.locator("[data-banner=paused]")
        expect(banner.locator("svg.glyph")).to_be_visible()
        expect(banner).to_contain_text("All schedules are paused")
    finally:
        site.node.call("DELETE", "schedule/pause")


def test_jobs_are_found_by_what_their_descriptions_say(open_page: Open, site: Site) -> None:
    wanted = site.job("named otherwise", description="Settles what the bakery owes")
    page = open_page("/jobs", "viewer")
    page.get_by_label("Name or description").fill("bakery OWES")
    expect(page.locator("table.list tbody tr")).to_have_count(1)
    expect(page.locator(f"tr[data-id='{wanted}']")).to_contain_text("named otherwise")
