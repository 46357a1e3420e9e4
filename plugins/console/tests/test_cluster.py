"""The cluster and what stands next to jobs: nodes, executors, calendars, alarms, the audit and the system."""

from __future__ import annotations

import json
import re
from typing import Any

from conftest import ANSWER, Open, Site, Watch, choose, dialog, row
from playwright.sync_api import Route, expect
from xwheel_devtools.testing import wait_until

# nodes


def test_the_cluster_shows_this_node_with_its_partitions_and_health(open_page: Open) -> None:
    page = open_page("/nodes", "viewer")
    card = page.locator("[data-node]")
    expect(card).to_have_count(1)
    expect(card).to_have_attribute("data-state", "up")
    expect(card).to_contain_text("this node")
    expect(card.get_by_role("img", name="holds 64 of 64 partitions: 0–63")).to_be_visible()
    expect(page.locator("[data-health=ok]")).to_contain_text("all is well")
    page.get_by_text(re.compile(r"\d+ of \d+ loops work")).click()
    expect(page.locator("[data-list=loops] tbody tr").first).to_be_visible()


def node(name: str, *, alive: bool, held: list[int]) -> dict[str, Any]:
    known = {"id": name, "name": name, "address": None, "version": None, "draining": False, "is_me": False}
    return {**known, "alive": alive, "partitions": held, "last_seen_ms": 1, "since_ms": 1}


def test_a_node_that_goes_away_or_leaves_stands_out_for_ten_seconds(open_page: Open) -> None:
    page = open_page("/me", "viewer", alone=True)
    shown = {"items": [node("one", alive=True, held=[0, 1, 5]), node("two", alive=True, held=[7])]}

    def answer(route: Route) -> None:
        body = {**shown, "next": None, "partitions_without": 0}
        route.fulfill(status=200, content_type="application/json", body=json.dumps(body))

    page.route("**/api/v1/nodes", answer)
    page.clock.install()
    page.reload()
    page.goto(f"{page.url.split('#')[0]}#/nodes")
    one, two = page.locator("[data-node=one]"), page.locator("[data-node=two]")
    expect(one.get_by_role("img", name="holds 3 of 64 partitions: 0–1, 5")).to_be_visible()
    assert one.get_attribute("data-change") is None
    shown["items"] = [node("one", alive=False, held=[0, 1, 5])]
    page.clock.run_for(5500)
    expect(one).to_have_attribute("data-change", "away")
    expect(one).to_contain_text("went away just now")
    expect(two).to_have_attribute("data-change", "left")
    page.clock.run_for(5000)
    expect(one).to_have_attribute("data-change", "away")
    expect(two).to_have_attribute("data-change", "left")
    page.clock.run_for(11_000)
    expect(two).to_have_count(0)
    expect(one).not_to_have_attribute("data-change", "away")
    expect(one).to_have_attribute("data-state", "away")


# executors


def test_executors_are_shown_by_group_and_tell_about_themselves(open_page: Open, site: Site) -> None:
    page = open_page("/executors", "viewer")
    address = site.node.addresses[0]
    page.get_by_role("button", name=address).click()
    expect(dialog(page)).to_contain_text("registered itself")
    expect(dialog(page)).to_contain_text("the shared token")
    page.keyboard.press("Escape")
    expect(page.get_by_role("button", name=address)).to_be_focused()


def test_a_group_is_made_changed_and_deleted(open_page: Open, site: Site, watch: Watch) -> None:
    watch.allowed.append("422")
    page = open_page("/executors")
    page.get_by_role("button", name="New group").click()
    form = dialog(page)
    form.get_by_label("App name", exact=True).fill("not a name")
    form.get_by_role("button", name="Create").click()
    expect(form.locator("[data-field=app_name] .field-error")).to_contain_text("letters, digits")
    form.get_by_label("App name", exact=True).fill("bakery")
    form.get_by_label("Title").fill("Bakery")
    form.get_by_role("button", name="Add an address").click()
    form.get_by_label("Address").fill("http://127.0.0.1:9")
    form.get_by_role("button", name="Create").click()
    expect(row(page, "groups", "Bakery").locator("[data-entered]")).to_contain_text("http://127.0.0.1:9")
    choose(page, "More about Bakery", "Edit")
    form.get_by_label("Most runs at once").fill("3")
    form.get_by_role("button", name="Save").click()
    expect(form).to_have_count(0)
    expect(row(page, "groups", "Bakery")).to_contain_text("3")
    choose(page, "More about Bakery", "Delete")
    expect(form.get_by_role("button", name="Delete")).to_be_disabled()
    form.get_by_label("Type bakery to go on").fill("bakery")
    form.get_by_role("button", name="Delete").click()
    expect(row(page, "groups", "Bakery")).to_have_count(0)


# calendars


def test_a_calendar_is_written_as_json_with_its_faults_at_the_field(open_page: Open, site: Site, watch: Watch) -> None:
    watch.allowed.append("422")
    page = open_page("/calendars?new=1", "editor")
    page.get_by_label("Name").fill("breaks")
    text = page.get_by_label("Definition (JSON)")
    fault = page.locator("[data-field=calendar] .field-error")
    for wrong, words in (
        ("{", "This is no JSON"),
        ("[]", "it must be an object"),
        ('{"dates": ["tomorrow"]}', "dates: "),
    ):
        text.fill(wrong)
        page.get_by_role("button", name="Create").click()
        expect(fault).to_contain_text(words)
    text.fill('{"weekdays": "SAT,SUN"}')
    page.get_by_role("button", name="Create").click()
    preview = page.locator("[data-preview=breaks]")
    expect(preview.locator("li")).to_have_count(10)
    weekdays = preview.locator("time").evaluate_all("all => all.map(one => new Date(one.dateTime).getUTCDay())")
    assert set(weekdays) == {1, 2, 3, 4, 5}
    preview.get_by_label("The job").select_option("calendar_require")
    expect(preview.locator("time").first).to_be_visible()
    page.reload()
    expect(text).to_have_value(re.compile("SAT,SUN"))
    assert site.node.call("GET", "calendars/breaks")["definition"] == {"weekdays": "SAT,SUN"}


# alarms


def test_alarms_say_in_words_what_happened_and_lead_to_the_attempts(open_page: Open, site: Site) -> None:
    site.run(site.job("always fails", handler="fail"), "no bread left")
    wait_until(lambda: any("no bread left" in alarm.text for alarm in site.node.alarms))
    page = open_page("/alarms", "viewer")
    line = row(page, "alarms", "no bread left")
    expect(line.locator("[data-kind=failed]")).to_contain_text("failed")
    expect(line).to_contain_text("always fails")
    line.get_by_role("link", name="attempts").click()
    expect(row(page, "attempts", "captured")).to_contain_text("sent")
    page.go_back()
    expect(line).to_be_visible()


def test_a_rule_is_made_and_its_test_shows_what_the_channel_answered(open_page: Open, site: Site) -> None:
    page = open_page("/alarms/rules", "editor")
    page.get_by_role("button", name="New rule").click()
    form = dialog(page)
    form.get_by_label("Name", exact=True).fill("tell the bakers")
    form.get_by_label("For", exact=True).select_option("group")
    form.locator("[data-field=group_id] select").select_option(label="Demo")
    form.get_by_role("button", name="Add a channel").click()
    form.get_by_label("Channel").select_option("gateway")
    form.get_by_label("Receivers, one a line").fill("anna\nbert")
    form.get_by_role("button", name="Send test").click()
    test = page.get_by_role("dialog", name="Test gateway")
    test.get_by_role("button", name="Send test").click()
    expect(test.locator("[data-answer=failed]")).to_contain_text(ANSWER)
    test.get_by_role("button", name="Close").last.click()
    form.get_by_role("button", name="Create").click()
    line = row(page, "rules", "tell the bakers")
    expect(line).to_contain_text("anna, bert")
    rule = next(item for item in site.node.call("GET", "alarms/rules")["items"] if item["name"] == "tell the bakers")
    assert (rule["group_id"], rule["targets"][0]["receivers"]) == (site.group_id, ["anna", "bert"])
    choose(page, "More about rule tell the bakers", "Edit")
    form.get_by_label("The rule is on").uncheck()
    form.get_by_role("button", name="Save").click()
    expect(line).to_contain_text("off")
    choose(page, "More about rule tell the bakers", "Delete")
    form.get_by_label("Type tell the bakers to go on").fill("tell the bakers")
    form.get_by_role("button", name="Delete").click()
    expect(line).to_have_count(0)


# the audit


def test_the_audit_shows_before_and_after_and_its_filters_stay_in_the_address(open_page: Open, site: Site) -> None:
    job_id = site.job("audited job")
    site.node.call("PATCH", f"jobs/{job_id}", {"description": "new words"})
    page = open_page(f"/audit?kind=job&object={job_id}&action=job.edit")
    line = page.locator("[data-list=audit] tbody tr[data-id]")
    expect(line).to_have_count(1)
    line.get_by_role("button").first.click()
    detail = page.locator("[data-detail]")
    expect(detail.locator("td.new")).to_contain_text(["new words"])
    page.get_by_label("Outcome").select_option("done")
    expect(page).to_have_url(re.compile("outcome=done"))
    page.reload()
    expect(page.get_by_label("Outcome")).to_have_value("done")
    expect(detail.locator("td.new")).to_contain_text(["new words"])
    with page.expect_download() as saved:
        page.get_by_role("button", name="Save as CSV").or_(page.get_by_role("link", name="Save as CSV")).click()
    text = saved.value.path().read_text(encoding="utf-8-sig")
    assert len(text.splitlines()) == 2
    assert "job.edit" in text
    page.get_by_label("Outcome").select_option("refused")
    expect(page.get_by_text("Nothing was done, as far as these filters say.")).to_be_visible()


def test_times_of_the_audits_filter_are_those_of_the_shown_zone(open_page: Open, site: Site) -> None:
    page = open_page("/audit", timezone_id="Asia/Shanghai")
    page.get_by_label("From").fill("2026-11-23T08:00")
    expect(page).to_have_url(re.compile(r"from=1795392000000"))
    page.reload()
    expect(page.get_by_label("From")).to_have_value("2026-11-23T08:00")


# the system


def test_the_system_tells_of_plugins_and_notices_and_pauses_everything(open_page: Open, site: Site) -> None:
    page = open_page("/system/about", "operator")
    expect(page.locator("[data-licences]")).to_contain_text("preact")
    page.get_by_role("link", name="Plugins").click()
    expect(page.locator("[data-plugin=console]")).to_contain_text("on")
    expect(page.locator("[data-plugin=gateway] [data-registers=gateway]")).to_contain_text("alarm channel")
    page.get_by_role("link", name="Health").click()
    page.locator("[data-paused=false]").get_by_role("button", name="Pause all schedules").click()
    dialog(page).get_by_label("Why (it stands in the audit log)").fill("repairs")
    dialog(page).get_by_role("button", name="Pause all schedules").click()
    expect(page.locator("[data-paused=true]")).to_contain_text("paused since")
    page.locator("[data-paused=true]").get_by_role("button", name="Resume schedules").click()
    expect(page.locator("[data-paused=false]")).to_be_visible()
    assert site.node.call("GET", "schedule/pause")["paused_since_ms"] is None
