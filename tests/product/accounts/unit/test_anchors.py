"""Heads that are written out: to a file and to syslog, seldom, and never in the way of sealing."""

from __future__ import annotations

import logging
import os
import socket
import threading
from pathlib import Path

import pytest
from msgspec.structs import replace
from xwheel_accounts.audit.anchors import Anchors, read_anchors
from xwheel_accounts.audit.chain import first_head
from xwheel_accounts.audit.signing import kept_beside
from xwheel_accounts.settings import AuditSection

from tests.support.rows import NOW
from xwheel.config import build_config
from xwheel.errors import ConfigError

HEAD = first_head(kept_beside(b"k" * 32), NOW)


def test_a_head_is_written_when_it_is_another_one_and_not_too_often(tmp_path: Path) -> None:
    path = tmp_path / "new" / "heads.jsonl"
    anchors = Anchors(AuditSection(anchor_file=path, anchor_every_s=60))
    one, two, three = (replace(HEAD, position=number) for number in (1, 2, 3))
    for at_ms, head in ((0, one), (1000, one), (59_000, two), (60_000, two), (400_000, two), (400_001, three)):
        anchors.note(head, NOW + at_ms)
    assert [head.position for head in read_anchors(path)] == [1, 2, 3]
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_file_that_cannot_be_written_holds_up_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "heads.jsonl"
    path.mkdir()
    anchors = Anchors(AuditSection(anchor_file=path, anchor_every_s=1))
    with caplog.at_level(logging.WARNING):
        anchors.note(HEAD, NOW)
    assert "is not written out" in caplog.text
    path.rmdir()
    anchors.note(HEAD, NOW + 1000)
    assert read_anchors(path) == [HEAD]


def test_two_writers_of_a_file_mix_no_lines(tmp_path: Path) -> None:
    path = tmp_path / "heads.jsonl"

    def write() -> None:
        anchors = Anchors(AuditSection(anchor_file=path, anchor_every_s=1))
        for number in range(1, 101):
            anchors.note(replace(HEAD, position=number), NOW + number * 1000)

    threads = [threading.Thread(target=write) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(read_anchors(path)) == 400


@pytest.mark.parametrize("kind", ["socket", "udp"])
def test_syslog_gets_heads_that_can_be_read_again(tmp_path: Path, kind: str) -> None:
    if kind == "udp":
        listener = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        listener.bind(("127.0.0.1", 0))
        place = f"127.0.0.1:{listener.getsockname()[1]}"
    else:
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        place = os.path.relpath(tmp_path / "log") if len(str(tmp_path)) > 90 else str(tmp_path / "log")
        listener.bind(place)
    with listener:
        listener.settimeout(10)
        Anchors(AuditSection(syslog=place)).note(HEAD, NOW)
        told = listener.recv(8192)
    assert told.startswith(b"<85>")
    path = tmp_path / "syslog"
    path.write_bytes(told + b"\n")
    assert read_anchors(path) == [HEAD]


def test_without_a_place_nothing_is_written(tmp_path: Path) -> None:
    Anchors(AuditSection()).note(HEAD, NOW)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("place", ["log", "host:", ":514", "host:514:1x", "a b:5"])
def test_a_place_that_is_none_is_refused(place: str) -> None:
    with pytest.raises(ConfigError, match=r"^audit\.syslog: "):
        build_config({"audit": {"syslog": place}})


@pytest.mark.parametrize("text", ["", "\n\n", "{}\n", '{"position": 1}\n', "\xff\n", '{"head": {}}\n', "{" * 5000])
def test_a_file_without_heads_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "heads"
    path.write_text(text, "latin-1")
    with pytest.raises(ConfigError, match="anchor|no head"):
        read_anchors(path)
