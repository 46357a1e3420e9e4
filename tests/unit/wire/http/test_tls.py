"""Finding S9: calls to private authorities, with client certificates, and what is said of files that do not do."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from tests.support.executors import wait_until
from tests.support.peers import OK_ANSWER, Peer
from tests.support.tls import Authority, TlsFront, tls_front
from tests.unit.wire.http.test_calls import TOKEN, call, collect
from xwheel.config.sections import TlsSection
from xwheel.errors import ConfigError, ExecutorUnreachableError
from xwheel.wire.http import MultiClient, post
from xwheel.wire.http.tls import NO_FILES, TlsFiles, check_tls


@pytest.fixture
def ours(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def front(ours: Authority) -> Iterator[TlsFront]:
    with Peer(lambda *_: OK_ANSWER) as peer:
        port = int(peer.url.rpartition(":")[2])
        with tls_front(port, ours, *ours.issue("server")) as made:
            yield made


def files(ca: Path | None, pair: tuple[Path, Path] | None = None) -> TlsFiles:
    cert, key = pair or (None, None)
    return check_tls(TlsSection(ca_file=ca, cert_file=cert, key_file=key))


def answers(url: str, tls: TlsFiles) -> tuple[bool, str]:
    """Return whether both clients get an answer, and the error of the second."""
    client = MultiClient(tls=tls)
    try:
        client.submit(call(url))
        (result,) = collect(client, 1)
    finally:
        client.close()
    try:
        one = post(url, b"{}", token=TOKEN, tls=tls).ok
    except ExecutorUnreachableError as error:
        assert result.status == 0
        return False, f"{error} / {result.error}"
    assert (result.status, one) == (200, True)
    return True, ""


def test_s9_a_private_authority_and_a_client_certificate(ours: Authority, front: TlsFront) -> None:
    tls = files(ours.file, ours.issue("client"))
    assert answers(front.url, tls) == (True, "")
    assert answers(front.url.replace("127.0.0.1", "localhost"), tls) == (True, "")
    assert front.served == 4


def test_s9_who_shows_no_certificate_or_one_of_strangers_is_refused(
    ours: Authority, front: TlsFront, tmp_path: Path
) -> None:
    stranger = Authority(tmp_path, "theirs").issue("client")
    for pair in (None, stranger):
        assert not answers(front.url, files(ours.file, pair))[0]
    wait_until(lambda: len(front.refused) == 4)
    assert front.served == 0


def test_s9_a_server_of_another_authority_or_host_is_not_told_the_token(
    ours: Authority, front: TlsFront, tmp_path: Path
) -> None:
    mine = ours.issue("client")
    theirs = Authority(tmp_path, "theirs")
    for tls in (files(theirs.file, mine), files(None, mine), NO_FILES):
        found, error = answers(front.url, tls)
        assert not found
        assert "certificate" in error
    with Peer(lambda *_: OK_ANSWER) as peer:
        port = int(peer.url.rpartition(":")[2])
        with tls_front(port, ours, *ours.issue("other", "elsewhere.example")) as other:
            assert not answers(other.url, files(ours.file, mine))[0]
        assert peer.requests == []


def test_s9_a_renewed_certificate_needs_no_restart(ours: Authority, front: TlsFront, tmp_path: Path) -> None:
    cert, key = Authority(tmp_path, "theirs").issue("client")
    tls = files(ours.file, (cert, key))
    assert not answers(front.url, tls)[0]
    for old, new in zip((cert, key), ours.issue("renewed"), strict=True):
        new.replace(old)
    assert answers(front.url, tls)[0]


def bad_files(ours: Authority, tmp_path: Path) -> dict[str, tuple[dict[str, Any], str]]:
    cert, key = ours.issue("client")
    _, other_key = ours.issue("other")
    text = tmp_path / "text"
    text.write_text("no PEM at all")
    locked = tmp_path / "locked"
    locked.write_bytes(
        load_pem_private_key(key.read_bytes(), None).private_bytes(
            Encoding.PEM, PrivateFormat.TraditionalOpenSSL, BestAvailableEncryption(b"secret")
        )
    )
    missing = tmp_path / "missing"
    return {
        "missing ca": ({"ca_file": missing}, f"tls.ca_file: cannot read {missing}: No such file"),
        "folder": ({"ca_file": tmp_path}, f"tls.ca_file: cannot read {tmp_path}: Is a directory"),
        "text": ({"ca_file": text}, f"tls.ca_file: {text} holds no certificate"),
        "key as ca": ({"ca_file": key}, f"tls.ca_file: {key} holds no certificate"),
        "no key": ({"cert_file": cert}, "tls.key_file: is missing"),
        "no certificate": ({"key_file": key}, "tls.cert_file: is missing"),
        "missing certificate": ({"cert_file": missing, "key_file": key}, "tls.cert_file: cannot read"),
        "missing key": ({"cert_file": cert, "key_file": missing}, "tls.key_file: cannot read"),
        "mismatch": ({"cert_file": cert, "key_file": other_key}, f"{other_key} is not the key of"),
        "swapped": ({"cert_file": key, "key_file": cert}, f"tls.cert_file: {key} holds no certificate"),
        "no key in it": ({"cert_file": cert, "key_file": text}, f"tls.key_file: {text} holds no private key"),
        "encrypted": ({"cert_file": cert, "key_file": locked}, f"tls.key_file: {locked} is encrypted"),
    }


def test_s9_files_that_do_not_do_are_named(ours: Authority, tmp_path: Path) -> None:
    for case, (settings, words) in bad_files(ours, tmp_path).items():
        with pytest.raises(ConfigError) as refused:
            check_tls(TlsSection(**settings))
        assert words in str(refused.value), case


def test_s9_a_key_that_others_can_read_is_warned_of(
    ours: Authority, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    cert, key = ours.issue("client")
    with caplog.at_level(logging.WARNING):
        files(None, (cert, key))
    assert not caplog.records
    key.chmod(0o644)
    monkeypatch.setattr("xwheel.private_files._is_reachable", lambda _: True)
    with caplog.at_level(logging.WARNING):
        files(None, (cert, key))
    assert f"chmod 600 {key}" in caplog.text
