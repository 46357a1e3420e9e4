"""Cluster, executors, calendars, audit, alarms, users, system and profile."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
import requests
from axe_playwright_python.sync_playwright import Axe
from conftest import PASSWORD, Open, Site, Watch, visit
from playwright.sync_api import Locator, Page, Route, expect
from tests.support.console_history import permissions_of
from xwheel.plugin import Alarm, hookimpl

pytestmark = pytest.mark.long

HOSTILE = (
    "<img src=x onerror=\"globalThis.harmed = 'yes'\"><script>globalThis.harmed = 'yes'</script>\u202etxet"
)
ANSWER = "the gateway said 503: come back later"
PLACES = [
    "/nodes",
    "/executors",
    "/calendars?name=freeze",
    "/audit",
    "/alarms",
    "/alarms/rules",
    "/alarms/attempts",
    "/accounts/users",
    "/accounts/tokens",
    "/accounts/secrets",
    "/accounts/roles",
    "/system",
    "/system/plugins",
    "/system/about",
    "/me",
]


class Gateway:
    """A plugin whose alarm channel always fails."""

    name = "gateway"

    def send(self, alarm: Alarm) -> str:
        raise RuntimeError(ANSWER)

    @hookimpl
    def xwheel_register_alarms(self) -> list[Gateway]:
        return [self]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    found = Site(tmp_path_factory.mktemp("admin") / "node", Gateway())
    call = found.node.call
    call("PUT", "calendars/freeze", {"times": ["2026-11-10T22:00..2026-11-11T06:00"]})
    call("POST", "secrets", {"name": "demo-1", "group_id": found.group_id})
    call("POST", "tokens", {"name": "deploy", "role": "operator"})
    found.run(found.job("always fails", handler="fail"), "no bread left")
    found.node.wait_for_alarms()
    yield found
    found.node.close()


def settled(page: Page) -> None:
    """Wait until nothing of the page is still loaded."""
    expect(page.locator("#main .skeleton")).to_have_count(0)
    expect(page.locator("#main [aria-busy=true]")).to_have_count(0)


def row(page: Page, name: str, text: str) -> Locator:
    return page.locator(f"[data-list={name}] tbody tr[data-id]").filter(has_text=text).first


def choose(page: Page, menu: str, item: str) -> None:
    page.get_by_role("button", name=menu, exact=True).click()
    page.get_by_role("menuitem", name=item, exact=True).click()


def dialog(page: Page) -> Locator:
    return page.locator("dialog[open]").last


def sign_in(site: Site, name: str, password: str) -> requests.Response:
    return requests.post(f"{site.url}/api/v1/session", json={"name": name, "password": password}, timeout=30)


class Caller:
    """Calls of the API in a session of an account."""

    def __init__(self, site: Site, name: str) -> None:
        self._base = f"{site.url}/api/v1"
        self._session = requests.Session()
        begun = self._session.post(
            f"{self._base}/session", json={"name": name, "password": PASSWORD}, timeout=30
        )
        begun.raise_for_status()
        self._csrf = begun.json()["csrf"]

    def status(self, method: str, path: str, body: Any = None) -> int:
        answer = self._session.request(
            method, f"{self._base}/{path}", json=body, headers={"X-Xwheel-CSRF": self._csrf}, timeout=30
        )
        return answer.status_code


# cluster


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
    page = open_page("/me", "viewer")
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


def test_a_calendar_is_written_as_json_with_its_faults_at_the_field(
    open_page: Open, site: Site, watch: Watch
) -> None:
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
    weekdays = preview.locator("time").evaluate_all(
        "all => all.map(one => new Date(one.dateTime).getUTCDay())"
    )
    assert set(weekdays) == {1, 2, 3, 4, 5}
    preview.get_by_label("The job").select_option("calendar_require")
    expect(preview.locator("time").first).to_be_visible()
    page.reload()
    expect(text).to_have_value(re.compile("SAT,SUN"))
    assert site.node.call("GET", "calendars/breaks")["definition"] == {"weekdays": "SAT,SUN"}


# audit


def test_the_audit_shows_before_and_after_and_its_filters_stay_in_the_address(
    open_page: Open, site: Site
) -> None:
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
        page.get_by_role("button", name="Save as CSV").or_(
            page.get_by_role("link", name="Save as CSV")
        ).click()
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


# alarms


def test_alarms_say_in_words_what_happened_and_lead_to_the_attempts(open_page: Open) -> None:
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
    rule = next(item for item in site.node.call("GET", "alarms/rules")["items"] if item["name"])
    assert (rule["group_id"], rule["targets"][0]["receivers"]) == (site.group_id, ["anna", "bert"])
    choose(page, "More about rule tell the bakers", "Edit")
    form.get_by_label("The rule is on").uncheck()
    form.get_by_role("button", name="Save").click()
    expect(line).to_contain_text("off")
    choose(page, "More about rule tell the bakers", "Delete")
    form.get_by_label("Type tell the bakers to go on").fill("tell the bakers")
    form.get_by_role("button", name="Delete").click()
    expect(line).to_have_count(0)


# users


def test_an_account_made_here_signs_in_and_chooses_a_password(
    open_page: Open, site: Site, watch: Watch
) -> None:
    watch.allowed += ["401", "403"]
    page = open_page("/accounts")
    page.get_by_role("button", name="New account").click()
    form = dialog(page)
    form.get_by_label("Name", exact=True).fill("newcomer")
    form.get_by_role("button", name="Add a role in a group").click()
    form.get_by_role("combobox", name="Role", exact=True).select_option("editor")
    form.get_by_label("may change scripts").check()
    form.get_by_role("button", name="Create").click()
    secret = dialog(page).locator("[data-once]").input_value()
    dialog(page).get_by_role("button", name="Close").last.click()
    expect(row(page, "accounts", "newcomer")).to_contain_text("editor with scripts in Demo")
    theirs = open_page("/me", name=None)
    theirs.get_by_label("Name").fill("newcomer")
    theirs.get_by_label("Password", exact=True).fill(secret)
    theirs.get_by_role("button", name="Sign in").click()
    theirs.get_by_label("Present password").fill(secret)
    theirs.get_by_label("New password", exact=True).fill(PASSWORD)
    theirs.get_by_label("New password again").fill(PASSWORD)
    theirs.get_by_role("button", name="Change password").click()
    expect(theirs.locator("[data-section=sessions]")).to_contain_text("this one")
    choose(page, "More about newcomer", "Disable")
    dialog(page).get_by_label("Why (it stands in the audit log)").fill("left us")
    dialog(page).get_by_role("button", name="Disable").click()
    expect(row(page, "accounts", "newcomer")).to_contain_text("disabled")
    assert sign_in(site, "newcomer", PASSWORD).status_code == 401
    choose(page, "More about newcomer", "Delete")
    dialog(page).get_by_label("Type newcomer to go on").fill("newcomer")
    dialog(page).get_by_role("button", name="Delete").click()
    expect(row(page, "accounts", "newcomer")).to_have_count(0)


def test_a_link_made_here_signs_in_and_another_password_ends_that(
    open_page: Open, site: Site, watch: Watch
) -> None:
    watch.allowed.append("401")
    site.account("guest", role="viewer")
    page = open_page("/accounts")
    choose(page, "More about guest", "Make a sign-in link")
    link = dialog(page).locator("[data-once]").input_value()
    dialog(page).get_by_role("button", name="Close").last.click()
    theirs = open_page("/login", name=None)
    theirs.goto("about:blank")
    theirs.goto(link)
    theirs.get_by_role("button", name="Sign in as guest").click()
    expect(theirs.locator("nav.side")).to_be_visible()
    assert "link" not in theirs.url
    choose(page, "More about guest", "Set another password")
    dialog(page).get_by_role("button", name="Set another password").click()
    secret = dialog(page).locator("[data-once]").input_value()
    assert sign_in(site, "guest", PASSWORD).status_code == 401
    assert sign_in(site, "guest", secret).json()["must_change"]
    expect(theirs.get_by_role("heading", name="Your session has ended")).to_be_visible()


def test_a_token_made_here_works_until_it_is_deleted(open_page: Open, site: Site) -> None:
    page = open_page("/accounts/tokens")
    page.get_by_role("button", name="New token").click()
    form = dialog(page)
    form.get_by_label("Name", exact=True).fill("reader")
    form.get_by_label("For", exact=True).select_option("roles")
    form.get_by_label("In all groups").select_option("viewer")
    form.get_by_role("button", name="Create").click()
    secret = dialog(page).locator("[data-once]").input_value()
    head = {"Authorization": f"Bearer {secret}"}
    assert requests.get(f"{site.url}/api/v1/jobs", headers=head, timeout=30).status_code == 200
    assert requests.get(f"{site.url}/api/v1/tokens", headers=head, timeout=30).status_code == 403
    dialog(page).get_by_role("button", name="Close").last.click()
    expect(row(page, "tokens", "reader")).to_contain_text("viewer in all groups")
    choose(page, "More about reader", "Delete")
    dialog(page).get_by_label("Type reader to go on").fill("reader")
    dialog(page).get_by_role("button", name="Delete").click()
    expect(row(page, "tokens", "reader")).to_have_count(0)
    names = [item["name"] for item in site.node.call("GET", "tokens")["items"]]
    assert "reader" not in names


def test_a_secret_of_executors_is_made_and_followed_by_the_next(open_page: Open, site: Site) -> None:
    page = open_page(f"/accounts/secrets?group={site.group_id}")
    page.get_by_role("button", name="New secret").click()
    dialog(page).get_by_label("Name", exact=True).fill("oven-1")
    dialog(page).get_by_role("button", name="Create").click()
    first = dialog(page).locator("[data-once]").input_value()
    dialog(page).get_by_role("button", name="Close").last.click()
    choose(page, "More about oven-1", "Make the next one")
    dialog(page).get_by_label("Name of the next secret").fill("oven-2")
    dialog(page).get_by_role("button", name="Make the next one").click()
    expect(dialog(page).locator("[data-once]")).not_to_have_value(first)
    dialog(page).get_by_role("button", name="Close").last.click()
    expect(row(page, "secrets", "oven-2")).to_contain_text("never")
    expect(row(page, "secrets", "oven-1").locator("time")).not_to_have_count(0)


def test_the_matrix_of_roles_is_that_of_the_node(open_page: Open) -> None:
    page = open_page("/accounts/roles")
    found = page.locator("[data-list=roles] tbody tr").evaluate_all(
        "rows => rows.map(row => [row.dataset.role, [...row.querySelectorAll('[data-allowed=true]')]"
        ".map(cell => cell.dataset.permission)])"
    )
    expected = {role: permissions_of(role) for role in ("viewer", "operator", "editor", "admin")}
    expected["editorScript"] = permissions_of("editor", script=True)
    assert {role: set(allowed) for role, allowed in found} == expected


# profile


def test_a_password_is_changed_and_the_new_one_signs_in(open_page: Open, site: Site, watch: Watch) -> None:
    watch.allowed += ["422", "401"]
    site.account("changer", role="viewer")
    page = open_page("/me", "changer")
    chosen = "another long one with 9 words"
    page.get_by_label("Present password").fill("not this one at all")
    page.get_by_label("New password", exact=True).fill(chosen)
    page.get_by_label("New password again").fill("something else")
    page.get_by_role("button", name="Change password").click()
    expect(page.locator("[data-field=again] .field-error")).to_have_text("It is not the same.")
    page.get_by_label("New password again").fill(chosen)
    page.get_by_role("button", name="Change password").click()
    expect(page.locator("[data-field=old_password] .field-error")).to_be_visible()
    page.get_by_label("Present password").fill(PASSWORD)
    page.get_by_role("button", name="Change password").click()
    expect(page.locator(".note.good")).to_contain_text("The password is changed")
    choose(page, "Menu of changer", "Sign out")
    expect(page.locator("[data-page=login]")).to_be_visible()
    assert sign_in(site, "changer", PASSWORD).status_code == 401
    page.get_by_label("Name").fill("changer")
    page.get_by_label("Password", exact=True).fill(chosen)
    page.get_by_role("button", name="Sign in").click()
    expect(page.locator("nav.side")).to_be_visible()


def test_preferences_come_along_to_another_browser(open_page: Open, site: Site) -> None:
    site.account("traveller", role="viewer")
    page = open_page("/me", "traveller")
    with page.expect_response("**/api/v1/me/settings/preferences") as saved:
        page.get_by_label("Time zone").select_option("Asia/Tokyo")
        page.get_by_label("First page").select_option("/nodes")
        page.locator("select[name=theme]").select_option("dark")
    assert saved.value.status == 204
    other = open_page("/me", "traveller")
    expect(other.get_by_label("Time zone")).to_have_value("Asia/Tokyo")
    expect(other.locator("a.zone")).to_have_text("Asia/Tokyo")
    expect(other.get_by_label("First page")).to_have_value("/nodes")
    expect(other.locator("html")).to_have_attribute("data-theme", "dark")


def test_own_sessions_tokens_and_views_are_kept_in_order(open_page: Open, site: Site) -> None:
    site.account("keeper", role="viewer")
    site.cookie("keeper")
    page = open_page("/executors?q=demo", "keeper")
    choose(page, "Saved views", "Save this view…")
    dialog(page).get_by_label("Name of the view").fill("mine")
    dialog(page).get_by_role("button", name="Save").click()
    visit(page, site, "/me")
    page.get_by_role("button", name="Rename").click()
    dialog(page).get_by_label("Name of the view").fill("ours")
    dialog(page).get_by_role("button", name="Save").click()
    expect(page.get_by_role("link", name="ours")).to_have_attribute("href", "#/executors?q=demo")
    page.locator("[data-section=views]").get_by_role("button", name="Delete").click()
    dialog(page).get_by_role("button", name="Delete").click()
    expect(page.get_by_role("link", name="ours")).to_have_count(0)
    sessions = page.locator("[data-list=sessions] tbody tr")
    count = sessions.count()
    page.locator("[data-section=sessions]").get_by_role("button", name="End", exact=True).first.click()
    expect(sessions).to_have_count(count - 1)
    page.get_by_role("button", name="New token").click()
    dialog(page).get_by_label("Name", exact=True).fill("script")
    dialog(page).get_by_role("button", name="Create").click()
    head = {"Authorization": f"Bearer {dialog(page).locator('[data-once]').input_value()}"}
    assert requests.get(f"{site.url}/api/v1/session", headers=head, timeout=30).json()["role"] == "viewer"


# system


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


# all of them

ACTIONS = {
    "/executors": ["New group"],
    "/calendars": ["New calendar"],
    "/alarms/rules": ["New rule", "Send test"],
    "/system": ["Pause all schedules"],
}
MAY = {
    "viewer": set(),
    "operator": {"Pause all schedules"},
    "editor": {"Pause all schedules", "New calendar", "New rule", "Send test"},
    "chief": {"Pause all schedules", "New calendar", "New rule", "Send test", "New group"},
}
CALLS = {
    "New group": ("POST", "groups", {"app_name": "{name}"}),
    "New calendar": ("PUT", "calendars/{name}", {"weekdays": "SAT"}),
    "New rule": ("POST", "alarms/rules", {"kinds": ["failed"], "name": "{name}"}),
    "Send test": ("POST", "alarms/test", {"channel": "captured"}),
    "Pause all schedules": ("PUT", "schedule/pause", None),
}


@pytest.mark.parametrize("name", list(MAY))
def test_each_role_sees_what_the_node_lets_it_do(open_page: Open, site: Site, name: str) -> None:
    page = open_page("/me", name)
    seen = set()
    for place, words in ACTIONS.items():
        visit(page, site, place)
        settled(page)
        seen |= {one for one in words if page.locator("#main").get_by_role("button", name=one).count()}
        menus = page.locator("#main table .menu-button").count()
        assert bool(menus) == (
            name == "chief" or (name == "editor" and place == "/alarms/rules")
        ) or place in {"/calendars", "/system"}
    assert seen == MAY[name]
    caller = Caller(site, name)
    for action, (method, path, body) in CALLS.items():
        filled = json.loads(json.dumps(body).replace("{name}", f"of-{name}"))
        status = caller.status(method, path.replace("{name}", f"of-{name}"), filled)
        assert (status < 300) == (action in MAY[name]), (action, status)
        assert status < 300 or status == 403
        if action == "Pause all schedules":
            caller.status("DELETE", "schedule/pause")


@pytest.mark.parametrize("place", ["/audit", "/accounts"])
def test_what_a_role_may_not_see_is_not_shown_by_its_address(
    open_page: Open, watch: Watch, place: str
) -> None:
    watch.allowed.append("403")
    page = open_page(place, "editor")
    if place == "/audit":
        expect(page.get_by_role("alert")).to_contain_text("You may not see this.")
    else:
        expect(page.get_by_role("navigation", name="Users").get_by_role("link")).to_have_text(["Roles"])
    expect(page.locator("[data-list=accounts], [data-list=audit] tbody tr")).to_have_count(0)


def test_an_admin_of_a_group_sees_what_is_of_that_group(open_page: Open, site: Site) -> None:
    site.node.call("POST", "groups", {"app_name": "other", "title": "Other"})
    site.account("partly", groups=[{"group_id": site.group_id, "role": "admin"}])
    page = open_page("/accounts", "partly")
    tabs = page.get_by_role("navigation", name="Users").get_by_role("link")
    expect(tabs).to_have_text(["Tokens", "Executor secrets", "Roles"])
    page.get_by_role("button", name="New token").click()
    options = dialog(page).get_by_label("For", exact=True).locator("option")
    expect(options).to_have_text(["chosen roles", "executors and job calls of a group"])
    expect(dialog(page).get_by_label("In all groups")).to_have_count(0)
    page.keyboard.press("Escape")
    visit(page, site, "/executors")
    expect(row(page, "groups", "Demo")).to_be_visible()
    expect(row(page, "groups", "Other")).to_have_count(0)
    expect(page.get_by_role("button", name="New group")).to_have_count(0)
    expect(page.get_by_role("button", name="More about Demo")).to_be_visible()


def test_hostile_names_stay_text_on_every_page(open_page: Open, site: Site) -> None:
    call, name = site.node.call, HOSTILE[:128]
    long = f"{HOSTILE}{'W' * 4000}"
    group = call("POST", "groups", {"app_name": "hostile", "title": name})
    job = call("POST", "jobs", {"group_id": site.group_id, "name": name, "handler": "fail"})
    rule = {"name": name, "kinds": ["failed"], "job_id": job["id"], "window_s": 0}
    call("POST", "alarms/rules", {**rule, "targets": [{"channel": "gateway", "receivers": ["<b>x</b>"]}]})
    site.run(job["id"], long)
    site.account("hostile", role="admin", display_name=name.replace("\u202e", ""))
    site.node.wait_for_attempt("gateway")
    page = open_page("/executors", "hostile")
    for place in [*PLACES, "/audit?kind=job"]:
        visit(page, site, place)
        settled(page)
        assert page.evaluate("globalThis.harmed") is None
        assert page.locator("#app :is(img[src=x], script)").count() == 0
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, place
    visit(page, site, "/alarms")
    expect(row(page, "alarms", "<img src=x")).to_be_visible()
    choose(visit(page, site, "/executors"), f"More about {name}", "Delete")
    dialog(page).get_by_label("Type hostile to go on").fill("hostile")
    dialog(page).get_by_role("button", name="Delete").click()
    expect(page.locator(f"[data-id='{group['id']}']")).to_have_count(0)
    assert page.evaluate("globalThis.harmed") is None


KEY = re.compile(
    r"\b(?:node|executor|calendar|audit|alarm|account|access|token|secret|role|permission|session|system|plugin|me|health|"
    r"ends|list|filter|state|action|nav|keys|views|theme)\.[a-z][a-zA-Z_.]+"
)
TEXT = (
    "main => { const copy = main.cloneNode(true); copy.querySelectorAll('code, pre, textarea, option').forEach("
    "one => one.remove()); return copy.textContent }"
)


def faults(page: Page) -> list[str]:
    found = Axe().run(page, options={"resultTypes": ["violations"]}).response["violations"]
    return [
        f"{item['id']}: {[one['target'] for one in item['nodes']]}"
        for item in found
        if item["impact"] in {"serious", "critical"}
    ]


# axe takes long over many rows alike
@pytest.mark.parametrize(
    "place", ["/audit?kind=calendar" if place == "/audit" else place for place in PLACES]
)
def test_each_page_is_accessible_in_both_languages_and_themes(
    open_page: Open, site: Site, place: str
) -> None:
    page = open_page(place, color_scheme="light")
    # the language is not kept with the account, which other tests use
    page.route("**/api/v1/me/settings/preferences", lambda route: route.fulfill(status=204))
    settled(page)
    assert faults(page) == []
    assert not KEY.findall(page.locator("#main").evaluate(TEXT))
    english = page.locator("h1").first.inner_text()
    page.locator("#language").select_option("zh-CN")
    page.emulate_media(color_scheme="dark")
    expect(page.locator("h1").first).not_to_have_text(english)
    assert faults(page) == []
    words = page.locator("#main").evaluate(TEXT)
    assert not KEY.findall(words)
    assert re.search("[一-鿿]", words)


@pytest.mark.parametrize(
    ("place", "opener"),
    [
        ("/executors", "New group"),
        ("/alarms/rules", "New rule"),
        ("/alarms/rules", "Send test"),
        ("/accounts/users", "New account"),
        ("/accounts/tokens", "New token"),
        ("/accounts/secrets", "New secret"),
        ("/calendars", "New calendar"),
    ],
)
def test_forms_are_accessible(open_page: Open, place: str, opener: str) -> None:
    page = open_page(place)
    page.locator("#main").get_by_role("button", name=opener).first.click()
    settled(page)
    for more in ("Add a channel", "Add a role in a group", "Add an address"):
        if page.get_by_role("button", name=more).count():
            page.get_by_role("button", name=more).click()
    assert faults(page) == []


def test_tabs_and_lists_come_back_with_back_reload_and_a_shared_link(open_page: Open, site: Site) -> None:
    page = open_page("/accounts/users")
    page.get_by_role("link", name="Tokens").click()
    expect(row(page, "tokens", "deploy")).to_be_visible()
    page.get_by_role("link", name="Roles").click()
    expect(page.locator("[data-list=roles]")).to_be_visible()
    page.go_back()
    expect(row(page, "tokens", "deploy")).to_be_visible()
    page.reload()
    expect(row(page, "tokens", "deploy")).to_be_visible()
    other = open_page(page.url.split("#")[1])
    expect(row(other, "tokens", "deploy")).to_be_visible()
    visit(page, site, "/alarms/attempts?group=1")
    expect(page.get_by_label("Executor group")).to_have_value("1")


@pytest.mark.parametrize("width", [390, 1024])
def test_no_page_is_wider_than_the_screen(open_page: Open, site: Site, width: int) -> None:
    page = open_page("/nodes")
    page.set_viewport_size({"width": width, "height": 844})
    for place in PLACES:
        visit(page, site, place)
        settled(page)
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, place
