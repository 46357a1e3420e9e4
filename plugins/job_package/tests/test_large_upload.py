"""A package of a hundred megabytes passes through the scheduler without staying in its memory."""

from __future__ import annotations

import base64
import hashlib
import os
import re
import zipfile
from pathlib import Path

import requests
from archives import JOB, wheel
from xwheel_devtools.testing import NodeProcess

MIB = 1024 * 1024
SIZE_MIB = 100
MOST_MIB = 25
"""More than a request's pieces and a scan take, and a quarter of the file."""


def large(folder: Path) -> Path:
    """Write a package with a file that cannot be packed; piece by piece, as the tests' memory is not the matter."""
    piece = os.urandom(MIB)
    digest = hashlib.sha256()
    for _ in range(SIZE_MIB):
        digest.update(piece)
    text = base64.urlsafe_b64encode(digest.digest()).rstrip(b"=").decode()
    line = f"acme/data.bin,sha256={text},{SIZE_MIB * MIB}"
    path = wheel(folder, {"acme/__init__.py": "", "acme/jobs.py": JOB}, record={"acme/data.bin": line})
    with zipfile.ZipFile(path, "a", zipfile.ZIP_STORED) as archive, archive.open("acme/data.bin", "w") as member:
        for _ in range(SIZE_MIB):
            member.write(piece)
    return path


def peak_mib(pid: int) -> float:
    """Return the most memory that a process had since this was set back."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return int(found[1]) / 1024


def forget_peak(pid: int) -> None:
    Path(f"/proc/{pid}/clear_refs").write_text("5")


def test_a_large_upload_stays_out_of_memory(tmp_path: Path) -> None:
    home = tmp_path / "node"
    home.mkdir()
    settings = home / "xwheel.toml"
    settings.write_text(f'[plugins.options.job_package.store]\ndirectory = "{home / "store"}"\n')
    path = large(tmp_path)
    with NodeProcess(home, XWHEEL_CONFIG=str(settings)) as node:
        node.call("POST", "groups", {"app_name": "package-nodes", "title": "Packages"})
        head = {"Authorization": f"Bearer {node.token}"}

        def upload(file: Path) -> requests.Response:
            with file.open("rb") as body:
                return requests.post(
                    f"{node.url}/api/v1/packages?file={file.name}", data=body, headers=head, timeout=120
                )

        small = wheel(tmp_path, {"tiny/jobs.py": JOB}, name="tiny_jobs")
        assert upload(small).status_code == 201  # what the first one loads does not count
        forget_peak(node.pid)
        before = peak_mib(node.pid)
        answer = upload(path)
        assert answer.status_code == 201, answer.text
        assert answer.json()["size"] > SIZE_MIB * MIB
        assert peak_mib(node.pid) - before < MOST_MIB
        # and out again
        forget_peak(node.pid)
        before = peak_mib(node.pid)
        package_id = answer.json()["id"]
        url = f"{node.url}/api/v1/packages/{package_id}/file"
        digest = hashlib.sha256()
        with requests.get(url, headers=head, timeout=120, stream=True) as got:
            assert got.status_code == 200
            for piece in got.iter_content(MIB):
                digest.update(piece)
        assert digest.hexdigest() == answer.json()["sha256"]
        assert peak_mib(node.pid) - before < MOST_MIB
