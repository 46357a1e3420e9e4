"""What a first start says for a browser: a link for the first account that may do everything."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from xwheel_accounts.gate import AccountsGate
from xwheel_accounts.storage import accounts, links

from tests.product.accounts.trails import trail_of
from xwheel.clock import wall_ms
from xwheel.config import Config
from xwheel.model.access import ALL, Grant, Grants, Role
from xwheel.node.way_in import has_console, link_in
from xwheel.storage.database.engine import Database

NOW = 1_767_225_600_000


def add(db: Database, name: str, grants: Grants = ALL, provider: str = "local", **values: Any) -> int:
    def work(conn: Any) -> int:
        made = accounts.insert_account(conn, name, grants, NOW, provider=provider)
        accounts.update_account(conn, made.id, values, NOW)
        return made.id

    return db.transaction(work)


def link(db: Database) -> str | None:
    plugins: Any = SimpleNamespace(gates={"accounts": AccountsGate(Config())})
    return link_in(plugins, db, trail_of(db))


def test_the_link_is_for_the_first_who_may_do_everything_at_once(db: Database) -> None:
    add(db, "reader", Grants(Grant(Role.VIEWER)))
    add(db, "gone", disabled=True)
    add(db, "locked", locked_ms=1)
    add(db, "new", must_change=True)
    add(db, "elsewhere", provider="ldap")
    wanted = add(db, "boss")
    add(db, "other")
    told = link(db)
    assert told is not None
    assert told.startswith("/#/login?link=")
    secret = told.partition("link=")[2]
    with db.read() as conn:
        found = links.find_link(conn, secret)
    assert found is not None
    assert found.account_id == wanted
    assert 0 <= wall_ms() + 600_000 - found.expires_ms < 60_000


def test_without_such_an_account_there_is_no_link(db: Database) -> None:
    add(db, "gone", disabled=True)
    assert link(db) is None


@pytest.mark.parametrize(("at_root", "expected"), [((), False), ((False,), False), ((False, True), True)], ids=str)
def test_a_console_is_what_is_served_at_the_root(at_root: tuple[bool, ...], expected: bool) -> None:
    pages = {str(number): SimpleNamespace(at_root=item) for number, item in enumerate(at_root)}
    plugins: Any = SimpleNamespace(pages=pages)
    assert has_console(plugins) is expected
