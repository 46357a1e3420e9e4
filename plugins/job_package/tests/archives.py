"""Archives for tests, right and wrong ones, made of a few texts."""

from __future__ import annotations

import base64
import hashlib
import io
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

JOB = "from xwheel_package import schedule\n\n@schedule('0 0 1 * * ?')\ndef nightly():\n    pass\n"


def wheel(
    folder: Path,
    files: Mapping[str, str],
    *,
    name: str = "acme_jobs",
    version: str = "1.2.0",
    metadata: str = "",
    record: Mapping[str, str] | None = None,
    entry_points: str = "",
) -> Path:
    """Write a wheel; ``record`` replaces lines of its record by path, and an empty one leaves the line out."""
    about = f"{name}-{version}.dist-info"
    texts = {
        **files,
        f"{about}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{metadata}",
        f"{about}/WHEEL": "Wheel-Version: 1.0\nTag: py3-none-any\n",
    }
    if entry_points:
        texts[f"{about}/entry_points.txt"] = entry_points
    lines = {path: record_line(path, text) for path, text in texts.items()} | dict(record or {})
    texts[f"{about}/RECORD"] = "".join(f"{line}\n" for line in lines.values() if line) + f"{about}/RECORD,,\n"
    return zipped(folder / f"{name}-{version}-py3-none-any.whl", texts)


def record_line(path: str, text: str) -> str:
    """Return the line of a wheel's record about a member."""
    data = text.encode()
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    return f"{path},sha256={digest},{len(data)}"


def zipped(path: Path, files: Mapping[str, str]) -> Path:
    """Write a zip of texts."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return path


def raw_zip(path: Path, name: str, *, mode: int = 0o100644, others: Mapping[str, str] | None = None) -> Path:
    """Write a zip with a member of any name and kind."""
    place = "x" * len(name.encode())  # the library changes odd names as it writes
    info = zipfile.ZipInfo(place)
    info.external_attr = mode << 16
    with zipfile.ZipFile(path, "w") as archive:
        for other, text in (others or {}).items():
            archive.writestr(other, text)
        archive.writestr(info, "content")
    path.write_bytes(path.read_bytes().replace(place.encode(), name.encode()))
    return path


def sdist(path: Path, files: Mapping[str, str], *items: tarfile.TarInfo) -> Path:
    """Write a source distribution of texts, and other members."""
    with tarfile.open(path, "w:gz") as archive:
        for name, text in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(text.encode())
            archive.addfile(info, io.BytesIO(text.encode()))
        for item in items:
            archive.addfile(item, io.BytesIO(b"\0" * item.size))
    return path
