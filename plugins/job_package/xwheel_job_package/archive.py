"""Packages as files: wheels, zips of modules, source distributions. All is checked before anything is unpacked.

What headers say is not believed: sizes are counted while members are read, and wheels are compared with their record.
Nothing is written to disk here, and nothing is imported.
"""

from __future__ import annotations

import base64
import csv
import gzip
import hashlib
import io
import re
import shutil
import stat
import tarfile
import tempfile
import unicodedata
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Final, cast

from packaging.metadata import parse_email
from packaging.tags import parse_tag
from packaging.utils import (
    InvalidSdistFilename,
    InvalidWheelFilename,
    canonicalize_name,
    parse_sdist_filename,
    parse_wheel_filename,
)
from packaging.version import InvalidVersion, Version

from xwheel_job_package.bounded import MAX_SOURCE, check_directory, load_toml
from xwheel_job_package.report import Kind, PackageError, PackageInfo
from xwheel_job_package.wheels import (
    PROJECT,
    check_wheel,
    metadata_requirements,
    read_build_requirements,
    read_wheel,
    requirements_of,
)

MAX_FILE_NAME: Final = 200
MAX_TEXT: Final = 1 << 20
"""Bytes of a manifest, a record or a list of entry points; and of a header of a tar archive."""

MAX_KEPT: Final = 32 << 20
"""Bytes of all modules that have jobs."""

AUTHORS: Final = b"xwheel_package"
"""The module that authors import."""

BUNDLED: Final = re.compile(r"wheels/([A-Za-z0-9_.!+-]+\.whl)")
"""Wheels that a package brings for itself."""

PIECE: Final = 1 << 16
MANIFEST: Final = "xwheel.toml"
FACTORIES: Final = "xwheel.bean_factory"
"""Group of entry points by which a package names its bean factory."""

_FILE_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.!+-]*")
_DRIVE: Final = re.compile(r"[A-Za-z]:")
_OBJECT: Final = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")
_SIGNATURES: Final = ("RECORD.jws", "RECORD.p7s")
_UNREADABLE: Final = (
    zipfile.BadZipFile,
    zipfile.LargeZipFile,
    tarfile.TarError,
    zlib.error,
    EOFError,
    NotImplementedError,
    RuntimeError,
    ValueError,
    OSError,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much a package may hold, unpacked.

    Attributes:
        unpacked_bytes: Of all files together.
        members: How many files and folders.
        ratio: How many times as large as the archive.
    """

    unpacked_bytes: int = 1 << 30
    members: int = 20_000
    ratio: int = 200


@dataclass(frozen=True, slots=True)
class PackageName:
    """What the name of a file says: for a plain archive nothing."""

    kind: Kind
    project: str = ""
    version: str = ""
    file: str = ""


@dataclass(slots=True)
class Member:
    """A file in an archive, after it was read once.

    Attributes:
        path: With slashes; as it stands in the archive.
        size: In bytes, counted.
        digest: Its sha256.
    """

    path: str
    size: int = 0
    digest: bytes = b""


@dataclass(slots=True)
class Archive:
    """A package that was checked: every member has a safe path, and was read once.

    Attributes:
        info: What it says of itself.
        members: Its files, by path.
        texts: Modules that may have jobs, and what else is read as text.
    """

    info: PackageInfo
    members: dict[str, Member] = field(default_factory=dict)
    texts: dict[str, bytes] = field(default_factory=dict)


def parse_file_name(name: str) -> PackageName:
    """Return what the name of an uploaded file says. A name that is wrong is never repaired.

    Raises:
        PackageError: ``bad_filename``.
    """
    shown = ascii(name[:MAX_FILE_NAME])
    if len(name) > MAX_FILE_NAME or not _FILE_NAME.fullmatch(name):
        raise PackageError(
            "bad_filename",
            f"{shown}: a file name has letters, digits and ._!+- only, {MAX_FILE_NAME} characters at most, "
            "and no folder",
        )
    try:
        if name.endswith(".whl"):
            project, version, build, tags = parse_wheel_filename(name)
            # the tag is taken as it stands; everything else is spelled again
            tag = "-".join(name[:-4].split("-")[-3:])
            number = f"-{build[0]}{build[1]}" if build else ""
            del tags
            return PackageName("wheel", project, str(version), f"{_escaped(project)}-{version}{number}-{tag}.whl")
        if name.endswith(".tar.gz"):
            project, version = parse_sdist_filename(name)
            return PackageName("sdist", project, str(version), f"{_escaped(project)}-{version}.tar.gz")
    except (InvalidWheelFilename, InvalidSdistFilename, InvalidVersion) as error:
        raise PackageError("bad_filename", f"{shown}: {error}") from None
    if name.endswith(".zip"):
        return PackageName("zip")
    raise PackageError("bad_filename", f"{shown}: must be a wheel (.whl), a zip of modules, or a .tar.gz")


def open_package(
    path: Path, name: str, limits: Limits | None = None, *, project: str = "", version: str = ""
) -> Archive:
    """Check a package and read what is needed of it.

    Args:
        path: Where the file is now; its own name does not count.
        name: What the uploader calls it.
        limits: How much it may hold.
        project: Name for a plain archive whose manifest does not say it.
        version: Its version likewise.

    Raises:
        PackageError: ``bad_filename``, ``bad_archive``, ``unsafe_member``, ``too_large`` or ``bad_wheel_record``.
    """
    named = parse_file_name(name)
    read = _read_tar if named.kind == "sdist" else _read_zip
    with _readable():
        archive = read(path, _Counter(limits or Limits(), path.stat().st_size))
    with _readable():  # what is nested too deep in a text, too
        match named.kind:
            case "wheel":
                info = _check_wheel(archive, named)
            case "sdist":
                info = _check_sdist(archive, named)
            case _:
                info = _check_zip(archive, project, version)
                _refuse_wheel(path, archive, info)
        if named.kind != "sdist":
            _check_bundled(path, archive)
    return Archive(info, archive.members, archive.texts)


class _Counter:
    """Counts what is read, against the limits."""

    def __init__(self, limits: Limits, packed_bytes: int) -> None:
        self.limits = limits
        self.most = min(limits.unpacked_bytes, max(packed_bytes, 1) * limits.ratio)
        self.members: dict[str, Member] = {}
        self.texts: dict[str, bytes] = {}
        self._seen: dict[str, str] = {}
        self._bytes = 0
        self._kept = 0

    def declare(self, count: int, size: int) -> None:
        """Refuse what says itself that it is too large, before it is read."""
        if count > self.limits.members:
            raise PackageError("too_large", f"{count} members; {self.limits.members} are the most (max_members)")
        self.judge(size)

    def judge(self, size: int) -> None:
        """Refuse this many unpacked bytes if they are too many."""
        if size > self.limits.unpacked_bytes:
            raise PackageError(
                "too_large", f"more than {self.limits.unpacked_bytes} bytes unpacked are not taken (max_unpacked_bytes)"
            )
        if size > self.most:
            raise PackageError("too_large", f"more than {self.limits.ratio} times as large unpacked as packed")

    def add(self, name: str, *, is_folder: bool) -> str:
        """Note a member's name; return it without the slash of folders.

        Raises:
            PackageError: ``unsafe_member`` or ``too_large``.
        """
        path = name.removesuffix("/") if is_folder else name
        check_path(path)
        folded = unicodedata.normalize("NFC", path).casefold()
        if folded in self._seen and not (is_folder and self._seen[folded] == f"{path}/"):
            raise PackageError("unsafe_member", f"{path!a} is there twice, or in another case")
        self._seen[folded] = f"{path}/" if is_folder else path
        if len(self._seen) > self.limits.members:
            self.declare(len(self._seen), 0)
        return path

    def check_folders(self) -> None:
        """Refuse a file that is also the folder of another."""
        for path in self._seen.values():
            parent = path.removesuffix("/")
            while "/" in parent:
                parent = parent.rpartition("/")[0]
                found = self._seen.get(unicodedata.normalize("NFC", parent).casefold())
                if found is not None and not found.endswith("/"):
                    raise PackageError("unsafe_member", f"{found!a} is a file and a folder")

    def read(self, path: str, source: IO[bytes]) -> None:
        """Read a member, counting; what is a text that is asked for later is kept."""
        digest, size, most = hashlib.sha256(), 0, _most_kept(path)
        kept = bytearray()
        while piece := source.read(PIECE):
            size += len(piece)
            self._bytes += len(piece)
            self.judge(self._bytes)
            digest.update(piece)
            if len(kept) <= most:
                kept += piece
        self.members[path] = Member(path, size, digest.digest())
        # of modules, those that have jobs: they name the module that marks them
        if not most or (path.endswith(".py") and AUTHORS not in kept):
            return
        self._kept += size
        if size > most or self._kept > MAX_KEPT:
            limit = f"{most} bytes of one file, {MAX_KEPT} of all"
            raise PackageError("too_large", f"more than {limit} are not read", file=path)
        self.texts[path] = bytes(kept)


def check_path(path: str) -> None:
    """Refuse a path that may lead out of the folder, or that not every system can write.

    Raises:
        PackageError: ``unsafe_member``, with the member's name.
    """
    parts = path.split("/")
    is_odd = any(unicodedata.category(sign) in ("Cc", "Cf", "Cs", "Zl", "Zp") for sign in path)
    if is_odd or "\\" in path or _DRIVE.match(path) or not path or any(part in ("", ".", "..") for part in parts):
        raise PackageError(
            "unsafe_member", f"{path[:MAX_FILE_NAME]!a}: a member's path is relative, with slashes, without .."
        )
    if len(path) > 1000 or any(len(part.encode()) > 255 for part in parts):  # noqa: PLR2004 - what file systems take
        raise PackageError("unsafe_member", f"{path[:60]!a}... is too long a path")


def _most_kept(path: str) -> int:
    """Return how many bytes of a member are kept; 0 for none."""
    if path.endswith(".py"):
        return MAX_SOURCE
    folder, _, name = path.rpartition("/")
    is_about = folder.endswith(".dist-info") and name in ("METADATA", "RECORD", "WHEEL", "entry_points.txt")
    is_top = name in (MANIFEST, "PKG-INFO", PROJECT) and folder.count("/") == 0
    return MAX_TEXT if is_about or is_top else 0


def _read_zip(path: Path, counter: _Counter) -> _Counter:
    with path.open("rb") as file:
        check_directory(file, counter.limits.members)
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
        counter.declare(len(members), sum(item.file_size for item in members))
        for item in members:
            mode = item.external_attr >> 16
            if stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFDIR):
                raise PackageError("unsafe_member", f"{item.orig_filename[:200]!a} is a link or a device")
            if item.flag_bits & 0x1:
                raise PackageError("bad_archive", f"{item.orig_filename[:200]!a} is encrypted")
            # the library repairs names: what stands in the archive is judged
            counter.add(item.orig_filename, is_folder=item.orig_filename.endswith("/"))
        counter.check_folders()
        for item in members:
            if item.orig_filename.endswith("/"):
                if item.file_size:
                    raise PackageError("bad_archive", f"the folder {item.filename[:200]!a} has content")
                continue
            with archive.open(item) as source:  # it compares the checksum at the end
                counter.read(item.orig_filename, source)
    return counter


class _Sparing(io.RawIOBase):
    """A stream that refuses to be read in large pieces, as headers of a tar archive may ask for."""

    def __init__(self, source: gzip.GzipFile, judge: Callable[[int], None]) -> None:
        self._source, self.judge = source, judge

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= MAX_TEXT:
            raise PackageError("bad_archive", f"a header of over {MAX_TEXT} bytes")
        found = self._source.read(size)
        self.judge(self._source.tell())
        return found

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self.judge(offset)
        return self._source.seek(offset, whence)

    def tell(self) -> int:
        return self._source.tell()


def _read_tar(path: Path, counter: _Counter) -> _Counter:
    # the blocks between members count too, so that empty ones are no way around the limit
    with (
        gzip.open(path) as unpacked,
        tarfile.open(fileobj=cast(IO[bytes], _Sparing(unpacked, counter.judge)), mode="r:") as archive,
    ):
        for item in archive:
            if not (item.isreg() or item.isdir()) or item.issparse():
                raise PackageError("unsafe_member", f"{item.name[:200]!a} is a link or a device")
            name = counter.add(item.name, is_folder=item.isdir())
            if item.isdir():
                continue
            source = archive.extractfile(item)
            assert source is not None  # noqa: S101 - it is a file
            with source:
                counter.read(name, source)
        while unpacked.read(PIECE):  # to its end, where the checksum is
            counter.judge(unpacked.tell())
    counter.check_folders()
    return counter


def _check_wheel(archive: _Counter, named: PackageName) -> PackageInfo:
    folders = {path.partition("/")[0] for path in archive.members}
    abouts = sorted(name for name in folders if name.endswith(".dist-info"))
    if len(abouts) != 1:
        raise PackageError("bad_archive", f"a wheel has one folder NAME-VERSION.dist-info, not {len(abouts)}")
    about = abouts[0]
    for name in ("METADATA", "WHEEL", "RECORD"):
        if f"{about}/{name}" not in archive.texts:
            raise PackageError("bad_archive", f"there is no {about}/{name}")
    info = _metadata(archive.texts[f"{about}/METADATA"], f"{about}/METADATA", named)
    _check_tags(archive.texts[f"{about}/WHEEL"], f"{about}/WHEEL", named)
    _check_record(archive, about)
    factory = _factory_of(archive.texts.get(f"{about}/entry_points.txt", b""))
    return _info(archive, named, info, factory)


def _check_tags(data: bytes, path: str, named: PackageName) -> None:
    """Refuse a wheel whose name says that it is for other systems than it says itself."""
    lines = [line.partition(":") for line in _text(data, path).splitlines()]
    said = {tag for name, _, text in lines if name.strip().lower() == "tag" for tag in parse_tag(text.strip())}
    if said != parse_wheel_filename(named.file)[3]:
        shown = ", ".join(sorted(map(str, said)))[:200] or "none"
        raise PackageError("bad_archive", f"its tags are {shown}, those of the file's name are others", file=path)


def _check_bundled(path: Path, archive: _Counter) -> None:
    """Refuse a package that brings a wheel which is not what it says, or which names a place to fetch from."""
    left = archive.limits.unpacked_bytes
    for name in filter(BUNDLED.fullmatch, archive.members):
        with zipfile.ZipFile(path) as packed, tempfile.TemporaryFile() as copy:
            with packed.open(name) as source:
                shutil.copyfileobj(source, copy)
            left -= check_wheel(copy, name.rpartition("/")[2], left).unpacked_bytes


def _refuse_wheel(path: Path, archive: _Counter, info: PackageInfo) -> None:
    """Refuse a wheel under the name of a plain archive: it would be installed in another way than its author wrote."""
    abouts = [name for name in archive.members if name.count("/") == 1 and name.endswith(".dist-info/WHEEL")]
    about = abouts[0].removesuffix("/WHEEL") if len(abouts) == 1 else ""
    # what an installer has unpacked, with other files of its own, is a folder of modules like any other
    if not about or f"{about}/INSTALLER" in archive.members:
        return
    name = f"{_escaped(info.project)}-{info.version}-py3-none-any.whl"
    try:
        read_wheel(path, name)
    except PackageError:
        return
    raise PackageError("bad_filename", f"it is a wheel of {info.project}: name it as one, such as {name}")


def _check_record(archive: _Counter, about: str) -> None:
    """Compare a wheel's members with its record, which says the hash and size of each."""
    record = f"{about}/RECORD"
    unlisted = {record, *(f"{about}/{name}" for name in _SIGNATURES)}
    listed: set[str] = set()
    lines = io.StringIO(_text(archive.texts[record], record), newline="")
    for number, row in enumerate(csv.reader(lines), 1):
        if not row:
            continue
        path, hashed, size = (*row, "", "")[:3]
        if path in unlisted:
            continue
        member = archive.members.get(path)
        if member is None or path in listed:
            what = "is not in the wheel" if member is None else "is listed twice"
            raise PackageError("bad_wheel_record", f"{path[:200]!a} {what}", file=record, line=number)
        listed.add(path)
        wanted = "sha256=" + base64.urlsafe_b64encode(member.digest).rstrip(b"=").decode()
        if hashed != wanted or (size and size != str(member.size)):
            raise PackageError(
                "bad_wheel_record", f"{path[:200]!a} has other content: build the wheel again", file=record, line=number
            )
    if missing := sorted(set(archive.members) - listed - unlisted):
        raise PackageError("bad_wheel_record", f"{missing[0]!a} is not listed", file=record)


def _check_sdist(archive: _Counter, named: PackageName) -> PackageInfo:
    tops = {path.partition("/")[0] for path in archive.members}
    if len(tops) != 1:
        raise PackageError("bad_archive", f"a source distribution has one folder at its top, not {len(tops)}")
    path = f"{tops.pop()}/PKG-INFO"
    if path not in archive.texts:
        raise PackageError("bad_archive", f"there is no {path}")
    info = _metadata(archive.texts[path], path, named)
    read_build_requirements(archive.texts.get(f"{path.partition('/')[0]}/{PROJECT}", b""))
    manifest = _manifest(archive.texts.get(f"{path.partition('/')[0]}/{MANIFEST}", b""))
    return _info(archive, named, info, _object(manifest.get("bean_factory", "")))


def _check_zip(archive: _Counter, project: str, version: str) -> PackageInfo:
    manifest = _manifest(archive.texts.get(MANIFEST, b""))
    found: dict[str, str] = {}
    for name, given in (("name", project), ("version", version)):
        said = manifest.get(name, "")
        if not isinstance(said, str) or (said and given and _spelled(name, said) != _spelled(name, given)):
            raise PackageError("bad_archive", f"{name} {said!a} differs from {given!a}", file=MANIFEST)
        found[name] = said or given
        if not found[name]:
            raise PackageError(
                "bad_archive", f"say the {name} of the package in [package] of {MANIFEST}, or with the upload"
            )
    named = _named_zip(found["name"], found["version"])
    scanned, wanted = manifest.get("packages_to_scan", []), manifest.get("dependencies", [])
    for name, items in (("packages_to_scan", scanned), ("dependencies", wanted)):
        if not isinstance(items, list) or not all(isinstance(item, str) for item in items):
            raise PackageError("bad_archive", f"{name} must be a list of texts", file=MANIFEST)
    info = {"dependencies": requirements_of(wanted, MANIFEST), "packages_to_scan": tuple(scanned)}
    return _info(archive, named, info, _object(manifest.get("bean_factory", "")))


def _spelled(name: str, text: str) -> str:
    """Return a name or a version in its one spelling; what is none as it stands."""
    if name == "name":
        return canonicalize_name(text)
    try:
        return str(Version(text))
    except InvalidVersion:
        return text


def _named_zip(project: str, version: str) -> PackageName:
    try:
        name = canonicalize_name(project, validate=True)
        spelled = str(Version(version))
    except ValueError as error:  # what the library raises for either
        raise PackageError("bad_archive", f"{error}", file=MANIFEST) from None
    named = PackageName("zip", name, spelled, f"{_escaped(name)}-{spelled}.zip")
    if len(named.file) > MAX_FILE_NAME:
        raise PackageError("bad_archive", f"name and version have more than {MAX_FILE_NAME} characters")
    return named


def _metadata(data: bytes, path: str, named: PackageName) -> dict[str, Any]:
    text = _text(data, path)
    project, version, wanted = metadata_requirements(text, path)
    if (project, version) != (named.project, named.version):
        raise PackageError(
            "bad_archive", f"says {project} {version}, the file's name {named.project} {named.version}", file=path
        )
    raw, _ = parse_email(text)
    extra = {name: str(raw[name])[:500] for name in ("summary", "requires_python") if raw.get(name)}
    return {"dependencies": wanted, "extra": extra}


def _factory_of(data: bytes) -> str:
    """Return the bean factory of a wheel's entry points."""
    section, found = "", ""
    for line in _text(data, "entry_points.txt").splitlines():
        words = line.strip()
        if words.startswith("["):
            section = words.strip("[] ")
        elif section == FACTORIES and "=" in words:
            if found:
                raise PackageError("bad_archive", f"more than one entry point in {FACTORIES}")
            found = words.partition("=")[2].strip()
    return _object(found)


def _object(found: object) -> str:
    if not isinstance(found, str) or (found and not _OBJECT.fullmatch(found)):
        raise PackageError("bad_archive", f"a bean factory is named as module:object, not {ascii(found)[:200]}")
    return found


def _manifest(data: bytes) -> dict[str, Any]:
    found = load_toml(data, MANIFEST)
    table = found.get("package", found)
    if not isinstance(table, dict):
        raise PackageError("bad_archive", "package must be a table", file=MANIFEST)
    return table


def _info(archive: _Counter, named: PackageName, info: dict[str, Any], factory: str) -> PackageInfo:
    return PackageInfo(
        project=named.project,
        version=named.version,
        kind=named.kind,
        file=named.file,
        container="Container" if factory else "Common",
        factory=factory,
        members=len(archive.members),
        unpacked_bytes=sum(item.size for item in archive.members.values()),
        **info,
    )


def _text(data: bytes, path: str) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise PackageError("bad_archive", "must be UTF-8", file=path) from None


def _escaped(project: str) -> str:
    return project.replace("-", "_")


@contextmanager
def _readable() -> Iterator[None]:
    """Name what the libraries raise for broken archives; of the zip library these are many kinds."""
    try:
        yield
    except PackageError:
        raise
    except _UNREADABLE as error:
        raise PackageError("bad_archive", f"cannot be read: {str(error)[:200] or type(error).__name__}") from None
