"""Tiny packages, built in a moment without any tool."""

from __future__ import annotations

import base64
import hashlib
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path


def make_wheel(
    folder: Path,
    name: str,
    version: str,
    files: Mapping[str, str | bytes],
    *,
    requires: Sequence[str] = (),
    entry_points: str = "",
) -> Path:
    """Write a wheel of pure Python and return its path."""
    about = f"{name}-{version}.dist-info"
    lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
    lines += [f"Requires-Dist: {item}" for item in requires]
    members: dict[str, bytes] = {
        path: text if isinstance(text, bytes) else text.encode() for path, text in files.items()
    }
    members[f"{about}/METADATA"] = ("\n".join(lines) + "\n").encode()
    members[f"{about}/WHEEL"] = b"Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    if entry_points:
        members[f"{about}/entry_points.txt"] = entry_points.encode()
    record = "".join(f"{path},sha256={_digest(data)},{len(data)}\n" for path, data in members.items())
    members[f"{about}/RECORD"] = f"{record}{about}/RECORD,,\n".encode()
    path = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for member, data in members.items():
            archive.writestr(zipfile.ZipInfo(member, (2026, 1, 1, 0, 0, 0)), data)
    return path


def make_archive(folder: Path, name: str, files: Mapping[str, str | bytes]) -> Path:
    """Write a plain archive of modules and return its path."""
    path = folder / f"{name}.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for member, data in files.items():
            archive.writestr(zipfile.ZipInfo(member, (2026, 1, 1, 0, 0, 0)), data)
    return path


def sha256_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
