"""Wheels that packages bring or depend on: what they need, and whether name, metadata and record agree."""

from __future__ import annotations

import base64
import contextlib
import csv
import hashlib
import io
import tarfile
import zipfile
import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Final

from packaging.metadata import parse_email
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import InvalidVersion, Version

from xwheel_job_package.bounded import check_directory, load_toml
from xwheel_job_package.report import PackageError

PIECE: Final = 1 << 16
MAX_ABOUT: Final = 16 << 20
"""Bytes of a wheel's metadata, and of its record."""

MAX_MEMBERS: Final = 20_000
"""Files of a wheel that a package brings or depends on."""

PROJECT: Final = "pyproject.toml"
MAX_PROJECT: Final = 1 << 16
"""Bytes of the file that says what builds a source distribution."""

STRONG: Final = ("sha256", "sha384", "sha512")
_UNREADABLE: Final = (
    zipfile.BadZipFile,
    zipfile.LargeZipFile,
    zlib.error,
    EOFError,
    NotImplementedError,
    RuntimeError,
    ValueError,
    OSError,
)
_UNLISTED: Final = ("RECORD", "RECORD.jws", "RECORD.p7s")


@dataclass(frozen=True, slots=True)
class WheelFacts:
    """What a wheel says of itself.

    Attributes:
        project: Normalised name.
        version: In its shortest spelling.
        requires: What it depends on.
        unpacked_bytes: Size of its files, counted if they were read.
    """

    project: str
    version: str
    requires: tuple[str, ...]
    unpacked_bytes: int = 0


def requirements_of(items: Sequence[str], place: str) -> tuple[str, ...]:
    """Return requirements that name versions only.

    Raises:
        PackageError: ``bad_archive``: one is none. ``direct_reference``: one names an address, a file or a repository.
    """
    found = []
    for item in items:
        try:
            wanted = Requirement(item)
        except InvalidRequirement as error:
            raise PackageError("bad_archive", f"not a requirement: {str(error)[:200]}", file=place) from None
        if wanted.url is not None:
            raise PackageError(
                "direct_reference",
                f"the requirement {wanted.name} names a place ({wanted.url.partition(':')[0][:20]!a}), which is never "
                "fetched: name a version, and bring its wheel in the folder wheels or have it in a wheelhouse or index",
                file=place,
            )
        text = str(wanted)
        if not text.isprintable():  # it becomes a line of a list, and nothing of it another one
            raise PackageError("bad_archive", f"not a requirement in one line: {ascii(item)[:200]}", file=place)
        found.append(text)
    return tuple(found)


def metadata_requirements(data: str, place: str) -> tuple[str, str, tuple[str, ...]]:
    """Return name, version and requirements of a text of metadata, as installers read it.

    Raises:
        PackageError: ``bad_archive`` or ``direct_reference``.
    """
    raw, rest = parse_email(data)
    if unread := [name for name in ("name", "version", "requires-dist") if name in rest]:
        raise PackageError("bad_archive", f"the field {unread[0]} cannot be read", file=place)
    try:
        name, version = canonicalize_name(raw["name"]), str(Version(raw["version"]))
    except (KeyError, InvalidVersion) as error:
        raise PackageError("bad_archive", f"no usable Name and Version: {error}", file=place) from None
    return name, version, requirements_of(raw.get("requires_dist", []), place)


def check_build_requirements(path: Path) -> None:
    """Refuse a source distribution whose building would fetch something by its address.

    Raises:
        PackageError: ``direct_reference``, or ``bad_archive``: its ``pyproject.toml`` cannot be read.
    """
    try:
        with tarfile.open(path, "r:gz") as archive:
            for item in archive:
                if item.isreg() and PurePosixPath(item.name).parts[1:] == (PROJECT,):
                    source = archive.extractfile(item)
                    assert source is not None  # noqa: S101 - it is a file
                    read_build_requirements(source.read(MAX_PROJECT + 1))
    except (tarfile.TarError, *_UNREADABLE) as error:
        raise PackageError("bad_archive", f"cannot be read: {str(error)[:200]}", file=path.name) from None


def read_build_requirements(data: bytes) -> tuple[str, ...]:
    """Return what a ``pyproject.toml`` wants for a building.

    Raises:
        PackageError: ``direct_reference`` or ``bad_archive``.
    """
    table = load_toml(data, PROJECT, MAX_PROJECT).get("build-system", {})
    items = table.get("requires", []) if isinstance(table, dict) else []
    if not isinstance(items, list) or not all(isinstance(item, str) for item in items):
        raise PackageError("bad_archive", "build-system.requires must be a list of texts", file=PROJECT)
    return requirements_of(items, PROJECT)


def read_wheel(source: Path | IO[bytes], name: str) -> WheelFacts:
    """Return what the metadata of a wheel says; its other files are not read.

    Args:
        source: The wheel.
        name: Its file name.

    Raises:
        PackageError: ``bad_wheel``: its name, metadata and folder do not agree. ``direct_reference``: see above.
    """
    with _opened(source, name) as archive:
        return _facts(archive, name)[0]


def check_wheel(source: Path | IO[bytes], name: str, most_bytes: int | None = None) -> WheelFacts:
    """Return what a wheel says, once each of its files was compared with its record.

    Args:
        source: The wheel.
        name: Its file name.
        most_bytes: How large it may be, unpacked.

    Raises:
        PackageError: As of :func:`read_wheel`; ``bad_wheel_record``; ``too_large``.
    """
    with _opened(source, name) as archive:
        facts, about = _facts(archive, name)
        try:
            size = _compare(archive, f"{about}/RECORD", name, most_bytes)
        except _UNREADABLE as error:
            raise PackageError("bad_wheel", f"cannot be read: {str(error)[:200]}", file=name) from None
    return WheelFacts(facts.project, facts.version, facts.requires, size)


def _opened(source: Path | IO[bytes], name: str) -> zipfile.ZipFile:
    try:
        with contextlib.ExitStack() as opened:
            file = opened.enter_context(source.open("rb")) if isinstance(source, Path) else source
            check_directory(file, MAX_MEMBERS)
        return zipfile.ZipFile(source)
    except _UNREADABLE as error:
        raise PackageError("bad_wheel", f"cannot be read: {str(error)[:200]}", file=name) from None


def _facts(archive: zipfile.ZipFile, name: str) -> tuple[WheelFacts, str]:
    try:
        project, version, _, _ = parse_wheel_filename(name)
    except (InvalidWheelFilename, InvalidVersion) as error:
        raise PackageError("bad_wheel", f"not the name of a wheel: {error}", file=name) from None
    abouts = {path.partition("/")[0] for path in archive.namelist() if ".dist-info/" in path}
    abouts = {path for path in abouts if path.endswith(".dist-info")}
    if len(abouts) != 1:
        raise PackageError("bad_wheel", f"has {len(abouts)} folders NAME-VERSION.dist-info, not one", file=name)
    about = abouts.pop()
    said = metadata_requirements(_text(archive, f"{about}/METADATA", name), f"{name}: METADATA")
    folder = about.removesuffix(".dist-info").rpartition("-")
    for whose, found in (("METADATA", said[:2]), (about, (folder[0], folder[2]))):
        try:
            is_same = canonicalize_name(found[0]) == project and Version(found[1]) == version
        except InvalidVersion:
            is_same = False
        if not is_same:
            raise PackageError(
                "bad_wheel", f"{whose} says {' '.join(found)}, the file's name {project} {version}", file=name
            )
    return WheelFacts(*said), about


def _compare(archive: zipfile.ZipFile, record: str, name: str, most_bytes: int | None) -> int:
    """Compare all files with the record, and return their size."""
    about = record.rpartition("/")[0]
    unlisted = {f"{about}/{item}" for item in _UNLISTED}
    names = Counter(item for item in archive.namelist() if not item.endswith("/"))
    size = 0
    for row in csv.reader(io.StringIO(_text(archive, record, name), newline="")):
        path, hashed, _ = (*row, "", "", "")[:3]
        if not path or path in unlisted:
            continue
        if names.pop(path, 0) != 1:
            text = f"{path[:200]!a} is not in the wheel, or there twice"
            raise PackageError("bad_wheel_record", text, file=name)
        found, read = _digest(archive, path, hashed.partition("=")[0], name, most_bytes)
        size += read
        if most_bytes is not None:
            most_bytes -= read
        if found != hashed.rstrip("="):
            raise PackageError("bad_wheel_record", f"{path[:200]!a} has other content", file=name)
    if missing := sorted(set(names) - unlisted):
        raise PackageError("bad_wheel_record", f"{missing[0][:200]!a} is not listed", file=name)
    return size


def _digest(archive: zipfile.ZipFile, path: str, kind: str, name: str, most_bytes: int | None) -> tuple[str, int]:
    """Return the hash of a file as records have it, and its size."""
    if kind not in STRONG:
        raise PackageError("bad_wheel_record", f"{path[:200]!a} has no hash that counts", file=name)
    hasher, size = hashlib.new(kind), 0
    with archive.open(path) as file:
        while piece := file.read(PIECE):
            size += len(piece)
            if most_bytes is not None and size > most_bytes:
                raise PackageError("too_large", f"has more bytes, unpacked, than {most_bytes}", file=name)
            hasher.update(piece)
    return f"{kind}={base64.urlsafe_b64encode(hasher.digest()).rstrip(b'=').decode()}", size


def _text(archive: zipfile.ZipFile, path: str, name: str) -> str:
    try:
        with archive.open(path) as file:
            data = file.read(MAX_ABOUT + 1)
        if len(data) > MAX_ABOUT:
            raise PackageError("too_large", f"{path} has more than {MAX_ABOUT} bytes", file=name)
        return data.decode()
    except KeyError:
        raise PackageError("bad_wheel", f"there is no {path[:200]!a}", file=name) from None
    except _UNREADABLE as error:
        raise PackageError("bad_wheel", f"{path[:200]!a} cannot be read: {str(error)[:200]}", file=name) from None
