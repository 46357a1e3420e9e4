"""All of it for each role, in both languages and themes, and on every width; with hostile names."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

import pytest
from archives import wheel
from conftest import StoreSite, module
from console_site import Contexts, Open, Site, Watch, dialog, faults, go_to, in_all_looks, page_of, settled, visit
from playwright.sync_api import Page, expect

MARKUP: Final = "<img src=x onerror=\"globalThis.harmed = 'yes'\">"
WIDTHS: Final = (1440, 1024, 390)
KEY: Final = re.compile(r"\bpackages\.[a-zA-Z_.]+")


@pytest.fixture(scope="module")
def found(site: StoreSite, tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("views")
    files = {**module({"nightly": "cron='0 0 1 * * ?'"}, name="viewed"), f"acme/{MARKUP}.txt": MARKUP}
    long = "viewed_" + "w" * 80
    first = site.send(wheel(folder, files, name=long))
    site.send(wheel(folder, files, name=long, version="1.3.0"))
    job_id = first["jobs"][0]["job_id"]
    site.node.call("PATCH", f"jobs/{job_id}", {"name": f"{MARKUP} \u202etxet\u202c {'W' * 60}"[:128]})
    site.operate(job_id, "Start", cron="0 0 4 * * ?")
    return {"job": job_id, "package": first["id"], "project": long.replace("_", "-")}


def places(found: Any) -> dict[str, str]:
    return {
        f"/packages?q={found['project']}": "[data-versions] tbody tr",
        f"/packages/{found['package']}/files?path=viewed/jobs.py&line=3": "[data-source] .chosen",
        f"/packages/jobs/{found['job']}": "[data-list=package-operations] tbody tr",
    }


def shown(page: Page, place: str, sign: str) -> Page:
    go_to(page, place)
    page.locator(sign).first.wait_for()
    return settled(page)


def fits(page: Page) -> bool:
    return bool(page.evaluate("document.documentElement.scrollWidth <= innerWidth"))


@in_all_looks
def test_every_page_is_whole(open_page: Open, found: Any, language: str, dark: bool) -> None:
    """Axe finds nothing grave, all words are there, it fits every width, and hostile names stay text."""
    page = open_page("/me", dark=dark, locale=language)
    for place, sign in places(found).items():
        shown(page, place, sign)
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 900})
            assert fits(page), f"{place} at {width}"
        assert faults(page) == [], place
        assert not KEY.findall(page.locator("main").inner_text()), place
        page.set_viewport_size({"width": 1440, "height": 900})
    expect(page.locator("h1")).to_contain_text("<img src=x")
    for opener in ("[data-operation=Start]",):
        page.locator(opener).click()
        expect(dialog(page).locator("[data-fires-of]")).to_be_visible()
        check_dialog(page)
    go_to(page, f"/packages?q={found['project']}")
    version = page.locator(f"[data-version='{found['package']}']")
    version.locator(".row-actions > button").click()
    dialog(page).locator("[data-list=users] tbody tr").wait_for()
    check_dialog(page)
    for place in (0, 4):
        version.locator(".menu-button").click()
        version.get_by_role("menuitem").nth(place).click()
        dialog(page).locator("[data-report], [data-delete]").wait_for()
        check_dialog(page)
    assert page.evaluate("globalThis.harmed") is None


def check_dialog(page: Page) -> None:
    """Check the topmost dialog on every width, and close it."""
    settled(page)
    box = dialog(page)
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 900})
        assert fits(page), f"{box.inner_text()[:80]} at {width}"
        assert box.evaluate("node => node.querySelector('article').scrollWidth <= node.clientWidth + 1")
    assert faults(page, "dialog[open]") == []
    assert not KEY.findall(box.inner_text())
    page.set_viewport_size({"width": 1440, "height": 900})
    page.keyboard.press("Escape")
    expect(page.locator("dialog[open]")).to_have_count(0)


def test_each_role_sees_what_the_server_lets_it_do(open_page: Open, site: StoreSite, found: Any, watch: Watch) -> None:
    """UI-11: of uploads, files, deletes, switches and operations, each role has the buttons that are not refused."""
    wanted = {"viewer": (0, 0, 0, 0), "operator": (0, 0, 3, 0), "editor": (0, 0, 3, 0), "chief": (1, 4, 3, 1)}
    seen = {}
    for name in wanted:
        page = settled(open_page(f"/packages?q={found['project']}", name))
        version = page.locator(f"[data-version='{found['package']}']")
        uploads = page.locator("[data-drop]").count()
        version.locator(".menu-button").click()
        items = version.get_by_role("menuitem")
        expect(items.first).to_be_visible()
        extra = items.count() - 1
        page.keyboard.press("Escape")
        version.locator(".row-actions > button").click()
        dialog(page).locator("[data-list=users] tbody tr").wait_for()
        switches = dialog(page).locator("[data-action=switch-jobs]").count()
        page.keyboard.press("Escape")
        shown(page, f"/packages/jobs/{found['job']}", "[data-list=package-operations] tbody tr")
        seen[name] = (uploads, extra, page.locator("[data-operation]").count(), switches)
    assert seen == wanted


def test_an_operator_starts_and_changes_nothing_else(open_page: Open, found: Any) -> None:
    page = shown(open_page("/me", "operator"), f"/packages/jobs/{found['job']}", "[data-list=package-operations] tr")
    page.locator("[data-operation=Restart]").click()
    form = dialog(page)
    for label in ("Cron", "Time zone", "Missed fires", "Package version"):
        expect(form.get_by_label(label)).to_be_disabled()
    expect(form).to_contain_text("Your role starts and pauses this job")


def test_the_language_is_switched_without_a_reload(open_page: Open, found: Any) -> None:
    page = shown(open_page("/me"), *next(iter(places(found).items())))
    page.get_by_label("Language").first.select_option("zh-CN")
    expect(page.locator("h1")).to_have_text("任务包")
    expect(page.locator("nav.side a[href='#/packages']")).to_contain_text("任务包")
    expect(
        page.get_by_role("button", name=re.compile("切换任务")).or_(page.get_by_text("切换任务…")).first
    ).to_be_visible()
    page.get_by_label("语言").first.select_option("en")
    expect(page.locator("h1")).to_have_text("Packages")


def test_without_a_store_nothing_of_it_is_there(contexts: Contexts, tmp_path: Path, watch: Watch) -> None:
    """UI-15: a node that has the plugin and no store shows neither the page nor its entry."""
    bare = Site(tmp_path / "node", "job_package")
    try:
        with contexts.one(bare, watch) as context:
            context.add_cookies([bare.signed_in("viewer")])
            page = visit(page_of(context), bare, "/packages")
            expect(page.locator("h1")).to_have_text("There is no such page")
            assert page.locator("a[href='#/packages']").count() == 0
            assert bare.node.call("GET", "console/manifest")["items"] == []
    finally:
        bare.node.close()
