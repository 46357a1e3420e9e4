"""Packages on their way from the store, over real sockets."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from xwheel_devtools.testing import WebRequest, WebServer, web_reply

from xwheel_job_package.download import PackageCache
from xwheel_job_package.failures import Cancel, PackageRunError

DATA = os.urandom(600_000)
SHA256 = hashlib.sha256(DATA).hexdigest()
NAME = "demo-1.0-py3-none-any.whl"
TOKEN = "a-token-for-tests-only"


class Pauses(Cancel):
    """Takes no time for pauses, and counts them as a clock."""

    def __init__(self) -> None:
        super().__init__()
        self.taken: list[float] = []

    def pause(self, seconds: float) -> None:
        self.taken.append(seconds)
        self.check()

    def now_s(self) -> float:
        return sum(self.taken)


@pytest.fixture
def store() -> Iterator[WebServer]:
    with WebServer(web_reply(200, DATA)) as server:
        yield server


def cache_of(folder: Path, store: WebServer, pauses: Pauses, **options: Any) -> PackageCache:
    return PackageCache(folder, [store.url], TOKEN, clock=pauses.now_s, **options)


def fetch(folder: Path, store: WebServer, **options: Any) -> Path:
    pauses = Pauses()
    return cache_of(folder, store, pauses, **options).get(7, SHA256, NAME, pauses)


def refusal(folder: Path, store: WebServer, **options: Any) -> PackageRunError:
    with pytest.raises(PackageRunError) as caught:
        fetch(folder, store, **options)
    assert not (folder / SHA256 / NAME).exists()
    return caught.value


def half_then(rest: Any) -> Any:
    """Return a reply that breaks off at 50 % the first time, and then leaves it to another."""
    calls: list[WebRequest] = []

    def reply(handler: BaseHTTPRequestHandler, request: WebRequest) -> None:
        calls.append(request)
        if len(calls) > 1:
            rest(handler, request)
            return
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(DATA)))
        handler.end_headers()
        handler.wfile.write(DATA[: len(DATA) // 2])

    return reply


def ranged(handler: BaseHTTPRequestHandler, request: WebRequest) -> None:
    found = re.fullmatch(r"bytes=(\d+)-", request.headers.get("Range", ""))
    assert found is not None
    begin = int(found[1])
    headers = {"Content-Range": f"bytes {begin}-{len(DATA) - 1}/{len(DATA)}"}
    web_reply(206, DATA[begin:], headers)(handler, request)


def one_after_another(*replies: Any) -> Any:
    left = iter(replies)

    def reply(handler: BaseHTTPRequestHandler, request: WebRequest) -> None:
        next(left)(handler, request)

    return reply


def test_a_file_appears_whole_and_checked(tmp_path: Path, store: WebServer) -> None:
    """DL-1: it is asked for by id with the token, and its final name holds verified bytes."""
    path = fetch(tmp_path, store)
    assert path.read_bytes() == DATA
    assert path == tmp_path / SHA256 / NAME
    (request,) = store.requests
    assert (request.path, request.headers["XXL-JOB-ACCESS-TOKEN"]) == ("/api/v1/packages/7/file", TOKEN)
    assert [item.name for item in path.parent.iterdir()] == [NAME]


def test_a_wrong_checksum_is_fetched_once_more_and_then_permanent(tmp_path: Path, store: WebServer) -> None:
    """DL-2: deleted, tried once more, then checksum_mismatch."""
    store.reply = web_reply(200, DATA[:-1] + bytes([DATA[-1] ^ 1]))
    error = refusal(tmp_path, store)
    assert (error.reason, error.is_permanent, len(store.requests)) == ("checksum_mismatch", True, 2)
    assert list((tmp_path / SHA256).iterdir()) == []
    store.reply = one_after_another(web_reply(200, b"half"), web_reply(200, DATA))
    assert fetch(tmp_path, store).read_bytes() == DATA


@pytest.mark.parametrize("rest", [ranged, web_reply(200, DATA)], ids=["range", "no range"])
def test_an_interrupted_download_goes_on(tmp_path: Path, store: WebServer, rest: Any) -> None:
    """DL-3: after half of it there is no final file; the rest is asked for, or all of it where there are no ranges."""
    seen: list[bool] = []

    def noted(handler: BaseHTTPRequestHandler, request: WebRequest) -> None:
        seen.append((tmp_path / SHA256 / NAME).exists())
        rest(handler, request)

    store.reply = half_then(noted)
    assert fetch(tmp_path, store).read_bytes() == DATA
    assert seen == [False]
    assert store.requests[1].headers["Range"].startswith("bytes=")


def test_what_is_there_is_not_fetched_again_but_hashed_again_at_a_start(tmp_path: Path, store: WebServer) -> None:
    """DL-4: no request for what is cached; a start hashes it, and what is damaged is fetched again."""
    path = fetch(tmp_path, store)
    assert fetch(tmp_path, store) == path
    assert len(store.requests) == 1
    assert cache_of(tmp_path, store, Pauses()).check() == []
    path.write_bytes(b"damaged")
    assert cache_of(tmp_path, store, Pauses()).check() == [SHA256]
    path.write_bytes(b"damaged")
    assert fetch(tmp_path, store).read_bytes() == DATA
    assert len(store.requests) == 2


def test_a_store_that_is_down_is_asked_with_back_off(tmp_path: Path, store: WebServer) -> None:
    """DL-5: attempts become rarer and it is fetched once the store is back; at the end it is a transient failure."""
    store.reply = web_reply(503)
    pauses = Pauses()
    with pytest.raises(PackageRunError) as caught:
        cache_of(tmp_path, store, pauses).get(7, SHA256, NAME, pauses)
    assert (caught.value.reason, caught.value.is_permanent) == ("store_unreachable", False)
    assert len(pauses.taken) < 40
    assert max(pauses.taken) > 10
    assert sum(pauses.taken) >= 299
    store.reply = one_after_another(web_reply(503), web_reply(500), web_reply(200, DATA))
    assert fetch(tmp_path, store).read_bytes() == DATA
    nowhere = PackageCache(tmp_path / "b", ["http://127.0.0.1:1"], TOKEN, timeout_s=0)
    with pytest.raises(PackageRunError, match="store_unreachable"):
        nowhere.get(7, SHA256, NAME, Cancel())


@pytest.mark.parametrize(
    ("status", "reason"), [(401, "store_refused"), (404, "package_missing"), (410, "package_missing")]
)
def test_a_no_of_the_store_is_permanent(tmp_path: Path, store: WebServer, status: int, reason: str) -> None:
    """DL-6, DL-7: a node without a token that counts, or for a package that is gone, is told so at once."""
    store.reply = web_reply(status)
    error = refusal(tmp_path, store)
    assert (error.reason, error.is_permanent, len(store.requests)) == (reason, True, 1)


def test_a_redirect_is_not_followed_with_the_token(tmp_path: Path, store: WebServer) -> None:
    with WebServer() as other:
        store.reply = web_reply(302, b"", {"Location": other.url})
        assert refusal(tmp_path, store, timeout_s=0).reason == "store_unreachable"
        assert other.requests == []


def test_a_file_beyond_the_limit_is_not_kept(tmp_path: Path, store: WebServer) -> None:
    """DL-1: a store that sends without end fills no disk."""
    assert refusal(tmp_path, store, max_bytes=500_000).reason == "package_too_large"
    assert list((tmp_path / SHA256).iterdir()) == []


def test_a_kill_ends_the_waiting(tmp_path: Path, store: WebServer) -> None:
    cancel = Cancel()
    store.reply = lambda *call: (cancel.set(), web_reply(503)(*call))[0]
    with pytest.raises(PackageRunError, match="killed"):
        PackageCache(tmp_path, [store.url], TOKEN).get(7, SHA256, NAME, cancel)


def test_what_no_run_used_for_days_is_deleted(tmp_path: Path, store: WebServer) -> None:
    path = fetch(tmp_path, store)
    cache = cache_of(tmp_path, store, Pauses())
    used_s = path.parent.stat().st_mtime
    assert cache.collect(used_s + 6 * 86_400, 7) == 0
    assert cache.collect(used_s + 8 * 86_400, 7) == 1
    assert list(tmp_path.iterdir()) == []
