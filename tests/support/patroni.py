"""A PostgreSQL primary and its standby under Patroni, which makes one the other by itself; etcd keeps who is who."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from tests.support import servers
from tests.support.listings import one_listing
from tests.support.pair import WAIT_S, Pair, State
from tests.support.ports import free_port
from tests.support.server_homes import become, find, folder, owner, postgresql_place

TTL_S: Final = 20
"""After how long without a sign of life the guide lets a primary be replaced; Patroni takes no less."""

PATIENCE_S: Final = TTL_S + WAIT_S


class Patroni(Pair):
    """A pair whose standby Patroni promotes: :meth:`promote` waits until that is done."""

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        super().__init__(environment)
        self._rests = {port: free_port() for port in self.ports}
        self._keepers: dict[int, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Patroni:
        client = self._start_etcd()
        for port in self.ports:
            home = self._homes[port] = self._stack.enter_context(folder("postgres"))
            settings = home / "patroni.json"
            settings.write_text(json.dumps(self._settings(port, home, client)))
            shutil.chown(settings, *owner("postgres"))
            self.known[port] = self
            self._start(port)
        self._until("one server is primary, and the other follows", self._is_whole)
        self.state = State.WHOLE
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._keepers.values():
            process.terminate()  # it stops its server
        for process in self._keepers.values():
            process.wait()
        super().__exit__()

    def lose_primary(self, *, orderly: bool = False) -> None:
        """Kill the primary with all of its processes and Patroni beside it, or stop both in good order."""
        if self.state is not State.WHOLE:
            raise RuntimeError(f"the pair is {self.state.name}")
        self.state = State.HEADLESS
        keeper = self._keepers.pop(self.primary)
        if orderly:
            keeper.terminate()
            keeper.wait()
            return
        keeper.kill()
        keeper.wait()
        server = int((self._homes[self.primary] / "data" / "postmaster.pid").read_text().split()[0])
        children = Path(f"/proc/{server}/task/{server}/children").read_text(encoding="utf-8").split()
        for pid in (server, *map(int, children)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def promote(self) -> None:
        """Wait until the standby of a primary that is gone is the primary."""
        if self.state is State.HEADLESS:
            self._until("the standby takes over", lambda: self._role(self.standby) == "master")
            self.primary, self.state = self.standby, State.ALONE

    def join(self) -> None:
        """Start Patroni beside the server that was the primary, and wait until that follows the new one."""
        if self.state is State.ALONE:
            self._start(self.standby)
            self._until("the old primary follows", self._is_whole)
            self.state = State.WHOLE

    def _start(self, port: int) -> None:
        home = self._homes[port]
        with (home / "patroni.log").open("ab") as log:
            command = [*become("postgres"), find("patroni", "/usr/bin"), str(home / "patroni.json")]
            self._keepers[port] = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd=home)

    def _start_etcd(self) -> str:
        home = self._stack.enter_context(folder("postgres"))
        client, peer = (f"127.0.0.1:{free_port()}" for _ in range(2))
        options = {
            "data-dir": str(home / "data"),
            "listen-client-urls": f"http://{client}",
            "advertise-client-urls": f"http://{client}",
            "listen-peer-urls": f"http://{peer}",
            "initial-advertise-peer-urls": f"http://{peer}",
            "initial-cluster": f"default=http://{peer}",
        }
        with (home / "log").open("wb") as log:
            process = subprocess.Popen(
                [find("etcd", "/usr/bin"), *(f"--{name}={value}" for name, value in options.items())],
                stdout=log, stderr=log, stdin=subprocess.DEVNULL,
            )  # fmt: skip
        self._stack.callback(process.wait)
        self._stack.callback(process.terminate)
        return client

    def _settings(self, port: int, home: Path, client: str) -> dict[str, Any]:
        rest = f"127.0.0.1:{self._rests[port]}"
        way_in = ["host all all 127.0.0.1/32 scram-sha-256", "host replication all 127.0.0.1/32 scram-sha-256"]
        user = {"username": "xwheel", "password": servers.PASSWORD}
        (guide,) = yaml.safe_load(one_listing("docs/howto/databases.md", "bootstrap:").text).values()
        guide["dcs"]["postgresql"]["parameters"] = {"max_connections": 200, "fsync": "off"}
        return {
            "scope": "xwheel",
            "name": f"server-{port}",
            "restapi": {"listen": rest, "connect_address": rest},
            "etcd3": {"hosts": [client]},
            "bootstrap": {**guide, "initdb": ["no-sync", {"encoding": "UTF8"}, {"locale": "C"}]},
            "postgresql": {
                "listen": f"127.0.0.1:{port}",
                "connect_address": f"127.0.0.1:{port}",
                "data_dir": str(home / "data"),
                "bin_dir": postgresql_place(),
                "pgpass": str(home / "pgpass"),
                "authentication": {"superuser": user, "replication": {**user, "username": "replicator"}},
                "parameters": {"unix_socket_directories": str(home)},
                "pg_hba": ["local all all trust", *way_in],
            },
        }

    def _ask_patroni(self, port: int, path: str) -> dict[str, Any]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._rests[port]}/{path}", timeout=2) as answer:
                found: dict[str, Any] = json.load(answer)
        except urllib.error.HTTPError as error:
            found = json.load(error)
        except OSError:
            found = {}
        return found

    def _role(self, port: int) -> str:
        return str(self._ask_patroni(port, "patroni").get("role", ""))

    def _is_whole(self) -> bool:
        leaders = [port for port in self.ports if self._role(port) == "master"]
        if len(leaders) != 1:
            return False
        self.primary = leaders[0]
        members = self._ask_patroni(self.primary, "cluster").get("members", [])
        return "sync_standby" in {item["role"] for item in members if item["state"] in ("running", "streaming")}

    def _until(self, what: str, is_so: Callable[[], bool]) -> None:
        end = time.monotonic() + PATIENCE_S
        while not is_so():
            if time.monotonic() > end:
                logs = [(home / "patroni.log").read_text(errors="replace")[-1500:] for home in self._homes.values()]
                raise RuntimeError(f"not so in {PATIENCE_S} s: {what}\n" + "\n".join(logs))
            time.sleep(0.2)
