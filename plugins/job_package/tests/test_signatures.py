"""Signatures: who is trusted, at the store and again on the node, before anything of a package is built."""

from __future__ import annotations

import stat
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
import requests
from conftest import Place
from sqlalchemy import create_engine, inspect, text
from typer.testing import CliRunner
from wheels import make_wheel, sha256_of
from xwheel.plugin import ConfigError
from xwheel_devtools.testing import NodeSite

from xwheel_job_package.command import app
from xwheel_job_package.reference import PackageReference
from xwheel_job_package.signatures import SignatureError, TrustedKeys, new_key, sign
from xwheel_job_package.tables import PackageTables

SHA256 = "a" * 64
CODE = "from xwheel_package import schedule\n@schedule()\ndef hello(): ...\n"


def test_a_signature_of_a_trusted_key_is_taken_for_what_it_is_of_only() -> None:
    private, public = new_key()
    signature = sign(private, "acme", "1.0", SHA256)
    keys = TrustedKeys([new_key()[1], public])
    keys.check(signature, "acme", "1.0", SHA256)
    for other in (("acme", "1.1", SHA256), ("acm", "e1.0", SHA256), ("acme", "1.0", "b" * 64)):
        with pytest.raises(SignatureError, match="bad_signature: .*not this file under this name"):
            keys.check(signature, *other)


@pytest.mark.parametrize(
    ("signature", "words"),
    [
        ("", "unsigned_package: acme 1.0 has no signature, and only signed packages are taken"),
        ("no", "bad_signature: the signature of acme 1.0 is none"),
        ("a" * 32 + ":" + "A" * 86 + "==", "is not trusted here"),
        ("x" * 5000, "bad_signature: the signature of acme 1.0 is none"),
    ],
)
def test_what_is_no_signature_of_a_trusted_key_is_refused(signature: str, words: str) -> None:
    keys = TrustedKeys([new_key()[1]])
    with pytest.raises(SignatureError, match=words):
        keys.check(signature, "acme", "1.0", SHA256)


def test_a_damaged_signature_is_refused() -> None:
    private, public = new_key()
    signature = sign(private, "acme", "1.0", SHA256)
    name, _, value = signature.partition(":")
    changed = f"{name}:{'B' if value[0] == 'A' else 'A'}{value[1:]}"
    with pytest.raises(SignatureError, match="bad_signature"):
        TrustedKeys([public]).check(changed, "acme", "1.0", SHA256)


def test_without_trusted_keys_nothing_is_asked_for() -> None:
    TrustedKeys([]).check("", "acme", "1.0", SHA256)


@pytest.mark.parametrize("line", ["", "ed25519:", "ed25519:AAAA", "rsa:" + "A" * 43 + "=", "ed25519:!!!"])
def test_what_is_no_key_is_refused(line: str) -> None:
    with pytest.raises(ConfigError, match="xwheel package key"):
        TrustedKeys([line])


def test_a_node_fetches_and_runs_only_what_is_signed(make_place: Callable[..., Place], acme: Path) -> None:
    private, public = new_key()
    place = make_place({"trusted_keys": [public]}, shares=False)
    reference = place.store.add(acme)
    for signature, reason in (
        ("", "unsigned_package"),
        (sign(new_key()[0], "acme", "1.0", reference.sha256), "bad_signature"),
        (sign(private, "acme", "2.0", reference.sha256), "bad_signature"),
    ):
        code, text = place.run(msgspec.structs.replace(reference, signature=signature))
        assert code == 500
        assert text.startswith(f"{reason}: "), text
    assert place.store.asked == []
    signed = msgspec.structs.replace(reference, signature=sign(private, "acme", "1.0", reference.sha256))
    assert place.run(signed)[0] == 200
    # what a waiting process has of the package is no way around it
    assert place.run(reference)[1].startswith("unsigned_package: ")


def test_a_store_takes_only_what_is_signed_and_hands_the_signature_to_nodes(tmp_path: Path) -> None:
    private, public = new_key()
    options = {"job_package": {"store": {"directory": str(tmp_path / "store"), "trusted_keys": [public]}}}
    path = make_wheel(tmp_path, "acme", "1.0", {"acme.py": CODE})
    with NodeSite(tmp_path / "node", "job_package", options=options, executors=0) as node:
        node.call("POST", "groups", {"app_name": "package-nodes", "title": "Packages"})

        def upload(signature: str) -> requests.Response:
            return requests.post(
                f"{node.url}/api/v1/packages",
                params={"file": path.name, "signature": signature},
                data=path.read_bytes(),
                headers={"Authorization": f"Bearer {node.token}"},
                timeout=60,
            )

        for signature, reason in (("", "unsigned_package"), ("x", "bad_signature")):
            refused = upload(signature)
            assert (refused.status_code, refused.json()["reason"]) == (422, reason)
        assert upload("\n").status_code == 422
        assert [item for item in (tmp_path / "store").rglob("*") if item.is_file()] == []
        signature = sign(private, "acme", "1.0", sha256_of(path))
        done = upload(signature)
        assert done.status_code == 201, done.text
        version = node.call("GET", f"jobs/{done.json()['jobs'][0]['job_id']}/glue/1")
        assert PackageReference.parse(version["source"]).signature == signature


def test_a_store_of_before_gets_the_column(tmp_path: Path) -> None:
    engine = create_engine(f"sqlite:///{tmp_path / 'old.db'}")
    first, second, *_ = PackageTables().migrations()
    with engine.begin() as conn:
        first.apply(conn)
        conn.execute(text("ALTER TABLE job_package_file DROP COLUMN signature"))
        for _ in range(2):
            second.apply(conn)
        names = {column["name"] for column in inspect(conn).get_columns("job_package_file")}
    engine.dispose()
    assert "signature" in names


def test_the_commands_make_a_key_and_sign(tmp_path: Path) -> None:
    run = CliRunner()
    made = run.invoke(app, ["key", str(tmp_path / "mine.key")])
    assert made.exit_code == 0
    public = made.stdout.strip()
    assert stat.S_IMODE((tmp_path / "mine.key").stat().st_mode) == 0o600
    assert public not in (tmp_path / "mine.key").read_text()
    again = run.invoke(app, ["key", str(tmp_path / "mine.key")])
    assert again.exit_code != 0
    wheel = make_wheel(tmp_path, "acme", "1.0", {"acme.py": CODE})
    signed = run.invoke(app, ["sign", str(wheel), "--key", str(tmp_path / "mine.key")])
    assert signed.exit_code == 0, signed.output
    signature = (tmp_path / f"{wheel.name}.sig").read_text().strip()
    TrustedKeys([public]).check(signature, "acme", "1.0", sha256_of(wheel))
