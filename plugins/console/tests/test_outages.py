"""Nodes that die, answers that are lost, latency, sessions that end: nothing typed is lost, nothing is shown as new."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import requests
from conftest import PASSWORD, Open, Site, Watch, cookie_of, make_account, opened, visit
from playwright.sync_api import Browser, Page, Route, expect
from xwheel_devtools.testing import NodeProcess, XwheelProcess

LOST = ("ERR_FAILED", "ERR_CONNECTION_REFUSED", "ERR_CONNECTION_RESET", "ERR_EMPTY_RESPONSE")
# how often the console asks for something before it says that there is no answer


class Mortal:
    """A node in a process of its own, which can be killed and started again where it was."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        first = NodeProcess(folder)
        self.calls, self.url, self.token = first, first.url, first.token
        self._executor_port = str(urlsplit(first.executor_url).port)
        self._child: XwheelProcess = first
        make_account(first, self.url, "chief", role="admin")
        self.group_id = first.call("POST", "groups", {"app_name": "mortal"})["id"]

    def kill(self) -> None:
        self._child.kill()

    def start(self) -> None:
        port = str(urlsplit(self.url).port)
        words = ("server", "--port", port, "--executor-port", self._executor_port)
        self._child = XwheelProcess(self.folder, *words)
        self._child.find("(management API on .*)")

    def stop(self) -> None:
        self._child.stop()


@pytest.fixture(scope="module")
def mortal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mortal]:
    found = Mortal(tmp_path_factory.mktemp("mortal") / "node")
    yield found
    found.stop()


def fill_job(page: Page, name: str) -> None:
    page.get_by_label("Executor group").select_option(index=1)
    page.get_by_label("Name", exact=True).fill(name)
    page.get_by_label("By hand").check()
    page.get_by_label("Handler", exact=True).fill("hello")


def save(page: Page) -> None:
    page.get_by_role("button", name="Save").or_(page.get_by_role("button", name="Create")).first.click()


def test_a_killed_node_loses_nothing_that_was_typed_and_lists_say_how_old_they_are(
    browser: Browser, mortal: Mortal, watch: Watch
) -> None:
    watch.allowed += LOST
    with opened(browser, mortal, watch) as context:
        context.add_cookies([cookie_of(mortal.url, "chief")])
        page = visit(context.new_page(), mortal, "/jobs/new")
        page.evaluate("globalThis.stays = true")
        fill_job(page, "typed before the end")
        other = visit(context.new_page(), mortal, "/executors")
        expect(other.locator("table.list")).to_contain_text("mortal")
        mortal.kill()
        banner = page.locator("[data-banner=away]")
        expect(banner).to_contain_text("The node does not answer")
        save(page)
        expect(page.locator(".note.bad")).to_contain_text("it is not known whether this was done")
        expect(page.get_by_label("Name", exact=True)).to_have_value("typed before the end")
        expect(other.locator(".age").first).to_contain_text("this is as it was")
        expect(other.locator("table.list")).to_contain_text("mortal")
        mortal.start()
        expect(other.locator(".age")).to_have_count(0, timeout=30_000)
        expect(banner).to_have_count(0, timeout=30_000)
        save(page)
        expect(page.locator("[data-page=job] h1")).to_contain_text("typed before the end")
        assert page.evaluate("globalThis.stays"), "the page was loaded again"
    jobs = requests.get(
        f"{mortal.url}/api/v1/jobs", headers={"Authorization": f"Bearer {mortal.token}"}, timeout=30
    ).json()["items"]
    assert [job["name"] for job in jobs] == ["typed before the end"]


def test_every_third_answer_is_lost_and_all_pages_work(open_page: Open, site: Site, watch: Watch) -> None:
    watch.allowed += LOST
    job_id = site.job("third time lucky")
    page = open_page("/me")
    calls = itertools.count(1)

    def lose(route: Route) -> None:
        if route.request.method == "GET" and next(calls) % 3 == 0:
            route.abort()
        else:
            route.continue_()

    page.route("**/api/v1/**", lose)
    for place in ("/", "/jobs", f"/jobs/{job_id}", "/runs", "/nodes", "/executors", "/audit", "/accounts"):
        visit(page, site, place)
        expect(page.locator("main .skeleton")).to_have_count(0)
        expect(page.locator("main .failure")).to_have_text([])
    visit(page, site, "/jobs?q=third time")
    page.locator(f"tr[data-id='{job_id}'] [data-action=run]").click()
    expect(page.locator(".note.good")).to_contain_text("third time lucky will run now")
    site.wait_for_runs(job_id, 1)


@pytest.mark.parametrize("answer", ["none", "503"])
def test_a_part_of_a_page_that_failed_is_asked_again(open_page: Open, site: Site, watch: Watch, answer: str) -> None:
    watch.allowed += [*LOST, "503"]
    page = open_page("/me")
    is_away = True  # and not for a number of calls: what happens meanwhile makes the page ask more often

    def lose(route: Route) -> None:
        if not is_away:
            route.continue_()
        elif answer == "none":
            route.abort()
        else:
            route.fulfill(status=503, content_type="application/problem+json", body="{}")

    page.route(lambda url: "/reports" in url and "by=day" in url, lose)
    visit(page, site, "/")
    expect(page.locator("main .failure")).to_have_count(1, timeout=30_000)
    is_away = False
    expect(page.locator("main .failure")).to_have_count(0, timeout=30_000)


def test_half_a_second_of_latency_is_borne(open_page: Open, site: Site) -> None:
    page = open_page("/me", alone=True)
    session = page.context.new_cdp_session(page)
    session.send("Network.enable")
    session.send(
        "Network.emulateNetworkConditions",
        {"offline": False, "latency": 500, "downloadThroughput": -1, "uploadThroughput": -1},
    )
    visit(page, site, "/jobs/new")
    fill_job(page, "far away")
    save(page)
    expect(page.locator("[data-page=job] h1")).to_contain_text("far away")
    names = [job["name"] for job in site.node.call("GET", "jobs?name=far%20away")["items"]]
    assert names == ["far away"], "it was made once"


def test_a_session_that_ends_in_the_middle_of_a_form_loses_nothing(open_page: Open, site: Site, watch: Watch) -> None:
    watch.allowed.append("401")
    account = site.account("forgetful", role="editor")
    number = next(item["id"] for item in site.node.call("GET", "accounts")["items"] if item["name"] == account)
    page = open_page("/jobs/new", account)
    fill_job(page, "typed by the forgetful")
    site.node.call("DELETE", f"accounts/{number}/sessions")
    again = page.get_by_role("dialog", name="Your session has ended")
    expect(again).to_be_visible()
    again.get_by_label("Password", exact=True).fill(PASSWORD)
    again.get_by_role("button", name="Sign in").click()
    expect(again).to_have_count(0)
    expect(page.get_by_label("Name", exact=True)).to_have_value("typed by the forgetful")
    save(page)
    expect(page.locator("[data-page=job] h1")).to_contain_text("typed by the forgetful")
