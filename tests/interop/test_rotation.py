"""Done-when 4 of S1: secrets are rotated while 50 fires a second go to a Java, a Go and two xwheel executors."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest

from tests.interop.cluster import PERIOD_S, Cluster, cluster
from tests.interop.go_peers import GO
from tests.interop.java_peers import JAVA
from tests.interop.peers import Peer, PeerProcess
from tests.interop.python_peers import XWHEEL
from xwheel.runtime.sealing import make_key

TEAMS: Final = (("java", JAVA[-1], 1, 13), ("go", GO, 1, 12), ("xwheel", XWHEEL, 2, 25))
"""App name, executor, how many of them, and jobs: each fires every second, 50 together."""


@dataclass
class Team:
    """Executors of one group, all started with the same secret."""

    site: Cluster
    app_name: str
    peer: Peer
    count: int
    group_id: int = 0
    jobs: list[int] = field(default_factory=list)
    running: list[PeerProcess] = field(default_factory=list)

    def begin(self) -> None:
        self.group_id = self.site.group(self.app_name)
        self.running = [self.site.start(self.peer, self.app_name) for _ in range(self.count)]

    def fire(self, jobs: int) -> None:
        for number in range(1, jobs + 1):
            handler = f"echo.{number}" if "handlers" in self.peer.lacks else "echo"
            job_id = self.site.job(
                self.group_id,
                handler,
                name=f"job {number}",
                schedule_type="FIX_RATE",
                schedule_conf="1",
                route_strategy="ROUND",
                enabled=True,
            )
            self.jobs.append(job_id)

    def renew(self, secret: str, name: str) -> None:
        """Replace each executor by one with another secret, the new one first."""
        for number, old in enumerate(self.running):
            new = self.site.start(self.peer, self.app_name, token=secret)
            self.site.registered(self.group_id, new)
            self.running[number] = new
            assert self._proven()[new.address] == name
            self.served(self.count * 10)
            assert old.terminate() in (0, 143)  # the JVM's status for SIGTERM
            self.site.wait(lambda old=old: old.address not in self._proven(), "its farewell", PERIOD_S)
        assert set(self._proven().values()) == {name}

    def served(self, more: int) -> None:
        """Wait until this many more runs succeeded."""
        until = self.states()["succeeded"] + more
        self.site.wait(lambda: self.states()["succeeded"] >= until, f"{more} more runs of {self.app_name}")

    def states(self) -> Counter[str]:
        return Counter(run["state"] for run in self.runs())

    def runs(self) -> list[dict[str, Any]]:
        found, after = [], ""
        while True:
            page = self.site.call("GET", f"/runs?group_id={self.group_id}&limit=1000{after}")
            found += page["items"]
            if not page["next"]:
                return found
            after = f"&after={page['next']}"

    def _proven(self) -> dict[str, str]:
        return {address: item["secret"] for address, item in self.site.executors(self.group_id).items()}


@pytest.mark.long(40)
@pytest.mark.timeout(900)  # the first one may fetch and build the applications
def test_s1_secrets_are_rotated_under_fire_and_no_run_is_refused(tmp_path: Path) -> None:
    key_file = tmp_path / "key"
    key_file.write_text(make_key())
    key_file.chmod(0o600)
    with cluster(tmp_path, {"XWHEEL_SECURITY__KEY_FILE": str(key_file)}) as site:
        teams = [Team(site, app_name, peer, count) for app_name, peer, count, _ in TEAMS]
        try:
            _rotate(site, teams)
        finally:
            print(site.tails())


def _rotate(site: Cluster, teams: list[Team]) -> None:
    for team in teams:
        team.begin()
    for team in teams:
        site.registered(team.group_id, *team.running)
    for team, (_, _, _, jobs) in zip(teams, TEAMS, strict=True):
        team.fire(jobs)
    for team in teams:
        team.served(20)
    values = {}
    for team in teams:
        first = f"{team.app_name}-1"
        values[team.app_name] = site.call("POST", "/secrets", {"name": first, "group_id": team.group_id})["secret"]
        team.renew(values[team.app_name], first)
    for team in teams:
        first, second = f"{team.app_name}-1", f"{team.app_name}-2"
        made = site.call("POST", f"/secrets/{first}/rotate", {"name": second, "expires_in_s": 3600})
        team.renew(made["secret"], second)
        site.call("DELETE", f"/secrets/{first}")
        team.served(20)
    for team in teams:
        site.call("POST", "/jobs/bulk/stop", {"ids": team.jobs})
    for team in teams:
        # foreign executors may end with outcomes that they never report
        going = {"planned", "dispatching"} if team.peer.name != XWHEEL.name else {"planned", "dispatching", "running"}
        site.wait(lambda team=team, going=going: not going & team.states().keys(), "the end of all runs")
        print(team.app_name, team.states())
    for team in teams:
        assert [run["message"] for run in team.runs() if run["state"] == "refused"] == []
    assert teams[-1].states().keys() <= {"succeeded", "cancelled"}
