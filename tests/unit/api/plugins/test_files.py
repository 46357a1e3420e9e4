"""Ranges of files: which part is sent, and that it is no more."""

from __future__ import annotations

from pathlib import Path

import falcon
import pytest

from xwheel.api.plugins.files import ByteRange, FilePart, wanted_range


@pytest.mark.parametrize(
    ("text", "part"),
    [
        (None, None),
        ("", None),
        ("bytes=-", None),
        ("bytes=0-1,3-4", None),
        ("lines=1-2", None),
        ("bytes=5-3", None),
        ("bytes=0-0", (0, 1)),
        ("bytes=3-", (3, 7)),
        ("bytes=3-5", (3, 3)),
        ("bytes=8-99", (8, 2)),
        ("bytes=-3", (7, 3)),
        ("bytes=-99", (0, 10)),
    ],
)
def test_a_range_is_what_its_header_says(text: str | None, part: tuple[int, int] | None) -> None:
    assert wanted_range(text, 10) == (None if part is None else ByteRange(*part))


@pytest.mark.parametrize("text", ["bytes=10-", "bytes=11-20", "bytes=-0"])
def test_a_range_of_no_byte_is_refused(text: str) -> None:
    with pytest.raises(falcon.HTTPRangeNotSatisfiable):
        wanted_range(text, 10)


def test_part_of_a_file_is_a_file_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"0123456789")
    part = FilePart(path.open("rb"), ByteRange(2, 5))
    assert (part.read(2), part.read(9), part.read()) == (b"23", b"456", b"")
    assert part.seek(0, 2) == 5
    assert part.tell() == 5
    assert part.read() == b""
    assert part.seek(0) == 0
    assert part.read() == b"23456"
    part.close()
