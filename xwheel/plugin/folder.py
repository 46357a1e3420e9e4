"""Plugins of one file each, from a folder into which only root and the user of this process can write.

A file is opened once, judged by its descriptor and read through it, so what was judged is what runs. It is compiled
from what was read: a compiled file next to it counts for nothing.
"""

from __future__ import annotations

import grp
import os
import pwd
import re
import stat
import sys
from dataclasses import dataclass
from importlib.abc import InspectLoader
from importlib.machinery import ModuleSpec
from importlib.util import decode_source, module_from_spec
from pathlib import Path
from types import CodeType, ModuleType
from typing import Final

from xwheel.errors import ConfigError, PluginError

SUFFIX: Final = ".py"
MAX_BYTES: Final = 1_048_576
MODULE_PREFIX: Final = "xwheel_folder_plugin_"
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginFile:
    """A file that is a plugin, called like the file without its ending; ``error`` says why it is not taken."""

    name: str
    path: Path
    source: bytes = b""
    error: str = ""

    def load(self) -> ModuleType:
        """Run the file and return it as a module; raises :class:`PluginError` if it is not taken."""
        if self.error:
            raise PluginError(self.error)
        loader = _SourceLoader(self)
        spec = ModuleSpec(MODULE_PREFIX + self.name, loader, origin=str(self.path))
        spec.has_location = True
        module = module_from_spec(spec)
        # classes and dataclasses find their module by its name
        sys.modules[module.__name__] = module
        try:
            loader.exec_module(module)
        except BaseException:
            del sys.modules[module.__name__]
            raise
        return module


@dataclass(frozen=True)
class _SourceLoader(InspectLoader):
    """Runs what was read from a file that was judged; nothing is read again."""

    _file: PluginFile

    def get_source(self, fullname: str) -> str:
        """Return the text, for tracebacks."""
        del fullname
        return decode_source(self._file.source)

    def get_code(self, fullname: str) -> CodeType:
        """Return the file compiled."""
        del fullname
        return self.source_to_code(self._file.source, str(self._file.path))


def list_files(folder: Path) -> list[PluginFile]:
    """Return the plugins of a folder in the order of their names; names that begin with ``_`` or ``.`` are left out.

    Raises ConfigError if the folder cannot be read, or others can write to it.
    """
    path = Path(os.path.realpath(folder))
    try:
        number = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise ConfigError(f"plugins.folder: cannot read {folder}: {error.strerror}") from error
    try:
        if risk := _risk(os.fstat(number), path) or _risk_above(path):
            raise ConfigError(f"plugins.folder: {folder} {risk}: no code is taken from there")
        found = os.listdir(number)  # noqa: PTH208 -- of the folder that was judged
        names = sorted(name for name in found if name.endswith(SUFFIX) and name[0] not in "_.")
        return [_read(path / name, number) for name in names]
    finally:
        os.close(number)


def one_file(path: Path) -> PluginFile:
    """Return a file as a plugin, wherever it is; it is judged like one in a folder."""
    return _read(Path(os.path.abspath(path)), None)  # noqa: PTH100 -- a link must stay one, to be refused


def _read(path: Path, folder: int | None) -> PluginFile:
    name = path.name.removesuffix(SUFFIX)

    def refused(why: str) -> PluginFile:
        return PluginFile(name=name, path=path, error=f"{path} {why}")

    if not path.name.endswith(SUFFIX) or not _NAME.fullmatch(name):
        return refused("is not called like a plugin: a letter, then letters, digits and underscores, then .py")
    try:
        # a pipe of that name would wait for a writer
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        number = os.open(path if folder is None else path.name, flags, dir_fd=folder)
    except OSError as error:
        link = "is a link: put the file itself there"
        return refused(link if path.is_symlink() else f"cannot be read: {error.strerror}")
    try:
        found = os.fstat(number)
        if not stat.S_ISREG(found.st_mode):
            return refused("is no file")
        if risk := _risk(found, path):
            return refused(f"{risk}: it is not run")
        with os.fdopen(number, "rb", closefd=False) as file:
            source = file.read(MAX_BYTES + 1)
    finally:
        os.close(number)
    if len(source) > MAX_BYTES:
        return refused(f"is larger than {MAX_BYTES} bytes")
    return PluginFile(name=name, path=path, source=source)


def _risk(found: os.stat_result, path: Path) -> str:
    if found.st_uid not in {0, os.geteuid()}:
        return f"belongs to user {found.st_uid}: it must belong to root or to user {os.geteuid()} (chown)"
    if found.st_mode & _OTHERS_WRITE:
        return f"can be written by others (chmod go-w {path})"
    return ""


def _risk_above(path: Path) -> str:
    """Return which folder above lets others put another one in this one's place, or an empty text."""
    for above in path.parents:
        found = above.stat()
        if found.st_uid not in {0, os.geteuid()}:
            return f"is below {above}, which belongs to user {found.st_uid}"
        if found.st_mode & stat.S_IWOTH and not found.st_mode & stat.S_ISVTX:
            return f"is below {above}, which can be written by others (chmod o-w {above})"
    return ""


def warning_above(folder: Path) -> str:
    """Return a warning of a folder above into which the members of a group can put another one, or an empty text.

    It is no refusal: whom a group has, only its administrator knows. A user's own group and root's are left out.
    """
    for above in Path(os.path.realpath(folder)).parents:
        found = above.stat()
        is_open = found.st_mode & stat.S_IWGRP and not found.st_mode & stat.S_ISVTX
        if is_open and not _is_private(found.st_gid):
            return (
                f"plugins.folder: {folder} is below {above}, where members of group {found.st_gid} can put another "
                f"folder in its place (chmod g-w {above})"
            )
    return ""


def _is_private(group_id: int) -> bool:
    """Return whether a group is root's, or one that this user has alone, by its name."""
    try:
        group, user = grp.getgrgid(group_id), pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:  # containers need not name them
        return group_id in {0, os.getegid()}
    return group_id == 0 or (group.gr_name == user and set(group.gr_mem) <= {user})
