"""A load on a cluster: its jobs are made, fire, are settled and judged, and are deleted again."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final

from xwheel.clock import wall_ms
from xwheel.errors import XwheelError

from xwheel_devtools.verify.actions import ActionThread
from xwheel_devtools.verify.handlers_env import FILE_VARIABLE, NAME_VARIABLE
from xwheel_devtools.verify.load import EXECUTORS, GROUP_LIMIT, LONG, LoadJob, load_jobs
from xwheel_devtools.verify.records import CALM, Did, Disturbances, ExpectedJob, Observed, Verdict
from xwheel_devtools.verify.site import Site, executions
from xwheel_devtools.verify.verdict import judge
from xwheel_devtools.verify.watch import Watcher

APP_NAME: Final = "xwheel-verify"
LIMITED_NAME: Final = "xwheel-verify-limited"
HANDLERS: Final = "xwheel_devtools.verify.handlers"
DATA_VARIABLE: Final = "XWHEEL_EXECUTOR__DATA_DIR"
MAKING_MS: Final = (40, 150, 500)
"""So long making one job may take, at the first attempt and after one that was too late."""

POLL_S: Final = 0.25
MOST_AT_ONCE: Final = 100
"""Jobs of one bulk call."""


def executor_settings(folder: Path) -> dict[str, dict[str, str]]:
    """Return the executors that a load needs: their names, and what is special in the environment of each."""
    names = [*((f"executor{number}", APP_NAME) for number in range(EXECUTORS)), ("limited", LIMITED_NAME)]
    return {
        name: {
            "XWHEEL_EXECUTOR__APP_NAME": app_name,
            DATA_VARIABLE: str(folder / f"{name}-data"),
            FILE_VARIABLE: str(folder / f"{name}.executions"),
            NAME_VARIABLE: name,
        }
        for name, app_name in names
    }


class Check:
    """Jobs that fire on a cluster, and what must come of them.

    Args:
        site: The cluster.
        folder: Where executors write down what they execute.
        rate: Fires a second in sum, of jobs to which nothing is done.
        resilient: Jobs are to run whatever breaks: with retries, and however late. Else they have default settings.
        people: Jobs with limits too, and those to which something is done meanwhile.
        bursts: All jobs are run by hand many times at once now and then.
        seed: What is done to them.
    """

    def __init__(
        self,
        site: Site,
        folder: Path,
        *,
        rate: int,
        resilient: bool,
        people: bool = True,
        bursts: bool = False,
        seed: int = 0,
    ) -> None:
        self.start_ms = self.end_ms = 0
        self.ids: dict[str, int] = {}
        self._site = site
        self._folder = folder
        self._rate, self._resilient, self._has_people, self._seed = rate, resilient, people, seed
        self._has_bursts = bursts
        self._groups: tuple[int, int] = (0, 0)
        self._load: list[LoadJob] = []
        self._actions: ActionThread | None = None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._actions is not None:
            self._actions.end()

    def __enter__(self) -> Check:
        return self

    def begin(self, seconds: float) -> None:
        """Make the jobs, which fire for this long from a whole second on, and wait for it.

        Raises:
            XwheelError: The cluster does not take them, or not in time.
        """
        self.find_groups()
        for each_ms in MAKING_MS:
            ahead_ms = each_ms * len(load_jobs(self._rate, 0, int(seconds * 1000), people=self._has_people))
            start_ms = (wall_ms() + ahead_ms + 2000) // 1000 * 1000
            if self._make(start_ms, start_ms + int(seconds * 1000)):
                break
        else:
            raise XwheelError("the jobs were not made before they had to fire: the cluster is too slow")
        time.sleep(max(0, self.start_ms - wall_ms()) / 1000)
        if self._has_people:
            targets = {did: [self.ids[job.name] for job in self._load if did in job.actions] for did in Did}
            targets[Did.PAUSE] = [0]
            if self._has_bursts:
                quick = [item for item in self._load if item.fires and not item.limit and Did.KILL not in item.actions]
                targets[Did.BURST] = [self.ids[item.name] for item in quick if not item.delay_ms][:MOST_AT_ONCE]
            self._actions = ActionThread(self._site, targets, self._seed, self.ids[LONG])
            self._actions.__enter__()

    def find_groups(self) -> tuple[int, int]:
        """Return the ids of both groups, which are made if need be."""
        if not all(self._groups):
            self._groups = (self._site.group(APP_NAME), self._site.group(LIMITED_NAME, GROUP_LIMIT))
        return self._groups

    def are_executors_there(self) -> bool:
        """Return whether all executors that the load needs are registered."""
        plain, limited = self.find_groups()
        return len(self._site.executors(plain)) >= EXECUTORS and bool(self._site.executors(limited))

    def _make(self, start_ms: int, end_ms: int) -> bool:
        """Make the jobs and start them; return whether that was in time, if not they are gone again."""
        wanted = load_jobs(self._rate, start_ms, end_ms, people=self._has_people)
        ids: dict[str, int] = {}
        for item in wanted:
            group_id = self._groups[item.limited_group]
            ids[item.name] = self._site.make(item.definition(group_id, start_ms, end_ms, resilient=self._resilient))
        for item in wanted:
            if item.children:
                self._site.link(ids[item.name], [ids[name] for name in item.children])
        problems = self._site.bulk("start", [ids[item.name] for item in wanted if item.fires])
        if problems and wall_ms() < start_ms:
            raise XwheelError(f"jobs do not start: {'; '.join(problems[:3])}")
        if wall_ms() >= start_ms:
            self._site.bulk("delete", list(ids.values()))
            return False
        self.ids, self._load, self.start_ms, self.end_ms = ids, wanted, start_ms, end_ms
        return True

    def watcher(self, url: str) -> Watcher:
        """Return what watches the database and the executors' journals meanwhile."""
        delays = [self.ids[item.name] for item in self._load if item.delay_ms]
        journals = [Path(settings[DATA_VARIABLE]) for settings in executor_settings(self._folder).values()]
        return Watcher(url, list(self.ids.values()), delays, (self.start_ms, self.end_ms), journals)

    def calm_down(self) -> None:
        """Let people do nothing further; what they stopped is started again."""
        if self._actions is not None:
            self._actions.end()

    def stop(self) -> None:
        """Let no job fire any more."""
        self._site.bulk("stop", list(self.ids.values()))

    def settle(self, limit_s: float, is_broken: Callable[[], bool] = lambda: False) -> bool:
        """Wait until no run is open and no fire ahead; return whether that came in time."""
        deadline = time.monotonic() + limit_s
        while time.monotonic() < deadline and not is_broken():
            try:
                if not self._site.is_open(self._groups):
                    return True
            except XwheelError:
                pass  # a node that is away answers later, or the limit ends it
            time.sleep(POLL_S)
        return False

    def judge(
        self, watched: Observed | None = None, disturbances: Disturbances = CALM, until_ms: int | None = None
    ) -> Verdict:
        """Compare what was due until an instant, the runs and the executions."""
        ids = list(self.ids.values())
        return judge(
            self.calls_for(until_ms),
            self._site.rows(self._groups, ids),
            executions(sorted(self._folder.glob("*.executions")), ids),
            watched,
            actions=[] if self._actions is None else self._actions.actions,
            disturbances=disturbances,
            until_ms=2**62 if until_ms is None else until_ms,
        )

    def calls_for(self, until_ms: int | None = None) -> Mapping[int, ExpectedJob]:
        """Return what the jobs call for until an instant, by id."""
        end_ms = self.end_ms if until_ms is None else until_ms
        return {
            self.ids[item.name]: item.calls_for(self.ids, self.start_ms, end_ms, resilient=self._resilient)
            for item in self._load
        }

    def clean(self) -> Sequence[str]:
        """Delete the jobs; return what could not be deleted."""
        return self._site.bulk("delete", list(self.ids.values()))
