"""The folder of an embedded scheduler: database, journal, tokens, the lock of the leader, and what others may know."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from xwheel.errors import ConfigError
from xwheel.private_files import make_folder, replace_text, write_text
from xwheel.runtime.file_lock import FileLock
from xwheel.runtime.ports import free_port

if TYPE_CHECKING:
    from xwheel.config import Config

APP_NAME: Final = "embedded"
HOST: Final = "127.0.0.1"
LEAVE_S: Final = 0.2
STOP_S: Final = 10
OUR_NAMES: Final = frozenset({
    "xwheel.db", "xwheel.db-wal", "xwheel.db-shm", "xwheel.db.lock", "executor", "token", "executor-token",
    "leader.lock", "leader.json",
})  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderState:
    """What the last leader wrote down for those who stand by, and for the next one."""

    pid: int = 0
    api_port: int = 0  # of its management API
    executor_api_port: int = 0  # where its executor registered
    executor_port: int = 0  # where its executor listened; sends that are on their way find it again there
    group_id: int = 0  # of the declared jobs
    declared: tuple[str, ...] = ()  # names of the jobs that code declared
    retired: tuple[str, ...] = ()  # names of those that were stopped because code declares them no more


class Folder:
    """A folder of this user alone, which several processes share; made with the first use."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self.token_file = self.path / "token"
        self.lock = FileLock(self.path / "leader.lock", "one process leads")
        self._state_file = self.path / "leader.json"

    def make(self) -> None:
        """Make it, unless it is there; raises ConfigError if it cannot be made."""
        try:
            make_folder(self.path, ours=OUR_NAMES)
        except OSError as error:
            raise ConfigError(f"cannot make the folder {self.path}: {error.strerror}") from error

    def read_state(self) -> LeaderState:
        """Return what the last leader wrote; nothing is known before the first one."""
        try:
            values = json.loads(self._state_file.read_text(encoding="utf-8"))
        except (FileNotFoundError, ValueError):  # or not written by us as a whole
            return LeaderState()
        names = LeaderState.__dataclass_fields__
        state = LeaderState(**{name: value for name, value in values.items() if name in names})
        return replace(state, declared=tuple(state.declared), retired=tuple(state.retired))

    def write_state(self, state: LeaderState) -> None:
        """Write what others may know."""
        replace_text(self._state_file, json.dumps(asdict(state)))

    def management_token(self) -> str:
        """Return the token of the management API; the first leader makes it."""
        return _secret(self.token_file)

    def config(self, settings: Mapping[str, Mapping[str, Any]], state: LeaderState) -> Config:
        """Return the settings of node and executor; single ``settings`` by section win.

        The ports where the last leader listened are taken again if they are free. Raises ConfigError if a setting is
        not allowed, or not in embedded mode.
        """
        from xwheel.config import build_config

        if "database" in settings and "url" in settings["database"]:
            raise ConfigError(
                "settings: database.url is the folder's SQLite file in embedded mode; for another database, run "
                "'xwheel server' and executors"
            )
        token = _secret(self.path / "executor-token")
        ours: dict[str, dict[str, Any]] = {
            "database": {"url": f"sqlite:///{self.path / 'xwheel.db'}"},
            "api": {
                "host": HOST,
                "port": free_port(state.api_port),
                "executor_host": HOST,
                "executor_port": free_port(state.executor_api_port),
                "executor_token": token,
            },
            "executor": {
                "app_name": APP_NAME,
                "access_token": token,
                "host": HOST,
                "port": free_port(state.executor_port),
                "data_dir": self.path / "executor",
                "leave_s": LEAVE_S,
                "stop_timeout_s": STOP_S,
            },
        }
        merged = {name: {**ours.get(name, {}), **settings.get(name, {})} for name in {**ours, **settings}}
        return build_config(merged)


def _secret(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii").strip()
    except FileNotFoundError:
        made = secrets.token_urlsafe(32)
        write_text(path, f"{made}\n")
        return made
