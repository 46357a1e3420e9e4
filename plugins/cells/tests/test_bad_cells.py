"""Cells that are away, silent, slow or lie: the others are shown, and the answer says what is missing and why."""

from __future__ import annotations

import json
import re
import socket
import ssl
import threading
import time
from typing import Any
from urllib.parse import parse_qs

import pytest
import requests
import trustme
from sites import TOKEN, Cells, token_file
from xwheel_devtools.testing import NodeSite, wait_until, web_reply
from xwheel_devtools.testing.samples import strangers

ROW = {"id": 1, "group_id": 1, "name": "theirs"}
KINDS = ["", "/overview", "/search?q=a", "/jobs", "/runs", "/groups", "/executors"]


def closed_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def problem_of(front: NodeSite, path: str = "/jobs") -> dict[str, str]:
    """Return why the one other cell is missing; that of this node is there, and the token nowhere."""
    answer = front.call("GET", f"cells{path}")
    assert TOKEN not in json.dumps(answer)
    if not path:
        here, other = answer["items"]
        assert (here["reachable"], other["reachable"]) == (True, False)
        return {"cell": other["name"], "code": other["code"], "reason": other["reason"]}
    missing: dict[str, str]
    (missing,) = answer["missing"]
    return missing


def test_a_cell_that_is_away_is_missing_in_every_answer(cells: Cells) -> None:
    away = {"url": f"http://127.0.0.1:{closed_port()}", "token_file": token_file(cells.folder / "tokens")}
    front = cells.front(away=away)
    front.run()
    for path in KINDS:
        found = problem_of(front, path)
        assert (found["cell"], found["code"]) == ("away", "unreachable")
        assert away["url"] in found["reason"]
        assert "see that a node of that cluster runs there" in found["reason"]
    assert len(front.call("GET", "cells/jobs")["items"]) == 1
    assert len(front.call("GET", "cells/search?q=hello")["jobs"]) == 1
    assert front.call("GET", "cells/overview")["sum"]["jobs"] == 1
    answer = front.call("GET", "cells/runs?cell=away")
    assert (answer["items"], answer["next"], len(answer["missing"])) == ([], None, 1)


def test_a_silent_cell_is_given_up_at_the_deadline(cells: Cells) -> None:
    silent = cells.server()
    silent.reply = silent.hang
    front = cells.front(timeout_ms=200, silent=silent)
    front.run()
    found = problem_of(front)
    assert found["code"] == "unreachable"
    # what is left of the 200 ms once it is asked
    (given,) = re.findall(r"no complete answer within (0\.\d+) s", found["reason"])
    assert 0 < float(given) <= 0.2
    assert len(front.call("GET", "cells/jobs")["items"]) == 1
    assert front.call("GET", "cells")["items"][1]["answered_ms"] is None


def test_an_answer_that_trickles_is_given_up_at_the_deadline(cells: Cells) -> None:
    def trickle(handler: Any, _request: Any) -> None:
        handler.send_response(200)
        handler.end_headers()
        while not trickling.closing.wait(0.02):
            handler.wfile.write(b" ")

    trickling = cells.server(trickle)
    assert problem_of(cells.front(timeout_ms=200, trickling=trickling))["code"] == "unreachable"


def test_all_cells_are_asked_at_once(cells: Cells) -> None:
    """Each answers only when all were asked: one after the other, none would."""
    met = threading.Barrier(3)

    def meet(handler: Any, request: Any) -> None:
        met.wait(60)
        web_reply(body={"items": [ROW], "next": None})(handler, request)

    servers = {name: cells.server(meet) for name in ("one", "two", "three")}
    answer = cells.front(**servers).call("GET", "cells/jobs")
    assert [row["cell"] for row in answer["items"]] == ["one", "two", "three"]
    assert answer["missing"] == []


def test_a_slow_cell_is_asked_only_so_much_at_once_and_blocks_no_other(cells: Cells) -> None:
    slow = cells.server()
    slow.reply = slow.hang
    good = cells.server(web_reply(body={"items": [ROW], "next": None}))
    front = cells.front(slow=slow, good=good)
    callers = [threading.Thread(target=front_calls, args=(front, "cells/jobs?cell=slow")) for _ in range(4)]
    for caller in callers:
        caller.start()
    wait_until(lambda: len(slow.requests) == 4)
    answer = front_calls(front, "cells/jobs?cell=slow,good")
    assert [row["cell"] for row in answer["items"]] == ["good"]
    (missing,) = answer["missing"]
    assert (missing["cell"], missing["code"]) == ("slow", "busy")
    assert "4 questions to it wait for an answer" in missing["reason"]
    assert len(slow.requests) == 4
    slow.closing.set()
    for caller in callers:
        caller.join()
    # the places are free again
    slow.reply = web_reply(body={"items": [ROW], "next": None})
    assert front_calls(front, "cells/jobs?cell=slow")["missing"] == []


def front_calls(front: NodeSite, path: str) -> Any:
    """Make a call with a connection of its own: that of a site is for one thread."""
    headers = {"Authorization": f"Bearer {front.token}"}
    answer = requests.get(f"{front.url}/api/v1/{path}", headers=headers, timeout=120)
    answer.raise_for_status()
    return answer.json()


DEEP = b'{"later":' + b"[" * 100_000
LIES: dict[str, tuple[bytes, str]] = {
    "no json": (b"<html>hello</html>", "not what a node answers"),
    "no utf-8": (b'{"items": [{"id": 1, "group_id": 1, "name": "\xff"}], "next": null}', "not what a node answers"),
    "nothing": (b"", "not what a node answers"),
    "a list": (b"[]", "not what a node answers"),
    "a text for a number": (json.dumps({"items": [{**ROW, "id": "1"}]}).encode(), "not what a node answers"),
    "a huge number": (json.dumps({"items": [{**ROW, "id": 2**60}]}).encode(), "not what a node answers"),
    "a negative number": (json.dumps({"items": [{**ROW, "group_id": -1}]}).encode(), "not what a node answers"),
    "a long name": (json.dumps({"items": [{**ROW, "name": "x" * 1025}]}).encode(), "not what a node answers"),
    "no name": (b'{"items": [{"id": 1, "group_id": 1}]}', "not what a node answers"),
    "a strange place": (json.dumps({"items": [ROW], "next": "elsewhere"}).encode(), "not what a node answers"),
    "deep": (DEEP, "not what a node answers"),
    "too many rows": (
        json.dumps({"items": [{**ROW, "id": number} for number in range(1, 52)]}).encode(),
        "more rows than were asked for",
    ),
    "a row twice": (json.dumps({"items": [ROW, ROW]}).encode(), "a row twice"),
}


def test_what_is_no_answer_is_named_and_not_repeated(cells: Cells) -> None:
    liar = cells.server()
    front = cells.front(liar=liar)
    for name, (body, words) in LIES.items():
        liar.reply = web_reply(body=body)
        found = problem_of(front)
        assert (name, found["code"]) == (name, "malformed")
        assert words in found["reason"], name
        assert "html" not in found["reason"]
    for path in KINDS:
        liar.reply = web_reply(body=b'{"items": 7}')
        assert problem_of(front, path)["code"] == "malformed", path
    liar.reply = web_reply(body={"items": [{**ROW, "name": "x" * 1024, "later": [1]}], "more": {}})
    answer = front.call("GET", "cells/jobs")
    assert answer["missing"] == []
    assert answer["items"][0]["name"] == "x" * 1024
    assert "later" not in answer["items"][0]


def test_rows_that_stand_elsewhere_are_put_in_their_place_or_left_for_another_page(cells: Cells) -> None:
    liar = cells.server(web_reply(body={"items": [{**ROW, "id": number} for number in (7, 3, 9, 5)], "next": 7}))
    front = cells.front(liar=liar)
    page = front.call("GET", "cells/jobs?limit=4")
    assert [row["id"] for row in page["items"]] == [3, 5, 7]
    liar.reply = web_reply(body={"items": [{**ROW, "id": number} for number in (9, 7)], "next": None})
    page = front.call("GET", f"cells/jobs?limit=4&after={page['next']}")
    assert ([row["id"] for row in page["items"]], page["next"]) == ([9], None)


def test_a_page_that_does_not_lead_on_ends_a_walk(cells: Cells) -> None:
    liar = cells.server(web_reply(body={"items": [ROW], "next": 1}))
    front = cells.front(liar=liar)
    page = front.call("GET", "cells/jobs?limit=1")
    assert [row["id"] for row in page["items"]] == [1]
    again = front.call("GET", f"cells/jobs?limit=1&after={page['next']}")
    assert (again["items"], again["next"]) == ([], None)
    assert again["missing"][0]["code"] == "malformed"
    assert liar.requests[-1].path.endswith("limit=1&after=1")


def test_a_cell_cannot_speak_for_another(cells: Cells) -> None:
    liar = cells.server(web_reply(body={"items": [{**ROW, "cell": "here"}], "next": None}))
    assert [row["cell"] for row in cells.front(liar=liar).call("GET", "cells/jobs")["items"]] == ["liar"]


def test_a_large_body_is_not_read_to_its_end(cells: Cells) -> None:
    def pour(handler: Any, _request: Any) -> None:
        handler.send_response(200)
        handler.end_headers()
        for _ in range(10_000):
            handler.wfile.write(b" " * 65_536)
        poured.set()

    poured = threading.Event()
    found = problem_of(cells.front(large=cells.server(pour)))
    assert found["code"] == "too_large"
    assert "2097152 bytes: ask for fewer with limit" in found["reason"]
    assert not poured.is_set()


STATUSES = {
    400: ("refused", "know no such filter"),
    403: ("forbidden", "role viewer in all groups"),
    404: ("unknown", "it has no /api/v1/jobs"),
    429: ("busy", "takes no more for now"),
    500: ("failing", "status 500"),
    503: ("failing", "status 503"),
    # the last, since a cell that refuses the token is left alone for a while
    401: ("unauthorized", "xwheel token create"),
}


def test_each_status_says_what_to_do(cells: Cells) -> None:
    bad = cells.server()
    front = cells.front(bad=bad)
    for status, (code, words) in STATUSES.items():
        bad.reply = web_reply(status, {"detail": f"{TOKEN} <b>secret</b>"})
        found = problem_of(front)
        assert (status, found["code"]) == (status, code)
        assert words in found["reason"]
        assert "<b>" not in found["reason"]


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed_and_the_token_stays(cells: Cells, status: int) -> None:
    thief = cells.server(web_reply(body={"items": [], "next": None}))
    turned = cells.server(web_reply(status, b"", {"Location": f"{thief.url}/api/v1/jobs"}))
    front = cells.front(turned=turned)
    assert problem_of(front)["code"] == "redirects"
    assert turned.requests[0].headers["Authorization"] == f"Bearer {TOKEN}"
    assert thief.requests == []


def test_a_token_that_opens_nothing_there_is_named(cells: Cells) -> None:
    north = cells.cluster()
    wrong = {"url": north.url, "token_file": token_file(cells.folder / "tokens")}
    assert problem_of(cells.front(north=wrong))["code"] == "unauthorized"
    made = north.call("POST", "tokens", {"name": "orders", "group_id": 1})
    weak = {"url": north.url, "token_file": token_file(cells.folder / "tokens", made["token"])}
    found = problem_of(cells.front(north=weak))
    assert found["code"] == "unauthorized"
    assert made["token"] not in found["reason"]


def test_a_cell_without_reports_has_no_overview_and_all_else(cells: Cells) -> None:
    without = sorted(strangers() | {"console", "reports"})
    north = cells.cluster(settings={"plugins": {"disabled": without}})
    front = cells.front(north=north)
    found = problem_of(front, "/overview")
    assert (found["cell"], found["code"]) == ("north", "unknown")
    assert "/api/v1/overview" in found["reason"]
    assert front.call("GET", "cells")["items"][1]["reachable"] is True


def test_addresses_are_tried_in_order_and_the_one_that_answered_first_again(cells: Cells) -> None:
    north = cells.cluster()
    broken = cells.server(web_reply(503))
    turned = cells.server(web_reply(302, b"", {"Location": "/"}))
    garbage = cells.server(web_reply(body=b"<html>"))
    others = (broken, turned, garbage)
    several = {"url": [*(one.url for one in others), north.url], "token_file": cells.viewer(north)}
    front = cells.front(north=several)
    assert front.call("GET", "cells")["items"][1]["reachable"] is True
    assert [len(one.requests) for one in others] == [1, 1, 1]
    assert front.call("GET", "cells/jobs")["missing"] == []
    assert [len(one.requests) for one in others] == [1, 1, 1]


def test_an_address_that_hangs_leaves_time_for_the_next(cells: Cells) -> None:
    hanging = cells.server()
    hanging.reply = hanging.hang
    good = cells.server(web_reply(body={"items": [ROW], "next": None}))
    options = {"url": [hanging.url, good.url], "token_file": token_file(cells.folder / "tokens")}
    front = cells.front(timeout_ms=10_000, north=options)
    assert [row["cell"] for row in front.call("GET", "cells/jobs")["items"]] == ["north"]


def test_a_cell_that_comes_back_goes_on_where_it_was(cells: Cells) -> None:
    """Nothing of it is left out, and nothing comes twice."""

    def reply(handler: Any, request: Any) -> None:
        query = parse_qs(request.path.partition("?")[2])
        left = [number for number in (1, 3) if number > int(query.get("after", ["0"])[0])]
        limit = int(query["limit"][0])
        items = [{**ROW, "id": number} for number in left[:limit]]
        web_reply(body={"items": items, "next": left[limit - 1] if len(left) > limit else None})(handler, request)

    flaky = cells.server(reply)
    front = cells.front(flaky=flaky)
    for turn in range(4):
        front.run("hello", str(turn))
    first = front.call("GET", "cells/jobs?limit=2")
    flaky.reply = web_reply(503)
    second = front.call("GET", f"cells/jobs?limit=1&after={first['next']}")
    assert [one["cell"] for one in second["missing"]] == ["flaky"]
    flaky.reply = reply
    found = [*first["items"], *second["items"]]
    after = second["next"]
    while after:
        page = front.call("GET", f"cells/jobs?limit=2&after={after}")
        assert page["missing"] == []
        found += page["items"]
        after = page["next"]
    keys = [(row["cell"], row["id"]) for row in found]
    assert len(set(keys)) == len(keys)
    assert sorted(keys) == [("flaky", 1), ("flaky", 3), *(("here", number) for number in (1, 2, 3, 4))]


def test_tls_proves_the_name_of_a_cell(cells: Cells) -> None:
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    safe = cells.server(web_reply(body={"items": [ROW], "next": None}), tls=context)
    trusted = cells.folder / "ca.pem"
    authority.cert_pem.write_to_path(str(trusted))
    options = {"url": safe.url, "token_file": token_file(cells.folder / "tokens")}
    found = problem_of(cells.front(safe=options))
    assert found["code"] == "unreachable"
    assert safe.requests == []
    answer = cells.front(safe={**options, "ca_file": str(trusted)}).call("GET", "cells/jobs")
    assert [row["cell"] for row in answer["items"]] == ["safe"]


def test_what_was_answered_last_stays_known(cells: Cells) -> None:
    north = cells.server(web_reply(body={"items": [{"alive": True, "version": "9", "is_me": True}]}))
    front = cells.front(north=north)
    (_, good) = front.call("GET", "cells")["items"]
    north.reply = web_reply(body={"items": "none"})
    (_, bad) = front.call("GET", "cells")["items"]
    assert (good["nodes"], good["version"]) == (1, "9")
    assert (bad["reachable"], bad["nodes"], bad["answered_ms"]) == (False, None, good["answered_ms"])
    assert abs(bad["answered_ms"] - time.time() * 1000) < 3_600_000
