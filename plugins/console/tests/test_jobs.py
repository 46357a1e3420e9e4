"""The pages of jobs: list, detail, form, script, and the first steps."""

from __future__ import annotations

import subprocess
import sys
import time
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from conftest import Open, Site, Watch, go_to, visit
from playwright.sync_api import Locator, Page, Route, expect
from xwheel_devtools.testing import wait_until


@pytest.fixture(autouse=True)
def _refusals_are_seen(watch: Watch) -> None:
    # what a node refuses stands in the browser's console as well
    watch.allowed += ["422", "409"]


@pytest.fixture(scope="session")
def script_group(site: Site) -> int:
    site.node.call("PATCH", f"groups/{site.group_id}", {"glue_types": ["GLUE_SHELL"]})
    return site.group_id


def row(page: Page, job_id: int) -> Locator:
    return page.locator(f"[data-list=jobs] tr[data-id='{job_id}']")


def field(page: Page, name: str) -> Locator:
    """Give the input of a field of a form."""
    return page.locator(f"[data-field={name}] :is(input, textarea, select)")


def job_of(site: Site, job_id: int) -> dict[str, Any]:
    return dict(site.node.call("GET", f"jobs/{job_id}"))


def job_run(site: Site, run_id: int) -> dict[str, Any]:
    return dict(site.node.call("GET", f"runs/{run_id}"))


def ended(site: Site, job_id: int, count: int) -> dict[str, Any]:
    """Wait until this many runs of a job have ended; return the newest."""
    found: list[dict[str, Any]] = []

    def are_there() -> bool:
        found[:] = site.node.call("GET", f"runs?job_id={job_id}")["items"]
        return len(found) == count and all(run["finished_ms"] for run in found)

    wait_until(are_there)
    return found[0]


# the list


def test_the_list_says_schedules_in_words_and_next_fires(open_page: Open, site: Site) -> None:
    job_id = site.job("words of it", schedule_type="CRON", schedule_conf="0 0 2 * * ?", enabled=True)
    rate = site.job("words of a rate", schedule_type="FIX_RATE", schedule_conf="90m")
    page = open_page("/jobs?q=words of", "viewer")
    expect(row(page, job_id).locator("[data-words=CRON]")).to_have_text("At 02:00")
    expect(row(page, job_id)).to_contain_text("0 0 2 * * ?")
    expect(row(page, job_id).locator("time")).to_be_visible()
    expect(row(page, rate).locator("[data-words]")).to_have_text("Every 90m")
    page.get_by_label("Language").first.select_option("zh-CN")
    expect(row(page, job_id).locator("[data-words=CRON]")).to_have_text("在 02:00")


def test_filters_stand_in_the_address_and_come_back(open_page: Open, site: Site) -> None:
    kept = site.job("filter keeps this", schedule_type="FIX_RATE", schedule_conf="1h", enabled=True)
    other = site.job("filter drops this", handler="fail")
    page = open_page("/jobs", "viewer")
    page.get_by_label("Name or description").fill("filter")
    expect(row(page, other)).to_be_visible()
    page.get_by_label("State").select_option("started")
    expect(row(page, other)).to_have_count(0)
    page.get_by_label("Schedule type").select_option("FIX_RATE")
    expect(row(page, kept)).to_be_visible()
    assert "q=filter" in page.url
    assert "state=started" in page.url
    page.reload()
    expect(row(page, kept)).to_be_visible()
    expect(row(page, other)).to_have_count(0)
    expect(page.get_by_label("Name or description")).to_have_value("filter")
    row(page, kept).get_by_role("link").first.click()
    expect(page.locator("[data-page=job] h1")).to_have_text("filter keeps this")
    page.go_back()
    expect(row(page, kept)).to_be_visible()
    expect(page.get_by_label("State")).to_have_value("started")


def test_run_switch_and_menu_of_a_row(open_page: Open, site: Site) -> None:
    job_id = site.job("row actions", schedule_type="FIX_RATE", schedule_conf="1h")
    page = open_page("/jobs?q=row actions", "operator")
    switch = row(page, job_id).get_by_role("switch")
    expect(switch).to_have_attribute("aria-checked", "false")
    switch.click()
    expect(switch).to_have_attribute("aria-checked", "true")
    switch.click()
    page.get_by_label("Why").fill("it is night")
    page.get_by_role("dialog").get_by_role("button", name="Stop").click()
    expect(switch).to_have_attribute("aria-checked", "false")
    assert job_of(site, job_id)["enabled"] is False
    stops = site.node.call("GET", f"audit?object_kind=job&object_id={job_id}")["items"]
    assert stops[0]["reason"] == "it is night"
    row(page, job_id).locator("[data-action=run]").click()
    expect(page.locator(".note.good").last).to_contain_text("row actions will run now")
    ended(site, job_id, 1)
    row(page, job_id).locator(".menu-button").click()
    page.get_by_role("menuitem", name="Run with…").click()
    page.get_by_role("dialog").get_by_label("Parameter").fill("by hand")
    page.get_by_role("dialog").get_by_role("checkbox").check()
    page.get_by_role("dialog").get_by_role("button", name="Run").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert ended(site, job_id, 2)["param"] == "by hand"


def test_the_list_follows_what_others_do_without_a_reload(open_page: Open, site: Site) -> None:
    job_id = site.job("followed", schedule_type="FIX_RATE", schedule_conf="1h")
    page = open_page("/jobs?q=followed", "viewer")
    expect(row(page, job_id).locator("[data-state=stopped]")).to_be_visible()
    expect(row(page, job_id).locator(".spark")).to_have_count(0)
    site.run(job_id)
    expect(row(page, job_id).locator(".spark rect.good")).to_have_count(1)
    site.node.call("POST", f"jobs/{job_id}/start")
    expect(row(page, job_id).locator("[data-state=started]")).to_be_visible()


def test_a_run_whose_outcome_came_before_the_answer_to_its_send_is_a_short_bar(open_page: Open, site: Site) -> None:
    job_id = site.job("ended at once")
    site.run(job_id)

    def accepted_late(route: Route) -> None:
        answer = route.fetch()
        found = answer.json()
        for item in found["items"]:
            for run in item["runs"]:
                run["began_ms"] = run["finished_ms"] + 4
        route.fulfill(response=answer, json=found)

    page = open_page("/jobs?q=nothing like it")
    page.route("**/api/v1/jobs/recent?*", accepted_late)
    visit(page, site, "/jobs?q=ended at once")
    # a height below zero would stand in the browser's console, too
    expect(row(page, job_id).locator(".spark rect.good")).to_have_attribute("height", "4")


def test_all_jobs_that_fit_are_saved_as_csv(open_page: Open, site: Site) -> None:
    site.job("=cmd saved as csv")
    page = open_page("/jobs?q=saved as csv", "viewer")
    with page.expect_download() as download:
        page.locator("[data-action=csv]").click()
    text = Path(download.value.path()).read_text("utf-8")
    assert text.startswith("\ufeff")
    assert len(text.splitlines()) == 2
    assert "'=cmd saved as csv" in text


def test_rows_that_were_chosen_are_saved_and_none_is_a_formula(open_page: Open, site: Site) -> None:
    chosen, other = site.job('=kept "rows"'), site.job("other kept rows")
    page = open_page("/jobs?q=kept", "operator")
    row(page, chosen).get_by_role("checkbox").check()
    row(page, other).get_by_role("checkbox").check()
    row(page, other).get_by_role("checkbox").uncheck()
    with page.expect_download() as download:
        page.get_by_role("button", name="Save one row as CSV").click()
    text = Path(download.value.path()).read_text("utf-8")
    assert len(text.splitlines()) == 2
    assert '"\'=kept ""rows"""' in text


def test_a_batch_of_a_hundred_lists_what_failed(open_page: Open, site: Site) -> None:
    ids = [site.job(f"batch {number:03}", schedule_type="FIX_RATE", schedule_conf="1h") for number in range(98)]
    # these two can never fire, so the node refuses to start them
    never = {"schedule_type": "ONCE", "schedule_conf": "2000-01-01T00:00:00"}
    bad = [site.job(f"batch {number} never", **never) for number in (98, 99)]
    page = open_page("/jobs?q=batch ", "operator")
    page.get_by_role("button", name="Show more").click()
    expect(page.locator("[data-list=jobs] tbody tr")).to_have_count(100)
    page.get_by_label("Select all rows shown").check()
    expect(page.get_by_role("region", name="Selected rows")).to_contain_text("100 selected")
    page.locator("[data-batch=start]").click()
    page.get_by_role("dialog").get_by_role("button", name="Start").click()
    expect(page.get_by_role("dialog", name="Start 100 jobs")).to_contain_text("98 of 100 done")
    expect(page.locator(".batch-bad li")).to_have_count(2)
    expect(page.locator(".batch-bad")).to_contain_text("batch 98 never")
    page.get_by_role("dialog").get_by_text("Close", exact=True).click()
    expect(row(page, ids[0]).get_by_role("switch")).to_have_attribute("aria-checked", "true")
    assert job_of(site, ids[97])["enabled"] is True
    assert job_of(site, bad[0])["enabled"] is False
    started = site.node.call("GET", "audit?action=job.start&limit=1000")["items"]
    assert {str(job_id) for job_id in ids} <= {item["object_id"] for item in started}


def test_keys_walk_the_list(open_page: Open, site: Site) -> None:
    job_id = site.job("keys walk here")
    page = open_page("/jobs?q=keys walk", "editor")
    expect(row(page, job_id)).to_be_visible()
    page.keyboard.press("j")
    expect(row(page, job_id)).to_be_focused()
    page.keyboard.press("r")
    ended(site, job_id, 1)
    page.keyboard.press("e")
    expect(page.locator("[data-page=editJob] h1")).to_contain_text("keys walk here")


def test_letters_in_dialogs_and_fields_are_no_keys_of_the_list(open_page: Open, site: Site) -> None:
    job_id = site.job("letters stay")
    page = open_page("/jobs?q=letters stay", "editor")
    page.keyboard.press("j")
    expect(row(page, job_id)).to_be_focused()
    page.keyboard.press("x")
    page.locator("[data-batch=run]").click()
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("e")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(row(page, job_id)).to_be_visible()
    search = page.locator("input[name=q]")
    search.focus()
    page.keyboard.press("End")
    page.keyboard.press("e")
    expect(search).to_have_value("letters staye")


# who may what


@pytest.mark.parametrize(
    ("name", "actions", "menu"),
    [
        ("viewer", {"csv", "log"}, {"Its runs", "History"}),
        ("operator", {"csv", "log", "run", "switch"}, {"Run with…", "Its runs", "History"}),
        (
            "editor",
            {"csv", "log", "run", "switch", "new"},
            {"Run with…", "Its runs", "Edit", "History", "Make a copy", "Delete"},
        ),
    ],
)
def test_a_role_sees_only_what_the_node_lets_it_do(
    open_page: Open, site: Site, name: str, actions: set[str], menu: set[str]
) -> None:
    job_id = site.job(f"rights of {name}")
    page = open_page(f"/jobs?q=rights of {name}", name)
    expect(row(page, job_id)).to_be_visible()
    found = page.locator("main [data-action]").evaluate_all("all => all.map(one => one.dataset.action)")
    assert set(found) == actions
    row(page, job_id).locator(".menu-button").click()
    assert set(page.get_by_role("menuitem").all_inner_texts()) == menu
    page.goto(f"{site.url}/#/jobs/{job_id}")
    expect(page.locator("h1")).to_have_text(f"rights of {name}")
    expect(page.locator(".page-head [data-action=edit]")).to_have_count(1 if name == "editor" else 0)
    expect(page.locator(".page-head [data-action=run]")).to_have_count(0 if name == "viewer" else 1)
    expect(page.get_by_role("link", name="Operations")).to_have_count(0)
    page.goto(f"{site.url}/#/jobs/{job_id}/edit")
    expect(page.locator("[data-form=job]")).to_have_count(1 if name == "editor" else 0)
    page.goto(f"{site.url}/#/jobs/{job_id}/history")
    expect(page.locator("[data-list=versions] tbody tr").first).to_be_visible()
    expect(page.locator("[data-action=restore]")).to_have_count(0)


# one job


def test_a_job_shows_settings_fires_runs_and_trend(open_page: Open, site: Site) -> None:
    job_id = site.job(
        "overview of it", schedule_type="CRON", schedule_conf="0 0 9 * * ?", max_retries=3, handler="sleep", param="0.1"
    )
    runs = [site.run(job_id) for _ in range(3)]
    # an outcome may be there before the answer to the send, which says when the run was accepted
    wait_until(lambda: all(job_run(site, run_id)["accepted_ms"] is not None for run_id in runs))
    site.job("fires with it", schedule_type="CRON", schedule_conf="0 0 9 * * ?", enabled=True)
    page = open_page(f"/jobs/{job_id}", "viewer")
    expect(page.locator("[data-part=fires] [data-due]")).to_have_count(10)
    expect(page.locator("[data-due]").first.locator("[data-mark=together]")).to_be_visible()
    expect(page.locator("[data-week] .day")).to_have_count(7)
    # today's fire may have been
    expect(page.locator("[data-week] .day:nth-child(n+2)[data-count='1']")).to_have_count(6)
    expect(page.locator("[data-list=last] tbody tr")).to_have_count(3)
    chart = page.locator("[data-chart=durations]")
    expect(chart.locator("svg")).to_be_visible()
    chart.get_by_role("button", name="Show as table").click()
    expect(chart.locator("tbody tr")).to_have_count(3)
    page.get_by_role("link", name="Runs", exact=True).last.click()
    expect(page.locator("[data-list=job-runs] tbody tr")).to_have_count(3)
    page.reload()
    expect(page.locator("[data-list=job-runs] tbody tr")).to_have_count(3)
    expect(page).to_have_title("overview of it · xwheel")


def test_versions_are_compared_and_rolled_back_with_a_reason(open_page: Open, site: Site) -> None:
    job_id = site.job("rolled back", max_retries=1)
    site.node.call("PATCH", f"jobs/{job_id}", {"max_retries": 7, "param": "newer"})
    page = open_page(f"/jobs/{job_id}/history", "editor")
    page.locator("[data-action=diff]").first.click()
    changes = page.locator("[data-diff] tbody tr")
    expect(changes).to_have_count(2)
    expect(page.locator("[data-diff]")).to_contain_text("Retries after a failure17")
    assert "rev=" in page.url
    page.reload()
    expect(changes).to_have_count(2)
    page.locator("[data-action=restore]").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.locator("[data-diff]")).to_contain_text("Retries after a failure71")
    dialog.get_by_label("Why").fill("七次太多了")
    dialog.get_by_role("button", name="Roll back").click()
    expect(page.locator(".note.good")).to_contain_text("rolled back is as it was")
    assert job_of(site, job_id)["max_retries"] == 1
    newest = site.node.call("GET", f"jobs/{job_id}/versions")["items"][0]
    assert (newest["action"], newest["reason"]) == ("restore", "七次太多了")
    expect(page.locator("[data-list=versions]")).to_contain_text("七次太多了")


def test_operations_are_those_of_the_job(open_page: Open, site: Site) -> None:
    job_id = site.job("operated on")
    site.node.call("PATCH", f"jobs/{job_id}", {"max_retries": 7})
    page = open_page(f"/jobs/{job_id}/operations", "chief")
    expect(page.locator("[data-list=job-audit] tbody tr")).to_have_count(2)
    expect(page.locator("[data-list=job-audit]")).to_contain_text("job.edit")


def test_a_circle_of_children_is_refused_where_it_was_made(open_page: Open, site: Site) -> None:
    parent, child = site.job("circle parent"), site.job("circle child")
    site.node.call("PUT", f"jobs/{parent}/children", {"children": [{"child_id": child}]})
    page = open_page(f"/jobs/{child}/children", "editor")
    expect(page.get_by_role("link", name="circle parent")).to_be_visible()
    page.get_by_label("Add a job").fill("circle par")
    page.get_by_role("list", name="Jobs found").get_by_role("button", name="circle parent").click()
    expect(page.locator(f"[data-child='{parent}']")).to_be_visible()
    page.get_by_role("button", name="Save").click()
    expect(page.locator("[data-field=children]").get_by_role("alert")).to_contain_text("->")
    expect(page.locator(f"[data-child='{parent}']")).to_be_visible()
    assert site.node.call("GET", f"jobs/{child}/children")["children"] == []
    page.get_by_role("button", name="Take circle parent away").click()
    page.get_by_label("Add a job").fill("overview")
    other = site.job("circle other")
    page.get_by_label("Add a job").fill("circle oth")
    page.get_by_role("list", name="Jobs found").get_by_role("button", name="circle other").click()
    page.get_by_label("Parameter for circle other").fill("${result}")
    page.get_by_role("button", name="Save").click()
    expect(page.locator(".note.good")).to_contain_text("is saved")
    saved = site.node.call("GET", f"jobs/{child}/children")["children"]
    assert saved == [{"child_id": other, "param": "${result}"}]


# the form


def test_next_fires_before_saving_are_those_of_the_engine(open_page: Open, site: Site) -> None:
    page = open_page("/jobs/new", "editor", timezone_id="Europe/Berlin")
    expect(field(page, "timezone")).to_have_value("Europe/Berlin")
    field(page, "name").fill("made by the form")
    field(page, "schedule_conf").fill("0 15 10 ? * MON-FRI")
    expect(page.locator("[data-check=done] [data-words]")).to_contain_text("10:15")
    expect(page.locator("[data-check=done] [data-due]")).to_have_count(10)
    shown = [int(text) for text in page.locator("[data-due]").evaluate_all("a => a.map(i => i.dataset.due)")]
    field(page, "handler").fill("hello")
    page.get_by_label("Start it at once").check()
    page.get_by_role("button", name="Create").click()
    expect(page.locator("[data-page=job] h1")).to_have_text("made by the form")
    made = job_of(site, int(page.url.rsplit("/", 1)[1]))
    assert made["state"] == "started"
    assert made["next_fire_ms"] == shown[0]
    query = "schedule_type=CRON&schedule_conf=0 15 10 ? * MON-FRI&timezone=Europe/Berlin&count=10"
    engine = site.node.call("GET", f"schedule/preview?{query.replace('?', '%3F').replace(' ', '%20')}")
    assert [item["due_ms"] for item in engine["items"]] == shown


def test_a_bad_cron_blocks_saving_and_is_named(open_page: Open, site: Site) -> None:
    job_id = site.job("bad cron", schedule_type="CRON", schedule_conf="0 0 2 * * ?")
    revision = job_of(site, job_id)["revision"]
    page = open_page(f"/jobs/{job_id}/edit", "editor")
    expect(page.locator("[data-check=done] [data-due]")).to_have_count(10)
    height = "() => [scrollY, document.querySelector('.check').offsetHeight]"
    before = page.evaluate(height)
    field(page, "schedule_conf").fill("0 0 25 * * ?")
    expect(page.locator("[data-check=refused]")).to_be_visible()
    said = page.locator("[data-field=schedule_conf] .field-error")
    expect(said).to_contain_text("hour")
    # while it is typed, it is said once and nothing moves
    expect(page.get_by_text(said.inner_text())).to_have_count(1)
    scrolled, tall = page.evaluate(height)
    assert scrolled == before[0]
    assert tall >= before[1], "what is below it does not move up"
    expect(field(page, "schedule_conf")).to_have_attribute("aria-invalid", "true")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("alert").get_by_role("link", name="Schedule")).to_be_focused()
    assert job_of(site, job_id)["revision"] == revision
    page.keyboard.press("Enter")
    expect(field(page, "schedule_conf")).to_be_focused()
    field(page, "schedule_conf").fill("0 0 3 * * ?")
    expect(page.locator("[data-field=schedule_conf] .field-error")).to_have_count(0)
    expect(page.locator("[data-check=done] [data-due]")).to_have_count(10)
    page.get_by_role("button", name="Save").click()
    expect(page.locator("[data-page=job] h1")).to_have_text("bad cron")
    assert job_of(site, job_id)["schedule_conf"] == "0 0 3 * * ?"


def test_clock_changes_and_ends_are_marked(open_page: Open) -> None:
    page = open_page("/jobs/new", "editor", timezone_id="Europe/Berlin")
    page.get_by_role("radio", name="Once", exact=True).check()
    field(page, "schedule_conf").fill("2001-01-01T00:00:00")
    expect(page.locator("[data-fires=none]")).to_be_visible()
    field(page, "schedule_conf").fill("2090-01-01T00:00:00")
    expect(page.locator("[data-due]")).to_have_count(1)
    expect(page.locator(".check")).to_contain_text("After that it never fires again.")
    page.get_by_role("radio", name="Cron (Quartz)").check()
    field(page, "schedule_conf").fill("0 0 12 L * ?")
    noon = datetime.now(ZoneInfo("Europe/Berlin")).replace(day=1, hour=12)
    # the last day of this month, or of the next one if it is over; no clocks change between its noon and midnight
    ends = [(noon + timedelta(days=32 * number)).replace(day=1) - timedelta(days=1) for number in (1, 2)]
    first = next(end for end in ends if end > datetime.now(end.tzinfo))
    words = "+01:00 to +02:00" if first.utcoffset() == timedelta(hours=1) else "+02:00 to +01:00"
    expect(page.locator("[data-mark=clocks]").first).to_have_text(f"clocks change, {words}")


def test_a_stale_form_compares_three_columns_and_loses_nothing(open_page: Open, site: Site) -> None:
    job_id = site.job("two editors", param="before", max_retries=1)
    page = open_page(f"/jobs/{job_id}/edit", "editor")
    field(page, "param").fill("mine")
    field(page, "description").fill("only mine")
    site.node.call("PATCH", f"jobs/{job_id}", {"param": "theirs", "max_retries": 5})
    page.get_by_role("button", name="Save").click()
    compare = page.locator("[data-compare]")
    expect(compare.locator("tr[data-name]")).to_have_count(3)
    expect(compare.locator("tr[data-name=param]")).to_contain_text("changed by both")
    assert compare.locator("tr[data-name=param] td").all_inner_texts()[0] == "before"
    expect(compare.locator("tr[data-name=max_retries] input[value=theirs]")).to_be_checked()
    expect(compare.locator("tr[data-name=description] input[value=mine]")).to_be_checked()
    compare.locator("tr[data-name=param] input[value=theirs]").check()
    compare.get_by_role("button", name="Take these").click()
    expect(field(page, "param")).to_have_value("theirs")
    expect(field(page, "description")).to_have_value("only mine")
    expect(field(page, "max_retries")).to_have_value("5")
    page.get_by_role("button", name="Save").click()
    expect(page.locator("[data-page=job] h1")).to_have_text("two editors")
    saved = job_of(site, job_id)
    assert (saved["param"], saved["description"], saved["max_retries"]) == ("theirs", "only mine", 5)


def test_what_is_typed_is_not_left_without_a_question(open_page: Open, site: Site) -> None:
    job_id = site.job("guarded")
    page = open_page(f"/jobs/{job_id}/edit", "editor")
    field(page, "description").fill("not saved yet")
    asked: list[str] = []

    def stay(dialog: Any) -> None:
        asked.append(dialog.message)
        dialog.dismiss()

    page.once("dialog", stay)
    page.locator("[data-nav=runs]").click()
    expect(field(page, "description")).to_have_value("not saved yet")
    assert asked == ["What you typed is not saved. Leave the page?"]

    def leave(dialog: Any) -> None:
        asked.append(dialog.message)
        dialog.accept()

    page.once("dialog", leave)
    page.locator("[data-nav=executors]").click()
    expect(page.locator("[data-page=editJob]")).to_have_count(0)
    assert len(asked) == 2


def test_a_taken_name_stands_at_its_field(open_page: Open, site: Site) -> None:
    site.job("taken already")
    job_id = site.job("wants another name")
    page = open_page(f"/jobs/{job_id}/edit", "editor")
    field(page, "name").fill("taken already")
    page.get_by_role("button", name="Save").click()
    expect(page.locator("[data-field=name] .field-error")).to_be_visible()
    expect(page.get_by_role("alert").get_by_role("link", name="Name")).to_be_focused()


def test_what_code_declares_is_locked_until_people_take_it_over(open_page: Open, site: Site) -> None:
    group = site.node.call("POST", "groups", {"app_name": "declaring"})["id"]
    declared = {"name": "from code", "place": "shop.jobs:sums", "handler": "hello", "max_retries": 2}
    release = {"app_name": "declaring", "release": "1.0", "digest": "a" * 64, "jobs": [declared]}
    site.node.call("POST", "declarations/sync", release)
    job_id = site.node.call("GET", f"jobs?group_id={group}")["items"][0]["id"]
    page = open_page(f"/jobs/{job_id}/edit", "editor")
    expect(field(page, "max_retries")).to_be_disabled()
    expect(field(page, "description")).to_be_enabled()
    page.goto(f"{site.url}/#/jobs/{job_id}")
    page.locator("[data-action=release]").click()
    page.get_by_role("dialog").get_by_role("button", name="Take over").click()
    expect(page.locator("[data-action=release]")).to_have_text("Give back to code")
    page.goto(f"{site.url}/#/jobs/{job_id}/edit")
    expect(field(page, "max_retries")).to_be_enabled()


# scripts


def test_a_script_is_saved_compared_and_taken_back(open_page: Open, site: Site, script_group: int) -> None:
    job_id = site.job("a script", glue_type="GLUE_SHELL", glue_source="echo one\n", handler="")
    page = open_page(f"/jobs/{job_id}/code", "chief")
    editor = page.get_by_role("textbox", name="Script of a script")
    expect(editor).to_contain_text("echo one")
    editor.click()
    page.keyboard.press("Control+End")
    page.keyboard.type("echo two")
    expect(page.locator("main [data-action=run]").last).to_be_disabled()
    page.get_by_role("button", name="Save version").click()
    page.get_by_label("Remark").fill("abc")
    page.get_by_role("dialog").get_by_role("button", name="Save").click()
    expect(page.get_by_label("Remark")).to_have_attribute("aria-invalid", "true")
    page.get_by_label("Remark").fill("a second line")
    page.get_by_role("dialog").get_by_role("button", name="Save").click()
    expect(page.locator("[data-version='2']")).to_contain_text("a second line")
    saved = site.node.call("GET", f"jobs/{job_id}/glue/2")
    assert (saved["source"], saved["author"]) == ("echo one\necho two", "chief")
    page.locator("[data-version='1']").get_by_role("button", name="Compare").click()
    expect(page.locator("[data-diff='1'] .new")).to_have_text("+ echo two\n")
    page.reload()
    expect(page.locator("[data-diff='1'] .new")).to_have_text("+ echo two\n")
    page.locator("[data-version='1']").get_by_role("button", name="Roll back").click()
    page.get_by_label("Remark").fill("one was enough")
    page.get_by_role("dialog").get_by_role("button", name="Save").click()
    expect(page.locator("[data-version='3']")).to_contain_text("one was enough")
    expect(editor).not_to_contain_text("echo two")


def test_a_script_may_be_read_where_it_may_not_be_changed(open_page: Open, site: Site, script_group: int) -> None:
    job_id = site.job("readable script", glue_type="GLUE_SHELL", glue_source="echo one\n", handler="")
    page = open_page(f"/jobs/{job_id}/code", "editor")
    expect(page.locator("[data-editor]")).to_contain_text("echo one")
    expect(page.get_by_role("button", name="Save version")).to_have_count(0)
    expect(page.get_by_role("button", name="Roll back")).to_have_count(0)


# first steps


@pytest.fixture
def first_group(site: Site) -> int:
    made = site.node.call("POST", "groups", {"app_name": f"first-{time.time_ns()}", "title": "First app"})
    return int(made["id"])


def test_first_steps_end_with_a_run_of_the_code_that_was_copied(
    open_page: Open, site: Site, first_group: int, tmp_path: Path
) -> None:
    page = open_page(f"/welcome?group={first_group}", "chief")
    expect(page.locator("[data-executors='0']")).to_be_visible()
    # U25: the address is that of this node, whatever port it has
    expect(page.get_by_label("Address for executors")).to_have_value(site.node.executor_url)
    page.get_by_role("button", name="Make a secret").click()
    code = page.locator("[data-code=python]")
    expect(code).not_to_contain_text("THE-SECRET")
    (tmp_path / "first.py").write_text(code.inner_text())
    program = subprocess.Popen([sys.executable, "first.py"], cwd=tmp_path)
    try:
        expect(page.locator("[data-step='1'][data-done=yes]")).to_be_visible()
        page.get_by_label("Parameter").fill("to everybody")
        page.get_by_role("button", name="Make the job").click()
        page.locator("[data-action=first-run]").click()
        expect(page.locator("[data-log]")).to_contain_text("hello to everybody")
        expect(page.locator("[data-finished]")).to_be_visible()
        assert "run=" in page.url
    finally:
        page.close()  # it asks for the log, which is gone with the program
        program.terminate()
        program.wait(20)


def test_who_sees_no_jobs_is_shown_the_first_steps(open_page: Open, site: Site, first_group: int) -> None:
    site.account("beginner", groups=[{"group_id": first_group, "role": "editor", "script": False}])
    page = open_page("/jobs", "beginner")
    expect(page.locator("[data-steps] [data-code=python]")).to_be_visible()
    page.get_by_role("button", name="Make the job").click()
    expect(page.locator("[data-step='2'][data-done=yes]")).to_be_visible()
    page.goto(f"{site.url}/#/jobs")
    expect(page.locator("[data-list=jobs] tbody tr")).to_have_count(1)


def test_c10_a_page_of_jobs_asks_for_the_words_of_all_schedules_at_once(open_page: Open, site: Site) -> None:
    crons = [f"{minute} 4 * * *" for minute in range(45)]
    ids = [site.job(f"words {cron}", schedule_type="UNIX_CRON", schedule_conf=cron) for cron in crons]
    page = open_page("/me")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    go_to(page, "/jobs?q=words ")
    words = page.locator("[data-words=UNIX_CRON]")
    expect(words).to_have_count(45)
    for minute, job_id in enumerate(ids):
        expect(page.locator(f"tr[data-id='{job_id}'] [data-words]")).to_contain_text(f"04:{minute:02}")
    assert sum("/api/v1/schedule/" in url for url in asked) == 1
    site.node.call("POST", "jobs/bulk/delete", {"ids": ids})
