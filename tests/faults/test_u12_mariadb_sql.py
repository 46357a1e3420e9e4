"""U12: the how-to's SQL for MariaDB works on a fresh server, whose anonymous user is taken for a stranger's name."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pymysql
import pytest
from sqlalchemy import make_url

from tests.support import servers
from tests.support.odd_server import OddServer
from tests.support.paths import DOCS
from tests.support.refusals import Refusals

PAGE = DOCS / "howto" / "databases.md"


def statements(number: int) -> list[str]:
    """Return the statements for MariaDB of the page's nth listing of SQL."""
    listing = re.findall(r"^```sql\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)[number]
    part = listing.partition("-- MariaDB\n")[2].partition("-- PostgreSQL")[0]
    return [line.rstrip(";") for line in part.splitlines()]


@pytest.fixture(scope="module")
def fresh() -> Iterator[OddServer]:
    """A server as an installation leaves it: it resolves names and knows an anonymous user of its own machine."""
    with servers.mariadb(options=("--skip-name-resolve=OFF",)) as base:
        first = OddServer(base, "mysql")
        boss = f"boss@'127.0.0.1' IDENTIFIED BY '{servers.PASSWORD}'"
        first.do("CREATE USER IF NOT EXISTS ''@localhost", f"CREATE USER {boss}")
        first.do("GRANT ALL ON *.* TO boss@'127.0.0.1' WITH GRANT OPTION")
        server = OddServer(make_url(base).set(username="boss").render_as_string(hide_password=False), "mysql")
        server.do("DROP USER xwheel@'127.0.0.1'")  # the page's user has this name
        yield server


def log_in(server: OddServer, user: str, password: str) -> None:
    pymysql.connect(host="127.0.0.1", port=server.url.port or 0, user=user, password=password).close()


def test_u12_the_anonymous_user_stands_in_the_way_of_a_user_for_all_hosts(fresh: OddServer) -> None:
    """What the page must get round; without it the next test would prove nothing."""
    fresh.do("CREATE USER someone@'%' IDENTIFIED BY 'SECRET'")
    with pytest.raises(pymysql.err.OperationalError, match=r"Access denied for user 'someone'@'localhost'"):
        log_in(fresh, "someone", "SECRET")
    fresh.do("DROP USER someone@'%'")


def test_u12_the_pages_sql_and_commands_work(fresh: OddServer, xwheel: Refusals) -> None:
    fresh.do(*statements(0))
    (written,) = re.findall(r'^url = "(mysql\+pymysql:.*)"$', PAGE.read_text("utf-8"), re.MULTILINE)
    url = make_url(written).set(host="127.0.0.1", port=fresh.url.port).render_as_string(hide_password=False)
    log_in(fresh, "xwheel", "SECRET")
    xwheel.passes("db", "upgrade", database=url)
    xwheel.passes("db", "check", database=url)
    fresh.do(*statements(1))
    log_in(fresh, "node", "ANOTHER")
    node_url = make_url(url).set(username="node", password="ANOTHER").render_as_string(hide_password=False)
    xwheel.passes("db", "check", database=node_url)


@pytest.fixture
def xwheel(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Refusals:
    return Refusals(monkeypatch, capsys)
