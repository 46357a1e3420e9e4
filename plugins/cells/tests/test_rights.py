"""Who may read all cells: those who may read all groups of this one, and no one else."""

from __future__ import annotations

from typing import Any

import requests
from sites import TOKEN, Cells
from xwheel_devtools.testing import NodeSite, web_reply

PATHS = ["", "/overview", "/search?q=a", "/jobs", "/runs", "/groups", "/executors"]


def status(front: NodeSite, path: str, token: str | None) -> int:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    return requests.get(f"{front.url}/api/v1/cells{path}", headers=headers, timeout=60).status_code


def test_a_role_in_all_groups_reads_and_a_role_in_one_does_not(cells: Cells) -> None:
    other = cells.server(web_reply(404))
    front = cells.front(north=other)
    group_id = front.call("GET", "groups")["items"][0]["id"]

    def token(name: str, **rights: Any) -> str:
        return str(front.call("POST", "tokens", {"name": name, **rights})["token"])

    viewer = token("viewer", role="viewer")
    of_one = token("of-one", groups=[{"group_id": group_id, "role": "admin"}])
    of_group = token("of-group", group_id=group_id)
    for path in PATHS:
        assert status(front, path, viewer) == 200, path
    asked = len(other.requests)
    assert asked == len(PATHS)
    for path in PATHS:
        assert status(front, path, of_one) == 403, path
    # few of them: a node refuses an address that tries many tokens
    for path in ("", "/jobs"):
        for stranger in (of_group, None, "wrong"):
            assert status(front, path, stranger) == 401, path
    # no one who is refused makes this node ask others
    assert len(other.requests) == asked


def test_what_a_caller_of_one_group_may_read_here_is_as_before(cells: Cells) -> None:
    front = cells.front()
    group_id = front.call("GET", "groups")["items"][0]["id"]
    rights = {"name": "of-one", "groups": [{"group_id": group_id, "role": "viewer"}]}
    token = front.call("POST", "tokens", rights)["token"]
    answer = requests.get(f"{front.url}/api/v1/jobs", headers={"Authorization": f"Bearer {token}"}, timeout=60)
    assert answer.status_code == 200


def test_the_options_are_shown_without_the_token(cells: Cells) -> None:
    other = cells.server()
    front = cells.front(north=other)
    shown = requests.get(
        f"{front.url}/api/v1/plugins", headers={"Authorization": f"Bearer {front.token}"}, timeout=60
    ).text
    assert "cells" in shown
    assert TOKEN not in shown
