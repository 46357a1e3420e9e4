"""The line that `xwheel quickstart` prints for a browser: a link for the first account that may do everything."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from xwheel_accounts.gate import AccountsGate
from xwheel_accounts.storage import accounts, links
from xwheel_devtools.quickstart.run import console_line, has_console

from tests.product.accounts.trails import trail_of
from xwheel.clock import wall_ms
from xwheel.config import Config
from xwheel.model.access import ALL, Grant, Grants, Role
from xwheel.storage.database.engine import Database

URL = "http://127.0.0.1:8080"
NOW = 1_767_225_600_000


def add(db: Database, name: str, grants: Grants = ALL, provider: str = "local", **values: Any) -> int:
    def work(conn: Any) -> int:
        made = accounts.insert_account(conn, name, grants, NOW, provider=provider)
        accounts.update_account(conn, made.id, values, NOW)
        return made.id

    return db.transaction(work)


def line(db: Database) -> str:
    plugins: Any = SimpleNamespace(gates={"accounts": AccountsGate(Config())})
    return console_line(db, trail_of(db), plugins, URL)


def test_the_link_is_for_the_first_who_may_do_everything_at_once(db: Database) -> None:
    add(db, "reader", Grants(Grant(Role.VIEWER)))
    add(db, "gone", disabled=True)
    add(db, "locked", locked_ms=1)
    add(db, "new", must_change=True)
    add(db, "elsewhere", provider="ldap")
    wanted = add(db, "boss")
    add(db, "other")
    told = line(db)
    assert told.startswith(f"console            {URL}/#/login?link=")
    secret = told.partition("link=")[2].split()[0]
    with db.read() as conn:
        found = links.find_link(conn, secret)
    assert found is not None
    assert found.account_id == wanted
    assert 0 <= wall_ms() + 600_000 - found.expires_ms < 60_000


def test_without_such_an_account_the_address_is_told(db: Database) -> None:
    add(db, "gone", disabled=True)
    assert line(db) == f"console            {URL}/"


@pytest.mark.parametrize(("at_root", "expected"), [((), False), ((False,), False), ((False, True), True)], ids=str)
def test_a_console_is_what_is_served_at_the_root(at_root: tuple[bool, ...], expected: bool) -> None:
    pages = {str(number): SimpleNamespace(at_root=item) for number, item in enumerate(at_root)}
    plugins: Any = SimpleNamespace(pages=pages)
    assert has_console(plugins) is expected
