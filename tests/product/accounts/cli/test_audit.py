"""``xwheel audit verify`` and ``export``, and who the audit names for commands on the database itself."""

from __future__ import annotations

import json
import os
import pwd
import sys
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select, text
from xwheel_accounts.audit.anchors import Anchors
from xwheel_accounts.audit.records import AuditRow
from xwheel_accounts.audit.sealing import SealLoop
from xwheel_accounts.audit.trail import signing_keys
from xwheel_accounts.settings import AuditSection
from xwheel_accounts.tables import audit

from tests.product.accounts.audit.conftest import NOW, HeldPartitions
from tests.support.databases import upgrade
from xwheel.cli import main
from xwheel.runtime.sealing import make_key, read_keys
from xwheel.storage import executors
from xwheel.storage.database.engine import Database


class Site:
    """A database with a key file, and the command on it."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._patch, self._capsys = patch, capsys
        self.url = f"sqlite:///{folder / 'x.db'}"
        self.key_file, self.anchors = folder / "keys", folder / "anchors.jsonl"
        self.key_file.write_text(f"{make_key()}\n")
        self.key_file.chmod(0o600)
        patch.setenv("XWHEEL_SECURITY__KEY_FILE", str(self.key_file))
        self.db = Database(self.url)
        upgrade(self.db)
        self.db.transaction(lambda conn: executors.insert_group(conn, app_name="orders", title="", now_ms=1))

    def __call__(self, *words: str) -> tuple[int, str, str]:
        self._patch.setattr(sys, "argv", ["xwheel", *words, "--database", self.url])
        with pytest.raises(SystemExit) as caught:
            main.main()
        out, err = self._capsys.readouterr()
        return int(caught.value.code or 0), out, err

    def seal(self) -> None:
        settings = AuditSection(anchor_file=self.anchors)
        keys = signing_keys(self.db, read_keys(self.key_file))
        SealLoop(self.db, HeldPartitions(0), keys, Anchors(settings)).step(NOW)

    def rows(self) -> list[AuditRow]:
        with self.db.read() as conn:
            return [AuditRow(**row._mapping) for row in conn.execute(select(audit).order_by(audit.c.id))]

    def run(self, statement: str) -> None:
        with self.db.write() as conn:
            conn.execute(text(statement))


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    made = Site(tmp_path, monkeypatch, capsys)
    yield made
    made.db.close()


def test_commands_on_the_database_name_the_user_and_the_reason(site: Site) -> None:
    assert site("--reason", "für ☂", "token", "create", "ops")[0] == 0
    assert site("secret", "create", "s1", "--group", "orders")[0] == 0
    assert site("secret", "rotate", "s1", "s2")[0] == 0
    assert site("secret", "delete", "s1")[0] == 0
    assert site("token", "create", "other")[0] == 0
    assert site("token", "delete", "ops")[0] == 0
    found = site.rows()
    assert [row.action for row in found] == [
        "token.create", "secret.create", "secret.create", "secret.retire", "secret.delete", "token.create",
        "token.delete",
    ]  # fmt: skip
    assert {row.actor for row in found} == {pwd.getpwuid(os.getuid()).pw_name}
    assert {row.actor_kind for row in found} == {"command"}
    assert [row.reason for row in found] == ["für ☂", *[""] * 6]
    assert {row.group_id for row in found if row.object_kind == "secret"} == {1}
    assert not any("sealed" in row.detail or "digest" in row.detail for row in found)


def test_verify_says_what_is_sound_and_what_is_not(site: Site) -> None:
    for name in ("a", "b", "c"):
        site("token", "create", name)
    site.seal()
    site("token", "create", "d")
    status, out, err = site("audit", "verify")
    assert status == 0
    assert out.startswith("3 sealed rows, up to position 3\n1 rows are not sealed yet")
    assert out.endswith("sound\n")
    assert "no anchor" in err
    status, out, err = site("audit", "verify", "--anchor", str(site.anchors))
    assert (status, err) == (0, "")
    site.run("UPDATE audit SET actor = 'mallory' WHERE position = 2")
    status, out, _ = site("audit", "verify")
    assert status == 1
    assert (
        "changed: row 2 was changed, or inserted without the key: it is not what was signed (row 2, position 2)" in out
    )
    assert out.endswith("NOT SOUND: 1 findings\n")
    status, out, _ = site("audit", "verify", "--json")
    assert status == 1
    told = json.loads(out)
    assert not told["is_sound"]
    assert told["findings"][0]["row_id"] == 2


def test_verify_without_the_key_proves_nothing(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site("token", "create", "a")
    site.seal()
    other = site.key_file.with_name("other")
    other.write_text(f"{make_key()}\n")
    other.chmod(0o600)
    monkeypatch.setenv("XWHEEL_SECURITY__KEY_FILE", str(other))
    status, out, _ = site("audit", "verify")
    assert status == 1
    assert "is not among the keys given" in out


def test_an_anchor_file_that_holds_none_is_said_to(site: Site, tmp_path: Path) -> None:
    path = tmp_path / "bad"
    path.write_text("nothing\n")
    status, _, err = site("audit", "verify", "--anchor", str(path))
    assert status == 2
    assert "line 1 is no head of an audit" in err
    assert site("audit", "verify", "--anchor", str(tmp_path / "gone"))[0] == 2


def test_an_export_is_lines_of_json(site: Site, tmp_path: Path) -> None:
    site("token", "create", "a")
    site.seal()
    target = tmp_path / "audit.jsonl"
    status, out, _ = site("audit", "export", "--file", str(target))
    assert (status, out) == (0, f"{target} has 2 lines\n")
    assert target.stat().st_mode & 0o777 == 0o600
    row, head = [json.loads(line) for line in target.read_text().splitlines()]
    assert (row["action"], row["position"], head["head"]["position"]) == ("token.create", 1, 1)
    assert site("audit", "export", "--file", str(target))[0] == 2
