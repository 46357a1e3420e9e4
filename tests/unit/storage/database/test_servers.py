"""URLs that list several servers: their forms, which of them is tried first, and what is said if none takes us."""

from __future__ import annotations

import time
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest
from sqlalchemy import make_url
from sqlalchemy.exc import DisconnectionError, OperationalError

from xwheel.errors import ConfigError, DatabaseReadOnlyError, DatabaseRefusedError, DatabaseUnreachableError
from xwheel.storage.database import address
from xwheel.storage.database.errors import explain
from xwheel.storage.database.servers import FRESH_S, Identity, Place, Servers, choose

psycopg = pytest.importorskip("psycopg")

PLACES = [("one", 1), ("two", 2), ("three", 3)]
URL = address.parse("postgresql+psycopg://ada:opensesame@one:1,two:2,three:3/x")


@pytest.mark.parametrize(
    ("text", "servers"),
    [
        ("postgresql+psycopg://ada:x@h1:5433,h2/db", [("h1", 5433), ("h2", 5432)]),
        ("postgresql://ada:a,b@h1,h2/db?connect_timeout=3", [("h1", 5432), ("h2", 5432)]),
        ("postgresql://ada@/db?host=h1&host=h2:9", [("h1", 5432), ("h2", 9)]),
        ("postgresql://ada@/db?host=h1:7,h2", [("h1", 7), ("h2", 5432)]),
        ("postgresql://ada:a,b%2Fc@h1:1,h2:2/db?application_name=a@b", [("h1", 1), ("h2", 2)]),
        ("mysql+pymysql://ada:x@h1:1,10.0.0.2/db", [("h1", 1), ("10.0.0.2", 3306)]),
        ("mariadb://h1,h2/db", [("h1", 3306), ("h2", 3306)]),
    ],
)
def test_several_servers_are_read_in_each_form(text: str, servers: list[tuple[str, int]]) -> None:
    url = address.parse(text)
    assert address.servers_of(url) == servers
    assert address.place_of(url) == ", ".join(f"{name}:{port}" for name, port in servers)
    assert url.database == "db"
    assert address.parse(url.render_as_string(hide_password=False)) == url


@pytest.mark.parametrize(
    "text",
    [
        "postgresql+psycopg://ada:pa,ss@localhost/db",
        "postgresql+psycopg://a,da@localhost/db",
        "postgresql+psycopg://ada:a,b?c@h1/db",
        "mysql+pymysql://ada:p,q?r@h1/db",
        "mysql+pymysql://ada:p,q/r@h1:7/db",
        "postgresql+psycopg://ada@/db?host=h1&port=5433",
        "postgresql+psycopg://ada@/db?host=h1:7",
        "postgresql+psycopg://ada@/db?host=::1",
        "postgresql+psycopg://ada@/db?host=h1,h2&port=1,2",
        "postgresql+psycopg://ada@/db?host=/run/a&host=/run/b",
        "postgresql+psycopg://ada@/db?host=@abstract",
        "postgresql+psycopg://ada@h1/db?host=h2",
    ],
)
def test_one_server_and_the_drivers_own_forms_are_as_they_were(text: str) -> None:
    url = address.parse(text)
    assert url == make_url(text)
    assert address.servers_of(url) == []
    assert url.password is None or url.password not in address.place_of(url)


def test_a_place_that_is_not_in_front_of_the_database_is_named() -> None:
    places = {"/run/pg": "the local server", "h1:7": "h1:7", "h1,h2&port=1,2": "h1,h2"}
    for given, place in places.items():
        assert address.place_of(address.parse(f"postgresql://ada@/db?host={given}")) == place


@pytest.mark.parametrize(
    "text",
    [
        "postgresql://ada:opensesame@h1:x,h2/db",
        "postgresql://ada:opensesame@h1,,h2/db",
        "postgresql://ada:opensesame@h1,[::1]:5/db",
        "postgresql://ada:open@sesame@h1,h2/db",
        "mysql://ada:opensesame@h1:0,h2/db",
        "mysql://ada:opensesame@h1:65536,h2/db",
        "mysql://ada:opensesame@db1..example,h2/db",
        f"mysql://ada:opensesame@{'h' * 70},h2/db",
    ],
)
def test_what_is_no_list_is_refused_without_the_password(text: str) -> None:
    words = r"HOST:PORT,HOST:PORT|number from 1 to 65535|%2F for /|can be no name"
    with pytest.raises(ConfigError, match=words) as refused:
        address.parse(text)
    assert "sesame" not in str(refused.value)
    assert "open" not in str(refused.value)


def test_only_of_several_servers_must_one_be_writable() -> None:
    assert address.driver_options(URL)["target_session_attrs"] == "read-write"
    given = address.parse("postgresql://ada@one,two/x?target_session_attrs=any")
    assert "target_session_attrs" not in address.driver_options(given)
    assert "target_session_attrs" not in address.driver_options(address.parse("postgresql://ada@one/x"))
    assert address.driver_options(address.parse("mysql://ada@one,two/x"))[address.MUST_WRITE] is True
    assert address.MUST_WRITE not in address.driver_options(address.parse("mysql://ada@one/x"))


class Site:
    """Three servers, some of which refuse."""

    def __init__(self) -> None:
        self.refusing: dict[str, Exception] = {}
        self.tried: list[tuple[str, float]] = []
        self.moves = 0
        self.ended: list[set[Place]] = []
        self.identities = {name: Identity(name) for name, _ in PLACES}
        self.servers = Servers(
            PLACES,
            self._connect,
            self._moved,
            lambda places: self.ended.append(set(places)),
            psycopg.errors.ReadOnlySqlTransaction,
            lambda made: self.identities[made.name],
        )

    def _moved(self) -> None:
        self.moves += 1

    def _connect(self, _: Any, options: Mapping[str, Any], left_s: float) -> Any:
        self.tried.append((options["host"], left_s))
        assert options["more"] == "kept"
        assert dict(PLACES)[options["host"]] == options["port"]
        if options["host"] in self.refusing:
            raise self.refusing[options["host"]]
        return SimpleNamespace(name=options["host"], close=lambda: None)

    def survey(self, *taking: str) -> bool:
        """Survey servers, of which these take writes; return what that does."""
        self.refusing = {name: _refused("session is read-only") for name, _ in PLACES if name not in taking}
        self.tried.clear()
        return self.servers.survey()

    def connect(self) -> Any:
        self.tried.clear()
        return self.servers.connect((), {"more": "kept", "host": "one,two,three", "port": "1,2,3"}, 9.0)

    def refused(self) -> dict[str, str]:
        """Be refused by all servers; return what each says."""
        with pytest.raises(psycopg.Error) as found:
            self.connect()
        return {name: str(error) for name, error in found.value.tried.items()}  # type: ignore[attr-defined]

    @property
    def order(self) -> list[str]:
        return [name for name, _ in self.tried]


def _refused(words: str) -> Exception:
    error: Exception = psycopg.OperationalError(f'connection to server at "h", port 5 failed: {words}')
    return error


def test_the_server_that_took_us_is_first_from_then_on() -> None:
    site = Site()
    assert site.connect().server == ("one", 1)
    site.refusing["one"] = _refused("Connection refused")
    assert site.connect().server == ("two", 2)
    assert site.order == ["one", "two"]
    assert site.moves == 1
    site.connect()
    assert site.order == ["two"]
    assert site.moves == 1
    site.refusing["two"] = _refused("session is read-only")
    assert site.connect().server == ("three", 3)
    site.refusing = {"three": _refused("timeout expired"), "one": _refused("Connection refused")}
    site.connect()
    assert site.order == ["three", "one", "two"]


def test_each_server_has_an_equal_share_of_what_is_left() -> None:
    site = Site()
    site.refusing = {name: _refused("timeout expired") for name in ("one", "two")}
    site.connect()
    # no server used any of that time here
    assert [round(share) for _, share in site.tried] == [3, 4, 9]


def test_a_server_that_ends_connections_is_tried_last() -> None:
    site = Site()
    first = site.connect()
    ended = SimpleNamespace(is_disconnect=True, connection=_of(first))
    site.servers.leave(SimpleNamespace(is_disconnect=False, connection=_of(first)))
    site.servers.leave(SimpleNamespace(is_disconnect=True, connection=None))
    assert site.connect().server == ("one", 1)
    site.servers.leave(ended)
    site.servers.leave(ended)  # as do the other connections to it, one by one
    assert site.connect().server == ("two", 2)
    assert site.order == ["two"]


def test_connections_to_a_server_that_others_left_are_not_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    site, now = Site(), [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    first = site.connect()
    site.refusing["one"] = _refused("session is read-only")
    second = site.connect()
    for now[0] in (FRESH_S, 10.0):
        site.servers.check(second, None, None)
    with pytest.raises(DisconnectionError):
        site.servers.check(first, None, None)
    now[0] = FRESH_S
    site.servers.check(first, None, None)


def test_who_had_no_time_for_some_begins_with_them(monkeypatch: pytest.MonkeyPatch) -> None:
    site, now = Site(), [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    hung = _refused("timeout expired")

    def hang(_: Any, options: Mapping[str, Any], left_s: float) -> Any:
        site.tried.append((options["host"], left_s))
        now[0] += 9
        raise hung

    monkeypatch.setattr(site.servers, "_connect", hang)
    for name in ("one", "two", "three", "one"):
        with pytest.raises(psycopg.OperationalError):
            site.connect()
        assert site.order == [name]


def _of(driver: Any) -> Any:
    return SimpleNamespace(connection=SimpleNamespace(dbapi_connection=driver))


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        (("Connection refused", "session is read-only", "timeout expired"), DatabaseUnreachableError),
        (("session is read-only", "Connection refused", "password authentication failed"), DatabaseUnreachableError),
        (("password authentication failed", "session is read-only", "no pg_hba.conf entry"), DatabaseReadOnlyError),
        (("password authentication failed", "no pg_hba.conf entry", "no pg_hba.conf entry"), DatabaseRefusedError),
    ],
)
def test_if_none_takes_us_it_is_said_of_each_and_what_may_pass_is_waited_for(
    words: tuple[str, str, str], kind: type[Exception]
) -> None:
    site = Site()
    site.refusing = dict(zip(("one", "two", "three"), map(_refused, words), strict=True))
    with pytest.raises(psycopg.OperationalError) as refused:
        site.connect()
    told = explain(OperationalError(None, None, refused.value), URL, connecting=True)
    assert type(told) is kind
    first, second, third = words
    assert str(told) == f"none of the database's servers takes us: one:1: {first}; two:2: {second}; three:3: {third}"


@pytest.mark.parametrize(
    ("taking", "newest", "found"),
    [
        ({}, 0, ""),
        ({"a": Identity("1")}, 0, "a"),
        ({"a": Identity("1"), "b": Identity("1")}, 0, "ab"),  # two names of one server, two members of a cluster
        ({"a": Identity("1"), "b": Identity("2")}, 0, ""),
        ({"a": Identity("1", 3), "b": Identity("2", 4)}, 4, "b"),
        ({"a": Identity("1", 4), "b": Identity("2", 4)}, 4, ""),
        ({"a": Identity("1", 3)}, 4, ""),
        ({"a": Identity("1", 4), "b": Identity("2")}, 4, ""),  # one that does not tell its timeline
        ({"a": Identity("1", 4), "b": Identity("1", 4), "c": Identity("2", 3)}, 4, "ab"),
    ],
)
def test_of_servers_that_take_writes_the_one_that_was_promoted_last_is_right(
    taking: dict[str, Identity], newest: int, found: str
) -> None:
    assert set(choose({(name, 1): identity for name, identity in taking.items()}, newest)) == {(n, 1) for n in found}


def test_a_promoted_standby_is_used_instead_of_the_primary(caplog: pytest.LogCaptureFixture) -> None:
    site = Site()
    site.identities |= {"one": Identity("one", 1), "two": Identity("two", 2)}
    first = site.connect()
    assert not site.survey("one")
    assert site.order == ["two", "three"]  # ours is asked only if another one takes writes
    assert (site.moves, caplog.text) == (0, "")
    assert site.ended == []
    assert site.survey("one", "two")
    assert (site.moves, site.ended) == (1, [{("one", 1)}])
    assert (
        "split brain: servers of the database that take writes: two:2, one:1; in use from now on: two:2" in caplog.text
    )
    with pytest.raises(DisconnectionError):
        site.servers.check(first, None, None)
    assert site.connect().server == ("two", 2)
    assert not site.survey("one", "two")  # it is known
    assert (len(site.ended), len(caplog.records)) == (1, 1)


def test_an_old_primary_is_never_used_again_though_the_new_one_is_away() -> None:
    site = Site()
    site.identities |= {"one": Identity("one", 1), "two": Identity("two", 2)}
    site.refusing = {name: _refused("Connection refused") for name in ("one", "three")}
    assert site.connect().server == ("two", 2)
    site.refusing = {name: _refused("Connection refused") for name in ("two", "three")}
    said = site.refused()
    assert "a standby was promoted in its place" in said["one:1"]
    site.survey("one")
    assert "it is none to use" in site.refused()["one:1"]
    site.identities["one"] = Identity("one", 2)  # it follows the new one, and is promoted in its turn
    site.survey("one")
    site.survey("one")
    assert site.connect().server == ("one", 1)


def test_where_none_is_known_to_be_right_none_is_used_until_one_is_left(caplog: pytest.LogCaptureFixture) -> None:
    site = Site()
    assert site.connect().server == ("one", 1)
    assert site.survey("one", "three")
    with pytest.raises(psycopg.Error) as refused:
        site.connect()
    told = explain(OperationalError(None, None, refused.value), URL, connecting=True)
    assert type(told) is DatabaseReadOnlyError
    assert "one:1: of those that take writes (three:3, one:1) it is none to use" in str(told)
    assert not site.survey("three")  # the other one may just have been slow
    with pytest.raises(psycopg.Error):
        site.connect()
    assert not site.survey("three")
    assert site.connect().server == ("three", 3)
    assert "no wrong server of the database takes writes any more" in caplog.text


def test_what_is_no_servers_fault_is_raised_at_once() -> None:
    site = Site()
    site.refusing["one"] = TypeError("no such option")
    with pytest.raises(TypeError, match="no such option"):
        site.connect()
    assert site.order == ["one"]
