"""Pages, tiles, actions and words of other plugins appear with the plugin, and only then."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import PASSWORD, Contexts, Site, Watch, page_of, visit
from playwright.sync_api import expect

SAMPLE = Path(__file__).parent / "sample_pages.py"


@pytest.fixture(scope="module")
def sample_site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    found = Site(tmp_path_factory.mktemp("sample") / "node", str(SAMPLE))
    yield found
    found.node.close()


def test_with_the_plugin_all_of_it_is_there(contexts: Contexts, sample_site: Site, watch: Watch) -> None:
    sample_site.job("greeted one")
    with contexts.one(sample_site, watch) as context:
        context.add_cookies([sample_site.signed_in("chief")])
        page = visit(page_of(context), sample_site, "/sample")
        expect(page.locator("h1")).to_have_text("A page of a plugin")
        expect(page).to_have_title("A page of a plugin · xwheel")
        expect(page.locator("main")).to_contain_text("3 words")
        entry = page.locator("nav.side a[href='#/sample']")
        expect(entry).to_have_attribute("aria-current", "page")
        page.get_by_label("Language").first.select_option("zh-CN")
        expect(page.locator("h1")).to_have_text("插件页面")
        page.get_by_label("语言").first.select_option("en")
        visit(page, sample_site, "/")
        expect(page.locator("[data-tile=sample]")).to_have_text("Tile of a plugin")
        visit(page, sample_site, "/jobs")
        page.locator("tbody tr", has_text="greeted one").locator(".menu-button").click()
        page.get_by_role("menuitem", name="Greet it").click()
        expect(page.locator(".note")).to_contain_text("greeted greeted one")


def test_an_action_is_offered_where_it_says_so(contexts: Contexts, sample_site: Site, watch: Watch) -> None:
    runs = {name: sample_site.run(sample_site.job(name)) for name in ("greeted too", "left alone")}
    with contexts.one(sample_site, watch) as context:
        context.add_cookies([sample_site.signed_in("chief")])
        page = visit(page_of(context), sample_site, "/jobs")
        for name, run_id in runs.items():
            wanted = 1 if name.startswith("greeted") else 0
            visit(page, sample_site, "/jobs")
            page.locator("tbody tr", has_text=name).locator(".menu-button").click()
            expect(page.get_by_role("menuitem", name="Edit", exact=True)).to_be_visible()
            expect(page.get_by_role("menuitem", name="Greet it")).to_have_count(wanted)
            page.keyboard.press("Escape")
            visit(page, sample_site, f"/runs/{run_id}")
            page.get_by_role("button", name=f"More for run {run_id}").click()
            expect(page.get_by_role("menuitem", name="Runs of this job")).to_be_visible()
            expect(page.get_by_role("menuitem", name="Greet it")).to_have_count(wanted)


def test_who_signs_in_again_has_it_once(contexts: Contexts, sample_site: Site, watch: Watch) -> None:
    watch.allowed.append("401")
    with contexts.one(sample_site, watch) as context:
        context.add_cookies([sample_site.cookie("chief")])
        page = visit(context.new_page(), sample_site, "/sample")
        context.clear_cookies()
        again = page.get_by_role("dialog", name="Your session has ended")
        again.get_by_label("Password", exact=True).fill(PASSWORD)
        again.get_by_role("button", name="Sign in").click()
        expect(again).to_have_count(0)
        expect(page.locator("nav.side a[href='#/sample']")).to_have_count(1)


def test_without_it_nothing_is(contexts: Contexts, site: Site, watch: Watch) -> None:
    with contexts.one(site, watch) as context:
        context.add_cookies([site.signed_in("chief")])
        page = visit(page_of(context), site, "/sample")
        expect(page.locator("h1")).to_have_text("There is no such page")
        assert page.locator("a[href='#/sample']").count() == 0
        assert site.node.call("GET", "console/manifest")["items"] == []


def test_a_plugin_whose_pages_are_broken_harms_no_other(contexts: Contexts, sample_site: Site, watch: Watch) -> None:
    watch.allowed += ["sample cannot be loaded", "SyntaxError"]
    with contexts.one(sample_site, watch) as context:
        context.add_cookies([sample_site.signed_in("chief")])
        context.route(
            "**/plugins/sample/sample.js",
            lambda route: route.fulfill(content_type="text/javascript", body="export default {"),
        )
        page = visit(page_of(context), sample_site, "/me")
        expect(page.locator("nav.side [data-nav=jobs]")).to_be_visible()
        assert page.locator("a[href='#/sample']").count() == 0
