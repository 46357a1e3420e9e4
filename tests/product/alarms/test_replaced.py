"""A plugin of one file, which knows only the public hooks, takes the place of our alarms as a whole."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import requests
from xwheel_alarms import AlarmChannel

from tests.product.alarms.own import pagers
from tests.product.alarms.support import Recorder
from tests.support.rows import job_values
from tests.support.waiting import wait_until
from xwheel.config import build_config
from xwheel.node.node import Node
from xwheel.plugin import hookimpl
from xwheel.storage import executors

SOURCE = Path(pagers.__file__)


class Channel:
    def __init__(self, channel: AlarmChannel) -> None:
        self._channel = channel

    @hookimpl
    def xwheel_register_alarms(self) -> Iterable[AlarmChannel]:
        return [self._channel]


class Calls:
    """The management API of a node, with its first token."""

    def __init__(self, node: Node, token: str) -> None:
        self._base = f"http://127.0.0.1:{node.management.port}/api/v1"
        self._headers = {"Authorization": f"Bearer {token}"}

    def __call__(self, method: str, path: str, body: Any = None) -> requests.Response:
        return requests.request(method, self._base + path, json=body, headers=self._headers, timeout=30)


@contextmanager
def running(folder: Path, pager: Recorder, secrets: list[str]) -> Iterator[tuple[Node, Calls]]:
    settings = {
        "database": {"url": f"sqlite:///{folder / 'node.db'}"},
        "api": {"port": 0, "executor_port": 0},
        "plugins": {"disabled": ["alarm"]},
    }
    node = Node(build_config(settings), secrets.append, {"pagers": pagers, "channel": Channel(pager)})
    token = next(line.rpartition(" ")[2] for line in secrets if "management token" in line)
    node.start()
    try:
        yield node, Calls(node, token)
    finally:
        node.stop()


def test_it_is_small_and_knows_only_what_is_public() -> None:
    text = SOURCE.read_text()
    assert len(text.splitlines()) < 200
    imported = {node.module for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ImportFrom)}
    assert {name for name in imported if name and name.startswith("xwheel")} == {"xwheel.plugin", "xwheel_alarms"}


def test_runs_that_end_badly_are_told_by_the_other_plugin(tmp_path: Path) -> None:
    pager, secrets = Recorder("pager"), []
    with running(tmp_path, pager, secrets) as (node, call):
        assert call("GET", "/alarms").status_code == 404
        db, management = node.scheduler.core.db, node.scheduler.management
        groups = [
            db.transaction(lambda conn, name=name: executors.insert_group(conn, app_name=name, title="", now_ms=1).id)
            for name in ("watched", "other")
        ]
        assert call("PUT", f"/pagers/groups/{groups[0]}", {"channel": "pager"}).status_code == 204
        runs = [
            management.run_now.run(
                management.jobs.create(
                    job_values(name=str(group), group_id=group, schedule_type="NONE", schedule_conf="")
                ).id
            )
            for group in groups
        ]
        # one tick may refuse both, or two ticks one each
        wait_until(lambda: call("GET", f"/runs/{runs[1].id}").json()["state"] == "refused")
        wait_until(lambda: bool(pager.told))
        (told,) = pager.told
        assert (told.id, told.reason) == (runs[0].id, "no_executor")
        (page,) = call("GET", "/pagers").json()
        assert (page["run_id"], page["sent"]) == (runs[0].id, 1)
    with running(tmp_path, pager, secrets) as (node, call):
        # what it noted is there after a restart
        assert [page["run_id"] for page in call("GET", "/pagers").json()] == [runs[0].id]
        assert call("POST", f"/pagers/runs/{runs[0].id}/seen").status_code == 204
        assert call("GET", "/pagers").json() == []
