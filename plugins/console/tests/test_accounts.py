"""Who may do what: accounts, tokens, secrets, roles, and each one's own profile."""

from __future__ import annotations

import json
from typing import Any

import pytest
import requests
from conftest import PASSWORD, Open, Site, Watch, choose, dialog, row, settled, visit
from playwright.sync_api import Locator, Page, expect
from tests.support.console_history import permissions_of
from xwheel_devtools.testing import wait_until


def sign_in(site: Site, name: str, password: str) -> requests.Response:
    return requests.post(f"{site.url}/api/v1/session", json={"name": name, "password": password}, timeout=30)


# accounts, tokens, secrets


def test_an_account_made_here_signs_in_and_chooses_a_password(open_page: Open, site: Site, watch: Watch) -> None:
    watch.allowed += ["401", "403"]
    page = open_page("/accounts")
    page.get_by_role("button", name="New account").click()
    form = dialog(page)
    form.get_by_label("Name", exact=True).fill("newcomer")
    form.get_by_role("button", name="Add a role in a group").click()
    form.get_by_role("combobox", name="Group", exact=True).select_option(label="Demo")
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


def test_a_link_made_here_signs_in_and_another_password_ends_that(open_page: Open, site: Site, watch: Watch) -> None:
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


def test_s14_a_sign_in_that_finds_no_turn_is_made_once_more(open_page: Open, site: Site, watch: Watch) -> None:
    """A colleague behind the same address signs in at that moment."""
    watch.allowed += ["503", "401"]
    site.account("colleague", role="viewer")
    page = open_page("/jobs", name=None)
    busy = {"type": "urn:xwheel:problem:busy", "title": "Too many calls", "status": 503, "detail": "again"}
    turns: list[int] = []

    def answer(route: Any) -> None:
        if route.request.method != "POST" or turns:
            route.fallback()
            return
        turns.append(1)
        route.fulfill(status=503, json=busy, headers={"Retry-After": "1"}, content_type="application/problem+json")

    page.route("**/api/v1/session", answer)
    page.get_by_label("Name").fill("colleague")
    page.get_by_label("Password", exact=True).fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    expect(page.locator("nav.side")).to_be_visible()
    assert turns == [1]


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
    # who leaves the page at once has chosen all the same
    other.get_by_label("First page").select_option("/runs")
    other.goto("about:blank")

    def landing() -> bool:
        with requests.Session() as session:
            session.cookies.set("xwheel_session", site.signed_in("traveller")["value"])
            found = session.get(f"{site.url}/api/v1/me/settings", timeout=30).json()
        return bool(found["settings"]["preferences"]["landing"] == "/runs")

    wait_until(landing)


def test_keys_that_are_switched_off_do_nothing(open_page: Open, site: Site) -> None:
    site.account("keyless", role="viewer")
    page = open_page("/me", "keyless")
    page.locator("input[name=keys]").uncheck()
    page.locator("[data-page=me] h1").focus()
    page.keyboard.press("g")
    page.keyboard.press("j")
    assert page.url.endswith("#/me")


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
    dialog(page).get_by_role("button", name="Close").last.click()
    keep = page.get_by_label("Leave my tokens")
    for chosen, is_kept in (("another long one with 9 words", True), (PASSWORD, False)):
        page.get_by_label("Present password").fill(PASSWORD if is_kept else "another long one with 9 words")
        page.get_by_label("New password", exact=True).fill(chosen)
        page.get_by_label("New password again").fill(chosen)
        keep.set_checked(is_kept)
        with page.expect_response("**/api/v1/me/password") as changed:
            page.get_by_role("button", name="Change password").click()
        assert changed.value.json()["tokens_ended"] == (0 if is_kept else 1)
        status = requests.get(f"{site.url}/api/v1/session", headers=head, timeout=30).status_code
        assert status == (200 if is_kept else 401)
    expect(page.locator(".note.good").last).to_contain_text("1 token ended, too")


def asked_who_it_is(open_page: Open, site: Site, name: str, token: str) -> tuple[Page, Locator]:
    """Sign in as a new admin and send the form of a token; return the page, which asks who that is, and the form."""
    site.account(name, role="admin")
    page = open_page("/accounts/tokens", name=None)
    page.get_by_label("Name").fill(name)
    page.get_by_label("Password", exact=True).fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("button", name="New token").click()
    form = page.locator("dialog[open]").first
    form.get_by_label("Name", exact=True).fill(token)
    form.get_by_role("button", name="Create").click()
    expect(page.get_by_role("heading", name="Show that it is you")).to_be_visible()
    return page, form


def test_s23_what_lets_somebody_in_takes_the_password_once_more(open_page: Open, site: Site, watch: Watch) -> None:
    """It is asked for over the form, which keeps what was typed, and then not again for some minutes."""
    watch.allowed += ["401", "403", "422"]
    page, form = asked_who_it_is(open_page, site, "maker", token="asked")
    expect(dialog(page).get_by_role("button", name="Go on")).to_be_disabled()
    dialog(page).get_by_label("Your password").fill("not this one at all")
    dialog(page).get_by_role("button", name="Go on").click()
    expect(dialog(page).locator("[data-field=password] .field-error")).to_be_visible()
    dialog(page).get_by_label("Your password").fill(PASSWORD)
    dialog(page).get_by_role("button", name="Go on").click()
    expect(dialog(page).locator("[data-once]")).to_be_visible()
    dialog(page).get_by_role("button", name="Close").last.click()
    expect(row(page, "tokens", "asked")).to_be_visible()
    page.get_by_role("button", name="New token").click()
    form.get_by_label("Name", exact=True).fill("unasked")
    form.get_by_role("button", name="Create").click()
    expect(dialog(page).locator("[data-once]")).to_be_visible()


def test_s23_who_does_not_type_it_changes_nothing_and_loses_nothing(open_page: Open, site: Site, watch: Watch) -> None:
    watch.allowed += ["401", "403"]
    page, form = asked_who_it_is(open_page, site, "leaver", token="unmade")
    dialog(page).get_by_role("button", name="Cancel").click()
    expect(form.get_by_role("alert")).to_contain_text("Nothing was done.")
    expect(form.get_by_label("Name", exact=True)).to_have_value("unmade")
    names = [item["name"] for item in site.node.call("GET", "tokens")["items"]]
    assert "unmade" not in names


# roles


def test_the_matrix_of_roles_is_that_of_the_node(open_page: Open) -> None:
    page = open_page("/accounts/roles")
    found = page.locator("[data-list=roles] tbody tr").evaluate_all(
        "rows => rows.map(row => [row.dataset.role, [...row.querySelectorAll('[data-allowed=true]')]"
        ".map(cell => cell.dataset.permission)])"
    )
    expected = {role: permissions_of(role) for role in ("viewer", "operator", "editor", "admin")}
    expected["editorScript"] = permissions_of("editor", script=True)
    assert {role: set(allowed) for role, allowed in found} == expected


class Caller:
    """Calls of the API in a session of an account."""

    def __init__(self, site: Site, name: str) -> None:
        self._base = f"{site.url}/api/v1"
        self._session = requests.Session()
        begun = self._session.post(f"{self._base}/session", json={"name": name, "password": PASSWORD}, timeout=30)
        begun.raise_for_status()
        self._csrf = begun.json()["csrf"]

    def status(self, method: str, path: str, body: Any = None) -> int:
        answer = self._session.request(
            method, f"{self._base}/{path}", json=body, headers={"X-Xwheel-CSRF": self._csrf}, timeout=30
        )
        return answer.status_code


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
        assert bool(menus) == (name == "chief" or (name == "editor" and place == "/alarms/rules")) or place in {
            "/calendars",
            "/system",
        }
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
def test_what_a_role_may_not_see_is_not_shown_by_its_address(open_page: Open, watch: Watch, place: str) -> None:
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


def test_a_right_in_one_group_offers_nothing_in_another(open_page: Open, site: Site) -> None:
    other = site.node.call("POST", "groups", {"app_name": "elsewhere"})["id"]
    site.account("local", role="viewer", groups=[{"group_id": site.group_id, "role": "editor"}])
    site.job("reach here")
    site.job("reach there", group_id=other)
    page = open_page("/jobs?q=reach", "local")
    expect(row(page, "jobs", "reach here").locator("[data-action=run]")).to_have_count(1)
    expect(row(page, "jobs", "reach there")).to_be_visible()
    expect(row(page, "jobs", "reach there").locator("[data-action=run]")).to_have_count(0)


def test_tabs_and_lists_come_back_with_back_reload_and_a_shared_link(open_page: Open, site: Site) -> None:
    site.node.call("POST", "tokens", {"name": "deploy", "role": "operator"})
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
