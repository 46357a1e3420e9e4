"""Another plugin in place of accounts: it knows only ``xwheel.plugin``, and a node works without ours."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest
import requests
from xwheel_devtools.testing.processes import NodeProcess

pytestmark = pytest.mark.processes

KEY = "shared with the reverse proxy"
PLUGIN = '''
"""People as a reverse proxy names them: it signs a header under a key that it shares with the scheduler."""

from __future__ import annotations

import hashlib
import hmac

from xwheel.plugin import (
    Actor, ActorKind, AuthError, Grant, Grants, PluginOptions, Role, hookimpl,
)


class Options(PluginOptions):
    """What the proxy and the scheduler share, and who may do everything."""

    key: str
    admins: list[str]


class StaleError(AuthError):
    """The proxy named somebody too long ago."""

    def __init__(self, caller: Actor) -> None:
        super().__init__("X-Proxy-User: it was signed too long ago")
        self.caller = caller


class ProxyCheck:
    """Reads the header ``X-Proxy-User: NAME SECONDS SIGNATURE``."""

    def __init__(self, options: Options, site: object) -> None:
        self._options, self._site = options, site

    def identify(self, call: object) -> Actor | None:
        words = call.headers["x-proxy-user"].split(" ")
        if len(words) != 3 or not words[1].isdecimal():
            raise AuthError("X-Proxy-User: must be a name, a time and a signature")
        name, at, shown = words
        text = f"{name} {at} {call.method} {call.path}".encode()
        wanted = hmac.new(self._options.key.encode(), text, hashlib.sha256).hexdigest()
        if not hmac.compare_digest(shown, wanted):
            raise AuthError("X-Proxy-User: the proxy did not sign this")
        role = Role.ADMIN if name in self._options.admins else Role.VIEWER
        actor = Actor(kind=ActorKind.ACCOUNT, name=name, grants=Grants(Grant(role)), credential="proxy")
        if abs(self._site.now_ms() - int(at) * 1000) > 60_000:
            raise StaleError(actor)
        return actor


class ProxyGate:
    """Lets those in whom the proxy names."""

    name = "proxy_users"
    headers = ("x-proxy-user",)
    cookies = ()

    def __init__(self, options: Options) -> None:
        self._options = options

    def open(self, site: object) -> ProxyCheck:
        return ProxyCheck(self._options, site)


@hookimpl
def xwheel_register_gates(options: Options) -> list[ProxyGate]:
    return [ProxyGate(options)]
'''


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    folder = tmp_path_factory.mktemp("node")
    plugins = folder / "plugins"
    plugins.mkdir(mode=0o755)
    file = plugins / "proxy_users.py"
    file.write_text(PLUGIN)
    file.chmod(0o644)
    made = NodeProcess(
        folder,
        XWHEEL_PLUGINS__FOLDER=str(plugins),
        XWHEEL_PLUGINS__DISABLED=json.dumps(["accounts"]),
        XWHEEL_PLUGINS__OPTIONS=json.dumps({"proxy_users": {"key": KEY, "admins": ["ann"]}}),
    )
    yield made
    made.stop()


def ask(node: NodeProcess, name: str, method: str = "GET", path: str = "/api/v1/groups", **more: Any) -> Any:
    at = int(time.time()) - more.pop("age_s", 0)
    signed = f"{name} {at} {method} {path}".encode()
    signature = hmac.new(more.pop("key", KEY).encode(), signed, hashlib.sha256).hexdigest()
    headers = {"X-Proxy-User": f"{name} {at} {signature}"}
    return requests.request(method, node.url + path, headers=headers, timeout=30, **more)


def test_the_plugin_is_short_and_knows_nothing_but_the_public_contract() -> None:
    assert len(PLUGIN.splitlines()) < 200
    imported = [line for line in PLUGIN.splitlines() if line.startswith(("from xwheel", "import xwheel"))]
    assert imported == ["from xwheel.plugin import ("]


def test_people_of_the_proxy_may_do_what_the_plugin_says(node: NodeProcess) -> None:
    made = ask(node, "ann", "POST", json={"app_name": "orders"})
    assert made.status_code == 201, made.text
    assert ask(node, "bob").json()["items"][0]["app_name"] == "orders"
    refused = ask(node, "bob", "POST", json={"app_name": "billing"})
    assert (refused.status_code, refused.json()["type"]) == (403, "urn:xwheel:problem:forbidden")
    job = ask(node, "ann", "POST", "/api/v1/jobs", json={"group_id": made.json()["id"], "name": "one", "handler": "h"})
    assert job.status_code == 201, job.text
    versions = ask(node, "bob", path=f"/api/v1/jobs/{job.json()['id']}/versions").json()["items"]
    assert [item["actor"] for item in versions] == ["ann"]


def test_what_is_not_signed_by_the_proxy_is_refused(node: NodeProcess) -> None:
    assert ask(node, "ann", key="guessed").status_code == 401
    assert ask(node, "ann", age_s=120).json()["detail"] == "X-Proxy-User: it was signed too long ago"
    assert requests.get(f"{node.url}/api/v1/groups", timeout=30).status_code == 401
    assert requests.get(f"{node.url}/api/v1/groups", headers={"X-Proxy-User": "ann"}, timeout=30).status_code == 401


def test_tokens_work_as_ever(node: NodeProcess) -> None:
    headers = {"Authorization": f"Bearer {node.token}"}
    assert requests.get(f"{node.url}/api/v1/tokens", headers=headers, timeout=30).status_code == 200


def test_without_accounts_their_routes_and_commands_are_not_there(node: NodeProcess) -> None:
    headers = {"Authorization": f"Bearer {node.token}"}
    for path in ("session", "me/sessions", "accounts", "audit"):
        answer = requests.get(f"{node.url}/api/v1/{path}", headers=headers, timeout=30)
        assert (answer.status_code, answer.json()["type"]) == (404, "urn:xwheel:problem:unknown-route")
    assert "password of the account" not in node.output.read_text()
    environment = {**os.environ, "XWHEEL_PLUGINS__DISABLED": json.dumps(["accounts"])}
    run = subprocess.run(
        [sys.executable, "-m", "xwheel", "account", "list"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode != 0
    assert "No such command 'account'" in run.stderr
