"""The log store ``file``."""

from __future__ import annotations

from pathlib import Path

import pytest
from xwheel_devtools.testing import check_log_store, sample_log_chunk, sample_log_key
from xwheel_run_logs import LogEnd
from xwheel_run_logs.files import LogFiles, LogFilesOptions

from xwheel.errors import ConfigError


def _store(folder: Path, **options: bool) -> LogFiles:
    return LogFiles(LogFilesOptions(directory=folder, **options), needs_shared=True)


def test_the_contract_holds(tmp_path: Path) -> None:
    check_log_store(_store(tmp_path), _store(tmp_path))


def test_a_line_without_its_end_is_cut_off(tmp_path: Path) -> None:
    key = sample_log_key()
    _store(tmp_path).append([sample_log_chunk(key, 1, ["first"])])
    (file,) = tmp_path.rglob("*.part")
    with file.open("ab") as stream:
        stream.write(b"half a li")
    store = _store(tmp_path)
    assert store.find(key) == LogEnd(2, False)
    assert store.read(key, 1, 1000) == "first\n"
    assert store.append([sample_log_chunk(key, 2, ["second"])]) == [3]
    assert file.read_bytes() == b"first\nsecond\n"


def test_files_are_of_this_user_alone(tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    key = sample_log_key()
    _store(folder).append([sample_log_chunk(key, 1, ["first"], is_last=True)])
    (file,) = folder.rglob("*.log")
    assert file.stat().st_mode & 0o777 == 0o600
    assert {path.stat().st_mode & 0o777 for path in (folder, file.parent)} == {0o700}


def test_a_folder_that_is_empty_goes(tmp_path: Path) -> None:
    key = sample_log_key()
    store = _store(tmp_path)
    store.append([sample_log_chunk(key, 1, ["first"])])
    store.delete([key])
    assert not list(tmp_path.iterdir())


def test_several_nodes_need_a_shared_folder(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"plugins\.options\.log_files\.shared: several nodes"):
        _store(tmp_path).check()
    _store(tmp_path, shared=True).check()
    LogFiles(LogFilesOptions(directory=tmp_path), needs_shared=False).check()
