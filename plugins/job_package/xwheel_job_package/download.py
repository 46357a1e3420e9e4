"""The packages of a node: fetched from the store once, checked, and kept as long as they are used."""

from __future__ import annotations

import contextlib
import hashlib
import os
import random
import time
from collections.abc import Callable, Iterator, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Final

import requests

from xwheel_job_package.failures import Cancel, permanent, transient
from xwheel_job_package.locks import take, try_take

PATH: Final = "/api/v1/packages/{id}/file"
TOKEN_HEADER: Final = "XXL-JOB-ACCESS-TOKEN"  # noqa: S105 -- a header's name
HASH_LENGTH: Final = 64
CHUNK: Final = 256 * 1024
CONNECT_S: Final = 5.0
READ_S: Final = 30.0
FIRST_PAUSE_S: Final = 0.5
MAX_PAUSE_S: Final = 30.0
DAY_S: Final = 86_400
MIB: Final = 1024 * 1024


class _FetchError(Exception):
    """The store did not answer, or not to the end; another attempt may go on from there."""


class PackageCache:
    """Files of packages, by their hash.

    Each is ``HASH/NAME`` with the name that it has in the store, since installers read it; it appears there whole and
    checked. Thread-safety: any thread, and any process that shares the folder.

    Args:
        folder: Where they are.
        urls: Base URLs of the stores, tried in order.
        token: What shows the stores who asks.
        timeout_s: How long to try.
        max_bytes: Limit of a file.
        tls: What :mod:`requests` takes for ``verify`` and ``cert``.
        clock: Seconds that only rise.
    """

    def __init__(
        self,
        folder: Path,
        urls: Sequence[str],
        token: str,
        *,
        timeout_s: float = 300,
        max_bytes: int = 200 * MIB,
        tls: tuple[str | bool, tuple[str, str] | None] = (True, None),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._folder = folder
        self._urls = [url.rstrip("/") for url in urls]
        self._token = token
        self._timeout_s = timeout_s
        self._max_bytes = max_bytes
        self._verify, self._certificate = tls
        self._clock = clock

    def get(self, package_id: int, sha256: str, name: str, cancel: Cancel) -> Path:
        """Return the file of a package, whose hash is compared now; fetch it if it is not there.

        Raises:
            PackageRunError: ``checksum_mismatch``, ``package_missing``, ``store_refused``, ``package_too_large``,
                ``store_unreachable``, or ``killed``.
        """
        home = self._folder / sha256
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = home / name
        with take(home.with_suffix(".lock"), cancel):
            if not self._is_good(path, sha256):
                self._fetch(package_id, sha256, path, cancel)
        with contextlib.suppress(OSError):
            os.utime(home)
        return path

    def check(self) -> list[str]:
        """Hash what is there again, delete what is damaged, and return the hashes that those should have had."""
        damaged = []
        for home in self._homes():
            lock = try_take(home.with_suffix(".lock"))
            if lock is None:
                continue  # being fetched; the one who does that checks it
            with lock:
                files = [path for path in home.iterdir() if path.suffix != ".part"]
                if any(not self._is_good(path, home.name) for path in files):
                    damaged.append(home.name)
        return damaged

    def collect(self, now_s: float, keep_days: float) -> int:
        """Delete what no run used for this many days; return how many packages that were."""
        count = 0
        for home in self._homes():
            with contextlib.suppress(OSError):
                if home.stat().st_mtime > now_s - keep_days * DAY_S:
                    continue
                lock = try_take(home.with_suffix(".lock"))
                if lock is None:
                    continue
                with lock:
                    for path in home.iterdir():
                        path.unlink()
                    home.rmdir()
                    home.with_suffix(".lock").unlink(missing_ok=True)
                    count += 1
        return count

    def _homes(self) -> list[Path]:
        if not self._folder.is_dir():
            return []
        return [path for path in self._folder.iterdir() if path.is_dir() and len(path.name) == HASH_LENGTH]

    def _is_good(self, path: Path, sha256: str) -> bool:
        if not path.is_file():
            return False
        # each time: it is asked for to build with, and a job of this account may have changed it since
        if _hash_of(path).hexdigest() != sha256:
            path.unlink()
            return False
        return True

    def _fetch(self, package_id: int, sha256: str, path: Path, cancel: Cancel) -> None:
        part = path.with_name(path.name + ".part")
        end = self._clock() + self._timeout_s
        pause_s = FIRST_PAUSE_S
        has_failed = False
        while True:
            cancel.check()
            try:
                found = self._from_any(package_id, part, cancel)
            except _FetchError as error:
                left_s = end - self._clock()
                if left_s <= 0:
                    raise transient("store_unreachable", f"package {package_id}: {error}") from None
                cancel.pause(min(pause_s * random.uniform(0.5, 1), left_s))  # noqa: S311 -- not for secrets
                pause_s = min(2 * pause_s, MAX_PAUSE_S)
                continue
            if found == sha256:
                break
            part.unlink(missing_ok=True)
            if has_failed:
                text = f"package {package_id} has {found} in the store, its job says {sha256}"
                raise permanent("checksum_mismatch", text)
            has_failed = True
        with part.open("rb") as file:
            os.fsync(file.fileno())
        part.replace(path)
        _sync_folder(path.parent)

    def _from_any(self, package_id: int, part: Path, cancel: Cancel) -> str:
        """Fetch from the first store that answers, and return the hash of the whole.

        Raises:
            _FetchError: None did, to the end.
            PackageRunError: One said no, or the run is to end.
        """
        problem: Exception = _FetchError("there is no address of a store")
        for url in self._urls:
            try:
                return self._from(url + PATH.format(id=package_id), part, cancel)
            except (requests.RequestException, OSError) as error:
                problem = error
            except _FetchError as error:
                problem = error
        raise _FetchError(_words(problem))

    def _from(self, url: str, part: Path, cancel: Cancel) -> str:
        have = part.stat().st_size if part.exists() else 0
        headers = {TOKEN_HEADER: self._token, "Accept-Encoding": "identity"}
        if have:
            headers["Range"] = f"bytes={have}-"
        with requests.Session() as session:
            session.trust_env = False  # neither a proxy nor a netrc of the environment gets the token
            answer = session.get(
                url,
                headers=headers,
                stream=True,
                timeout=(CONNECT_S, READ_S),
                allow_redirects=False,
                verify=self._verify,
                cert=self._certificate,
            )
            with answer:
                if answer.status_code == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
                    part.unlink(missing_ok=True)
                    raise _FetchError("the store has less of it than was fetched before")
                _check(answer, url)
                is_rest = have > 0 and answer.status_code == HTTPStatus.PARTIAL_CONTENT and _begins_at(answer, have)
                return self._write(answer, part, is_rest=is_rest, cancel=cancel)

    def _write(self, answer: requests.Response, part: Path, *, is_rest: bool, cancel: Cancel) -> str:
        hasher = _hash_of(part) if is_rest else hashlib.sha256()
        size = part.stat().st_size if is_rest else 0
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | (os.O_APPEND if is_rest else os.O_TRUNC), 0o600)
        with os.fdopen(descriptor, "wb") as file:
            for chunk in answer.iter_content(CHUNK):
                cancel.check()
                size += len(chunk)
                if size > self._max_bytes:
                    part.unlink()
                    limit = self._max_bytes // MIB
                    raise permanent("package_too_large", f"over {limit} MiB, which the option max_package_mb allows")
                hasher.update(chunk)
                file.write(chunk)
        return hasher.hexdigest()


def _check(answer: requests.Response, url: str) -> None:
    """Raise unless the answer brings a file.

    Raises:
        PackageRunError: The store says no.
        _FetchError: It cannot answer now.
    """
    status = answer.status_code
    if status in (200, 206):
        return
    if status in (404, 410):
        text = f"{url} is not there, or not for the group whose secret this executor shows ({status})"
        raise permanent("package_missing", text)
    if status in (401, 403):
        raise permanent("store_refused", f"{url} answers {status}: is executor.access_token one that the store takes?")
    raise _FetchError(f"{url} answers {status}")


def _begins_at(answer: requests.Response, place: int) -> bool:
    return answer.headers.get("Content-Range", "").startswith(f"bytes {place}-")


def _words(error: Exception) -> str:
    if isinstance(error, _FetchError):
        return str(error)
    return f"{type(error).__name__}: {error}"[:500]


def _hash_of(path: Path) -> hashlib._Hash:
    hasher = hashlib.sha256()
    for chunk in _chunks(path):
        hasher.update(chunk)
    return hasher


def _chunks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            yield chunk


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
