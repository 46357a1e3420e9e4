"""Plugins of one file each come from a folder that no one else can write to, and are never trusted."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.unit.plugin.conftest import Install, PutFile
from xwheel.cli.main import app
from xwheel.config import build_config
from xwheel.errors import ConfigError, DuplicateNameError, PluginError
from xwheel.plugin.discovery import load_glue_types, load_plugins
from xwheel.plugin.folder import MAX_BYTES, list_files

ROUTER = """
import dataclasses
from xwheel import hookimpl
@dataclasses.dataclass
class Mine:
    name: str = "{name}"
    def route(self, context):
        return context.addresses[:1]
@hookimpl
def xwheel_register_routers(options):
    return [Mine(**options)]
"""
STRANGER = 65_534


def load(folder: Path, **settings: Any) -> Any:
    return load_plugins(build_config({"plugins": {"folder": folder, **settings}}))


def test_u10_each_file_of_the_folder_is_a_plugin(put_file: PutFile, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    put_file("nearby.py", ROUTER.format(name="NEARBY"))
    put_file("farther.py", ROUTER.format(name="FARTHER"))
    put_file("_helper.py", "raise RuntimeError('read')")
    folder = put_file("notes.txt", "nothing")
    (folder / "nested").mkdir()
    plugins = load(folder, options={"nearby": {"name": "RENAMED"}})
    assert {"RENAMED", "FARTHER", "FIRST"} <= set(plugins.routers)
    assert f"plugins of {folder}: farther, nearby" in caplog.text
    assert plugins.routers.owners["FARTHER"] == f"plugin farther ({folder}/farther.py)"
    assert [item.name for item in list_files(folder)] == ["farther", "nearby"]


def test_u10_a_plugin_of_the_folder_is_never_trusted(put_file: PutFile) -> None:
    folder = put_file("nearby.py", ROUTER.format(name="NEARBY"))
    plugins = load(folder, trusted=["xwheel", "plugins.folder", "", "nearby"])
    assert "FIRST" in plugins.routers.trusted
    assert "NEARBY" not in plugins.routers.trusted


def test_u10_without_the_setting_no_folder_is_read(put_file: PutFile, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = put_file("nearby.py", ROUTER.format(name="NEARBY"))
    monkeypatch.chdir(folder.parent)
    assert "NEARBY" not in load_plugins(build_config({})).routers


@pytest.mark.parametrize("mode", [0o775, 0o757, 0o777, 0o1777])
def test_u10_a_folder_that_others_can_write_to_is_refused(put_file: PutFile, mode: int) -> None:
    folder = put_file("nearby.py", ROUTER.format(name="NEARBY"))
    folder.chmod(mode)
    with pytest.raises(ConfigError, match=r"plugins.folder: .*can be written by others \(chmod go-w .*plugins\)"):
        load(folder)


def test_u10_a_folder_below_one_that_others_can_write_to_is_refused(put_file: PutFile) -> None:
    folder = put_file("nearby.py", ROUTER.format(name="NEARBY"))
    folder.parent.chmod(0o777)
    with pytest.raises(ConfigError, match=r"is below .*, which can be written by others \(chmod o-w .*\)"):
        load(folder)
    folder.parent.chmod(0o1777)  # as /tmp
    assert "NEARBY" in load(folder).routers


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder to any group")
def test_u10_a_folder_below_one_that_a_group_can_write_to_is_warned_of(
    put_file: PutFile, caplog: pytest.LogCaptureFixture
) -> None:
    folder = put_file("nearby.py", ROUTER.format(name="NEARBY"))
    for mode, group, is_warned in (
        (0o775, STRANGER, True),
        (0o1775, STRANGER, False),
        (0o755, STRANGER, False),
        (0o775, 0, False),
    ):
        os.chown(folder.parent, 0, group)
        folder.parent.chmod(mode)
        caplog.clear()
        assert "NEARBY" in load(folder).routers
        words = f"members of group {STRANGER} can put another folder in its place (chmod g-w {folder.parent})"
        assert (words in caplog.text) == is_warned


@pytest.mark.parametrize("mode", [0o664, 0o646, 0o666])
def test_u10_a_file_that_others_can_write_to_is_refused(put_file: PutFile, mode: int) -> None:
    folder = put_file("nearby.py", "raise RuntimeError('run')")
    (folder / "nearby.py").chmod(mode)
    with pytest.raises(
        PluginError, match=r"nearby.py can be written by others \(chmod go-w .*nearby.py\): it is not run"
    ):
        load(folder)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_u10_what_belongs_to_another_user_is_refused(put_file: PutFile) -> None:
    folder = put_file("nearby.py", "raise RuntimeError('run')")
    os.chown(folder / "nearby.py", STRANGER, STRANGER)
    with pytest.raises(PluginError, match=f"nearby.py belongs to user {STRANGER}: it must belong to root"):
        load(folder)
    os.chown(folder / "nearby.py", 0, 0)
    os.chown(folder, STRANGER, STRANGER)
    with pytest.raises(ConfigError, match=f"plugins.folder: .* belongs to user {STRANGER}"):
        load(folder)
    os.chown(folder, 0, 0)
    os.chown(folder.parent, STRANGER, STRANGER)
    with pytest.raises(ConfigError, match=f"is below .*, which belongs to user {STRANGER}"):
        load(folder)


def test_u10_a_link_a_pipe_and_an_endless_file_are_refused(put_file: PutFile, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere.py"
    elsewhere.write_text("raise RuntimeError('run')")
    folder = put_file("big.py", "#" * (MAX_BYTES + 1))
    (folder / "link.py").symlink_to(elsewhere)
    os.mkfifo(folder / "pipe.py", 0o600)
    (folder / "folder.py").mkdir(mode=0o700)
    put_file("odd-name.py", "raise RuntimeError('run')")
    errors = {item.name: item.error for item in list_files(folder)}
    assert "is a link: put the file itself there" in errors["link"]
    assert "is no file" in errors["pipe"]
    assert "is no file" in errors["folder"]
    assert "is larger than" in errors["big"]
    assert "is not called like a plugin" in errors["odd-name"]


def test_u10_a_compiled_file_beside_it_counts_for_nothing(put_file: PutFile, tmp_path: Path) -> None:
    import importlib.util
    import py_compile

    folder = put_file("nearby.py", ROUTER.format(name="NEARBY"))
    path = folder / "nearby.py"
    found = path.stat()
    evil = tmp_path / "evil.py"
    evil.write_text(ROUTER.format(name="EVILLY"))  # of the same length
    os.utime(evil, (found.st_atime, found.st_mtime))
    py_compile.compile(str(evil), importlib.util.cache_from_source(str(path)))
    assert "NEARBY" in load(folder).routers


def test_u10_a_missing_folder_stops_the_start_and_not_the_list(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="plugins.folder: cannot read .*: No such file"):
        load(tmp_path / "ghost")
    done = CliRunner().invoke(app, ["plugins", "--plugins-dir", str(tmp_path / "ghost")])
    assert done.exit_code == 2
    assert "FIRST" in done.output
    assert "cannot read" in done.output


def test_u10_a_broken_file_is_named_with_its_line_and_may_be_tolerated(put_file: PutFile) -> None:
    put_file("acme.py", "from xwheel import hookimpl\n\nimport nothing_of_that_name\n")
    folder = put_file("nearby.py", ROUTER.format(name="NEARBY"))
    with pytest.raises(PluginError, match=r"plugin acme \(.*acme.py\) cannot be loaded: .*acme.py:3\)"):
        load(folder)
    assert "NEARBY" in load(folder, tolerate=["acme"]).routers
    assert "NEARBY" in load(folder, disabled=["acme"]).routers
    with pytest.raises(PluginError, match="acme"):
        load_glue_types(build_config({"plugins": {"folder": folder}}))


def test_u10_a_file_cannot_take_the_name_of_an_installed_plugin(put_file: PutFile, install: Install) -> None:
    install(ROUTER.format(name="NEARBY"))
    folder = put_file("acme.py", ROUTER.format(name="OTHER"))
    with pytest.raises(DuplicateNameError, match=r"plugin acme comes from acme-acme 1.2 .* and from plugin acme \("):
        load(folder)
    (folder / "acme.py").rename(folder / "bcme.py")
    (folder / "bcme.py").write_text(ROUTER.format(name="FIRST"))
    with pytest.raises(DuplicateNameError, match="router 'FIRST' is registered by xwheel .* and by plugin bcme"):
        load(folder)


def test_u10_the_command_lists_the_folders_plugins(put_file: PutFile) -> None:
    folder = put_file("nearby.py", ROUTER.format(name="NEARBY"))
    done = CliRunner().invoke(app, ["plugins", "--plugins-dir", str(folder)])
    assert done.exit_code == 0, done.output
    lines = [" ".join(line.split()) for line in done.output.splitlines()]
    assert f"router NEARBY {folder}/nearby.py" in lines
