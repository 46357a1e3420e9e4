"""Accounts, sessions and lists where the store is: the core's, on a real node with the plugin's own calls."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import requests
from archives import wheel
from test_store import TWO
from xwheel_devtools.testing import NodeProcess, XwheelProcess

PASSWORD = "a long enough sentence, 17"
MANY = 100_000


class Site:
    """A node as a process, with a store and its first account."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        settings = folder / "xwheel.toml"
        settings.write_text(f'[plugins.options.job_package.store]\ndirectory = "{folder / "store"}"\n')
        self.folder = folder
        self.node = NodeProcess(folder, XWHEEL_CONFIG=str(settings))
        self.printed = self.node.find("password of the account admin .*: (.*)")
        self.node.call("POST", "groups", {"app_name": "package-nodes", "title": "Packages"})
        path = wheel(folder, TWO)
        answer = requests.post(
            f"{self.node.url}/api/v1/packages",
            params={"file": path.name},
            data=path.read_bytes(),
            headers={"Authorization": f"Bearer {self.node.token}"},
            timeout=60,
        )
        assert answer.status_code == 201, answer.text
        self.job_id = next(int(job["job_id"]) for job in answer.json()["jobs"] if job["cron"])

    def sign_in(self, password: str) -> requests.Response:
        body = {"name": "admin", "password": password}
        return requests.post(f"{self.node.url}/api/v1/session", json=body, timeout=30)

    def ask(self, method: str, path: str, session: requests.Response, csrf: str, body: Any = None) -> requests.Response:
        return requests.request(
            method,
            f"{self.node.url}/api/v1/{path}",
            json=body,
            cookies={"xwheel_session": session.cookies["xwheel_session"]},
            headers={"X-Xwheel-CSRF": csrf} if csrf else {},
            timeout=30,
        )

    def query(self, text: str, *values: Any) -> list[Any]:
        (path,) = self.folder.rglob("*.db")
        with closing(sqlite3.connect(path, timeout=30)) as conn, conn:
            return conn.execute(text, values).fetchall()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    found = Site(tmp_path_factory.mktemp("accounts") / "node")
    yield found
    found.node.stop()


def test_the_first_account(tmp_path: Path) -> None:
    """CON-2: a random password, printed once; a slow hash; a new one ends other sessions; guesses are slowed down."""
    site = Site(tmp_path / "node")
    try:
        assert len(site.printed) >= 16
        ((kept,),) = site.query("SELECT password FROM account WHERE name = 'admin'")
        assert kept.startswith("$argon2id$")
        assert site.printed not in kept
        one, two = site.sign_in(site.printed), site.sign_in(site.printed)
        assert site.ask("GET", "packages", two, "").status_code == 200
        body = {"old_password": site.printed, "password": PASSWORD}
        assert site.ask("PUT", "me/password", one, one.json()["csrf"], body).status_code == 200
        assert site.ask("GET", "packages", two, "").status_code == 401
        assert site.sign_in(site.printed).status_code == 401
        guesses = [site.sign_in(f"guess {number} of many").status_code for number in range(12)]
        assert guesses[0] == 401
        assert 429 in guesses
    finally:
        site.node.stop()
    again = XwheelProcess(
        site.folder, "server", "--port", "0", "--executor-port", "0", XWHEEL_CONFIG=str(site.folder / "xwheel.toml")
    )
    again.find("executor API on (.*)")
    again.stop()
    assert "password of the account" not in again.output.read_text()


def test_changes_take_the_sessions_own_word(site: Site) -> None:
    """CON-3: nothing changes by GET, nor by a cookie alone, whatever page sends it."""
    session = site.sign_in(site.printed)
    path = f"packages/jobs/{site.job_id}/operations"
    before = site.node.call("GET", path)["items"]
    for csrf in ("", "0" * 64):
        refused = site.ask("POST", path, session, csrf, {"operation": "Start"})
        assert (refused.status_code, "X-Xwheel-CSRF" in refused.text) == (403, True)
    assert site.ask("GET", path, session, "").json()["items"] == before
    done = site.ask("POST", path, session, session.json()["csrf"], {"operation": "Start"})
    assert done.status_code == 200, done.text
    newest = site.ask("GET", path, session, "").json()["items"][0]
    assert (newest["operation"], newest["actor"]) == ("Start", "admin")
    assert newest not in before


def test_a_long_operation_log_is_read_in_pages(site: Site) -> None:
    """CON-4: of 100,000 rows a page has as many as it is asked for, found by an index, of its own job only."""
    row = "'Start', 'Success', '', '', 'anna', '{}', '{}', 1, 2"
    site.query(
        f"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {MANY}) "
        'INSERT INTO job_package_operation (job_id, operation, result, reason, error, actor, "before", "after", '
        f"begun_ms, ended_ms) SELECT 1000 + i % 2, {row} FROM n"
    )
    assert site.query("SELECT count(*) FROM job_package_operation WHERE job_id > 999") == [(MANY,)]
    path = f"packages/jobs/{site.job_id}/operations"
    site.node.call("POST", path, {"operation": "Start"})
    mine = site.node.call("GET", f"{path}?limit=50")["items"]
    assert {item["job_id"] for item in mine} == {site.job_id}
    plan = site.query(
        "EXPLAIN QUERY PLAN SELECT * FROM job_package_operation WHERE job_id = 1000 ORDER BY id DESC LIMIT 50"
    )
    assert "USING INDEX ix_job_package_operation_job" in plan[0][3]
    assert not any("TEMP B-TREE" in step[3] for step in plan)
    site.query("UPDATE job_package_operation SET job_id = ? WHERE job_id = 1000", site.job_id)
    seen: list[int] = []
    after = ""
    for _ in range(3):
        page = site.node.call("GET", f"{path}?limit=50{after}")
        seen += [item["id"] for item in page["items"]]
        after = f"&after={page['next']}"
    assert len(seen) == len(set(seen)) == 150
    assert seen == sorted(seen, reverse=True)
