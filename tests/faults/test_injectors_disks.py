"""A small disk is full when it is told so, keeps what is on it, and is gone in the end."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.injectors.disks import SmallDisk

APPEND = """\
import os, sqlite3, sys
folder, word = sys.argv[1:]
assert os.getcwd() == os.environ["EXPECTED"]
try:
    with open(folder + "/lines", "a") as lines:
        lines.write(word + "\\n")
    db = sqlite3.connect(folder + "/x.db", isolation_level=None)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("CREATE TABLE IF NOT EXISTS item (word)")
    db.execute("INSERT INTO item VALUES (?)", (word,))
    print(*[row[0] for row in db.execute("SELECT word FROM item ORDER BY rowid")])
except (OSError, sqlite3.Error) as error:
    print(error)
if word == "killed":
    os.kill(os.getpid(), 9)
"""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    with SmallDisk(tmp_path / "disk", 2) as made:
        yield made


def append(disk: SmallDisk, tmp_path: Path, word: str) -> str:
    """Let a process of its own write a word; return what it says."""
    command = disk.command([sys.executable, "-c", APPEND, str(tmp_path / "disk"), word], cwd=tmp_path)
    environment = {"EXPECTED": str(tmp_path), "PYTHONUNBUFFERED": "1"}
    return subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=60, env=environment
    ).stdout.strip()


def test_a_full_disk_refuses_and_a_freed_one_goes_on(disk: SmallDisk, tmp_path: Path) -> None:
    assert append(disk, tmp_path, "one") == "one"
    assert append(disk, tmp_path, "killed") == "one killed"  # the disk is there for the next process
    fault = disk.filling()
    for number in range(2):
        fault.begin()
        fault.begin()
        said = append(disk, tmp_path, "lost")
        # SQLite has this word for a file that it cannot make longer, too
        assert any(words in said for words in ("No space left", "is full", "disk I/O error"))
        fault.end()
        fault.end()
        assert append(disk, tmp_path, f"more{number}").endswith(f"more{number}")
    assert append(disk, tmp_path, "last") == "one killed more0 more1 last"
    assert not list((tmp_path / "disk").iterdir())  # from outside there is nothing
    assert "lines" in {item.name for item in disk.path.iterdir()}


def test_what_was_freed_meanwhile_is_used_up_again(disk: SmallDisk, tmp_path: Path) -> None:
    (disk.path / "large").write_bytes(bytes(1 << 20))
    with disk.filling():
        (disk.path / "large").unlink()
        (disk.path / "small").write_bytes(b"x")
        disk.fill()
        with pytest.raises(OSError, match="No space left"):
            (disk.path / "other").write_bytes(b"x")
    (disk.path / "other").write_bytes(b"x")


def test_a_disk_is_gone_when_it_is_closed(tmp_path: Path) -> None:
    with SmallDisk(tmp_path / "disk", 2) as disk:
        (disk.path / "word").write_text("x")
    assert not disk.path.exists()
    with pytest.raises(RuntimeError, match="no disk on"), SmallDisk(tmp_path / "disk", -1):
        pass
