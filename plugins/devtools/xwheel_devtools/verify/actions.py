"""What people do while jobs fire: runs by hand, edits, stops, kills, a pause; and when each of them counted."""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from xwheel.clock import wall_ms
from xwheel.errors import ConflictError, FieldError, NotFoundError, XwheelError

from xwheel_devtools.verify.records import Did, Span, UserAction
from xwheel_devtools.verify.site import Site

logger = logging.getLogger(__name__)

NEVER: Final = 2**62
SETTLED_MS: Final = 500
"""Clocks of processes of one cluster may differ by less."""

PAUSE_S: Final = (0.6, 1.2)
"""Between two actions; also how long a job stays stopped or paused."""

SAME_TIMES: Final = ("* * * * * ?", "0/1 * * * * ?")
"""Schedules that are other texts for the same due times."""

ASK_AGAIN_S: Final = 0.3
GIVE_UP_S: Final = 60
BURST: Final = 20
"""Runs of each job in a burst."""

RUNNING_S: Final = 10
RUNNING: Final = "running"
_DICE: Final[Mapping[Did, int]] = {
    Did.RUN: 6,
    Did.EDIT: 5,
    Did.STOP: 3,
    Did.RESCHEDULE: 2,
    Did.KILL: 3,
    Did.PAUSE: 1,
    Did.BURST: 1,
}
"""How often each is done, relative to the others."""


def changed_spans(actions: Sequence[UserAction], job_id: int, slack_ms: int, *, pauses: bool = False) -> list[Span]:
    """Return the times in which due times of a job may have no run, since it was stopped or got another schedule.

    A job may have been behind its schedule by ``slack_ms`` when it was stopped. With ``pauses`` there are the pauses
    too: due times in them have runs, but what was planned for them before is cancelled.
    """
    found = [(begin.asked_ms - slack_ms, _answer(end)) for begin, end in _pairs(actions, job_id, pauses=pauses)]
    return found + [
        (item.asked_ms - slack_ms, _answer(item))
        for item in actions
        if item.did is Did.RESCHEDULE and item.job_id == job_id
    ]


def stopped_spans(actions: Sequence[UserAction], job_id: int) -> list[Span]:
    """Return the times in which nothing may be sent by the schedule of a job: it was surely stopped or paused."""
    return [
        (begin.answered_ms + SETTLED_MS, end.asked_ms - SETTLED_MS if end else NEVER)
        for begin, end in _pairs(actions, job_id, pauses=True)
        if begin.answered_ms is not None
    ]


def editions(actions: Sequence[UserAction], job_id: int, sent_ms: int, begun_ms: int) -> list[str]:
    """Return the parameters that a run may have: of the last edit answered before it was sent, and of later ones.

    Later ones count if they were asked for before the run began: a node may read the job after the time at which it
    began to send, if its database hangs. Empty if no edit had been answered.
    """
    found: list[str] = []
    for item in actions:
        if item.did is not Did.EDIT or item.job_id != job_id:
            continue
        if item.answered_ms is not None and item.answered_ms <= sent_ms:
            found = [item.param]
        elif found and item.asked_ms <= begun_ms:
            found.append(item.param)
    return found


def _pairs(actions: Sequence[UserAction], job_id: int, *, pauses: bool) -> list[tuple[UserAction, UserAction | None]]:
    """Return each stop of a job with the start that ended it, and each pause with its end."""
    found: list[tuple[UserAction, UserAction | None]] = []
    for begins, ends, number in ((Did.STOP, Did.START, job_id), (Did.PAUSE, Did.RESUME, 0)):
        if begins is Did.PAUSE and not pauses:
            continue
        mine = [item for item in actions if item.job_id == number and item.did in (begins, ends)]
        for place, item in enumerate(mine):
            if item.did is begins:
                after = mine[place + 1 :]
                found.append((item, next((end for end in after if end.did is ends), None)))
    return found


def _answer(action: UserAction | None) -> int:
    return NEVER if action is None or action.answered_ms is None else action.answered_ms


class ActionThread:
    """A thread that does one thing after the other to jobs that fire, inside ``with``; it asks until it is answered.

    Args:
        site: The cluster.
        targets: Which jobs each action may be done to, by id.
        seed: What is done, when and to which job follows from it.
        long_id: A job that never ends by itself: the last that is done is to run it, and to kill that run.
    """

    def __init__(self, site: Site, targets: Mapping[Did, Sequence[int]], seed: int, long_id: int = 0) -> None:
        self.actions: list[UserAction] = []
        self._site = site
        self._targets = targets
        self._long_id = long_id
        self._dice = random.Random(seed)  # noqa: S311 - what is done must follow from the seed
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="verify-people", daemon=True)

    def __enter__(self) -> ActionThread:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        """Do nothing further; what is stopped is started again before."""
        self._stop.set()
        self._thread.join(3 * GIVE_UP_S)

    def _run(self) -> None:
        kinds = [did for did in _DICE if self._targets.get(did)]
        weights = [_DICE[did] for did in kinds]
        while not self._stop.wait(self._dice.uniform(*PAUSE_S)):
            did = self._dice.choices(kinds, weights)[0]
            self._do(did, self._dice.choice(list(self._targets[did])))
        if self._long_id:
            self._run_by_hand(self._long_id)
            self._wait_for_run(self._long_id)
            self._kill(self._long_id)

    def _do(self, did: Did, job_id: int) -> None:
        match did:
            case Did.RUN:
                self._run_by_hand(job_id)
            case Did.EDIT:
                param = f"edition {self._dice.randrange(10**9)}"
                self._ask(did, job_id, lambda: self._site.edit(job_id, {"param": param}), param=param)
            case Did.RESCHEDULE:
                conf = self._dice.choice(SAME_TIMES)
                self._ask(did, job_id, lambda: self._site.edit(job_id, {"schedule_conf": conf}))
            case Did.STOP:
                self._ask(did, job_id, lambda: self._site.switch(job_id, is_on=False))
                self._stop.wait(self._dice.uniform(*PAUSE_S))
                self._ask(Did.START, job_id, lambda: self._site.switch(job_id, is_on=True))
            case Did.PAUSE:
                self._ask(did, 0, lambda: self._site.pause(is_on=True))
                self._stop.wait(self._dice.uniform(*PAUSE_S))
                self._ask(Did.RESUME, 0, lambda: self._site.pause(is_on=False))
            case Did.KILL:
                self._kill(job_id)
            case Did.BURST:
                self._burst()

    def _run_by_hand(self, job_id: int) -> None:
        key = f"verify-{self._dice.randrange(2**60):x}"
        asked_ms = wall_ms()
        answer = self._answer(lambda: self._site.run_now(job_id, key))
        answered_ms, run_id = (wall_ms(), int(answer["id"])) if answer else (None, 0)
        self.actions.append(
            UserAction(did=Did.RUN, job_id=job_id, asked_ms=asked_ms, answered_ms=answered_ms, run_id=run_id)
        )

    def _wait_for_run(self, job_id: int) -> None:
        """Wait for an executor to have a run, but not for long: there may be none."""
        deadline = time.monotonic() + RUNNING_S
        while time.monotonic() < deadline:
            with suppress(XwheelError):
                if self._site.open_run(job_id, RUNNING):
                    return
            time.sleep(ASK_AGAIN_S)

    def _burst(self) -> None:
        """Run all jobs by hand many times at once; the one who asks for many cannot say which calls are the same."""
        ids = list(self._targets[Did.BURST])
        for _ in range(BURST):
            asked_ms = wall_ms()
            try:
                found: Mapping[int, int] = self._site.run_many(ids)
            except XwheelError as error:
                logger.debug("a burst is not answered: %s", error)
                found = {}
            answered_ms = wall_ms() if found else None
            self.actions += [
                UserAction(
                    did=Did.RUN, job_id=number, asked_ms=asked_ms, answered_ms=answered_ms, run_id=found.get(number, 0)
                )
                for number in ids
            ]

    def _kill(self, job_id: int) -> None:
        try:
            run_id = self._site.open_run(job_id)
        except XwheelError:
            return
        if run_id:
            self._ask(Did.KILL, job_id, lambda: self._site.kill(run_id), run_id=run_id)

    def _ask(self, did: Did, job_id: int, call: Callable[[], Any], *, run_id: int = 0, param: str = "") -> None:
        """Ask until there is an answer, and note both times; what began is noted at once, so that none is forgotten."""
        asked_ms = wall_ms()
        place = len(self.actions)
        self.actions.append(UserAction(did=did, job_id=job_id, asked_ms=asked_ms, run_id=run_id, param=param))
        if self._answer(call) is not None:
            self.actions[place] = UserAction(
                did=did, job_id=job_id, asked_ms=asked_ms, answered_ms=wall_ms(), run_id=run_id, param=param
            )

    def _answer(self, call: Callable[[], Any]) -> Any:
        """Return the answer, an empty one if the cluster says that it is done already, or None without any."""
        deadline = time.monotonic() + GIVE_UP_S
        while time.monotonic() < deadline:
            try:
                return call() or {}
            except (ConflictError, FieldError, NotFoundError) as error:
                # such as a start of a job that has no fire left
                logger.debug("already done, or in another state: %s", error)
                return {}
            except XwheelError as error:
                logger.debug("asked again: %s", error)
                time.sleep(ASK_AGAIN_S)
        return None
