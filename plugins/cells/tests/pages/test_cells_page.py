"""The page of all cells in real Chromium: one cluster that answers, one that does not, and this one."""

from __future__ import annotations

import re
from typing import Final

import pytest
from conftest import MARKUP, FrontSite
from console_site import Open, faults, go_to, in_all_looks, row, settled
from playwright.sync_api import Page, expect
from xwheel_devtools.testing import wait_until

WIDTHS: Final = (1440, 1024, 390)
KEY: Final = re.compile(r"\bcells\.[a-zA-Z_.]+")
PLACES: Final = {
    "/cells": "[data-list=cells] tbody tr",
    "/cells?q=viewed": "[data-found] li",
    "/cells/jobs": "[data-list=cell-jobs] tbody tr",
    "/cells/runs?state=failed": "[data-list=cell-runs] tbody tr",
}


@pytest.fixture(scope="module")
def viewed(site: FrontSite) -> int:
    """Make a job with a hostile name in the other cluster, and a run of it that failed; return the job's id."""
    job_id = site.job_of_north(f"viewed {MARKUP} {'W' * 60}"[:128], handler="fail")
    run_id = site.north.start_run(job_id, param=f"because of {MARKUP}")
    site.north.wait_for_run(run_id)
    wait_until(lambda: site.node.call("GET", "cells/overview?cell=north")["sum"]["last_day"]["failed"])
    return job_id


def of(page: Page, name: str, what: str) -> str:
    return page.locator(f"[data-cell={name}] [data-count={what}]").inner_text()


def test_each_cell_stands_there_with_state_and_counts(open_page: Open, site: FrontSite, viewed: int) -> None:
    page = open_page("/cells")
    expect(page.locator("[data-cell]")).to_have_count(3)
    expect(page.locator("[data-cell=north]")).to_have_attribute("data-state", "up")
    expect(page.locator("[data-cell=here]")).to_have_attribute("data-state", "up")
    broken = page.locator("[data-cell=broken]")
    expect(broken).to_have_attribute("data-state", "away")
    expect(broken.locator("[data-reason]")).to_contain_text("status 503")
    assert [of(page, "north", what) for what in ("open", "failed", "executors", "nodes")] == ["0", "1", "1", "1"]
    assert [of(page, "broken", what) for what in ("open", "executors", "nodes")] == ["–", "–", "–"]
    expect(page.locator("[data-sum]")).to_contain_text("All cells together")
    link = page.locator("[data-cell=north] a")
    expect(link).to_have_attribute("href", f"{site.north.url}/#/")
    assert "noopener" in (link.get_attribute("rel") or "")
    assert page.locator("[data-cell=here] a").count() == 0


def test_a_cell_that_comes_back_is_shown_without_a_reload(open_page: Open, site: FrontSite) -> None:
    page = open_page("/cells")
    expect(page.locator("[data-cell=here]")).to_have_attribute("data-state", "up")
    open_runs = of(page, "here", "open")
    assert open_runs == "0"
    run_id = site.run(site.job("outlasts the look", handler="sleep"), "600", wait=False)
    expect(page.locator("[data-cell=here] [data-count=open]")).to_have_text("1", timeout=60_000)
    site.node.call("POST", f"runs/{run_id}/kill")
    expect(page.locator("[data-cell=here] [data-count=open]")).to_have_text("0", timeout=60_000)


def test_a_search_leads_into_the_console_of_the_right_cluster(open_page: Open, site: FrontSite, viewed: int) -> None:
    site.job("viewed here")
    page = open_page("/cells")
    page.get_by_label("Search in all cells").fill("viewed")
    found = page.locator("[data-kind=jobs] li")
    expect(found).to_have_count(2)
    north = found.filter(has_text="north").locator("a")
    expect(north).to_have_attribute("href", f"{site.north.url}/#/jobs/{viewed}")
    expect(north).to_have_attribute("rel", re.compile("noopener"))
    expect(page.locator("[data-found] [data-missing=broken]")).to_contain_text("status 503")
    here = found.filter(has_text="viewed here").locator("a")
    here.click()
    expect(page.locator("h1")).to_contain_text("viewed here")
    go_to(page, "/cells?q=demo")
    expect(page.locator("[data-kind=groups] li")).to_have_count(2)
    go_to(page, "/cells?q=nobodyiscalledso")
    expect(page.locator("[data-found]")).to_contain_text("broken")
    expect(page.locator("[data-kind]")).to_have_count(0)


def test_jobs_of_all_cells_page_by_page(open_page: Open, site: FrontSite) -> None:
    for number in range(30):
        site.job(f"many {number:02}")
        site.job_of_north(f"many {number:02}")
    page = open_page("/cells/jobs?search=many")
    rows = page.locator("[data-list=cell-jobs] tbody tr[data-id]")
    expect(rows).to_have_count(50)
    page.get_by_role("button", name="more").click()
    expect(rows).to_have_count(60)
    assert len(set(rows.evaluate_all("rows => rows.map(row => row.dataset.id)"))) == 60
    expect(page.locator("[data-missing]")).to_have_attribute("data-missing", "broken")
    page.locator("select[name=cell]").select_option("north")
    expect(rows).to_have_count(30)
    expect(page.locator("[data-missing]")).to_have_count(0)
    href = row(page, "cell-jobs", "many 07").locator("a").get_attribute("href")
    assert (href or "").startswith(f"{site.north.url}/#/jobs/")


def test_runs_that_failed_in_all_cells(open_page: Open, site: FrontSite, viewed: int) -> None:
    site.run(site.job("stumbles here", handler="fail"))
    done = site.run(site.job("says hello"))
    page = open_page("/cells")
    page.get_by_role("link", name="Runs").last.click()
    rows = page.locator("[data-list=cell-runs] tbody tr[data-id]")
    expect(rows.filter(has_text="stumbles here")).to_have_count(1)
    north = rows.filter(has_text="because of <img src=x")
    expect(north).to_contain_text("north")
    hrefs = north.locator("a").evaluate_all("links => links.map(link => link.href)")
    assert all(one.startswith(f"{site.north.url}/#/") for one in hrefs)
    assert f"{site.north.url}/#/jobs/{viewed}" in hrefs
    expect(page.locator(f"[data-id='here/{done}']")).to_have_count(0)
    page.locator("select[name=state]").select_option("succeeded")
    expect(page.locator(f"[data-id='here/{done}']")).to_have_count(1)
    expect(rows.filter(has_text="stumbles here")).to_have_count(0)
    assert page.evaluate("globalThis.harmed") is None


@in_all_looks
def test_every_view_is_whole(open_page: Open, viewed: int, language: str, dark: bool) -> None:
    """Axe finds nothing grave, all words are there, it fits every width, and hostile names stay text."""
    page = open_page("/me", dark=dark, locale=language)
    for place, sign in PLACES.items():
        go_to(page, place)
        page.locator(sign).first.wait_for()
        settled(page)
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 900})
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), f"{place} at {width}"
        assert faults(page) == [], place
        assert not KEY.findall(page.locator("main").inner_text()), place
        page.set_viewport_size({"width": 1440, "height": 900})
    assert page.evaluate("globalThis.harmed") is None


def test_who_may_not_read_all_groups_is_told_so_and_asks_nothing(open_page: Open, site: FrontSite) -> None:
    site.account("of-one-group", groups=[{"group_id": site.group_id, "role": "admin"}])
    page = open_page("/me", "of-one-group")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    go_to(page, "/cells")
    expect(page.locator("main")).to_contain_text("those who may read all groups")
    assert not [url for url in asked if "/api/v1/cells" in url]
