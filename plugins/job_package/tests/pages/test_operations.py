"""P15: Start, Pause and Restart with now → after, the result as it moves, and the list of operations."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any

import pytest
from archives import wheel
from conftest import StoreSite, module
from console_site import Open, Watch, dialog, row, settled
from playwright.sync_api import Locator, Page, Route, expect

CRON = "0 0 1 * * ?"


@pytest.fixture
def found(site: StoreSite, tmp_path: Path, request: pytest.FixtureRequest) -> Any:
    """Two versions of a project of the test's own, with one job."""
    name = re.sub(r"\W+", "_", request.node.name)[-60:].strip("_")
    files = module({"nightly": f"cron='{CRON}'"}, name=name)
    first, second = (site.send(wheel(tmp_path, files, name=name, version=number)) for number in ("1.0", "1.1"))
    return {"job": first["jobs"][0]["job_id"], "first": first["id"], "second": second["id"]}


def change(form: Locator, name: str) -> Locator:
    return form.locator(f"[data-change={name}]")


def operation(page: Page, name: str) -> Locator:
    """Open the dialog of an operation, and return it."""
    page.locator(f"[data-operation={name}]").click()
    form = dialog(page)
    expect(form.locator("[data-operate]")).to_be_visible()
    return form


def test_a_start_shows_now_and_after_and_what_came_of_it(open_page: Open, site: StoreSite, found: Any) -> None:
    page = settled(open_page(f"/packages/jobs/{found['job']}"))
    expect(page.get_by_text("Nothing was done with this job yet.")).to_be_visible()
    form = operation(page, "Start")
    expect(form.get_by_label("Start", exact=True)).to_be_checked()
    expect(form.locator(f"[data-fires-of='{CRON}'] li")).to_have_count(3)
    expect(change(form, "state")).to_contain_text("stopped")
    expect(change(form, "state")).to_contain_text("started")
    expect(change(form, "cron")).to_have_attribute("data-changed", "no")
    form.get_by_label("Cron").fill("0 30 2 * * ?")
    form.get_by_label("Missed fires").select_option("DoNothing")
    form.get_by_label("Package version").select_option("1.1")
    expect(change(form, "cron")).to_have_text(re.compile(r"0 0 1 \* \* \?\s*→\s*0 30 2 \* \* \?"))
    expect(change(form, "package_id")).to_have_text(re.compile(r"1\.0\s*→\s*1\.1"))
    form.get_by_role("button", name="Start", exact=True).click()
    outcome = dialog(page).locator("[data-outcome=closed]")
    expect(outcome.locator("[data-result=Success]")).to_be_visible()
    expect(outcome.locator("[data-change=misfire]")).to_contain_text("Leave out")
    dialog(page).get_by_role("button", name="Close").last.click()
    line = row(page, "package-operations", "Start")
    expect(line.locator("[data-result=Success]")).to_be_visible()
    expect(line).to_contain_text("chief")
    expect(line.locator("[data-change]")).to_have_count(4)
    now = site.node.call("GET", f"packages/jobs/{found['job']}")
    assert (now["state"], now["cron"], now["misfire"], now["package_id"]) == (
        "Startup",
        "0 30 2 * * ?",
        "DoNothing",
        found["second"],
    )
    pause = operation(page, "Pause")
    expect(pause.get_by_label("Cron")).to_have_count(0)
    pause.get_by_role("button", name="Pause").click()
    expect(dialog(page).locator("[data-outcome=closed] [data-change=state]")).to_contain_text("paused")
    assert site.node.call("GET", f"jobs/{found['job']}")["enabled"] is False


def test_a_bad_cron_stands_at_its_field(open_page: Open, site: StoreSite, found: Any, watch: Watch) -> None:
    """OPS-9: the error shows at the field before anything is written, by the preview and by the refusal."""
    watch.allowed += ["422", "400"]
    page = settled(open_page(f"/packages/jobs/{found['job']}"))
    form = operation(page, "Start")
    form.get_by_label("Cron").fill("61 * * * * ?")
    expect(form.locator("[data-field=cron] .field-error")).to_be_visible()
    form.get_by_role("button", name="Start", exact=True).click()
    expect(form.locator("[data-field=cron] .field-error")).to_contain_text("cron")
    expect(form.get_by_label("Cron")).to_have_attribute("aria-invalid", "true")
    now = site.node.call("GET", f"packages/jobs/{found['job']}")
    assert (now["state"], now["cron"], now["version"]) == ("Shutdown", CRON, 1)


def test_the_second_of_two_operators_sees_what_the_first_did(
    open_page: Open, site: StoreSite, found: Any, watch: Watch
) -> None:
    """OPS-10: a form that is older than the job is refused, shows what is there now, and keeps what was typed."""
    watch.allowed += ["409"]
    page = settled(open_page(f"/packages/jobs/{found['job']}"))
    form = operation(page, "Start")
    form.get_by_label("Time zone").fill("Asia/Shanghai")
    site.operate(found["job"], "Start", cron="0 0 4 * * ?")
    form.get_by_role("button", name="Start", exact=True).click()
    expect(form.locator("[data-refused=stale_version]")).to_contain_text("Someone else changed it meanwhile")
    expect(form.get_by_label("Time zone")).to_have_value("Asia/Shanghai")
    expect(change(form, "cron")).to_have_text(re.compile(r"0 0 4 \* \* \?\s*→\s*0 0 1 \* \* \?"))
    form.get_by_label("Restart").check()
    form.get_by_label("Cron").fill("0 0 4 * * ?")
    expect(change(form, "cron")).to_have_attribute("data-changed", "no")
    form.get_by_role("button", name="Restart").click()
    expect(dialog(page).locator("[data-outcome=closed] [data-result=Success]")).to_be_visible()
    now = site.node.call("GET", f"packages/jobs/{found['job']}")
    assert (now["cron"], now["time_zone"], now["version"]) == ("0 0 4 * * ?", "Asia/Shanghai", 3)


def begin(site: StoreSite, found: Any) -> int:
    """Write an operation that nodes have to answer, as a cluster does."""
    now = {"cron": CRON, "misfire": "None", "time_zone": "", "package_id": found["first"]}
    before, after = (json.dumps({**now, "state": state, "version": 1}) for state in ("Shutdown", "Startup"))
    return site.write(
        "INSERT INTO job_package_operation (job_id, operation, result, reason, error, actor, before, after, begun_ms)"
        " VALUES (?, 'Start', 'Waiting', '', '', 'chief', ?, ?, ?)",
        found["job"],
        before,
        after,
        int(time.time() * 1000),
    )


def move(site: StoreSite, number: int, result: str, *, reason: str = "", error: str = "") -> None:
    """Write what nodes say of an operation; Success and Failed close it."""
    ended = int(time.time() * 1000) if result in {"Success", "Failed"} else None
    site.write(
        "UPDATE job_package_operation SET result = ?, reason = ?, error = ?, ended_ms = ? WHERE id = ?",
        result,
        reason,
        error,
        ended,
        number,
    )


HOSTILE = "<img src=x onerror=\"globalThis.harmed = 'yes'\">"


def test_a_result_is_followed_until_it_is_closed(open_page: Open, site: StoreSite, found: Any) -> None:
    """CON-3: what a node says is shown as it is written; and each state of an operation until its last."""
    number = begin(site, found)
    page = settled(open_page(f"/packages/jobs/{found['job']}"))
    line = row(page, "package-operations", "Start")
    expect(line).to_contain_text("Waiting")
    move(site, number, "Retrying(2)", reason="timeout")
    expect(line).to_contain_text("Retrying, attempt 2")
    move(site, number, "Failed", reason="no_such_job_in_package", error=f"node 3: {HOSTILE}")
    expect(line.locator("[data-result=Failed]")).to_contain_text("This version does not have the job")
    expect(line).to_contain_text(HOSTILE)
    assert page.evaluate("globalThis.harmed") is None


def test_the_dialog_follows_its_operation(open_page: Open, site: StoreSite, found: Any) -> None:
    """What a cluster does later is shown in the dialog as it moves."""
    page = settled(open_page(f"/packages/jobs/{found['job']}"))
    number = begin(site, found)

    def answer(route: Route) -> None:
        if route.request.method == "POST":
            said = {"operation_id": number, "result": "Waiting", "reason": "", "version": 2}
            route.fulfill(status=200, content_type="application/json", body=json.dumps(said))
        else:
            route.continue_()

    page.route("**/operations*", answer)
    form = operation(page, "Start")
    form.get_by_role("button", name="Start", exact=True).click()
    outcome = dialog(page).locator("[data-outcome]")
    expect(outcome).to_have_attribute("data-outcome", "open")
    expect(outcome).to_contain_text("Waiting")
    move(site, number, "Retrying(1)")
    expect(outcome).to_contain_text("Retrying, attempt 1")
    move(site, number, "Success")
    expect(outcome).to_have_attribute("data-outcome", "closed")
    expect(outcome.locator("[data-result=Success]")).to_be_visible()


def test_the_menu_of_a_job_offers_it_by_keys(open_page: Open, site: StoreSite, found: Any) -> None:
    """From the list of jobs without a mouse; jobs of other kinds do not offer it."""
    name = f"keys {found['job']}"
    site.node.call("PATCH", f"jobs/{found['job']}", {"name": name})
    plain = site.job(f"plain {found['job']}")
    page = settled(open_page(f"/jobs?q={found['job']}"))
    page.locator(f"[data-list=jobs] tr[data-id='{plain}'] .menu-button").click()
    expect(page.get_by_role("menuitem", name="Edit")).to_be_visible()
    expect(page.get_by_role("menuitem", name="Package operations")).to_have_count(0)
    page.keyboard.press("Escape")
    line = page.locator(f"[data-list=jobs] tr[data-id='{found['job']}']")
    line.focus()
    page.keyboard.press(".")
    item = page.get_by_role("menuitem", name="Start, pause, restart…")
    expect(item).to_be_visible()
    item.press("Enter")
    form = dialog(page)
    expect(form.locator("[data-operate]")).to_be_visible()
    expect(form.locator(":focus")).to_have_count(1)
    form.get_by_label("Start", exact=True).focus()
    page.keyboard.press("Enter")
    expect(dialog(page).locator("[data-outcome=closed]")).to_be_visible()
    page.keyboard.press("Enter")
    expect(page.locator("dialog[open]")).to_have_count(0)
    assert site.node.call("GET", f"jobs/{found['job']}")["enabled"] is True
