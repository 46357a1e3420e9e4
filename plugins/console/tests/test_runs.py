"""Runs: the list, a run with its log, the dashboard, comparing, the wall; what they show is what the node has."""

from __future__ import annotations

import json
import re
import sqlite3
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import PASSWORD, SAID, Contexts, Open, Site, Watch, go_to, page_of, visit
from playwright.sync_api import Locator, Page, Route, expect
from tests.support.console_history import a_month, write_history
from xwheel.model.reasons import MARKS, SENTENCES

EVIL = "<img src=x onerror=alert(1)> \u202egnp.exe\u202c"
STATIC = Path(__file__).resolve().parents[1] / "xwheel_console" / "static"
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
FAILED = ("failed", "timed_out", "lost", "refused")


def line(page: Page, number: int) -> Locator:
    """Return a line of the log, which is in the page only while it is near what is seen."""
    return page.locator(f".lines [data-line='{number}'] .text")


def lines_of(page: Page, count: int) -> None:
    expect(page.locator("section.log")).to_have_attribute("data-lines", str(count))


def tile(page: Page, name: str) -> Locator:
    return page.locator(f"[data-tile={name}] strong")


# the log


def test_hostile_lines_of_a_log_stay_text_and_hide_nothing(open_page: Open, site: Site) -> None:
    job_id = site.job("hostile log", handler="talk")
    text = f"\x1b[1;31mERROR\x1b[0m {EVIL} \x01\x07\x1b]0;title\x07 \x1b[2J<script>alert(1)</script> " + "y" * 4000
    page = open_page(f"/runs/{site.run(job_id, text)}")
    shown = line(page, 2)
    expect(shown).to_contain_text(
        "ERROR <img src=x onerror=alert(1)> U+202Egnp.exeU+202C ^A^G <script>alert(1)</script> yyy"
    )
    expect(shown.locator(".fg-red.bold")).to_have_text("ERROR")
    assert "title" not in shown.inner_text()
    assert page.locator(".lines img, .lines script").count() == 0
    assert page.locator(".lines [data-line='2']").bounding_box()["height"] == 20  # type: ignore[index]
    page.keyboard.press("w")
    expect(page.get_by_role("button", name="Wrap")).to_have_attribute("aria-pressed", "true")
    assert page.locator(".lines [data-line='2']").bounding_box()["height"] > 200  # type: ignore[index]
    # nothing is out of reach: the end of the last line is seen at the end of the scroll bar
    expect(line(page, 3)).to_be_in_viewport()


def test_a_run_that_is_silent_for_minutes_is_still_followed(open_page: Open, site: Site) -> None:
    run_id = site.run(site.job("silent", handler="say"), wait=False)
    SAID.put("first")
    page = open_page("/runs", alone=True)
    page.clock.install()
    page.goto(f"{site.url}/#/runs/{run_id}")
    expect(line(page, 2)).to_contain_text("first")
    SAID.put("second")
    expect(line(page, 3)).to_contain_text("second")
    page.clock.fast_forward("07:00")
    expect(page.locator(".log-end")).to_contain_text("Waiting for output, last line 7m")
    SAID.put("after a long time")
    expect(line(page, 4)).to_contain_text("after a long time")
    SAID.put(None)
    expect(page.locator("[data-run-state]")).to_have_attribute("data-run-state", "succeeded")
    expect(page.locator(".log-end")).to_have_text("5 lines")


def test_answers_that_are_lost_lose_no_line_and_repeat_none(open_page: Open, site: Site, watch: Watch) -> None:
    watch.allowed.append("net::ERR_FAILED")
    run_id = site.run(site.job("lossy", handler="say"), wait=False)
    page = open_page("/runs")
    asked = [0]

    def lose(route: Route) -> None:
        asked[0] += 1
        if asked[0] % 3 == 0:
            route.fetch()  # the node answers, and no one hears it
            route.abort()
        else:
            route.continue_()

    page.route(re.compile(rf"/runs/{run_id}/log\?"), lose)
    page.goto(f"{site.url}/#/runs/{run_id}")
    for number in range(20):
        SAID.put(f"said {number}")
        if number % 5 == 4:
            lines_of(page, number + 2)
    SAID.put(None)
    lines_of(page, 22)
    expect(line(page, 22)).to_contain_text("succeeded")
    found = page.locator(".lines .row .text").all_inner_texts()
    assert [text.split("said ")[1] for text in found if " said " in text and "succeeded" not in text] == [
        str(n) for n in range(20)
    ]
    assert asked[0] > 3


def test_following_pauses_while_somebody_reads_above(open_page: Open, site: Site) -> None:
    run_id = site.run(site.job("pausing", handler="say"), wait=False)
    for number in range(200):
        SAID.put(f"begin {number}")
    page = open_page(f"/runs/{run_id}")
    lines_of(page, 201)
    expect(line(page, 201)).to_be_in_viewport()
    box = page.locator(".lines")
    box.hover()
    page.mouse.wheel(0, -1500)
    expect(page.locator("section.log")).to_have_attribute("data-follows", "no")
    expect(line(page, 201)).not_to_be_in_viewport()
    first = page.locator(".lines .row").first.get_attribute("data-line")
    SAID.put("one more")
    SAID.put("and one more")
    pill = page.get_by_role("button", name="2 new lines")
    expect(pill).to_be_visible()
    assert page.locator(".lines .row").first.get_attribute("data-line") == first
    pill.click()
    expect(line(page, 203)).to_be_in_viewport()
    expect(pill).to_be_hidden()
    SAID.put(None)
    lines_of(page, 204)
    expect(line(page, 204)).to_be_in_viewport()


def test_two_hundred_thousand_lines_keep_few_rows_and_any_of_them_can_be_shown(open_page: Open, site: Site) -> None:
    run_id = site.run(site.job("long log", handler="talk"), "200000")
    page = open_page(f"/runs/{run_id}")
    lines_of(page, 200_002)
    expect(line(page, 200_001)).to_contain_text("line 200000 of 200000")
    rows = page.locator(".lines .row")
    for wanted in (1, 100_000, 199_000, 57_123):
        page.get_by_label("Go to line").fill(str(wanted))
        page.keyboard.press("Enter")
        text = "run " if wanted == 1 else f"line {wanted - 1} of 200000"
        expect(line(page, wanted)).to_contain_text(text)
        expect(line(page, wanted)).to_be_in_viewport()
        assert rows.count() <= 80
    page.keyboard.press("G")
    expect(line(page, 200_002)).to_be_in_viewport()
    page.keyboard.press("g")
    page.keyboard.press("g")
    expect(line(page, 1)).to_be_in_viewport()
    page.locator(".lines").hover()
    for _ in range(10):
        page.mouse.wheel(0, 1000)
    expect(line(page, 510)).to_contain_text("line 509 of 200000")
    assert rows.count() <= 80
    kept = int(page.locator("section.log").get_attribute("data-kept") or 0)
    assert 0 < kept <= 200_500
    # lines that are not in memory here are found too
    page.get_by_label("Find in the log").fill("line 123456 of")
    expect(page.locator("[data-hits]")).to_have_text("– of one line")
    page.keyboard.press("Enter")
    expect(line(page, 123_457).locator("mark")).to_have_text("line 123456 of")


def test_search_goes_through_matches_by_keys(open_page: Open, site: Site) -> None:
    page = open_page(f"/runs/{site.run(site.job('searched', handler='talk'), '400')}")
    lines_of(page, 402)
    page.keyboard.press("/")
    page.keyboard.type("LINE 39")
    hits = page.locator("[data-hits]")
    expect(hits).to_have_text("– of 11 lines")
    page.keyboard.press("Enter")
    expect(hits).to_have_text("11 of 11 lines")
    page.keyboard.press("Escape")
    expect(page.get_by_label("Find in the log")).to_have_value("")
    page.keyboard.press("/")
    page.keyboard.type("line 39")
    expect(hits).to_have_text("– of 11 lines")
    page.locator(".lines").focus()
    for key, at, found in (("n", 2, 391), ("n", 3, 392), ("N", 2, 391), ("N", 1, 40), ("N", 11, 400)):
        page.keyboard.press(key)
        expect(hits).to_have_text(f"{at} of 11 lines")
        expect(page.locator(f".row.match[data-line='{found}']")).to_be_in_viewport()


def test_a_link_to_a_line_shows_that_line(open_page: Open, site: Site) -> None:
    run_id = site.run(site.job("linked", handler="talk"), "2500")
    page = open_page(f"/runs/{run_id}?line=120")
    expect(line(page, 120)).to_be_in_viewport()
    expect(page.locator(".row.chosen")).to_have_attribute("data-line", "120")
    page.locator("[data-line='125'] .at").click()
    expect(page.locator(".row.chosen")).to_have_attribute("data-line", "125")
    page.go_back()
    expect(page.locator(".row.chosen")).to_have_attribute("data-line", "120")
    page.reload()
    expect(line(page, 120)).to_be_in_viewport()
    with page.expect_download() as saved:
        page.get_by_role("button", name="Download").click()
    text = Path(saved.value.path()).read_text()
    assert text.count("\n") == 2502
    assert "line 2500 of 2500" in text


# the list


def test_filters_stand_in_the_address_and_come_back(open_page: Open, site: Site) -> None:
    job_id, other_id = site.job("filtered one", handler="fail"), site.job("filtered two")
    bad, good = site.run(job_id, "no"), site.run(other_id)
    page = open_page("/runs")
    row = lambda run_id: page.locator(f"table.list tr[data-id='{run_id}']")  # noqa: E731
    expect(row(good)).to_be_visible()
    page.get_by_label("Job", exact=True).fill("filtered o")
    page.get_by_label("Job", exact=True).press("Enter")
    expect(row(good)).to_be_hidden()
    page.locator("select[name=state]").select_option(label="all that failed")
    page.locator("select[name=range]").select_option("7d")
    expect(row(bad)).to_be_visible()
    assert page.locator("table.list tbody tr").count() == 1
    assert f"job={job_id}" in page.url
    assert "range=7d" in page.url
    page.reload()
    expect(row(bad)).to_be_visible()
    expect(page.get_by_label("Job", exact=True)).to_have_value("filtered one")
    row(bad).get_by_role("link", name=f"#{bad}").click()
    expect(page.locator("[data-page=run] h1")).to_have_text(f"Run {bad}")
    page.go_back()
    expect(row(bad)).to_be_visible()
    expect(page.locator("select[name=state]")).to_have_value("failed,timed_out,lost,refused")
    page.get_by_role("button", name="Clear filters").click()
    expect(row(good)).to_be_visible()
    page.get_by_label("Message").fill("such words are in no message")
    expect(row(good)).to_be_hidden()
    page.get_by_label("Message").fill("RuntimeError: n")
    expect(row(bad)).to_be_visible()
    page.locator("select[name=longer]").select_option("3600000")
    expect(row(bad)).to_be_hidden()
    assert "longer=3600000" in page.url


def test_chosen_runs_run_again_are_killed_and_compared(open_page: Open, site: Site) -> None:
    job_id = site.job("batched")
    ended = [site.run(job_id, "a"), site.run(job_id, "b")]
    page = open_page(f"/runs?job={job_id}", "operator")
    for run_id in ended:
        page.get_by_label(f"Select row {run_id}").check()
    page.get_by_role("region", name="Selected rows").get_by_role("button", name="Run again").click()
    page.get_by_role("button", name="Run again").last.click()
    expect(page.locator("dialog[open]")).to_contain_text("2 of 2 done")
    expect(page.locator("dialog[open] footer button")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("table.list tbody tr")).to_have_count(4)
    for run_id in ended:
        page.get_by_label(f"Select row {run_id}").check()
    page.get_by_role("button", name="Compare").click()
    expect(page.locator("h1")).to_have_text(f"Runs {ended[0]} and {ended[1]}")
    expect(page.get_by_role("figure", name="Parameter")).to_contain_text("- a")
    expect(page.get_by_role("figure", name="Parameter")).to_contain_text("+ b")
    sleeping = site.run(site.job("to be killed", handler="sleep"), "60", wait=False)
    page.goto(f"{site.url}/#/runs/{sleeping}")
    expect(line(page, 2)).to_contain_text("s left")
    page.get_by_role("button", name="Kill").click()
    page.get_by_label("Why").fill("it is only a test")
    page.get_by_role("button", name="Kill").last.click()
    state = page.locator("[data-run-state]")
    expect(state).to_have_attribute("data-run-state", "killed")
    expect(state).to_contain_text("Somebody ended it.")
    rows = site.node.call("GET", "audit?object_kind=run&limit=5")["items"]
    assert next(row["reason"] for row in rows if row["action"] == "run.kill") == "it is only a test"


def test_who_may_only_read_is_offered_nothing_else(open_page: Open, site: Site) -> None:
    run_id = site.run(site.job("only looked at", handler="fail"), "no")
    page = open_page("/wall", "viewer")
    for place in ("/", "/runs", f"/runs/{run_id}"):
        go_to(page, place)
        expect(page.get_by_text("only looked at").first).to_be_visible()
        for name in ("Run again", "Kill"):
            expect(page.get_by_role("button", name=name)).to_have_count(0)


def test_a_run_that_waits_on_its_executor_is_not_shown_as_running(open_page: Open, site: Site) -> None:
    job_id = site.job("waits its turn", handler="sleep")
    run_id = site.run(job_id, "60", wait=False)

    def still_waiting(route: Route) -> None:
        answer = route.fetch()
        found = answer.json()
        for run in found.get("items", [found]):
            if run["id"] == run_id and run["state"] == "running":
                run.update(reason="waits:1790000000000", began_ms=None)
        route.fulfill(response=answer, json=found)

    page = open_page("/wall", "viewer")
    page.route(f"**/api/v1/runs/{run_id}", still_waiting)
    page.route("**/api/v1/runs?*", still_waiting)
    go_to(page, f"/runs/{run_id}")
    state = page.locator("[data-run-state]")
    expect(state).to_contain_text("waiting on its executor")
    expect(state).to_contain_text("earlier runs are before it there")
    expect(page.locator("dt", has_text="Finished")).to_have_count(0)
    expect(page.locator("dt", has_text="Began")).to_have_count(0)
    expect(page.locator("dt", has_text="Took")).to_have_count(0)
    go_to(page, f"/runs?job={job_id}")
    expect(page.locator("table.list tbody tr")).to_contain_text("waiting on its executor")
    page.unroute("**/api/v1/runs?*")
    page.unroute(f"**/api/v1/runs/{run_id}")
    go_to(page, f"/runs/{run_id}")
    expect(state).to_contain_text("running")
    expect(page.locator("dt", has_text="Began")).to_have_count(1)
    site.node.call("POST", f"runs/{run_id}/kill")


def test_brackets_go_through_the_runs_of_a_job(open_page: Open, site: Site) -> None:
    job_id, other = site.job("bracketed"), site.job("between brackets")
    ids = [site.run(job_id), site.run(other), site.run(job_id)]
    page = open_page(f"/runs/{ids[2]}")
    expect(page.locator(".log-end")).to_have_text("The log is empty.")
    page.keyboard.press("[")
    expect(page.locator("h1")).to_have_text(f"Run {ids[0]}")
    expect(page.locator(".log-end")).to_have_text("The log is empty.")
    page.keyboard.press("]")
    expect(page.locator("h1")).to_have_text(f"Run {ids[2]}")
    expect(page.locator(".log-end")).to_have_text("The log is empty.")
    page.keyboard.press("]")
    expect(page.locator(".note")).to_have_text(re.compile("last run"))


def test_children_of_a_run_are_shown_with_it(open_page: Open, site: Site) -> None:
    parent, child = site.job("chain parent"), site.job("chain child")
    site.node.call("PUT", f"jobs/{parent}/children", {"children": [{"child_id": child}]})
    run_id = site.run(parent)
    page = open_page(f"/runs/{run_id}")
    related = page.locator("[data-list=related] li")
    expect(related).to_contain_text("chain child ran after")
    related.get_by_role("link").click()
    expect(page.locator("[data-list=related] li")).to_contain_text("chain parent ran before")


def test_the_timeline_has_a_bar_for_each_run(open_page: Open, site: Site) -> None:
    job_id = site.job("drawn")
    ids = [site.run(job_id) for _ in range(3)]
    page = open_page(f"/runs?job={job_id}")
    page.get_by_role("button", name="As a timeline").click()
    figure = page.locator("[data-chart=timeline]")
    expect(figure.get_by_role("img", name="3 bars, rows: 1")).to_have_attribute("data-drawn", "yes")
    figure.get_by_role("button", name="Show as table").click()
    found = figure.locator("tbody tr td:first-child").all_inner_texts()
    assert sorted(map(int, found)) == ids
    page.go_back()
    expect(page.locator("table.list tbody tr")).to_have_count(3)


def test_each_reason_has_words() -> None:
    words = json.loads((STATIC / "i18n/en/runs.json").read_text())
    assert {f"reason.{code}" for code in (*SENTENCES, *MARKS)} <= words.keys()
    # a reason of runs that ended, too
    assert words["reason.killed.running"] != words["reason.killed"]


# the dashboard


def month(site: Site, now_ms: int) -> None:
    """Put a month of runs into the database, and the report of each hour."""
    jobs = [site.job("seeded one"), site.job("seeded two")]
    # a month cannot be waited for
    write_history(site.node._node._db, a_month(jobs, site.group_id, now_ms))


@pytest.fixture(scope="module")
def month_site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Site, Path, int]]:
    folder = tmp_path_factory.mktemp("month") / "node"
    site = Site(folder)
    now_ms = time.time_ns() // 1_000_000
    month(site, now_ms)
    yield site, folder / "node.db", now_ms
    site.node.close()


def test_the_dashboard_says_what_the_database_has(
    contexts: Contexts, month_site: tuple[Site, Path, int], watch: Watch
) -> None:
    site, database, now_ms = month_site
    with sqlite3.connect(database) as connection:
        both = "SELECT due_ms, state FROM open_run UNION ALL SELECT due_ms, state FROM run_history"
        rows = connection.execute(both).fetchall()
    today = now_ms // DAY_MS * DAY_MS

    def count(from_ms: int, states: tuple[str, ...]) -> int:
        return sum(due_ms >= from_ms and state in states for due_ms, state in rows)

    with contexts.one(site, watch) as context:
        context.add_cookies([site.signed_in("chief")])
        page = visit(page_of(context), site, "/?range=30d")
        results = page.locator("[data-chart=results]")
        results.get_by_role("button", name="Show as table").click()
        found = dict(row.split("\t") for row in results.locator("tbody tr").all_inner_texts())
        first = today - 29 * DAY_MS
        for name, state in (
            ("succeeded", "succeeded"),
            ("failed", "failed"),
            ("timed out", "timed_out"),
            ("lost", "lost"),
            ("refused", "refused"),
            ("killed", "killed"),
            ("cancelled", "cancelled"),
        ):
            assert found[name] == str(count(first, (state,))), name
        trend = page.locator("[data-chart=trend]")
        trend.get_by_role("button", name="Show as table").click()
        days = [row.split("\t") for row in trend.locator("tbody tr").all_inner_texts()]
        assert len(days) == 30
        by_day = Counter(due_ms // DAY_MS * DAY_MS for due_ms, state in rows if state in FAILED)
        assert [int(day[2]) for day in days] == [by_day[first + number * DAY_MS] for number in range(30)]
        # tiles are about the last 24 hours by the hour, as the report has them
        last = site.node.call("GET", "overview")["last_day"]
        expect(tile(page, "failed")).to_have_text(str(sum(last[name] for name in FAILED)))
        hour = (now_ms // HOUR_MS - 24) * HOUR_MS
        assert abs(count(hour, FAILED) - sum(last[name] for name in FAILED)) <= 2
        expect(tile(page, "jobs")).to_have_text("2")
        squares = page.locator(".heat a[data-day]")
        assert squares.count() == len({due_ms // DAY_MS for due_ms, _ in rows})
        day_ms = today - 10 * DAY_MS
        square = page.locator(f".heat a[data-day='{time.strftime('%Y-%m-%d', time.gmtime(day_ms / 1000))}']")
        expect(square).to_have_attribute("title", re.compile(f" {by_day[day_ms]} failed"))
        square.click()
        expect(page.locator("[data-page=runs] h1")).to_be_visible()
        assert f"from={day_ms}&to={day_ms + DAY_MS}" in page.url
        whole = sum(due_ms // DAY_MS * DAY_MS == day_ms for due_ms, _ in rows)
        expect(page.locator("table.list tbody tr")).to_have_count(min(50, whole))


def test_u25_hours_of_the_trend_are_those_of_the_shown_zone(open_page: Open) -> None:
    page = open_page("/", timezone_id="Asia/Kolkata")
    expect(page.get_by_text("Days are those of UTC.")).to_have_count(0)
    trend = page.locator("[data-chart=trend]")
    trend.get_by_role("button", name="Show as table").click()
    hours = trend.locator("tbody tr td:first-child, tbody tr th:first-child").all_inner_texts()
    assert len(hours) == 24
    assert all(hour.endswith(":30") for hour in hours), hours
    page = open_page("/?range=7d", timezone_id="Asia/Kolkata")
    expect(page.get_by_text("Days are those of UTC.")).to_be_visible()


def test_a_point_of_the_trend_opens_the_runs_of_its_day_and_result(
    contexts: Contexts, month_site: tuple[Site, Path, int], watch: Watch
) -> None:
    site, _, now_ms = month_site
    with contexts.one(site, watch) as context:
        context.add_cookies([site.signed_in("chief")])
        page = visit(page_of(context), site, "/?range=7d")
        drawing = page.locator("[data-chart=trend] .drawing[data-drawn]")
        points = drawing.locator("path[fill='#c23632']")
        # one for each day, and that of the legend
        expect(points).to_have_count(8)
        expect(page.locator("[data-list=failures] li")).to_have_count(8)
        opened = page.locator("[data-page=runs] h1")
        # yesterday's: as long as today is young, points of several results are one upon the other
        points.nth(5).click()
        expect(opened).to_be_visible()
        day = now_ms // DAY_MS * DAY_MS - DAY_MS
        assert f"from={day}&to={day + DAY_MS}" in page.url
        assert "state=failed%2Ctimed_out%2Clost%2Crefused" in page.url


def test_a_chart_that_is_drawn_again_between_press_and_release_takes_the_click(
    contexts: Contexts, month_site: tuple[Site, Path, int], watch: Watch
) -> None:
    site, _, _ = month_site
    with contexts.one(site, watch) as context:
        context.add_cookies([site.signed_in("chief")])
        page = visit(page_of(context), site, "/?range=7d")
        drawing = page.locator("[data-chart=trend] .drawing[data-drawn]")
        expect(page.locator("[data-list=failures] li")).to_have_count(8)
        points = drawing.locator("path[fill='#c23632']")
        points.nth(3).hover()
        page.mouse.down()
        page.emulate_media(color_scheme="dark")
        expect(points).to_have_count(0)
        page.mouse.up()
        expect(page.locator("[data-page=runs] h1")).to_be_visible()
        page.emulate_media(color_scheme="light")
        page.go_back()
        # what is pressed and let go elsewhere was no click
        points.nth(3).hover()
        page.mouse.down()
        page.locator("[data-chart=trend] figcaption").hover()
        page.mouse.up()
        expect(page.locator("[data-page=dashboard] h1")).to_be_visible()


def test_what_is_read_later_moves_nothing_that_is_there(
    contexts: Contexts, month_site: tuple[Site, Path, int], watch: Watch
) -> None:
    site, _, _ = month_site
    held: list[Route] = []
    with contexts.one(site, watch) as context:
        context.add_cookies([site.signed_in("chief")])
        page = page_of(context)

        def hold(route: Route) -> None:
            held.append(route)

        page.route("**/api/v1/overview*", hold)
        visit(page, site, "/?range=7d", waits=False)
        trend = page.locator("[data-chart=trend] .drawing[data-drawn]")
        trend.wait_for()
        expect(page.locator("[data-list=failures] li")).to_have_count(8)
        before = trend.bounding_box()
        assert held
        assert page.locator("a.tile").count() == 0
        for route in held:
            route.continue_()
        expect(page.locator("a.tile")).to_have_count(6)
        assert trend.bounding_box() == before


def test_last_failures_can_be_run_again_and_what_comes_is_told(open_page: Open, site: Site) -> None:
    bad = site.run(site.job("failing again", handler="fail"), "no")
    site.job("coming soon", schedule_type="FIX_RATE", schedule_conf="1800", enabled=True)
    page = open_page("/", "operator")
    item = page.locator(f"[data-list=failures] li[data-id='{bad}']")
    expect(item).to_contain_text("RuntimeError: no")
    item.get_by_role("button", name=f"Run {bad} again").click()
    expect(page.locator(".note.good")).to_contain_text("failing again will run now")
    expect(page.locator("[data-list=failures] li", has_text="failing again")).to_have_count(2)
    expect(page.locator("[data-list=upcoming]")).to_contain_text("coming soon")
    item.get_by_role("link", name=f"Log of run {bad}").click()
    expect(page.locator("h1")).to_have_text(f"Run {bad}")


def test_the_wall_refreshes_by_itself_and_has_nothing_to_press(open_page: Open, site: Site) -> None:
    page = open_page("/wall", "viewer")
    expect(tile(page, "executors")).to_have_text("1")
    assert page.locator("nav.side, button, input").count() == 0
    running = site.run(site.job("on the wall", handler="sleep"), "60", wait=False)
    expect(tile(page, "running")).not_to_have_text("0")
    site.node.call("POST", f"runs/{running}/kill", {})
    site.run(site.job("fails on the wall", handler="fail"), "seen from afar")
    expect(page.locator("[data-list=failures] li").first).to_contain_text("seen from afar")
    expect(page.locator("[data-list=nodes] [data-state=up]")).to_have_count(1)
    assert page.evaluate("parseFloat(getComputedStyle(document.querySelector('.tile strong')).fontSize)") >= 48


# keys and what helps


def test_from_login_to_the_log_of_a_failed_run_by_keys_alone(open_page: Open, site: Site, watch: Watch) -> None:
    watch.allowed.append("401")
    bad = site.run(site.job("by keys", handler="fail"), "keyed in")
    page = open_page("/runs?state=failed", name=None)
    page.keyboard.type("viewer")
    page.keyboard.press("Tab")
    page.keyboard.type(PASSWORD)
    page.keyboard.press("Enter")
    expect(page.locator("[data-page=runs] h1")).to_be_focused()
    expect(page.locator(f"tr[data-id='{bad}']")).to_be_visible()
    place = page.locator("table.list tbody tr").evaluate_all("all => all.map(one => one.dataset.id)").index(str(bad))
    for _ in range(place + 1):
        page.keyboard.press("j")
    expect(page.locator(f"tr[data-id='{bad}']")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("[data-page=run] h1")).to_have_text(f"Run {bad}")
    expect(page.locator(".lines")).to_contain_text("RuntimeError: keyed in")
    page.keyboard.press("?")
    expect(page.locator(".keys")).to_be_visible()
    shown = set(
        page.locator(".keys [data-key]:not(.faint)").evaluate_all(
            "all => all.map(one => one.closest('section').querySelector('h3').textContent + ' ' + one.dataset.key)"
        )
    )
    logs = {f"Logs {key}" for key in ("f", "w", "/", "n", "N", "G", "g g")}
    assert logs <= shown
    assert {"A run [", "A run ]"} <= shown
    assert not shown & {"Lists j", "Lists k", "Lists x", "Lists e", "Lists s", "Lists l", "Lists ."}
    page.keyboard.press("Escape")
    expect(page.locator("dialog")).to_have_count(0)
    page.keyboard.press("/")
    page.keyboard.type("keyed")
    expect(page.locator("[data-hits]")).to_contain_text("of ")
    page.keyboard.press("Escape")
    page.keyboard.press("g")
    page.keyboard.press("d")
    expect(page.locator("[data-page=dashboard] h1")).to_be_focused()
