"""What is refused of archives before anything of them is unpacked, and what is read of good ones."""

from __future__ import annotations

import gzip
import re
import stat
import struct
import tarfile
import zipfile
from pathlib import Path

import pytest
from archives import JOB, raw_zip, record_line, sdist, wheel, zipped

from xwheel_job_package.archive import MAX_SOURCE, MAX_TEXT, Limits, open_package, parse_file_name
from xwheel_job_package.report import PackageError

MANIFEST = '[package]\nname = "Acme.Jobs"\nversion = "1.2"\n'


def refused(path: Path, name: str = "", limits: Limits | None = None, **given: str) -> PackageError:
    with pytest.raises(PackageError) as caught:
        open_package(path, name or path.name, limits, **given)
    return caught.value


def test_a_wheel_says_what_it_is(tmp_path: Path) -> None:
    """PKG-1: the part that reads the archive."""
    entry_points = "[console_scripts]\nx = a:b\n[xwheel.bean_factory]\nmain = acme.beans:make\n"
    path = wheel(
        tmp_path,
        {"acme/__init__.py": "", "acme/jobs.py": JOB},
        metadata="Requires-Dist: six>=1.0\n",
        entry_points=entry_points,
    )
    found = open_package(path, path.name)
    assert (found.info.project, found.info.version, found.info.kind) == ("acme-jobs", "1.2.0", "wheel")
    assert found.info.file == "acme_jobs-1.2.0-py3-none-any.whl"
    assert (found.info.container, found.info.factory) == ("Container", "acme.beans:make")
    assert found.info.dependencies == ("six>=1.0",)
    assert found.texts["acme/jobs.py"] == JOB.encode()
    assert found.info.unpacked_bytes == sum(item.size for item in found.members.values())


def test_a_zip_of_modules_says_its_name_in_a_manifest_or_with_the_upload(tmp_path: Path) -> None:
    path = zipped(tmp_path / "x.zip", {"xwheel.toml": MANIFEST, "acme.py": JOB})
    assert open_package(path, "x.zip").info.file == "acme_jobs-1.2.zip"
    bare = zipped(tmp_path / "bare.zip", {"acme.py": JOB})
    assert open_package(bare, "bare.zip", project="acme", version="1.0.0").info.project == "acme"
    assert (refused(bare).reason, "name" in refused(bare).text) == ("bad_archive", True)
    assert refused(path, project="other").reason == "bad_archive"


def test_a_source_distribution_says_what_it_is(tmp_path: Path) -> None:
    files = {"acme-1.0/PKG-INFO": "Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n", "acme-1.0/src/acme.py": JOB}
    found = open_package(sdist(tmp_path / "acme-1.0.tar.gz", files), "acme-1.0.tar.gz")
    assert (found.info.project, found.info.kind) == ("acme", "sdist")


@pytest.mark.parametrize("content", [b"", b"no archive", b"PK\x03\x04" + b"\0" * 40])
@pytest.mark.parametrize("name", ["x-1.0-py3-none-any.whl", "x.zip", "x-1.0.tar.gz"])
def test_what_is_no_archive(tmp_path: Path, content: bytes, name: str) -> None:
    """PKG-2: a file that is not an archive."""
    path = tmp_path / name
    path.write_bytes(content)
    assert refused(path).reason == "bad_archive"


@pytest.mark.parametrize("name", ["zip", "tar.gz"])
def test_truncated_archives(tmp_path: Path, name: str) -> None:
    """PKG-2: a truncated archive, at many places."""
    path = tmp_path / f"x-1.0.{name}"
    files = {"x-1.0/PKG-INFO": "Name: x\nVersion: 1.0\n", "x-1.0/x.py": JOB, "x-1.0/data": "abc" * 5000}
    (sdist if name == "tar.gz" else zipped)(path, files)
    whole = path.read_bytes()
    for size in range(1, len(whole) - 1, max(1, len(whole) // 40)):
        path.write_bytes(whole[:size])
        assert refused(path, project="x", version="1").reason == "bad_archive", size


def test_a_wrong_checksum(tmp_path: Path) -> None:
    """PKG-2: a zip whose CRC fails."""
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("acme.py", JOB)
    path.write_bytes(path.read_bytes().replace(b"nightly", b"nightlx"))
    assert refused(path, project="x", version="1").reason == "bad_archive"


@pytest.mark.parametrize(
    "record",
    [
        {"acme.py": "acme.py,sha256=AAAA,9"},
        {"acme.py": ""},
        {"acme.py": "acme.py,,"},
        {"acme.py": "acme.py,md5=xyz,9"},
        {"more": "missing.py,sha256=AAAA,1"},
        {"twice": "acme.py,sha256=AAAA,9"},
    ],
)
def test_a_wheel_that_is_not_as_its_record_says(tmp_path: Path, record: dict[str, str]) -> None:
    """PKG-2: a wheel whose RECORD does not match its contents."""
    error = refused(wheel(tmp_path, {"acme.py": JOB}, record=record))
    assert (error.reason, error.file) == ("bad_wheel_record", "acme_jobs-1.2.0.dist-info/RECORD")


def test_a_record_that_lists_a_file_twice_is_refused(tmp_path: Path) -> None:
    line = record_line("acme/jobs.py", JOB)
    path = wheel(tmp_path, {"acme/jobs.py": JOB}, record={"acme/jobs.py": f"{line}\n{line}"})
    error = refused(path)
    assert (error.reason, "'acme/jobs.py' is listed twice" in str(error)) == ("bad_wheel_record", True)


def test_a_wheel_of_another_name(tmp_path: Path) -> None:
    path = wheel(tmp_path, {"acme.py": JOB})
    assert refused(path, "other-1.2.0-py3-none-any.whl").reason == "bad_archive"
    assert refused(path, "acme_jobs-1.3.0-py3-none-any.whl").reason == "bad_archive"


UNSAFE = ["../x", "/abs", "C:\\x", "a\\..\\..\\b", "a/../../b", "a//b", "./x", "a\0b", "a\nb", "C:/x"]


@pytest.mark.parametrize("name", UNSAFE)
def test_members_that_lead_elsewhere(tmp_path: Path, name: str) -> None:
    """PKG-6: paths of members, in a zip as they stand in it."""
    error = refused(raw_zip(tmp_path / "x.zip", name), project="x", version="1")
    assert (error.reason, ascii(name) in error.text) == ("unsafe_member", True)
    assert list(tmp_path.iterdir()) == [tmp_path / "x.zip"]


@pytest.mark.parametrize("name", [name for name in UNSAFE if "\0" not in name])
def test_members_of_source_distributions_that_lead_elsewhere(tmp_path: Path, name: str) -> None:
    """PKG-6: paths of members of a tar."""
    path = sdist(tmp_path / "x-1.0.tar.gz", {"x-1.0/PKG-INFO": "Name: x\nVersion: 1.0\n", name: "content"})
    assert refused(path).reason == "unsafe_member"


@pytest.mark.parametrize("mode", [stat.S_IFLNK | 0o777, stat.S_IFIFO | 0o644, stat.S_IFCHR | 0o644])
def test_links_and_devices(tmp_path: Path, mode: int) -> None:
    """PKG-6: links and devices in a zip."""
    assert refused(raw_zip(tmp_path / "x.zip", "link", mode=mode), project="x", version="1").reason == "unsafe_member"


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE])
def test_links_and_devices_of_source_distributions(tmp_path: Path, kind: bytes) -> None:
    """PKG-6: links and devices in a tar."""
    item = tarfile.TarInfo("x-1.0/link")
    item.type, item.linkname = kind, "/etc/passwd"
    assert refused(sdist(tmp_path / "x-1.0.tar.gz", {"x-1.0/PKG-INFO": ""}, item)).reason == "unsafe_member"


@pytest.mark.parametrize(
    ("first", "second"),
    [("a.py", "A.py"), ("stra\u00dfe", "STRASSE"), ("e\u0301", "\u00e9"), ("a", "a/b"), ("a/b", "a")],
)
def test_two_members_of_one_name(tmp_path: Path, first: str, second: str) -> None:
    """PKG-6: names that are one after case folding, or a file that is a folder too."""
    path = zipped(tmp_path / "x.zip", {first: "1", second: "2"})
    assert refused(path, project="x", version="1").reason == "unsafe_member"


@pytest.mark.parametrize("names", [("x-1.0/a", "x-1.0/a/b"), ("x-1.0/a/b", "x-1.0/a")])
def test_a_member_of_a_source_distribution_that_is_a_file_and_a_folder(tmp_path: Path, names: tuple[str, str]) -> None:
    info = "Metadata-Version: 2.1\nName: x\nVersion: 1.0\n"
    path = sdist(tmp_path / "x-1.0.tar.gz", {"x-1.0/PKG-INFO": info, **dict.fromkeys(names, "")})
    error = refused(path)
    assert error.reason == "unsafe_member"
    assert "is a file and a folder" in str(error)


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_the_same_member_twice(tmp_path: Path) -> None:
    """PKG-6: two members with one name."""
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.py", "1")
        archive.writestr("a.py", "2")
    assert refused(path, project="x", version="1").reason == "unsafe_member"


def test_bombs(tmp_path: Path) -> None:
    """PKG-7: what is too large unpacked, by headers."""
    path = zipped(tmp_path / "x.zip", {"zeros": "\0" * 5_000_000})
    assert "200 times" in refused(path, project="x", version="1").text
    assert "unpacked" in refused(path, limits=Limits(unpacked_bytes=4_999_999)).text
    many = zipped(tmp_path / "many.zip", {f"f{number}": "" for number in range(101)})
    assert refused(many, limits=Limits(members=100)).reason == "too_large"
    files = {"x-1.0/PKG-INFO": "", "x-1.0/zeros": "\0" * 5_000_000}
    assert refused(sdist(tmp_path / "x-1.0.tar.gz", files)).reason == "too_large"


def test_modules_without_jobs_are_not_kept_in_memory(tmp_path: Path) -> None:
    """PKG-8: of a large package little is in memory."""
    large = "".join(f"x{number} = {number}\n" for number in range(MAX_SOURCE // 10))
    path = zipped(tmp_path / "x.zip", {"xwheel.toml": MANIFEST, "large.py": large, "acme.py": JOB})
    assert sorted(open_package(path, "x.zip").texts) == ["acme.py", "xwheel.toml"]
    path = zipped(tmp_path / "y.zip", {"xwheel.toml": MANIFEST, "large.py": JOB + large})
    error = refused(path)
    assert (error.reason, error.file) == ("too_large", "large.py")


def test_what_is_kept_of_modules_is_bounded_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = zipped(tmp_path / "x.zip", {"a.py": JOB, "b.py": JOB})
    monkeypatch.setattr("xwheel_job_package.archive.MAX_KEPT", 2 * len(JOB))
    assert len(open_package(path, "x.zip", project="x", version="1").texts) == 2
    monkeypatch.setattr("xwheel_job_package.archive.MAX_KEPT", 2 * len(JOB) - 1)
    assert refused(path, project="x", version="1").reason == "too_large"


def test_wheels_in_a_package_share_its_limit(tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("jobs.py", JOB)
        for name in ("one", "two"):
            found = wheel(tmp_path, {f"{name}.py": "".join(map(str, range(10_000)))}, name=name, version="1")
            archive.writestr(f"wheels/{found.name}", found.read_bytes())
    assert open_package(path, "x.zip", Limits(unpacked_bytes=100_000), project="x", version="1")
    # enough for either
    assert refused(path, "", Limits(unpacked_bytes=60_000), project="x", version="1").reason == "too_large"


def test_a_bomb_whose_header_lies(tmp_path: Path) -> None:
    """PKG-7: headers lie, so what is read is counted."""
    path = zipped(tmp_path / "x.zip", {"zeros": "\0" * 5_000_000})
    data = path.read_bytes().replace(struct.pack("<I", 5_000_000), struct.pack("<I", 100))
    path.write_bytes(data)
    assert refused(path, project="x", version="1").reason == "bad_archive"


def test_a_header_of_a_source_distribution_that_would_fill_memory(tmp_path: Path) -> None:
    """PKG-7: long names of tar archives are read whole by the library."""
    path = tmp_path / "x-1.0.tar.gz"
    item = tarfile.TarInfo("././@LongLink")
    item.type, item.size = tarfile.GNUTYPE_LONGNAME, 4 * MAX_TEXT
    with gzip.open(path, "wb") as file:
        file.write(item.tobuf(tarfile.GNU_FORMAT))
        file.write(b"x" * item.size)
    assert f"a header of over {MAX_TEXT} bytes" in refused(path, limits=Limits(ratio=10**9)).text


@pytest.mark.parametrize("kind", [tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK, tarfile.XHDTYPE, tarfile.XGLTYPE])
def test_a_huge_header_of_a_tar_archive_is_not_read(tmp_path: Path, kind: bytes) -> None:
    """N36: each kind of header that the library reads whole, in an archive that is right otherwise."""
    header = tarfile.TarInfo("././@Header")
    value = b"x" * (MAX_TEXT + 1)
    record = b"%d comment=%s\n" % (len(value) + 17, value)
    data = record if kind in (tarfile.XHDTYPE, tarfile.XGLTYPE) else value
    header.type, header.size = kind, len(data)
    member = tarfile.TarInfo("x-1.0/PKG-INFO")
    path = tmp_path / "x-1.0.tar.gz"
    with gzip.open(path, "wb") as file:
        file.write(header.tobuf(tarfile.GNU_FORMAT) + data + b"\0" * (-len(data) % tarfile.BLOCKSIZE))
        file.write(member.tobuf(tarfile.GNU_FORMAT) + b"\0" * 2 * tarfile.BLOCKSIZE)
    assert f"a header of over {MAX_TEXT} bytes" in refused(path, limits=Limits(ratio=10**9)).text


def directory_of(count: int) -> bytes:
    """Return a zip that is nothing but a directory of this many members."""
    member = struct.pack("<4s4B4HL2L5H2L", b"PK\1\2", 20, 0, 20, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0) + b"a"
    return member * count


def end_of(count: int, size: int, place: int = 0, *, is_large: bool = False) -> bytes:
    """Return the end of a zip, which says how many members it has and where."""
    short = (0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF) if is_large else (count, size, place)
    end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, short[0], *short, 0)
    if not is_large:
        return end
    large = struct.pack("<4sQ2H2L4Q", b"PK\6\6", 44, 45, 45, 0, 0, count, count, size, place)
    return large + struct.pack("<4sLQL", b"PK\6\7", 0, place + size, 1) + end


@pytest.mark.parametrize("is_large", [False, True])
@pytest.mark.parametrize(
    ("said", "there", "reason", "words"),
    [
        (60_000, 60_000, "too_large", "60000 members; 1000 are the most"),
        (900, 60_000, "too_large", "bytes are the most|bytes; .* are the most"),
        (900, 2_000, "too_large", "more than 1000 members .*though it says 900"),
        (900, 899, "bad_archive", "says that it has 900 members, and has 899"),
        (1, 2, "bad_archive", "says that it has 1 members, and has 2"),
    ],
)
def test_a_directory_is_counted_before_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: int, there: int, reason: str, words: str, is_large: bool
) -> None:
    """S18: 2,000,000 members took 36 s and 950 MB, whatever was said of them; in the large form of zips likewise."""

    def opened(*_: object, **__: object) -> None:
        raise AssertionError("the library reads it")

    monkeypatch.setattr(zipfile, "ZipFile", opened)
    data = directory_of(there)
    path = tmp_path / "x.zip"
    path.write_bytes(data + end_of(said, len(data), is_large=is_large))
    found = refused(path, limits=Limits(members=1000))
    assert (found.reason, bool(re.search(words, found.text))) == (reason, True), found.text


@pytest.mark.parametrize(
    "data",
    [
        b"", b"PK", b"PK\5\6", end_of(1, 46), end_of(1, 10**9), end_of(0, 0, is_large=True), b"x" * 46 + end_of(1, 46),
        directory_of(1)[:40] + end_of(1, 40), directory_of(2) + end_of(2, 60),
    ],
)  # fmt: skip
def test_an_end_that_lies_is_refused(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "x.zip"
    path.write_bytes(data)
    assert refused(path).reason in {"bad_archive", "too_large"}


def test_a_zip_with_a_program_in_front_of_it_is_counted_too(tmp_path: Path) -> None:
    path = zipped(tmp_path / "x.zip", {"xwheel.toml": MANIFEST, "acme.py": JOB})
    path.write_bytes(b"#!/bin/sh\n" * 100 + path.read_bytes())
    assert open_package(path, "x.zip").info.members == 2


DEEP = "[" * 5000
MANIFESTS = {
    "dotted key": "a" + ".a" * 300_000 + " = 1",
    "short dotted key": "a" + ".a" * 60 + " = 1",
    "dotted table": "[" + "a." * 60 + "a]",
    "deep": f"x = {DEEP}{']' * 5000}",
    "deep on lines": "x = " + "[\n" * 5000 + "]\n" * 5000,
    "deep in a line": f"x = {'[' * 1500}{']' * 1500}",
    "deep tables": "x = " + "{a=" * 900 + "1" + "}" * 900,
    "large": "# \n" * 100_000,
    "a long line": "# " + "x" * 10_000,
    "no TOML": "x = ",
}


@pytest.mark.parametrize("what", list(MANIFESTS))
def test_a_manifest_that_takes_long_is_not_read(tmp_path: Path, what: str) -> None:
    """S18: a key with dots did not end in 200 s, and brackets in brackets were an internal error."""
    path = zipped(tmp_path / "x.zip", {"xwheel.toml": f"{MANIFEST}{MANIFESTS[what]}\n", "acme.py": JOB})
    found = refused(path, limits=Limits(ratio=10**6))
    assert (found.reason in {"bad_archive", "too_large"}, found.file) == (True, "xwheel.toml")


@pytest.mark.parametrize(
    "name",
    [
        "../../evil.whl",
        "a/b.zip",
        "a\r\nb.zip",
        "x.exe",
        "x.whl",
        "x-1.0-py3.whl",
        "x-y.tar.gz",
        "a b.zip",
        "..zip",
        "",
        "x" * 300 + ".zip",
        "\u0440-1.0-py3-none-any.whl",
    ],
)
def test_names_of_files(name: str) -> None:
    """PKG-9: a name that is wrong is never repaired."""
    with pytest.raises(PackageError, match="^bad_filename"):
        parse_file_name(name)


def test_the_name_in_the_store_is_made_of_what_was_checked() -> None:
    """PKG-9: it is spelled again from project, version and tag."""
    found = parse_file_name("Acme.Jobs-1.02-py3-none-any.whl")
    assert (found.project, found.version, found.file) == ("acme-jobs", "1.2", "acme_jobs-1.2-py3-none-any.whl")
