"""What lists and charts show at first, and in narrow windows."""

from __future__ import annotations

import time
from pathlib import Path
from unicodedata import category

import pytest
from conftest import Open, Site, Watch, faults, go_to, visit
from playwright.sync_api import Route, expect
from tests.support.console_history import DAY_MS, STATES, busy_hour, ended_run, write_history

STATIC = Path(__file__).resolve().parents[1] / "xwheel_console" / "static"


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
    for place in (f"/jobs?q={name}", "/runs"):
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


def test_no_sign_is_an_empty_box(open_page: Open) -> None:
    texts = [path.read_text() for path in STATIC.rglob("*.js") if "vendor" not in path.parts]
    # pictures of letters and arrows, of whatever block; letters of a language are the browser's own matter
    signs = sorted({sign for text in texts for sign in text if category(sign) in {"So", "Sm"} and ord(sign) > 255})
    assert "✓" in signs
    found = open_page("/me").evaluate(
        """signs => {
          const canvas = Object.assign(document.createElement("canvas"), {width: 40, height: 40});
          const on = canvas.getContext("2d");
          on.font = `24px ${getComputedStyle(document.body).fontFamily}`;
          const drawn = text => { on.clearRect(0, 0, 40, 40); on.fillText(text, 4, 30); return canvas.toDataURL(); };
          const box = drawn("\\u2fe0");
          return signs.filter(sign => drawn(sign) === box);
        }""",
        signs,
    )
    assert found == []


def test_an_address_that_was_cut_off_is_a_page_that_is_not_there(open_page: Open, watch: Watch) -> None:
    watch.allowed += ["404", "422"]
    page = open_page("/me")
    go_to(page, "/jobs/%")
    expect(page.locator("[data-page=job] .failure")).to_be_visible()
    go_to(page, "/runs/%E0%A4")
    expect(page.locator("[data-page=run] .failure")).to_be_visible()


def test_a_name_turns_nothing_around_and_hides_nothing(open_page: Open, site: Site) -> None:
    job_id = site.job("turned \u202egnp.exe")
    run_id = site.run(job_id)
    page = open_page("/jobs?q=turned")
    shown = "turned \ufffdgnp.exe"
    expect(page.locator(f"tr[data-id='{job_id}']")).to_contain_text(shown)
    for place in (f"/jobs/{job_id}", f"/runs/{run_id}", f"/runs?job={job_id}"):
        go_to(page, place)
        expect(page.locator("main")).to_contain_text(shown)
        assert "\u202e" not in page.locator("main").inner_text()
        assert "\u202e" not in page.title()


def test_events_that_were_lost_let_pages_ask_again(open_page: Open, site: Site) -> None:
    page = open_page("/jobs?q=made while no one")
    expect(page.locator("[data-list=jobs]")).to_have_count(0)
    is_lost = False

    def lose(route: Route) -> None:
        nonlocal is_lost
        said = route.fetch().json()
        # as when another node answers, or this one began again: what happened meanwhile is not told
        said.update(items=[], reset=is_lost)
        is_lost = False
        route.fulfill(json=said)

    page.route("**/api/v1/events*", lose)
    with page.expect_response("**/api/v1/events*"):
        pass
    job_id = site.job("made while no one listened")
    page.wait_for_timeout(2500)
    expect(page.locator(f"tr[data-id='{job_id}']")).to_have_count(0)
    is_lost = True
    expect(page.locator(f"tr[data-id='{job_id}']")).to_be_visible()


def test_each_part_of_the_ring_says_how_many(open_page: Open, site: Site) -> None:
    job_id = site.job("of all results")
    # as wide as a busy day's, and another one for each result, with the runs of other tests too: a label that is cut
    # off can be no other's
    counts = [1_234_561 + 10_001 * number for number in range(9)]
    with busy_hour(site.node._node._db, job_id, site.group_id, time.time_ns() // 1_000_000, counts):
        page = open_page("/", viewport={"width": 1024, "height": 800})
        ring = page.locator("[data-chart=results]")
        ring.locator("[data-drawn]").wait_for()
        said = ring.locator("svg text").all_text_contents()
        ring.get_by_role("button", name="Show as table").click()
        shown = [row.split("\t")[1] for row in ring.locator("tbody tr").all_inner_texts()]
        assert len(set(shown)) == 9, shown
        assert [count for count in shown if not any(count in text for text in said)] == [], said


def test_a_script_that_may_only_be_read_is_scrolled_by_keys(open_page: Open, site: Site) -> None:
    site.node.call("PATCH", f"groups/{site.group_id}", {"glue_types": ["GLUE_SHELL"]})
    source = "\n".join(f"echo {number}" for number in range(400))
    job_id = site.job("long script", glue_type="GLUE_SHELL", glue_source=source, handler="")
    page = open_page(f"/jobs/{job_id}/code", "viewer")
    page.locator("[data-editor][data-drawn]").wait_for()
    assert faults(page) == []
