"""Routes of a plugin that work along: as the node, supervised, and ended with it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import cast

import pytest
import requests
from xwheel_devtools.testing import NodeSite, wait_until

from tests.support.versions import kept_versions
from xwheel import hookimpl
from xwheel.api.plugins import work
from xwheel.plugin import Migration, Permission, PluginSite, Route, RouteCall, RouteReply, WorksAlong
from xwheel.storage.database import startup


class Follower:
    """Counts its steps; what a step does is given."""

    name = "follower"

    def __init__(self, step: Callable[[Follower, int], object]) -> None:
        self._step = step
        self.site: PluginSite
        self.steps = 0
        self.ended = threading.Event()

    @hookimpl
    def xwheel_register_routes(self) -> list[Follower]:
        return [self]

    def routes(self, site: PluginSite) -> Sequence[Route]:
        self.site = site

        def count(call: RouteCall) -> RouteReply:
            del call
            return RouteReply(value={"steps": self.steps})

        return [Route(method="GET", path="", answer=count, summary="Count.", permission=Permission.READ)]

    def step(self, now_ms: int) -> int:
        self.steps += 1
        return cast(int, self._step(self, now_ms))  # what a plugin returns is not known

    def end(self) -> None:
        self.ended.set()


def test_a_step_acts_as_the_node_and_is_called_until_the_node_stops(tmp_path: Path) -> None:
    made: list[int] = []

    def step(one: Follower, now_ms: int) -> int:
        group_id = one.site.jobs.group_id("demo")
        if group_id is not None and not made:
            job = one.site.jobs.create({"group_id": group_id, "name": f"at {now_ms}", "handler": "hello"})
            made.append(job["id"])
        return 20

    plugin = Follower(step)
    assert isinstance(plugin, WorksAlong)
    with closing(NodeSite(tmp_path / "node", plugin)) as node:
        wait_until(lambda: made and plugin.steps > 3)
        assert node.call("GET", f"jobs/{made[0]}")["name"].startswith("at ")
        with plugin.site.database.read() as conn:
            (version,) = kept_versions(conn, made[0])
        assert (version.action, version.actor) == ("create", "plugin follower")
        assert not plugin.ended.is_set()
    assert plugin.ended.is_set()


@pytest.mark.parametrize("answer", [-1, "soon", None, 1.5])
def test_a_step_that_answers_nonsense_is_repeated_and_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, answer: object
) -> None:
    plugin = Follower(lambda _, __: answer)
    with closing(NodeSite(tmp_path / "node", plugin)) as node:
        wait_until(lambda: plugin.steps > 2)
        assert node.call("GET", "follower")["steps"] > 2
    assert "routes follower: step() must return milliseconds from 0 on" in caplog.text


def test_a_step_that_raises_anything_leaves_the_node_ready(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def step(one: Follower, now_ms: int) -> int:
        raise SystemExit(3)

    plugin = Follower(step)
    with closing(NodeSite(tmp_path / "node", plugin)) as node:
        wait_until(lambda: plugin.steps > 2)
        answer = requests.get(f"{node.url}/healthz", timeout=10)
        assert answer.json() == {"status": "ok"}
    assert "routes follower: step() failed" in caplog.text


def test_a_step_that_hangs_holds_up_no_stop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work, "END_S", 0.2)
    hangs = threading.Event()

    def step(one: Follower, now_ms: int) -> int:
        hangs.wait(60)
        return 0

    plugin = Follower(step)
    node = NodeSite(tmp_path / "node", plugin)
    wait_until(lambda: plugin.steps == 1)
    node.close()
    assert plugin.ended.is_set()
    hangs.set()


class ToyTables:
    """The table of a plugin that is installed where the database was made."""

    name = "toys"

    def migrations(self) -> Sequence[Migration]:
        return [Migration("0001", lambda conn: conn.exec_driver_sql("CREATE TABLE toys (id INTEGER)"))]

    def tables(self) -> Sequence[str]:
        return ["toys"]


def test_a_start_names_a_plugin_whose_tables_are_there_and_which_is_not(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    startup.upgrade(f"sqlite:///{tmp_path / 'node.db'}", {"toys": ToyTables()})
    with closing(NodeSite(tmp_path, executors=0)):
        said = [record.getMessage() for record in caplog.records if "has tables" in record.getMessage()]
    assert [words.partition(" has ")[0] for words in said] == ["plugin toys"]
