"""A scheduler that is killed while it takes a package in, between the row and the file, and after the file."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
import requests
from archives import wheel
from test_store import TWO
from xwheel_devtools.testing import NodeProcess, XwheelProcess, wait_until

STOPS = """
import time
from pathlib import Path
from xwheel_job_package.{module} import {owner}

real = {owner}.{method}

def stop(*arguments, **more):
    Path({mark!r}).touch()
    time.sleep(600)

{owner}.{method} = stop
"""


class Place:
    """A scheduler's folder; its process stops where a test wants it, or not at all."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.mark = folder / "stopped"
        self.store = folder / "store" / "packages"
        self.settings = folder / "xwheel.toml"
        folder.mkdir()
        self.settings.write_text(f'[plugins.options.job_package.store]\ndirectory = "{folder / "store"}"\n')
        self.path = wheel(folder, TWO)

    @contextmanager
    def first(self, module: str, owner: str, method: str) -> Iterator[NodeProcess]:
        patch = self.folder / "patch"
        patch.mkdir()
        code = STOPS.format(module=module, owner=owner, method=method, mark=str(self.mark))
        (patch / "sitecustomize.py").write_text(code)
        paths = os.pathsep.join([str(patch), os.environ.get("PYTHONPATH", "")])
        with NodeProcess(self.folder, XWHEEL_CONFIG=str(self.settings), PYTHONPATH=paths) as node:
            yield node

    @contextmanager
    def again(self) -> Iterator[str]:
        arguments = ("server", "--port", "0", "--executor-port", "0")
        with XwheelProcess(self.folder, *arguments, XWHEEL_CONFIG=str(self.settings)) as process:
            yield f"http://{process.find('management API on (.*)').removesuffix('/api/v1')}"

    def upload(self, url: str, token: str) -> requests.Response:
        return requests.post(
            f"{url}/api/v1/packages",
            params={"file": self.path.name},
            data=self.path.read_bytes(),
            headers={"Authorization": f"Bearer {token}"},
            timeout=60,
        )


@pytest.mark.parametrize(
    ("module", "owner", "method", "files"),
    [("store", "PackageStore", "keep", 0), ("service", "PackageService", "_set_state", 1)],
    ids=["before the file", "after the file"],
)
def test_an_upload_is_cut_off_by_a_kill(tmp_path: Path, module: str, owner: str, method: str, files: int) -> None:
    """PKG-12: at the next start files and rows agree again, and the same upload works."""
    place = Place(tmp_path / "node")
    with place.first(module, owner, method) as node, ThreadPoolExecutor(1) as pool:
        node.call("POST", "groups", {"app_name": "package-nodes", "title": "Packages"})
        token = node.token
        answer = pool.submit(place.upload, node.url, token)
        wait_until(place.mark.exists)
        node.kill()
        with pytest.raises(requests.ConnectionError):
            answer.result(60)
    assert len(list(place.store.iterdir())) == files
    stray = place.store / "99-stray-1-py3-none-any.whl"
    stray.write_bytes(b"x")
    with place.again() as url:

        def listed() -> list[dict[str, object]]:
            head = {"Authorization": f"Bearer {token}"}
            found: list[dict[str, object]] = requests.get(f"{url}/api/v1/packages", headers=head, timeout=30).json()[
                "items"
            ]
            return found

        wait_until(lambda: not stray.exists() and [item["state"] for item in listed()] != ["incoming"])
        (row,) = listed()
        assert row["state"] == ("stored" if files else "missing")
        done = place.upload(url, token)
        if files:
            assert (done.status_code, done.json()["reason"]) == (409, "package_exists_same")
        else:
            assert (done.status_code, done.json()["id"]) == (201, row["id"])
        (row,) = listed()
        assert row["state"] == "stored"
        assert [path.name for path in place.store.iterdir()] == [f"{row['id']}-{row['file']}"]
