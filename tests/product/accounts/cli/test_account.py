"""``xwheel account``: on the configured database, whether a node runs or not."""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path

import pytest
from sqlalchemy import select
from xwheel_accounts.passwords import verify_password
from xwheel_accounts.storage import accounts
from xwheel_accounts.storage.accounts import Account
from xwheel_accounts.tables import audit, sign_in_link

from tests.support.databases import upgrade
from xwheel.cli import main
from xwheel.errors import StorageError
from xwheel.model.access import Grant, Grants, Role
from xwheel.storage import executors
from xwheel.storage.access import tokens
from xwheel.storage.database.engine import Database


class Shell:
    """Runs the command in this process, on a database of its own."""

    def __init__(self, url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self.url = url
        self._monkeypatch = monkeypatch
        self._capsys = capsys

    def __call__(self, *words: str, group: str = "account") -> tuple[int, str, str]:
        """Return exit status, standard output and standard error."""
        self._monkeypatch.setattr(sys, "argv", ["xwheel", group, *words, "--database", self.url])
        with pytest.raises(SystemExit) as caught:
            main.main()
        out, err = self._capsys.readouterr()
        return int(caught.value.code or 0), out, err

    def account(self, name: str) -> Account:
        db = Database(self.url)
        with db.read() as conn:
            found = accounts.get_by_name(conn, name)
        db.close()
        return found

    def actions(self) -> list[tuple[str, str]]:
        db = Database(self.url)
        with db.read() as conn:
            rows = conn.execute(audit.select().order_by(audit.c.id)).all()
        db.close()
        return [(row.actor_kind, row.action) for row in rows]


@pytest.fixture
def xwheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    url = f"sqlite:///{tmp_path / 'x.db'}"
    db = Database(url)
    upgrade(db)
    for name in ("orders", "billing"):
        db.transaction(lambda conn, name=name: executors.insert_group(conn, app_name=name, title="", now_ms=1))
    db.close()
    return Shell(url, monkeypatch, capsys)


def test_an_account_is_made_with_roles_and_a_password_that_is_shown_once(xwheel: Shell) -> None:
    words = ("--role", "viewer", "--in", "orders=editor+script", "--in", "billing=operator")
    status, out, err = xwheel("create", "ann", *words, "--display-name", "Ann Lee")
    assert (status, err) == (0, "")
    made = xwheel.account("ANN")
    groups = {1: Grant(Role.EDITOR, script=True), 2: Grant(Role.OPERATOR)}
    assert (made.name, made.display_name, made.must_change) == ("ann", "Ann Lee", True)
    assert made.grants == Grants(Grant(Role.VIEWER), groups)
    password = out.split()[-1]
    assert verify_password(made.password, password)
    assert "viewer everywhere, editor and scripts in orders, operator in billing" in out
    assert password not in xwheel("show", "ann", "--json")[1]
    assert xwheel.actions() == [("command", "account.create")]


def test_u19_what_an_account_may_is_told_with_names_of_groups_that_are_there(xwheel: Shell) -> None:
    xwheel("create", "ann", "--in", "orders=editor", "--in", "billing=viewer")
    db = Database(xwheel.url)
    with db.write() as conn:
        executors.delete_group(conn, 2)
    db.close()
    assert "editor in orders, viewer in group 2" in xwheel("list", "--wide")[1]
    assert "editor in orders" in xwheel("enable", "ann")[1]
    xwheel("create", "deploys", "--in", "orders=editor", group="token")
    assert "editor in orders" in xwheel("list", "--wide", group="token")[1]


def test_u19_a_password_is_shown_though_names_of_groups_cannot_be_read(
    xwheel: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert xwheel("create", "ann", "--in", "orders=editor")[0] == 0

    def fail(conn: object, ids: object) -> None:
        raise StorageError("the database went away")

    monkeypatch.setattr(executors, "get_groups", fail)
    status, out, err = xwheel("reset", "ann")
    assert (status, err) == (0, "")
    assert "editor in group 1" in out
    assert verify_password(xwheel.account("ann").password, out.split()[-1])


def test_a_password_can_go_to_a_file(xwheel: Shell, tmp_path: Path) -> None:
    file = tmp_path / "password"
    status, out, _ = xwheel("create", "ann", "--to-file", str(file))
    assert status == 0
    password = file.read_text().strip()
    assert verify_password(xwheel.account("ann").password, password)
    assert password not in out
    assert file.stat().st_mode & 0o777 == 0o600


def test_roles_are_replaced_and_accounts_disabled_reset_and_deleted(xwheel: Shell) -> None:
    assert xwheel("create", "boss", "--role", "admin")[0] == 0
    assert xwheel("create", "ann", "--role", "viewer", "--in", "orders=editor")[0] == 0
    assert xwheel("role", "Ann", "--in", "billing=viewer")[0] == 0
    assert xwheel.account("ann").grants == Grants(groups={2: Grant(Role.VIEWER)})
    assert xwheel("disable", "ann")[0] == 0
    assert xwheel.account("ann").disabled
    assert [line.split()[:2] for line in xwheel("list")[1].splitlines()[1:]] == [["ann", "disabled"], ["boss", "new"]]
    assert xwheel("enable", "ann")[0] == 0
    before = xwheel.account("ann").password
    out = xwheel("reset", "ann")[1]
    assert xwheel.account("ann").password != before
    assert verify_password(xwheel.account("ann").password, out.split()[-1])
    for words in (("unlock", "ann"), ("signout", "ann"), ("delete", "ann")):
        assert xwheel(*words)[0] == 0
    assert [item["name"] for item in json.loads(xwheel("list", "--json")[1])] == ["boss"]


@pytest.mark.parametrize("command", ["disable", "reset", "signout"])
@pytest.mark.parametrize("keeps", [False, True])
def test_s16_tokens_of_a_person_end_with_their_sessions_and_are_counted(
    xwheel: Shell, command: str, keeps: bool
) -> None:
    assert xwheel("create", "boss", "--role", "admin")[0] == 0
    assert xwheel("create", "ann", "--role", "viewer")[0] == 0
    db = Database(xwheel.url)
    number = xwheel.account("ann").id
    for name, owner in (("of-ann", number), ("of-a-service", None)):
        db.transaction(
            lambda conn, name=name, owner=owner: tokens.insert_token(
                conn, name, name, 1, grants=Grants(), account_id=owner
            )
        )
    status, out, _ = xwheel(command, "ann", *(["--keep-tokens"] if keeps else []))
    assert (status, f"0 sessions and {0 if keeps else 1} token" in out) == (0, True), out
    with db.read() as conn:
        left = {token.name for token in tokens.list_tokens(conn)}
    db.close()
    assert left == {"of-a-service", *(["of-ann"] if keeps else [])}
    shown = json.loads(xwheel(command, "ann", "--json")[1])
    assert (shown["sessions_ended"], shown["tokens_ended"]) == (0, 1 if keeps else 0)


def links_of(xwheel: Shell) -> list[str]:
    """Return the digests of all links."""
    db = Database(xwheel.url)
    with db.read() as conn:
        found = [digest.hex() for digest in conn.execute(select(sign_in_link.c.digest)).scalars()]
    db.close()
    return found


def test_a_link_is_printed_once_and_its_digest_is_kept(xwheel: Shell, tmp_path: Path) -> None:
    assert xwheel("create", "boss", "--role", "admin")[0] == 0
    status, out, err = xwheel("link", "Boss")
    assert (status, err) == (0, "")
    secret = out.strip().removeprefix("http://127.0.0.1:8080/#/login?link=")
    assert links_of(xwheel) == [hashlib.sha256(secret.encode()).hexdigest()]
    made = json.loads(xwheel("link", "boss", "--json")[1])
    assert sorted(made) == ["expires_ms", "link", "name"]
    assert made["link"].startswith("http://127.0.0.1:8080/#/login?link=")
    file = tmp_path / "link"
    assert "#" not in xwheel("link", "boss", "--to-file", str(file))[1]
    kept = file.read_text().strip().rpartition("=")[2]
    assert hashlib.sha256(kept.encode()).hexdigest() in links_of(xwheel)
    assert file.stat().st_mode & 0o777 == 0o600
    assert xwheel.actions()[1:] == [("command", "account.link")] * 3
    assert len(links_of(xwheel)) == 3


@pytest.mark.parametrize(
    ("variables", "start"),
    [
        ({"XWHEEL_API__HOST": "0.0.0.0", "XWHEEL_API__PORT": "9001"}, "http://127.0.0.1:9001/#/"),
        ({"XWHEEL_API__HOST": "::1"}, "http://[::1]:8080/#/"),
        ({"XWHEEL_API__PORT": "0"}, "api.port is 0"),
    ],
)
def test_a_link_leads_to_where_the_settings_say(
    xwheel: Shell, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], start: str
) -> None:
    assert xwheel("create", "boss", "--role", "admin")[0] == 0
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    _, out, err = xwheel("link", "boss")
    assert start in out + err
    assert bool(out) == bool(links_of(xwheel))  # what cannot be told is not made


@pytest.mark.parametrize(
    ("words", "status", "part"),
    [
        (("create", "two words"), 2, "name: must have 1 to 64 characters"),
        (("create", "boss"), 1, "an account with the name boss"),
        (("create", "ann", "--in", "orders"), 2, "--in: 'orders' is not APP=ROLE"),
        (("create", "ann", "--in", "orders=owner"), 2, "--in: 'orders=owner' is not APP=ROLE"),
        (("create", "ann", "--in", "nothing=viewer"), 2, "there is no executor group 'nothing'"),
        (("create", "ann", "--in", "orders=viewer", "--in", "orders=editor"), 2, "name group 1 twice"),
        (("show", "ann"), 1, "account ann does not exist"),
        (("link", "ann"), 1, "account ann does not exist"),
        (("role", "boss", "--role", "viewer"), 1, "make another admin first"),
        (("disable", "boss"), 1, "make another admin first"),
        (("delete", "boss"), 1, "make another admin first"),
    ],
)
def test_what_is_refused_is_one_line(xwheel: Shell, words: tuple[str, ...], status: int, part: str) -> None:
    assert xwheel("create", "boss", "--role", "admin")[0] == 0
    found, out, err = xwheel(*words)
    assert (found, out) == (status, "")
    assert part in err
    assert err.count("\n") == 1
    assert len(json.loads(xwheel("list", "--json")[1])) == 1


def test_a_token_has_a_role_an_end_and_networks(xwheel: Shell) -> None:
    words = ("--role", "viewer", "--in", "orders=editor", "--expires", "90d", "--network", "10.1.0.0/16")
    status, out, _ = xwheel("create", "boards", *words, "--json", group="token")
    made = json.loads(out)
    assert status == 0
    assert (made["role"], made["groups"][0]["role"], made["networks"]) == ("viewer", "editor", ["10.1.0.0/16"])
    assert made["expires_ms"] - made["created_ms"] == pytest.approx(90 * 86_400_000, abs=60_000)
    for wrong, part in (
        (("--group", "orders", "--role", "viewer"), "--group"),
        (("--network", "everywhere"), "networks"),
        (("--expires", "soon"), "--expires"),
    ):
        found, _, err = xwheel("create", "x", *wrong, group="token")
        assert found == 2
        assert part in err
    assert xwheel.actions() == [("command", "token.create")]
