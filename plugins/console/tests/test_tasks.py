"""What operators do most, as a person does it: clicks and keys are counted, besides those of XXL-JOB's console.

``docs/howto/console.md`` shows the counts; ``../../.venv/plugins/console/bin/python tests/test_tasks.py``, in the
folder of the plugin, writes them there.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import pytest
from conftest import Open, Site, Watch, launched, opened, visit
from playwright.sync_api import Locator, Page, expect

PAGE = Path(__file__).parents[3] / "docs" / "howto" / "console.md"
HEAD = "## Clicks and keys\n"
INTRO = """
What operators do most, done by scripts in real Chromium that count. A click is one, and so is a key, whether Ctrl is
held or not; a text that is typed is one, and Enter behind it one more; a choice from a list that opens is two. Reading
and waiting are nothing. Each task begins where one is after signing in: at *Jobs* here, at its report in XXL-JOB.
XXL-JOB's steps are those of its versions 2 and 3, the fewer where these differ, and the job is in the group that its
list of jobs shows by itself. Words in *italics* are typed.

| task | xwheel | XXL-JOB |
|---|---|---|
"""
END = """
Old runs need no one: they are deleted when [their time](retention.md) is over, and the API deletes none by hand. In
XXL-JOB it takes at least three: log page, clean-up, confirm.
"""


class Hand:
    """A person's hand; each thing that it does counts one, and is noted in words."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.steps: list[str] = []

    def click(self, words: str, target: Locator) -> None:
        target.click()
        self.steps.append(words)

    def press(self, key: str) -> None:
        self.page.keyboard.press(key)
        self.steps.append(key)

    def type(self, words: str, text: str) -> None:
        """Type into what has the focus, in place of what is there."""
        focused = self.page.locator(":is(input, textarea):focus")
        focused.fill("")
        focused.press_sequentially(text)
        self.steps.append(f"*{words}*")

    def find(self, text: str) -> Locator:
        """Look for a job by a part of its name, in the list of jobs."""
        self.click("name filter", self.page.get_by_role("searchbox", name="Name"))
        self.type("name", text)
        rows = self.page.locator("[data-list=jobs] tbody tr")
        expect(rows).to_have_count(1)
        expect(rows).to_contain_text(text)
        return rows

    def open_menu(self, row: Locator, item: str) -> None:
        """Choose what stands in the menu of a job."""
        self.click("⋯", row.get_by_role("button", name="Menu of"))
        self.click(item, row.get_by_role("menuitem", name=item, exact=True))


Do = Callable[[Hand, Site], None]


class Task(NamedTuple):
    """One task: its script, and XXL-JOB's steps; without steps it cannot be done there."""

    words: str
    do: Do
    theirs: tuple[str, ...]


FIND = ("jobs page", "name field", "*name*", "search")


def see_what_is_broken(hand: Hand, site: Site) -> None:
    run_id = site.run(site.job("tasks broken", handler="fail"))
    hand.click("Dashboard", hand.page.get_by_role("link", name="Dashboard"))
    expect(hand.page.locator(f"[data-list=failures] [data-id='{run_id}']")).to_contain_text("tasks broken")


def find_a_job(hand: Hand, site: Site) -> None:
    site.job("tasks weekly settlement")
    expect(hand.find("settlem")).to_contain_text("tasks weekly settlement")


def see_why_a_run_failed(hand: Hand, site: Site) -> None:
    run_id = site.run(site.job("tasks why", handler="fail"))
    hand.click("Dashboard", hand.page.get_by_role("link", name="Dashboard"))
    failed = hand.page.locator(f"[data-list=failures] [data-id='{run_id}']")
    hand.click("Log", failed.get_by_role("link", name="Log"))
    expect(hand.page.get_by_role("log")).to_contain_text("Traceback")
    expect(hand.page.locator("[data-run-state]")).to_have_attribute("data-run-state", "failed")


def run_with_a_parameter(hand: Hand, site: Site) -> None:
    job_id = site.job("tasks again", handler="talk", param="old")
    site.run(job_id)
    hand.open_menu(hand.find("tasks again"), "Run with…")
    hand.type("parameter", "2026-11-22")
    hand.click("Run", hand.page.get_by_role("dialog").get_by_role("button", name="Run", exact=True))
    newest, _ = site.wait_for_runs(job_id, 2)
    assert newest["param"] == "2026-11-22"


def stop_a_job(hand: Hand, site: Site) -> None:
    job_id = site.job("tasks stops", schedule_type="CRON", schedule_conf="0 0 3 * * ?", enabled=True)
    row = hand.find("tasks stops")
    hand.click("switch", row.get_by_role("switch"))
    hand.click("Stop", hand.page.get_by_role("dialog").get_by_role("button", name="Stop"))
    expect(row.get_by_role("switch")).not_to_be_checked()
    assert not site.node.call("GET", f"jobs/{job_id}")["enabled"]


def start_a_job(hand: Hand, site: Site) -> None:
    job_id = site.job("tasks starts", schedule_type="CRON", schedule_conf="0 0 3 * * ?")
    row = hand.find("tasks starts")
    hand.click("switch", row.get_by_role("switch"))
    expect(row.get_by_role("switch")).to_be_checked()
    assert site.node.call("GET", f"jobs/{job_id}")["enabled"]


def change_a_cron(hand: Hand, site: Site) -> None:
    job_id = site.job("tasks cron", schedule_type="CRON", schedule_conf="0 0 3 * * ?", timezone="UTC")
    hand.open_menu(hand.find("tasks cron"), "Edit")
    hand.click("schedule", hand.page.locator("[data-field=schedule_conf] input"))
    hand.type("cron", "0 30 4 * * ?")
    # what will be, while nothing is saved
    expect(hand.page.locator("[data-fires] li").nth(9)).to_contain_text("04:30:00")
    assert site.node.call("GET", f"jobs/{job_id}")["schedule_conf"] == "0 0 3 * * ?"
    hand.click("Save", hand.page.get_by_role("button", name="Save"))
    expect(hand.page).to_have_url(re.compile(rf"#/jobs/{job_id}$"))
    assert site.node.call("GET", f"jobs/{job_id}")["schedule_conf"] == "0 30 4 * * ?"


def see_who_is_alive(hand: Hand, site: Site) -> None:
    address = site.node.call("GET", "executors")["items"][0]["address"]
    hand.click("Executors", hand.page.get_by_role("link", name="Executors"))
    expect(hand.page.locator(f".chip.good[data-address='{address}']")).to_be_visible()


def see_who_changed_a_job(hand: Hand, site: Site) -> None:
    job_id = site.job("tasks changed")
    job = site.node.call("GET", f"jobs/{job_id}")
    site.node.call("PATCH", f"jobs/{job_id}", {"param": "7", "revision": job["revision"]})
    author = site.node.call("GET", f"jobs/{job_id}/versions")["items"][0]["actor"]
    hand.open_menu(hand.find("tasks changed"), "History")
    expect(hand.page.locator("[data-list=versions] tbody tr").first).to_contain_text(author)


TASKS = (
    Task("is anything broken now, and which job", see_what_is_broken, ("log page", "states", "failed", "search")),
    Task("find a job by a part of its name", find_a_job, FIND),
    Task(
        "why did a run fail: to its log",
        see_why_a_run_failed,
        ("log page", "states", "failed", "search", "row's menu", "log"),
    ),
    Task(
        "run a job again with a parameter",
        run_with_a_parameter,
        (*FIND, "row's menu", "run once", "*parameter*", "save"),
    ),
    Task("stop a job", stop_a_job, (*FIND, "row's menu", "stop", "confirm")),
    Task("start a job", start_a_job, (*FIND, "row's menu", "start", "confirm")),
    Task(
        "change a cron, and see its next fires",
        change_a_cron,
        (*FIND, "row's menu", "edit", "cron field", "*cron*", "save", "row's menu", "next times (not before)"),
    ),
    Task("is the right executor alive", see_who_is_alive, ("executor page", "row's addresses")),
    Task("who changed a job", see_who_changed_a_job, ()),
)


def cell(steps: tuple[str, ...]) -> str:
    """Return how many steps there are, and which."""
    return f"{len(steps)}: {', '.join(steps)}" if steps else "not in the console"


def line(task: Task, steps: list[str]) -> str:
    """Return the line of a task, as it must stand on the page."""
    return f"| {task.words} | {cell(tuple(steps))} | {cell(task.theirs)} |\n"


def section() -> str:
    """Return the section of the page."""
    found = re.search(rf"^{HEAD}.*?(?=^## |\Z)", PAGE.read_text("utf-8"), re.M | re.S)
    assert found, f"{PAGE} has no section of that name"
    return found[0]


@dataclass(frozen=True)
class Row:
    """A line of the page."""

    words: str
    ours: int
    theirs: int | None


def rows() -> Iterator[Row]:
    """Yield what the page says."""
    for words, ours, theirs in re.findall(r"^\| ([^|]+) \| (\d+): [^|]+ \| (\d+|not)[^|]+ \|$", section(), re.M):
        yield Row(words, int(ours), None if theirs == "not" else int(theirs))


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.words)
def test_a_task_takes_the_steps_that_the_page_says(open_page: Open, site: Site, watch: Watch, task: Task) -> None:
    watch.allowed.append("422")  # a form asks about a schedule while it is typed: half of one is refused
    hand = Hand(open_page("/jobs"))
    task.do(hand, site)
    assert line(task, hand.steps) in section(), "write the page again: see this file's first lines"


def test_the_page_has_these_tasks_and_no_others() -> None:
    assert [row.words for row in rows()] == [task.words for task in TASKS]
    assert section().startswith(HEAD + INTRO)
    assert section().rstrip().endswith(END.strip())


def test_no_task_takes_more_than_in_xxl_job_and_six_take_fewer() -> None:
    compared = [row for row in rows() if row.theirs is not None]
    assert not [row for row in compared if row.theirs is not None and row.ours > row.theirs]
    assert sum(row.theirs is not None and row.ours < row.theirs for row in compared) >= 6


def main() -> None:
    """Do all tasks, and write the section of the page."""
    lines = []
    with tempfile.TemporaryDirectory() as folder, launched() as browser:
        site = Site(Path(folder) / "node")
        for task in TASKS:
            with opened(browser, site, Watch()) as context:
                context.add_cookies([site.cookie("chief")])  # type: ignore[list-item]
                hand = Hand(visit(context.new_page(), site, "/jobs"))
                task.do(hand, site)
                lines.append(line(task, hand.steps))
        site.node.close()
    PAGE.write_text(PAGE.read_text("utf-8").replace(section(), HEAD + INTRO + "".join(lines) + END + "\n"), "utf-8")


if __name__ == "__main__":
    main()
