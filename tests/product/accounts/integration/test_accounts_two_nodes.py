"""Two nodes on one database: what is done to accounts on one counts on the other within a second or two."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import requests
from xwheel_accounts.storage import sessions
from xwheel_accounts.storage.sessions import Failures
from xwheel_accounts.throttle import LOCKED_AT, OF_PAIR, key_of_name, pairs_of_name
from xwheel_devtools.testing.processes import NodeProcess, XwheelProcess, wait_until

from tests.support.databases import BACKENDS, CleanDatabases
from xwheel.clock import wall_ms
from xwheel.storage.database.engine import Database

PASSWORD = "nine blue ducks on a wall"
SOON_S = 10.0
"""Far more than it takes, for a busy machine."""

pytestmark = pytest.mark.processes


class Browser:
    """Somebody who signed in, and calls either node."""

    def __init__(self, urls: dict[str, str], name: str, password: str, at: str) -> None:
        self._urls = urls
        answer = requests.post(f"{urls[at]}/session", json={"name": name, "password": password}, timeout=30)
        assert answer.status_code == 201, answer.text
        # requests would not send the cookie to another port's path by itself
        self.cookies = {"xwheel_session": answer.cookies["xwheel_session"]}
        self.csrf = answer.json()["csrf"]

    def __call__(self, at: str, method: str, path: str, body: object = None) -> requests.Response:
        headers = {"X-Xwheel-CSRF": self.csrf}
        url = f"{self._urls[at]}/{path}"
        return requests.request(method, url, json=body, cookies=self.cookies, headers=headers, timeout=30)


class Pair:
    """The nodes ``one`` and ``two``, and an admin of both."""

    def __init__(self, folder: Path, url: str, stack: ExitStack) -> None:
        self.db = Database(url)
        stack.callback(self.db.close)
        for name in ("one", "two"):
            (folder / name).mkdir()
        first = stack.enter_context(NodeProcess(folder / "one", XWHEEL_DATABASE__URL=url))
        second = stack.enter_context(
            XwheelProcess(folder / "two", "server", "--port", "0", "--executor-port", "0", XWHEEL_DATABASE__URL=url)
        )
        address = second.find("management API on (.*)")
        self.urls = {"one": f"{first.url}/api/v1", "two": f"http://{address}/api/v1"}
        password = first.find("password of the account admin .*: (.*)")
        self.admin = Browser(self.urls, "admin", password, "two")
        # before any call of this session to the other node, which then remembers it for a second
        assert self.admin("two", "POST", "session/confirm", {"password": password}).status_code == 204

    def make(self, name: str, **fields: Any) -> int:
        answer = self.admin("one", "POST", "accounts", {"name": name, "password": PASSWORD, **fields})
        assert answer.status_code == 201, answer.text
        made: dict[str, Any] = answer.json()
        entered = Browser(self.urls, name, PASSWORD, "one")
        body = {"old_password": PASSWORD, "password": PASSWORD.upper()}
        assert entered("two", "PUT", "me/password", body).status_code == 200
        return int(made["id"])


@pytest.fixture(params=["mariadb", pytest.param("postgresql", marks=pytest.mark.nightly)])
def pair(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Pair]:
    with BACKENDS[request.param]() as base, ExitStack() as stack:
        databases = CleanDatabases(base, request.param)
        stack.callback(databases.close)
        yield Pair(tmp_path, databases.url(0), stack)


def soon(answer: Callable[[], requests.Response], status: int) -> None:
    wait_until(lambda: answer().status_code == status, SOON_S)


@pytest.mark.long
def test_what_one_node_takes_away_the_other_refuses(pair: Pair) -> None:
    number = pair.make("ann", role="editor")
    ann = Browser(pair.urls, "ann", PASSWORD.upper(), "one")
    for at in ("one", "two"):
        assert ann(at, "PUT", f"calendars/of-{at}", {"dates": ["2030-01-01"]}).status_code in {200, 201}

    assert pair.admin("one", "PATCH", f"accounts/{number}", {"role": "viewer"}).status_code == 200
    soon(lambda: ann("two", "PUT", "calendars/more", {"dates": ["2030-01-01"]}), 403)
    assert ann("two", "GET", "calendars").status_code == 200

    assert pair.admin("two", "DELETE", f"accounts/{number}/sessions").status_code == 200
    soon(lambda: ann("one", "GET", "session"), 401)
    soon(lambda: ann("two", "GET", "session"), 401)

    again = Browser(pair.urls, "ann", PASSWORD.upper(), "two")
    assert pair.admin("one", "PATCH", f"accounts/{number}", {"disabled": True}).status_code == 200
    soon(lambda: again("two", "GET", "session"), 401)


def test_wrong_passwords_count_on_both_and_so_does_a_lock(pair: Pair) -> None:
    number = pair.make("ann", role="viewer")
    # where somebody has a session, what others typed elsewhere counts for nothing
    assert pair.admin("one", "DELETE", f"accounts/{number}/sessions").status_code == 200

    def attempt(at: str, password: str) -> int:
        body = {"name": "ann", "password": password}
        return requests.post(f"{pair.urls[at]}/session", json=body, timeout=30).status_code

    found = [attempt(("one", "two")[number % 2], "wrong") for number in range(OF_PAIR.free)]
    assert found == [401] * OF_PAIR.free
    assert attempt("one", PASSWORD.upper()) == attempt("two", PASSWORD.upper()) == 429

    # of a name from anywhere a hundred lock it, on whichever node the last one comes
    def count(failures: int) -> None:
        pair.db.transaction(lambda conn: sessions.delete_failures_of(conn, pairs_of_name("ann")))
        many = Failures(failures, 0, wall_ms())
        pair.db.transaction(lambda conn: sessions.save_failures(conn, key_of_name("ann"), many, is_new=False))

    count(LOCKED_AT - 1)
    assert attempt("one", "wrong") == 401
    count(LOCKED_AT)
    assert attempt("two", PASSWORD.upper()) == 401
    assert pair.admin("one", "GET", f"accounts/{number}").json()["locked_ms"] is not None
    assert pair.admin("two", "PATCH", f"accounts/{number}", {"locked": False}).status_code == 200
    assert attempt("one", PASSWORD.upper()) == 201


def test_a_link_signs_in_once_on_whichever_node(pair: Pair) -> None:
    ann = pair.make("ann", role="viewer")
    secret = pair.admin("one", "POST", f"accounts/{ann}/link").json()["link_secret"]
    body = {"link": secret}
    with ThreadPoolExecutor(4) as pool:
        urls = [f"{pair.urls[at]}/session" for at in ("one", "two", "one", "two")]
        found = list(pool.map(lambda url: requests.post(url, json=body, timeout=30), urls))
    assert sorted(answer.status_code for answer in found) == [201, 401, 401, 401]
    entered = next(answer for answer in found if answer.ok)
    assert entered.json()["name"] == "ann"
    for at in ("one", "two"):
        cookies = {"xwheel_session": entered.cookies["xwheel_session"]}
        assert requests.get(f"{pair.urls[at]}/session", cookies=cookies, timeout=30).json()["name"] == "ann"
