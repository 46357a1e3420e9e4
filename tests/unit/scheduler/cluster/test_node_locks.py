"""Which nodes of this machine have ended: what the files say, and what they must not be believed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from xwheel.scheduler.cluster.node_locks import NodeLocks, default_lock_dir

NODE, OTHER = "0123456789abcdef", "fedcba9876543210"


def test_r18_a_node_lives_for_as_long_as_its_process(tmp_path: Path) -> None:
    holder, asker = NodeLocks(tmp_path / "locks"), NodeLocks(tmp_path / "locks")
    assert not asker.has_ended(NODE)  # never heard of
    holder.hold(NODE)
    assert not asker.has_ended(NODE)
    holder.leave()  # as the end of its process does
    assert asker.has_ended(NODE)
    assert asker.has_ended(NODE)  # asking takes nothing away


@pytest.mark.processes
def test_r18_a_killed_process_has_ended(tmp_path: Path) -> None:
    code = (
        "import sys, pathlib; from xwheel.scheduler.cluster.node_locks import NodeLocks\n"
        f"NodeLocks(pathlib.Path({str(tmp_path)!r})).hold({NODE!r}); print('held', flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        assert not NodeLocks(tmp_path).has_ended(NODE)
        process.kill()
        process.wait()
        assert NodeLocks(tmp_path).has_ended(NODE)


def test_a_copy_on_another_machine_says_nothing(tmp_path: Path) -> None:
    holder = NodeLocks(tmp_path, boot="one start of one machine")
    holder.hold(NODE)
    holder.leave()  # as the end of its process does
    assert NodeLocks(tmp_path, boot="one start of one machine").has_ended(NODE)
    assert not NodeLocks(tmp_path, boot="another").has_ended(NODE)
    assert not NodeLocks(tmp_path, boot="").has_ended(NODE)  # a system without such an id


def test_a_file_that_was_not_written_to_the_end_says_nothing(tmp_path: Path) -> None:
    (tmp_path / f"{NODE}.lock").touch()
    assert not NodeLocks(tmp_path).has_ended(NODE)


@pytest.mark.parametrize("name", ["", "../../etc/passwd", "a/b", "x" * 16, "node-1"])
def test_a_name_that_is_no_node_id_opens_no_file(tmp_path: Path, name: str) -> None:
    assert not NodeLocks(tmp_path).has_ended(name)


def test_the_files_are_of_this_user_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        NodeLocks(tmp_path / "locks").hold(NODE)
    finally:
        os.umask(before)
    assert (tmp_path / "locks").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "locks" / f"{NODE}.lock").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("what", ["shared", "link", "file"])
def test_a_folder_that_others_may_write_to_is_not_used(
    tmp_path: Path, what: str, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "locks"
    if what == "shared":
        folder.mkdir()
        folder.chmod(0o777)
    elif what == "link":
        (tmp_path / "real").mkdir(mode=0o700)
        folder.symlink_to(tmp_path / "real")
    else:
        folder.touch()
    NodeLocks(folder).hold(NODE)
    assert "no lock can be kept" in caplog.text
    assert "schedule.lock_dir" in caplog.text
    assert not list(tmp_path.rglob("*.lock"))


def test_what_others_may_write_is_not_believed(tmp_path: Path) -> None:
    holder = NodeLocks(tmp_path / "locks")
    holder.hold(NODE)
    holder.leave()  # as the end of its process does
    assert holder.has_ended(NODE)
    (tmp_path / "locks").chmod(0o777)
    assert not holder.has_ended(NODE)


def test_files_of_nodes_that_are_in_no_row_are_swept(tmp_path: Path) -> None:
    gone, alive, known = NodeLocks(tmp_path), NodeLocks(tmp_path), NodeLocks(tmp_path)
    gone.hold(NODE)
    gone.leave()  # as the end of its process does
    alive.hold(OTHER)
    known.hold("00000000")
    known.leave()
    NodeLocks(tmp_path).sweep({"00000000"})
    assert sorted(path.stem for path in tmp_path.iterdir()) == ["00000000", OTHER]
    alive.release()
    alive.release()
    assert [path.stem for path in tmp_path.iterdir()] == ["00000000"]


def test_the_default_folder_is_the_users_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    assert default_lock_dir() == tmp_path / "xwheel"
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    assert default_lock_dir().name == f"xwheel-{os.geteuid()}"
