"""What the management API tells of plugins."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import falcon
import falcon.testing

from tests.component.api.conftest import TOKEN, Api
from tests.support.parts import with_parts
from tests.support.rows import NOW
from xwheel.api.app import build_management_app
from xwheel.plugin import CALLER, Operation, PartHealth, PluginSite, ResourceRoute
from xwheel.plugin.discovery import PluginInfo, PluginOrigin
from xwheel.plugin.registries import Registry
from xwheel.scheduler.listeners import ListenerHealth


def info(name: str, *, enabled: bool = True, **registers: list[str]) -> PluginInfo:
    origin = PluginOrigin(name=name, target=f"xwheel_{name}", distribution=f"xwheel-{name}", version="1.2")
    return PluginInfo(
        origin=origin,
        enabled=enabled,
        registers={kind.replace("_", " "): names for kind, names in registers.items()},
        options={"url": "**********", "limit": 5} if enabled else {},
    )


class Health:
    """``GET /quiet``, so that there is a resource."""

    @Operation({204: None})
    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Answer nothing."""


class Reporting:
    """Resources that say how something fares."""

    chapters: Mapping[str, str] = {}

    def __init__(self, name: str, health: Callable[[], Sequence[PartHealth]]) -> None:
        self.name = name
        self._health = health

    def resources(self, site: PluginSite) -> Sequence[ResourceRoute]:
        return [ResourceRoute(f"/{self.name}", Health(), {"GET": CALLER})]

    def health(self) -> Sequence[PartHealth]:
        return self._health()


def fails() -> Sequence[PartHealth]:
    raise OSError("no space left on device")


def test_plugins_are_listed_with_what_they_register_and_how_it_fares(api: Api) -> None:
    installed = [
        info("chat", alarm_channel=["chat", "pager"], router=["NEAREST"]),
        info("audit", run_listener=["audit"]),
        info("other", enabled=False),
        info("stores", log_store=["memory", "spare"]),
    ]
    told = PartHealth(
        kind="alarm channel",
        name="chat",
        ok=False,
        failures=3,
        hanging=1,
        queued=7,
        last_ms=NOW,
        last_answer="HTTP 500",
    )
    kept = PartHealth(
        kind="log store",
        name="memory",
        ok=False,
        failures=1,
        last_answer="log store memory failed: OSError: no space left on device",
    )
    resources = Registry(
        "set of resources",
        {
            "alarm": Reporting("alarm", lambda: [told]),
            "bad": Reporting("bad", fails),
            "logs": Reporting("logs", lambda: [kept]),
        },
        {"alarm": "one", "bad": "another", "logs": "a third"},
    )
    plugins = replace(api.parts.plugins, installed=installed, resources=resources)
    parts = with_parts(api.parts, plugins=plugins)
    api.asked.listeners = [
        ListenerHealth(
            name="audit", queued=2, delivered=90, dropped=4, failures=1, last_error="KeyError: 'x'", busy_ms=70_000
        )
    ]
    client = falcon.testing.TestClient(build_management_app(parts))
    answer = client.simulate_get("/api/v1/plugins", headers={"Authorization": f"Bearer {TOKEN}"})
    assert answer.status_code == 200
    chat, audit, other, kept = answer.json["items"]
    assert (chat["name"], chat["distribution"], chat["version"], chat["module"], chat["enabled"]) == (
        "chat", "xwheel-chat", "1.2", "xwheel_chat", True
    )  # fmt: skip
    assert chat["options"] == {"url": "**********", "limit": 5}
    everywhere, here = {"role": "viewer"}, {"groups": [{"group_id": api.group("some"), "role": "admin"}]}
    for name, grants in {"all": everywhere, "one": here, "most": {"role": "editor", "script": True}}.items():
        secret = api.call("POST", "tokens", {"name": name, **grants}).json["token"]
        api.clock.advance(1000)
        seen = client.simulate_get("/api/v1/plugins", headers={"Authorization": f"Bearer {secret}"})
        assert seen.status_code == 200, name
        assert [item["options"] for item in seen.json["items"]] == [{}] * 4, name  # S29: for admins of all groups
    assert chat["registers"] == [
        {
            "kind": "alarm channel",
            "name": "chat",
            "health": {
                "ok": False,
                "queued": 7,
                "failures": 3,
                "hanging": 1,
                "dropped": 0,
                "last_ms": NOW,
                "last_answer": "HTTP 500",
            },
        },
        {"kind": "alarm channel", "name": "pager", "health": None},
        {"kind": "router", "name": "NEAREST", "health": None},
    ]
    assert audit["registers"][0]["health"] == {
        "ok": False,
        "queued": 2,
        "failures": 1,
        "hanging": 1,
        "dropped": 4,
        "last_ms": None,
        "last_answer": "KeyError: 'x'",
    }
    assert [(item["name"], item["health"]) for item in kept["registers"]] == [
        (
            "memory",
            {
                "ok": False,
                "queued": 0,
                "failures": 1,
                "hanging": 0,
                "dropped": 0,
                "last_ms": None,
                "last_answer": "log store memory failed: OSError: no space left on device",
            },
        ),
        ("spare", None),  # not used
    ]
    assert (other["enabled"], other["registers"], other["options"]) == (False, [], {})
