"""Three real clusters, read through one of them."""

from __future__ import annotations

from typing import Any

import pytest
from sites import Cells
from xwheel.plugin import XwheelError
from xwheel_devtools.testing import NodeSite, wait_until


def make_jobs(node: NodeSite, *names: str, **fields: Any) -> list[int]:
    group_id = node.call("GET", "groups")["items"][0]["id"]
    known = {"group_id": group_id, "handler": "hello"}
    return [int(node.call("POST", "jobs", {**known, "name": name, **fields})["id"]) for name in names]


def walk(node: NodeSite, path: str, limit: int) -> list[dict[str, Any]]:
    """Return all rows of a list, page by page, each of which keeps to the limit."""
    joint = "&" if "?" in path else "?"
    rows: list[dict[str, Any]] = []
    after = ""
    for _ in range(1000):
        page = node.call("GET", f"{path}{joint}limit={limit}{after}")
        assert len(page["items"]) <= limit
        assert not page.get("missing")
        rows += page["items"]
        if page["next"] is None:
            return rows
        after = f"&after={page['next']}"
    raise AssertionError("it goes on and on")


@pytest.fixture
def three(cells: Cells) -> tuple[NodeSite, NodeSite, NodeSite]:
    north, south = cells.cluster(), cells.cluster()
    return cells.front(north=north, south=south), north, south


def test_each_cell_says_how_it_fares(three: tuple[NodeSite, NodeSite, NodeSite]) -> None:
    front, north, _ = three
    items = front.call("GET", "cells")["items"]
    assert [(item["name"], item["is_here"], item["reachable"], item["nodes"]) for item in items] == [
        ("here", True, True, 1),
        ("north", False, True, 1),
        ("south", False, True, 1),
    ]
    assert [item["url"] for item in items[:2]] == [None, north.url]
    assert len({item["version"] for item in items}) == 1
    assert items[0]["version"] == front.call("GET", "nodes")["items"][0]["version"]
    assert all(item["answered_ms"] > 1_600_000_000_000 for item in items)
    assert [item["name"] for item in front.call("GET", "cells?cell=south,here")["items"]] == ["here", "south"]


def test_counts_are_those_of_each_cell_and_their_sum(cells: Cells) -> None:
    north, south = cells.cluster(settings={"upkeep": {"report_interval_s": 1}}), cells.cluster()
    front = cells.front(north=north, south=south)
    make_jobs(front, "one")
    make_jobs(north, "one", "two")
    make_jobs(south, "one", "two", "three")
    north.run("fail")

    def counted() -> Any:
        found = front.call("GET", "cells/overview")
        return found if found["sum"]["last_day"]["failed"] else None

    found = wait_until(counted)
    of = {item["cell"]: item["counts"] for item in found["items"]}
    assert {name: counts["jobs"] for name, counts in of.items()} == {"here": 1, "north": 3, "south": 3}
    assert {name: counts["last_day"]["failed"] for name, counts in of.items()} == {"here": 0, "north": 1, "south": 0}
    assert (found["sum"]["jobs"], found["sum"]["executors"], found["sum"]["groups"]) == (7, 3, 3)
    assert found["missing"] == []


@pytest.mark.parametrize("limit", [1, 3, 200])
def test_pages_of_jobs_are_the_union_of_all_cells(three: tuple[NodeSite, NodeSite, NodeSite], limit: int) -> None:
    names = {"here": 2, "north": 7, "south": 11}
    for (name, number), node in zip(names.items(), three, strict=True):
        make_jobs(node, *(f"{name} {turn}" for turn in range(number)))
    rows = walk(three[0], "cells/jobs", limit)
    union = [
        (job["id"], cell, job["name"])
        for cell, node in zip(names, three, strict=True)
        for job in node.call("GET", "jobs?limit=1000")["items"]
    ]
    # by id, and by the order of the cells where ids are the same
    assert [(row["id"], row["cell"], row["name"]) for row in rows] == sorted(union, key=lambda item: item[0])
    assert len(rows) == 20


def test_pages_of_runs_are_the_union_of_all_cells(three: tuple[NodeSite, NodeSite, NodeSite]) -> None:
    for number, node in enumerate(three):
        for turn in range(3 + number):
            node.run("hello" if turn else "fail", f"run {turn}")
    runs = [
        (run["due_ms"], run["id"], cell)
        for cell, node in zip(("here", "north", "south"), three, strict=True)
        for run in node.call("GET", "runs?limit=1000")["items"]
    ]
    rows = walk(three[0], "cells/runs", 2)
    assert [(row["due_ms"], row["id"], row["cell"]) for row in rows] == sorted(
        runs, key=lambda item: (-item[0], -item[1])
    )
    assert len(rows) == 12
    page = three[0].call("GET", "cells/runs?limit=5")
    assert page["looked_ms"] == page["items"][-1]["due_ms"]
    assert three[0].call("GET", "cells/runs?limit=50")["looked_ms"] is None
    failed = walk(three[0], "cells/runs?state=failed", 2)
    assert sorted(row["cell"] for row in failed) == ["here", "north", "south"]
    assert {row["state"] for row in failed} == {"failed"}
    assert {row["message"] for row in failed} != {""}
    assert "param" not in failed[0]


def test_groups_and_executors_of_all_cells(three: tuple[NodeSite, NodeSite, NodeSite]) -> None:
    three[1].call("POST", "groups", {"app_name": "payments", "title": "Payments"})
    groups = walk(three[0], "cells/groups", 2)
    assert [(row["cell"], row["app_name"]) for row in groups] == [
        ("here", "demo"),
        ("north", "demo"),
        ("south", "demo"),
        ("north", "payments"),
    ]
    executors = walk(three[0], "cells/executors", 1)
    assert [(row["cell"], row["address"]) for row in executors] == [
        (cell, node.addresses[0]) for cell, node in zip(("here", "north", "south"), three, strict=True)
    ]
    assert [row["app_name"] for row in walk(three[0], "cells/groups?app_name=pay", 50)] == ["payments"]


def test_filters_are_those_of_the_ordinary_list(three: tuple[NodeSite, NodeSite, NodeSite]) -> None:
    front, north, south = three
    make_jobs(front, "alpha", "beta")
    make_jobs(north, "alphabet", "gamma", description="of the north")
    make_jobs(south, "delta", enabled=True, schedule_type="CRON", schedule_conf="0 0 3 * * ?")
    assert {row["name"] for row in walk(front, "cells/jobs?name_contains=ALPHA", 50)} == {"alpha", "alphabet"}
    assert {row["name"] for row in walk(front, "cells/jobs?search=north", 50)} == {"alphabet", "gamma"}
    assert {row["name"] for row in walk(front, "cells/jobs?enabled=true", 50)} == {"delta"}
    assert {row["name"] for row in walk(front, "cells/jobs?cell=here,south", 1)} == {"alpha", "beta", "delta"}
    with pytest.raises(XwheelError, match="state"):
        front.call("GET", "cells/runs?state=finished")
    with pytest.raises(XwheelError, match="colour.*is not a field here"):
        front.call("GET", "cells/jobs?colour=red")
    with pytest.raises(XwheelError, match="is not a field here"):
        front.call("GET", "cells/jobs?cell=north&colour=red")


def test_jobs_by_their_next_fire_are_one_page(three: tuple[NodeSite, NodeSite, NodeSite]) -> None:
    for node, hours in zip(three, ([9, 1], [5, 7], [3]), strict=True):
        for hour in hours:
            conf = f"0 0 {hour} 1 1 ? 2099"
            make_jobs(node, f"at {hour}", enabled=True, schedule_type="CRON", schedule_conf=conf)
    found = three[0].call("GET", "cells/jobs?sort=next_fire&limit=4")
    assert [row["name"] for row in found["items"]] == ["at 1", "at 3", "at 5", "at 7"]
    assert found["next"] is None
    with pytest.raises(XwheelError, match="after.*one page"):
        three[0].call("GET", "cells/jobs?sort=next_fire&after=WyJqb2JzIix7fV0")


def test_numbers_of_one_cell_need_that_cell(three: tuple[NodeSite, NodeSite, NodeSite]) -> None:
    front, north, _ = three
    (job_id,) = make_jobs(north, "here alone")
    run_id = north.start_run(job_id)
    north.wait_for_run(run_id)
    (row,) = walk(front, f"cells/runs?cell=north&job_id={job_id}", 50)
    assert (row["id"], row["job_name"], row["cell"]) == (run_id, "here alone", "north")
    for field in ("job_id", "group_id", "root_id", "chain_id"):
        with pytest.raises(XwheelError, match=f"{field}.*name that cell"):
            front.call("GET", f"cells/runs?{field}=1")


def test_a_search_finds_jobs_groups_and_executors_of_all_cells(three: tuple[NodeSite, NodeSite, NodeSite]) -> None:
    front, north, south = three
    make_jobs(front, "pay salaries")
    make_jobs(north, "nightly", handler="payments.close")
    south.call("POST", "groups", {"app_name": "payments", "title": "All payments"})
    found = front.call("GET", "cells/search?q=PAY")
    assert [(row["cell"], row["name"]) for row in found["jobs"]] == [("here", "pay salaries"), ("north", "nightly")]
    assert [(row["cell"], row["app_name"]) for row in found["groups"]] == [("south", "payments")]
    assert found["executors"] == []
    assert found["is_cut"] is False
    place = north.addresses[0].removeprefix("http://")
    found = front.call("GET", f"cells/search?q={place}")
    assert [(row["cell"], row["address"]) for row in found["executors"]] == [("north", north.addresses[0])]
    found = front.call("GET", "cells/search?q=pay&limit=1")
    assert len(found["jobs"]) == 1
    assert found["is_cut"] is True


REFUSED = [
    ("cells?colour=red", "colour"),
    ("cells?cell=west", "'west' is no cell.*here, north, south"),
    ("cells/search", "q.*1 to 128"),
    (f"cells/search?q={'x' * 129}", "q.*1 to 128"),
    ("cells/jobs?limit=201", "limit.*1 to 200"),
    ("cells/jobs?limit=0", "limit.*1 to 200"),
    ("cells/jobs?limit=1e1", "limit.*1 to 200"),
    ("cells/jobs?after=7", "after.*value of next"),
    ("cells/jobs?after=WyJydW5zIix7fV0", "after.*value of next"),  # of runs
    ("cells/jobs?after=WyJqb2JzIix7ImhlcmUiOiI3LTcifV0", "after.*value of next"),  # a place of a run
]


def test_questions_that_are_none_are_refused(three: tuple[NodeSite, NodeSite, NodeSite]) -> None:
    for path, words in REFUSED:
        with pytest.raises(XwheelError, match=words):
            three[0].call("GET", path)


def test_the_own_cell_can_be_called_otherwise(cells: Cells) -> None:
    front = cells.cluster("cells", options={"cells": {"name": "hub"}})
    assert [item["name"] for item in front.call("GET", "cells")["items"]] == ["hub"]


def test_nothing_can_be_written(three: tuple[NodeSite, NodeSite, NodeSite]) -> None:
    for path in ("cells", "cells/jobs", "cells/runs"):
        for method in ("POST", "PUT", "PATCH", "DELETE"):
            with pytest.raises(XwheelError, match="405|not allowed|Method"):
                three[0].call(method, path, {})
