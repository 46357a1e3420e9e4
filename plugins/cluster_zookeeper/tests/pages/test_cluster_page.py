"""The console's page of the package cluster, in real Chromium, with real nodes and a real ZooKeeper."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from playwright.sync_api import Browser, BrowserContext, Page, expect
from site_of_cluster import ClusterSite
from tests.support.console_site import console_tests
from tests.support.zookeeper import Servers, zookeeper
from xwheel_devtools.testing import wait_until

console = console_tests()
browser = console.browser
watch = console.watch
PATH = "/package-cluster"


class Served(NamedTuple):
    """Where the console is."""

    url: str


def page_of(context: BrowserContext, site: ClusterSite, name: str) -> Page:
    """Open the cluster's page as an account."""
    url = site.scheduler.url
    context.add_cookies([console.cookie_of(url, name)])
    found: Page = console.visit(context.new_page(), Served(url), PATH)
    return found


def test_ui10_lost_nodes_a_new_master_and_a_store_that_is_away(
    tmp_path: Path, root: str, browser: Browser, watch: object
) -> None:
    """UI-10, CON-5: without a reload; with ZooKeeper down it still answers, with its age and a banner."""
    with zookeeper() as servers, ClusterSite(tmp_path, servers, root) as site:
        site.add("anna", "bert")
        wait_until(site.master)
        for name, role in (("chief", "admin"), ("viewer", "viewer")):
            console.make_account(site.scheduler, site.scheduler.url, name, role=role)
        with console.opened(browser, Served(site.scheduler.url), watch) as context:
            page = page_of(context, site, "chief")
            expect(page.locator("[data-node][data-state=up]")).to_have_count(2)
            master = wait_until(site.master)
            other = {"anna": "bert", "bert": "anna"}[master]
            expect(page.locator(f"[data-node={master}]")).to_have_attribute("data-role", "Master")
            expect(page.locator("[data-role=Master]")).to_have_count(1)
            assert console.faults(page) == []

            site.kill(master)
            lost = page.locator(f"[data-node={master}]")
            expect(lost).to_have_attribute("data-state", "lost")
            expect(page.locator(f"[data-node={other}]")).to_have_attribute("data-role", "Master")
            expect(page.locator("[data-tile=nodes]")).to_contain_text("1 lost")

            site.add("carl")
            expect(page.locator("[data-node=carl]")).to_have_attribute("data-state", "up")
            page.get_by_role("button", name="Make loads even").click()
            page.locator("dialog[open]").get_by_role("button", name="Make loads even").click()
            expect(page.locator(".note.good")).to_contain_text("0 jobs will move")

            node = page.locator("[data-node=carl]")
            node.get_by_role("button", name="Drain").click()
            page.locator("dialog[open]").get_by_role("button", name="Drain").click()
            expect(node.locator("[data-drained]")).to_have_text("drained")
            assert console.faults(page) == []
            node.get_by_role("button", name="Resume").click()
            expect(node.locator("[data-drained]")).to_have_count(0)

            servers.members[0].stop()
            banner = page.locator("[data-banner=store]")
            expect(banner).to_contain_text("cannot be reached")
            page.reload()
            expect(page.locator("[data-node=carl]")).to_be_visible()
            expect(banner).to_contain_text(re.compile("is .* old"))
            expect(page.get_by_role("button", name="Make loads even")).to_be_disabled()
            servers.members[0].start()
            expect(banner).to_have_count(0)
        with console.opened(browser, Served(site.scheduler.url), watch) as context:
            page = page_of(context, site, "viewer")
            expect(page.locator("[data-node=carl]")).to_be_visible()
            expect(page.get_by_role("button", name="Make loads even")).to_have_count(0)
            expect(page.get_by_role("button", name="Drain")).to_have_count(0)


def test_the_page_speaks_chinese_and_fits(
    tmp_path: Path, server: Servers, root: str, browser: Browser, watch: object
) -> None:
    """UI-13."""
    with ClusterSite(tmp_path, server, root) as site:
        site.start("anna")
        site.start("<img src=x onerror=alert(1)>")
        wait_until(lambda: len(site.cluster()["nodes"]) == 2)
        console.make_account(site.scheduler, site.scheduler.url, "chief", role="admin")
        options = {"locale": "zh-CN", "color_scheme": "dark"}
        with console.opened(browser, Served(site.scheduler.url), watch, **options) as context:
            page = page_of(context, site, "chief")
            expect(page.locator("[data-node]")).to_have_count(2)
            text = page.locator("main").inner_text()
            assert "任务包集群" in text
            assert "package-cluster." not in text
            for width in (1440, 1024, 390):
                page.set_viewport_size({"width": width, "height": 900})
                assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), width
                assert console.faults(page) == [], width
