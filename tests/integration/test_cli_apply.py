"""Jobs as files against a real node: twice is once, and what is exported makes the same jobs elsewhere."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from xwheel_jobs_as_code import apply, remote

from xwheel.cli import main
from xwheel.config import build_config
from xwheel.node.node import Node
from xwheel.wire.http.rest import RestClient

FILE = r"""
calendars:
  - name: free-days
    definition: {weekdays: "SAT,SUN", dates: [2026-12-24, "2026-12-27..2026-12-31"]}
groups:
  - app_name: orders
    title: "Orders: \u4e2d"
    max_running: 7
    jobs:
      - name: yes
        handler: nightly
        description: "  leading\n\nand trailing  \n"
        schedule_type: CRON
        schedule_conf: 0 0 3 * * ?
        timezone: Asia/Shanghai
        anchor_ms: 1767225600123
        start_ms: 1767225600000
        end_ms: 4102444800000
        misfire_policy: fire_once
        misfire_threshold_ms: 0
        route_strategy: ROUND
        block_strategy: DISCARD_LATER
        block_scope: cluster
        param: |
          {"a": [1, 2],
           "b": "x"}
        timeout_s: 60
        max_retries: 3
        retry_backoff: list
        retry_delays_ms: [1000, 5000]
        retry_max_delay_ms: 60000
        retry_jitter_pct: 10
        delivery: at_most_once
        recover_lost: true
        join_mode: all
        retention_days: 9
        wait_for_executor_s: 30
        jitter_ms: 400
        calendar_exclude: [free-days]
        enabled: true
        children:
          - "0x10"
          - job: reports/daily
            param: "${result:json} of ${result.orders/0x10}, $${result.1}"
      - name: "0x10"
        handler: h
        param: 1e3
        children: [{job: reports/daily, param: "${result.reports/a %7Bb%7D%3A%24/%25}"}]
  - app_name: reports
    jobs:
      - {name: daily, handler: "on", children: []}
      - {name: "a {b}:$/%", handler: h, children: [{job: reports/daily, param: "${result.orders/yes:json}"}]}
  - app_name: empty
"""


class Shell:
    """Runs commands in this process against nodes that are as real as any."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], new_database: Callable[[], str]
    ) -> None:
        self._monkeypatch, self._capsys, self._new_database = monkeypatch, capsys, new_database
        self._nodes: list[Node] = []
        self.database = ""
        """That of the latest node."""

    def node(self) -> RestClient:
        """Start a node with an empty database; commands talk to it from now on."""
        said = list[str]()
        config = build_config({"database": {"url": self._new_database()}, "api": {"port": 0, "executor_port": 0}})
        node = Node(config, announce=said.append)
        self._nodes.append(node)
        self.database = config.database.url
        node.start()
        url = f"http://127.0.0.1:{node.management.port}"
        (token,) = [word.split()[-1] for word in said if "management token" in word]
        self._monkeypatch.setenv("XWHEEL_URL", url)
        self._monkeypatch.setenv("XWHEEL_TOKEN", token)
        return RestClient(url, token)

    def stop(self) -> None:
        for node in self._nodes:
            node.stop()

    def __call__(self, *words: str) -> tuple[int, str, str]:
        """Return exit status, standard output and standard error."""
        self._monkeypatch.setattr(sys, "argv", ["xwheel", *words])
        with pytest.raises(SystemExit) as caught:
            main.main()
        out, err = self._capsys.readouterr()
        return int(caught.value.code or 0), out, err


@pytest.fixture
def xwheel(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], new_database: Callable[[], str], tmp_path: Path
) -> Iterator[Shell]:
    # the logins of who runs the tests are none of theirs
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    shell = Shell(monkeypatch, capsys, new_database)
    yield shell
    shell.stop()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "jobs.yaml"
    path.write_text(FILE, encoding="utf-8")
    return path


def all_jobs(client: RestClient) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = client.call("GET", "/api/v1/jobs")["items"]
    return found


def planned(client: RestClient) -> list[int]:
    return [run["id"] for run in client.call("GET", "/api/v1/runs")["items"]]


def test_twice_changes_nothing_the_second_time(xwheel: Shell, file: Path) -> None:
    client = xwheel.node()
    status, out, err = xwheel("job", "apply", "-f", str(file), "--dry-run")
    assert (status, err) == (0, "")
    assert "+ create orders/yes" in out
    assert all_jobs(client) == []
    assert xwheel("job", "apply", "-f", str(file), "--check")[0] == apply.EXIT_DRIFT
    status, out, err = xwheel("job", "apply", "-f", str(file))
    assert (status, err) == (0, "")
    before = (all_jobs(client), planned(client))
    assert len(before[0]) == 4
    assert [job["enabled"] for job in before[0]] == [True, False, False, False]
    for words in ((), ("--check",), ("--dry-run",), ("--prune",)):
        assert xwheel("job", "apply", "-f", str(file), *words) == (0, "nothing differs\n", "")
    assert (all_jobs(client), planned(client)) == before


def test_an_export_makes_the_same_jobs_on_an_empty_database(xwheel: Shell, file: Path, tmp_path: Path) -> None:
    first = xwheel.node()
    assert xwheel("job", "apply", "-f", str(file))[0] == 0
    status, text, err = xwheel("job", "export")
    assert (status, err) == (0, "")
    copy = tmp_path / "copy.yaml"
    assert xwheel("job", "export", "--output", str(copy)) == (0, "", "")
    assert copy.read_text(encoding="utf-8") == text
    second = xwheel.node()
    assert xwheel("job", "apply", "-f", str(copy))[0] == 0
    assert xwheel("job", "export")[1] == text
    own = {"id", "group_id", "revision", "created_ms", "updated_ms"}
    bare = [[{k: v for k, v in job.items() if k not in own} for job in all_jobs(node)] for node in (first, second)]
    assert bare[0] == bare[1]
    assert second.call("GET", "/api/v1/groups")["items"][0]["title"] == "Orders: 中"


def test_drift_is_told_field_by_field_and_taken_back(xwheel: Shell, file: Path) -> None:
    client = xwheel.node()
    xwheel("job", "apply", "-f", str(file))
    job = all_jobs(client)[0]
    client.call("PATCH", f"/api/v1/jobs/{job['id']}", {"timeout_s": 5})
    client.call("POST", f"/api/v1/jobs/{job['id']}/stop")
    client.call("PUT", f"/api/v1/jobs/{job['id']}/children", {"children": []})
    client.call("POST", "/api/v1/jobs", {"group_id": job["group_id"], "name": "stray", "handler": "h"})
    status, out, _ = xwheel("job", "apply", "-f", str(file), "--check", "--json", "--prune")
    assert status == apply.EXIT_DRIFT
    found = {change["action"]: change for change in json.loads(out)["changes"]}
    assert list(found) == ["update", "children", "start", "delete"]
    assert found["update"]["fields"] == [{"field": "timeout_s", "old": 5, "new": 60}]
    assert found["delete"]["name"] == "orders/stray"
    assert xwheel("job", "apply", "-f", str(file), "--prune")[0] == 0
    assert xwheel("job", "apply", "-f", str(file), "--check", "--prune")[0] == 0
    assert len(all_jobs(client)) == 4


def test_a_chain_is_turned_round(xwheel: Shell, tmp_path: Path) -> None:
    xwheel.node()
    path = tmp_path / "chain.yaml"
    job = "{{name: {}, handler: h, children: [{}]}}"
    for pairs in ((("a", "b"), ("b", "c"), ("c", "")), (("c", "b"), ("b", "a"), ("a", ""))):
        jobs = ", ".join(job.format(*pair) for pair in pairs)
        path.write_text(f"groups: [{{app_name: g, jobs: [{jobs}]}}]")
        status, _, err = xwheel("job", "apply", "-f", str(path))
        assert (status, err) == (0, "")
        assert xwheel("job", "apply", "-f", str(path), "--check")[0] == 0


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("{name: a, handler: h, schedule_type: CRON, schedule_conf: 0 0 25 * * ?}", ":3: job g/a: schedule_conf: "),
        ("{name: a, handler: h, calendar_require: [nope]}", ":3: job g/a: calendar_require: no calendar"),
        ("{name: a, handler: h, children: [other/x]}", ":3: job g/a: children: there is no job other/x"),
    ],
)
def test_what_the_node_refuses_is_found_before_the_first_change(
    xwheel: Shell, tmp_path: Path, text: str, place: str
) -> None:
    client = xwheel.node()
    path = tmp_path / "bad.yaml"
    path.write_text(f"groups:\n  - {{app_name: g, jobs: [{{name: ok, handler: h}},\n    {text}]}}\n")
    status, out, err = xwheel("job", "apply", "-f", str(path))
    assert (status, out) == (main.EXIT_CONFIG, "")
    assert place in err
    assert err.count("\n") == 1
    assert client.call("GET", "/api/v1/groups")["items"] == []


def test_who_is_slower_compares_once_more_and_then_gives_up(
    xwheel: Shell, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = xwheel.node()
    xwheel("job", "apply", "-f", str(file))
    job = all_jobs(client)[1]
    client.call("PATCH", f"/api/v1/jobs/{job['id']}", {"timeout_s": 9})
    rivals = ["once"]
    check = remote.check_schedules

    def interfere(*args: Any) -> None:
        check(*args)
        if rivals:
            client.call("PATCH", f"/api/v1/jobs/{job['id']}", {"description": rivals.pop()})

    monkeypatch.setattr(remote, "check_schedules", interfere)
    status, _, err = xwheel("job", "apply", "-f", str(file))
    assert (status, "compared again" in err) == (0, True)
    assert [all_jobs(client)[1][name] for name in ("timeout_s", "description")] == [0, ""]
    client.call("PATCH", f"/api/v1/jobs/{job['id']}", {"timeout_s": 9})
    rivals += ["b", "a"]
    status, _, err = xwheel("job", "apply", "-f", str(file))
    assert status == main.EXIT_FAILED
    assert "at revision" in err
