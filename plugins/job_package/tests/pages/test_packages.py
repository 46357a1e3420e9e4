"""P14: uploads with all that can go wrong, versions, switches, deletes, and files to read."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from archives import wheel
from conftest import StoreSite, module
from console_site import Open, Watch, choose, dialog, go_to, settled, visit
from playwright.sync_api import Locator, Page, expect
from xwheel_devtools.testing import wait_until

CRON = "cron='0 0 1 * * ?'"
BULK = {"data.txt": os.urandom(2 << 20).hex()}
SLOW = 50 * 1024
"""Bytes a second: so slow that an upload of megabytes is seen to move, however busy the machine is."""


def take(page: Page, *files: Path) -> Locator:
    """Choose files in the page, and return the newest upload."""
    page.get_by_label("Choose files, or drop them here").set_input_files(list(files))
    return page.locator("[data-upload]").first


@contextmanager
def slow(page: Page) -> Iterator[None]:
    """Let the page send slowly inside of the block."""
    session = page.context.new_cdp_session(page)
    session.send("Network.enable")
    limits = {"offline": False, "latency": 0, "downloadThroughput": -1}
    session.send("Network.emulateNetworkConditions", {**limits, "uploadThroughput": SLOW})
    try:
        yield
    finally:
        session.send("Network.emulateNetworkConditions", {**limits, "uploadThroughput": -1})
        session.detach()


def bulky(folder: Path, name: str) -> Path:
    """Return a package of some megabytes that hardly gets smaller when it is packed."""
    return wheel(
        folder, {**module({"nightly": CRON}, name=name), "acme/data.txt": os.urandom(2 << 20).hex()}, name=name
    )


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture
def page(open_page: Open) -> Page:
    return settled(open_page("/packages"))


def test_an_upload_shows_how_far_it_is_and_what_was_found(page: Page, site: StoreSite, tmp_path: Path) -> None:
    """UI-8: progress, the file's hash, and a report: jobs, what is disabled, and what cannot be a job, and where."""
    more = "@disabled\n@schedule()\ndef off():\n    pass\n\n@schedule()\ndef wide(a, b):\n    pass\n\n"
    files = {
        **module({"nightly": CRON, "by_hand": ""}, more, name="progress"),
        "acme/data.txt": os.urandom(2 << 20).hex(),
    }
    path = wheel(tmp_path, files, name="progress")
    with slow(page):
        item = take(page, path)
        expect(item).to_have_attribute("data-upload", "sending")
        expect(item.locator("[data-sent]:not([data-sent='0'])")).to_be_visible()
        expect(item.get_by_role("progressbar", name=f"Upload of {path.name}")).to_be_visible()
        expect(item.locator("[data-own-sha256]")).to_have_text(sha256(path))
        assert site.versions("progress") == []
    expect(item).to_have_attribute("data-upload", "done")
    expect(item).to_contain_text("2 jobs found")
    expect(item.locator("[data-list=found] tbody tr")).to_have_count(2)
    expect(item.locator("[data-warnings]")).to_contain_text("One function is marked as disabled")
    expect(item.locator("[data-warnings]")).to_contain_text("read, not imported")
    problem = item.locator("[data-problems] li")
    expect(problem).to_contain_text("It takes other arguments than a job may")
    expect(problem.locator("code")).to_have_text(re.compile(r"progress/jobs\.py:\d+"))
    expect(item.locator("[data-sha256]")).to_have_text(sha256(path))
    expect(page.locator("[data-versions=progress] tbody tr")).to_have_count(1)
    problem.get_by_role("link").click()
    expect(page.locator(".row.chosen")).to_contain_text("def wide(a, b)")


def test_an_upload_can_be_cancelled(page: Page, site: StoreSite, tmp_path: Path) -> None:
    """UI-8: a cancelled upload leaves nothing behind, neither file nor row; those that wait can be cancelled too."""
    before = site.files()
    with slow(page):
        take(page, bulky(tmp_path, "cancelled_one"), bulky(tmp_path, "cancelled_two"))
        second, first = page.locator("[data-upload]").nth(0), page.locator("[data-upload]").nth(1)
        expect(first.locator("[data-sent]:not([data-sent='0'])")).to_be_visible()
        second.get_by_role("button", name=re.compile("^Cancel the upload")).click()
        first.get_by_role("button", name=re.compile("^Cancel the upload")).click()
        for item in (first, second):
            expect(item).to_have_attribute("data-upload", "cancelled")
            expect(item).to_contain_text("Nothing of it is kept.")
    wait_until(lambda: site.files() == before)
    assert site.versions("cancelled-one") == site.versions("cancelled-two") == []
    first.get_by_role("button", name=re.compile("off the list")).click()
    expect(page.locator("[data-upload]")).to_have_count(1)


def refused(page: Page, path: Path, reason: str) -> Locator:
    item = take(page, path)
    expect(item).to_have_attribute("data-upload", "refused")
    expect(item.locator(f"[data-refused={reason}]")).to_be_visible()
    expect(item).to_contain_text("Nothing of it is kept.")
    return item


def test_both_kinds_of_duplicates_are_told_apart(page: Page, site: StoreSite, tmp_path: Path, watch: Watch) -> None:
    """UI-8: the same package again, and another one under the same name and version; the first one stays."""
    watch.allowed += ["409"]
    path = wheel(tmp_path, module({"nightly": CRON}, name="twice"), name="twice")
    digest = site.send(path)["sha256"]
    before = site.files()
    item = refused(page, path, "package_exists_same")
    expect(item).to_contain_text("This very package is there already")
    item.get_by_role("button", name="Show the one that is there").click()
    expect(dialog(page).locator("[data-sha256]")).to_have_text(digest)
    dialog(page).get_by_role("button", name="Close").last.click()
    other = wheel(tmp_path, module({"nightly": CRON, "more": ""}, name="twice"), name="twice")
    expect(refused(page, other, "package_exists_different")).to_contain_text("with other content")
    assert site.files() == before
    assert site.versions("twice") == ["1.2.0"]


def test_wrong_packages_are_refused_with_the_place(page: Page, site: StoreSite, tmp_path: Path, watch: Watch) -> None:
    """UI-8: bad archive, each bad cron with file and line, nothing to run, too large; nothing is half-stored."""
    watch.allowed += ["422"]
    before = site.files()
    broken = tmp_path / "broken-1.0-py3-none-any.whl"
    broken.write_bytes(b"no archive")
    expect(refused(page, broken, "bad_archive")).to_contain_text("The archive cannot be read")
    crons = module({"one": "cron='61 * * * * ?'", "two": "cron='0 0 25 * * ?'"})
    item = refused(page, wheel(tmp_path, crons, name="crons"), "bad_cron")
    expect(item.locator("[data-problems] code")).to_have_text(["acme/jobs.py:4", "acme/jobs.py:8"])
    expect(item.locator("[data-problems] li").first).to_contain_text("The cron cannot be used")
    refused(page, wheel(tmp_path, {"acme/__init__.py": ""}, name="idle"), "no_jobs")
    large = tmp_path / "large-1.0-py3-none-any.whl"
    large.write_bytes(os.urandom(7 << 20))
    expect(refused(page, large, "too_large")).to_contain_text("which the node takes")
    odd = tmp_path / "odd name-1.0.txt"
    odd.write_text("x")
    refused(page, odd, "bad_filename")
    assert site.files() == before
    assert {name: site.versions(name) for name in ("broken", "crons", "idle", "large")} == {
        "broken": [],
        "crons": [],
        "idle": [],
        "large": [],
    }


def test_a_missing_dependency_is_named(page: Page, site: StoreSite, tmp_path: Path) -> None:
    """UI-8: what a package needs is said at its upload; a run on a node that cannot install it fails by that name."""
    needs = "Requires-Dist: xwheel-nowhere-to-be-found>=2\n"
    path = wheel(tmp_path, module({"nightly": CRON}, name="needy"), name="needy", metadata=needs)
    item = take(page, path)
    expect(item).to_have_attribute("data-upload", "done")
    expect(item.locator("[data-warnings] .chip")).to_have_text("xwheel-nowhere-to-be-found>=2")
    expect(item).to_contain_text("whether nodes can install it shows when the job runs")
    (job,) = site.node.call("GET", "packages/projects/needy")["items"]
    users = site.node.call("GET", f"packages/{job['id']}/jobs")["items"]
    run_id = site.run(users[0]["job_id"])
    visit(page, site, f"/runs/{run_id}")
    expect(page.locator("main")).to_contain_text("env_build_failed")


def test_files_can_be_dropped(page: Page, site: StoreSite, tmp_path: Path) -> None:
    path = wheel(tmp_path, module({"nightly": CRON}, name="dropped"), name="dropped")
    data = page.evaluate_handle(
        "([bytes, name]) => { const data = new DataTransfer();"
        " data.items.add(new File([new Uint8Array(bytes)], name)); return data; }",
        [list(path.read_bytes()), path.name],
    )
    zone = page.locator("[data-drop]")
    zone.dispatch_event("dragover", {"dataTransfer": data})
    expect(zone).to_have_attribute("data-drop", "over")
    zone.dispatch_event("drop", {"dataTransfer": data})
    expect(page.locator("[data-upload]").first).to_have_attribute("data-upload", "done")
    assert site.versions("dropped") == ["1.2.0"]


def test_an_upload_goes_on_while_another_page_is_looked_at(page: Page, site: StoreSite, tmp_path: Path) -> None:
    with slow(page):
        item = take(page, bulky(tmp_path, "aside"))
        expect(item.locator("[data-sent]:not([data-sent='0'])")).to_be_visible()
        go_to(page, "/jobs")
        go_to(page, "/packages")
        expect(page.locator("[data-upload=sending]")).to_be_visible()
    expect(page.locator("[data-upload=done]")).to_be_visible()


def versions_of(site: StoreSite, folder: Path, name: str, *functions: Sequence[str]) -> list[Any]:
    """Upload versions 1.0.0, 1.1.0 and so on of a project, each with jobs of these names."""
    return [
        site.send(wheel(folder, module(dict.fromkeys(names, CRON), name=name), name=name, version=f"1.{number}.0"))
        for number, names in enumerate(functions)
    ]


def job_of(found: Any, name: str) -> int:
    return next(int(job["job_id"]) for job in found["jobs"] if job["name"] == name)


def test_packages_are_listed_by_project(open_page: Open, site: StoreSite, tmp_path: Path) -> None:
    """Versions with size, short hash, users and uploader; filter and older ones stand in the address."""
    found = versions_of(site, tmp_path, "grouped", *[["nightly"]] * 22)
    site.operate(job_of(found[0], "nightly"), "Start")
    page = settled(open_page("/packages?q=grouped"))
    rows = page.locator("[data-versions=grouped] tbody tr")
    expect(rows).to_have_count(20)
    expect(rows.first).to_contain_text("1.21.0")
    expect(rows.first).to_contain_text(found[-1]["sha256"][:12])
    expect(rows.first).to_contain_text("first")
    page.get_by_role("link", name="All 22 versions").click()
    expect(rows).to_have_count(22)
    expect(page).to_have_url(re.compile("all=grouped"))
    expect(rows.last).to_contain_text("one job")
    expect(rows.last).to_contain_text("one started")
    page.reload()
    expect(rows).to_have_count(22)
    page.get_by_label("Project").fill("no such thing")
    expect(page.locator(".empty")).to_have_text("No project has this in its name.")


def test_jobs_are_switched_and_what_cannot_is_named(open_page: Open, site: StoreSite, tmp_path: Path) -> None:
    """Those that do not have a chance cannot be chosen; of the others each says what became of it."""
    old, new = versions_of(site, tmp_path, "switched", ["gone", "kept", "lost", "run"], ["kept", "lost", "run"])
    jobs = {job["name"]: job["job_id"] for job in old["jobs"]}
    site.operate(jobs["run"], "Start")
    page = settled(open_page("/packages?q=switched"))
    page.get_by_role("button", name="Jobs and switched 1.1.0", exact=True).click()
    table = dialog(page).locator("[data-list=users]")
    settled(page)
    expect(table.locator("tbody tr")).to_have_count(4)
    expect(table.get_by_label("Choose switched.jobs.gone")).to_be_disabled()
    expect(table.locator(f"[data-user='{jobs['gone']}']")).to_contain_text("this version does not have it")
    table.get_by_label("Select all rows shown").check()
    expect(table.locator(f"[data-user='{jobs['kept']}']")).to_contain_text("1.0.0 → 1.1.0")
    site.node.call("DELETE", f"jobs/{jobs['lost']}")
    dialog(page).get_by_role("button", name="Switch 3 jobs").click()
    expect(table.locator("[data-result=Success]")).to_have_count(2)
    expect(table.locator(f"[data-user='{jobs['lost']}'] [data-result=Failed]")).to_contain_text(
        "It is not there, or you may not see it"
    )
    expect(page.locator(".note").last).to_contain_text("2 of 3 jobs switched")
    states = {
        name: (one["package_id"], one["state"])
        for name in ("kept", "run", "gone")
        if (one := site.node.call("GET", f"packages/jobs/{jobs[name]}"))
    }
    assert states == {"kept": (new["id"], "Shutdown"), "run": (new["id"], "Startup"), "gone": (old["id"], "Shutdown")}


def test_a_version_is_deleted_once_it_is_seen_who_uses_it(
    open_page: Open, site: StoreSite, tmp_path: Path, watch: Watch
) -> None:
    """Who uses it is shown first; what was started meanwhile is refused with 409, and takes force."""
    watch.allowed += ["409"]
    (found,) = versions_of(site, tmp_path, "leaving", ["nightly", "second"])
    page = settled(open_page("/packages?q=leaving"))
    choose(page, "More for leaving 1.0.0", "Delete")
    form = dialog(page)
    settled(page)
    expect(form).to_contain_text("2 jobs use it, and are deleted with it")
    expect(form.locator("li").first).to_contain_text("leaving.jobs.nightly")
    button = form.get_by_role("button", name="Delete", exact=True)
    expect(button).to_be_disabled()
    form.get_by_label("Type leaving 1.0.0 to go on").fill("leaving 1.0.0")
    site.operate(job_of(found, "nightly"), "Start")
    button.click()
    expect(form.locator(".failure")).to_contain_text("The package is in use")
    expect(button).to_be_disabled()
    settled(page)
    form.get_by_label("Stop its one started job first").check()
    button.click()
    expect(page.locator("dialog[open]")).to_have_count(0)
    expect(page.locator("[data-versions=leaving]")).to_have_count(0)
    assert site.versions("leaving") == []
    assert not any("leaving" in name for name in site.files())


def test_the_files_of_a_package_can_be_read(open_page: Open, site: StoreSite, tmp_path: Path) -> None:
    """The address says which file and line; what is no text is not shown, and what is hostile stays text."""
    hostile = "<img src=x onerror=\"globalThis.harmed = 'yes'\">"
    files = {
        **module({"nightly": CRON}, name="readable"),
        f"acme/{hostile}.txt": f"{hostile}<script>harmed()</script>\n",
    }
    found = site.send(wheel(tmp_path, {**files, "acme/odd.bin": "\0"}, name="readable"))
    page = settled(open_page(f"/packages/{found['id']}/files"))
    expect(page.locator("[data-source='readable/jobs.py']")).to_contain_text("def nightly():")
    page.get_by_role("link", name="Line 3").click()
    expect(page.locator(".row.chosen")).to_contain_text("@schedule")
    expect(page).to_have_url(re.compile(r"path=readable%2Fjobs\.py&line=3"))
    page.reload()
    expect(page.locator(".row.chosen")).to_contain_text("@schedule")
    page.get_by_label("Part of the path").fill("IMG")
    page.locator("[data-list=files] a").click()
    expect(page.locator(".row .text").first).to_contain_text("<script>")
    assert page.evaluate("globalThis.harmed") is None
    go_to(page, f"/packages/{found['id']}/files?path=acme/odd.bin")
    expect(page.get_by_text("This file is no text.")).to_be_visible()


def test_groups_are_shown_and_changed(page: Page, site: StoreSite, tmp_path: Path) -> None:
    """S15: the list shows whose a project is; who may, chooses other groups."""
    site.node.call("POST", "groups", {"app_name": "second-team", "title": "Second"})
    page.reload()
    settled(page)
    page.locator("summary", has_text="More").click()
    page.locator("[data-choice=groups]").get_by_label("demo", exact=True).check()
    item = take(page, wheel(tmp_path, module({"nightly": CRON}, name="shared_one"), name="shared_one"))
    expect(item).to_have_attribute("data-upload", "done")
    row = page.locator("tr", has=page.get_by_text("shared-one", exact=True)).first
    expect(row.locator("[data-groups]")).to_have_text(re.compile("^ *demo *$"))
    page.get_by_role("button", name="More for shared-one 1.2.0").click()
    page.get_by_role("menuitem", name="Groups…").click()
    form = page.locator("[data-groups-of=shared-one]")
    form.get_by_label("second-team", exact=True).check()
    form.get_by_role("button", name="Save").click()
    expect(row.locator("[data-groups]")).to_have_text(re.compile(r"demo\s+second-team"))
    found = site.node.call("GET", "packages/projects?search=shared-one")["items"][0]
    assert found["groups"] == ["demo", "second-team"]
