"""What each fault does to a run: the table of the tests, which ``docs/explanation/delivery.md`` shows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.support.delivery_world import LONG_MS, POLICIES, World

Story = str | tuple[str, str, str]
"""What comes of a fault for all policies, or for each of them."""

KINDS = ("xwheel", "foreign")


@dataclass(frozen=True)
class Case:
    """A fault.

    Attributes:
        name: Names the test.
        fault: What happens, as the page says it.
        play: Lets it happen.
        comes_to: What comes of it.
        foreign: What comes of it for foreign executors, if that is something else.
        job: What the jobs are like.
        kinds: Which kinds of executors it happens to.
        two_nodes: Whether another node takes over where the database allows it.
    """

    name: str
    fault: str
    play: Callable[[World], None]
    comes_to: Story
    foreign: Story | None = None
    job: dict[str, Any] = field(default_factory=dict)
    kinds: tuple[str, ...] = KINDS
    two_nodes: bool = False
    # what comes of it with foreign executors where no other node takes over
    alone: Story | None = None

    def expected(self, kind: str, *, alone: bool = False) -> tuple[str, ...]:
        """Return what comes of it for each policy."""
        found = self.foreign if self.foreign and kind == "foreign" else self.comes_to
        if alone and self.alone and kind == "foreign":
            found = self.alone
        return (found,) * len(POLICIES) if isinstance(found, str) else found

    def shows(self, kind: str) -> bool:
        """Return whether the table of a kind has it; that of foreign executors has what is not in the first one."""
        return kind in self.kinds and (kind == "xwheel" or self.foreign is not None or len(self.kinds) == 1)


RETRY = {"max_retries": 1}
ONCE = "once: `succeeded`"
UNREACHABLE = "`refused` (unreachable)"
BUSY = "`refused` (executor_refused)"
UNSTARTED = "`failed` (not_started)"
OVERDUE = "twice, again after 95 s: `timed_out` (deadline), then `succeeded`"


def recovered(first: str, second: str, end: str) -> Story:
    """Return the story of a run that only a recovery run repeats; until a late outcome corrects it, it is lost."""
    return f"{first}: {end}", f"{first}: {end}", f"{second}: {end}, then `succeeded`"


UNHEARD = recovered("never", "once, after 12 min", "`lost` (no_report)")
FORGOTTEN = recovered("once", "twice, again after 12 min", "`lost` (no_report)")
LATE = recovered("once", "twice, again after 2 min", "`succeeded`")
LATER = recovered("once, after 3 min", "twice, again after 3 min", "`succeeded`")


def gone(first: str, second: str) -> tuple[Story, Story]:
    """Return the stories of a run whose executor never comes back, for both kinds."""
    reasons = ("instance_gone", "executor_gone")
    xwheel, foreign = (recovered(first, f"{second} after 2 min", f"`lost` ({why})") for why in reasons)
    return xwheel, foreign


UNBEGUN_GONE = gone("never", "once,")
BEGUN_GONE = gone("once", "twice, again")


# -- nodes ---------------------------------------------------------------------------------------------------------


def node_dies_planned(world: World) -> None:
    world.plan()
    world.kill_node()


def node_dies_fenced(world: World) -> None:
    world.fence()
    world.kill_node()


def node_dies_sent(world: World) -> None:
    world.fence()
    world.arrive()
    world.kill_node()


def node_dies_answered(world: World) -> None:
    world.fence()
    world.arrive()
    world.answer()
    world.kill_node()


def node_freezes_planned(world: World) -> None:
    world.plan()
    world.freeze_node()


def node_freezes_fenced(world: World) -> None:
    world.fence()
    world.freeze_node()


# -- requests ------------------------------------------------------------------------------------------------------


def no_connection(world: World) -> None:
    world.first.lives = False
    world.send()


def request_lost(world: World) -> None:
    world.fence()
    world.vanish()
    world.answer()


def answer_lost(world: World) -> None:
    world.fence()
    world.arrive()
    world.vanish()
    world.answer()


def refused(world: World) -> None:
    world.first.refuses = len(POLICIES)
    world.send()


# -- executors -----------------------------------------------------------------------------------------------------


def dies_waiting(world: World) -> None:
    world.first.begins = False
    world.send()
    world.first.lives = False


def restarts_waiting(world: World) -> None:
    dies_waiting(world)
    world.first.restart()


def dies_running(world: World) -> None:
    world.begin()
    world.first.lives = False


def restarts_running(world: World) -> None:
    dies_running(world)
    world.first.restart()


def loses_journal(world: World) -> None:
    dies_running(world)
    world.first.restart(with_journal=False)


def dies_ended(world: World) -> None:
    world.send()
    world.first.cut_off = True
    world.work()
    world.first.cut_off = world.first.lives = False


def restarts_ended(world: World) -> None:
    dies_ended(world)
    world.first.restart()


def freezes_waiting(world: World) -> None:
    world.first.begins = False
    world.send()
    world.first.frozen = True
    world.pass_time(LONG_MS)
    world.first.begins = True
    world.first.thaw()
    world.work()


def freezes_running(world: World) -> None:
    world.begin()
    world.first.frozen = True
    world.pass_time(LONG_MS)
    world.first.thaw()
    world.first.ends = True


def freezes_unread(world: World) -> None:
    world.first.frozen = True
    world.send()
    world.pass_time(LONG_MS)
    world.first.thaw()
    world.work()


# -- network between executor and nodes ----------------------------------------------------------------------------


def cut_short(world: World) -> None:
    world.begin()
    world.first.cut_off = True
    world.pass_time(60_000)
    world.first.cut_off, world.first.ends = False, True


def cut_running(world: World) -> None:
    world.begin()
    world.first.cut_off = True
    world.pass_time(LONG_MS)
    world.first.cut_off, world.first.ends = False, True


def cut_waiting(world: World) -> None:
    world.first.begins = False
    world.send()
    world.first.cut_off = True
    world.pass_time(LONG_MS)
    world.first.cut_off = False
    world.pass_time(10_000)
    world.first.begins = True


# -- the database when the outcome arrives ---------------------------------------------------------------------------


def database_away(world: World) -> None:
    world.send()
    with world.database_away():
        world.work()


def database_away_once(world: World) -> None:
    world.first.repeats = False
    database_away(world)


# -- handlers and people ---------------------------------------------------------------------------------------------


def raises(world: World) -> None:
    world.first.fails = len(POLICIES)
    world.send()


def kill(world: World) -> None:
    for run in world.node.runs():
        world.node.scheduler.management.killer.kill(run.id)


def stop(world: World) -> None:
    for job in world.jobs:
        world.node.scheduler.management.jobs.stop(job.id)


def killed_planned(world: World) -> None:
    world.plan()
    kill(world)


def killed_waiting(world: World) -> None:
    world.first.begins = False
    world.send()
    kill(world)


def killed_running(world: World) -> None:
    world.begin()
    kill(world)


def stopped_planned(world: World) -> None:
    world.plan()
    stop(world)


def stopped_running(world: World) -> None:
    world.first.fails = len(POLICIES)
    world.begin()
    stop(world)
    world.first.ends = True


CASES: dict[str, list[Case]] = {
    "The node": [
        Case("node-dies-planned", "dies before the fence", node_dies_planned, ONCE),
        Case("node-dies-fenced", "dies after the fence, before it sends", node_dies_fenced, ONCE, UNHEARD),
        Case("node-dies-sent", "dies once the request arrived, before its answer", node_dies_sent, ONCE),
        Case("node-dies-answered", "dies before the answer is written", node_dies_answered, ONCE),
        Case(
            "node-freezes-planned",
            "stands still for longer than its lease, before the fence",
            node_freezes_planned,
            ONCE,
            two_nodes=True,
        ),
        Case(
            "node-freezes-fenced",
            "stands still for longer than its lease, after the fence",
            node_freezes_fenced,
            ONCE,
            UNHEARD,
            two_nodes=True,
            alone="once: `refused` (failed_over), then `succeeded`",
        ),
    ],
    "The request": [
        Case("no-connection", "finds no connection", no_connection, f"never: {UNREACHABLE}"),
        Case(
            "no-connection-wait",
            "finds no connection; with `wait_for_executor_s`",
            no_connection,
            "once: `refused` (failed_over), then `succeeded`",
            job={"wait_for_executor_s": 60},
        ),
        Case(
            "no-connection-retry",
            "finds no connection; with a retry",
            no_connection,
            f"once: {UNREACHABLE}, then `succeeded`",
            job=RETRY,
        ),
        Case("request-lost", "is lost on the way", request_lost, ONCE, UNHEARD),
        Case("answer-lost", "arrives, and its answer is lost", answer_lost, ONCE),
        Case("refused", "is refused, such as by a full queue", refused, f"never: {BUSY}"),
        Case("refused-retry", "is refused; with a retry", refused, f"once: {BUSY}, then `succeeded`", job=RETRY),
    ],
    "The executor": [
        Case("dies-waiting", "dies before the handler began", dies_waiting, *UNBEGUN_GONE),
        Case(
            "restarts-waiting",
            "dies before the handler began, starts again",
            restarts_waiting,
            f"never: {UNSTARTED}",
            UNHEARD,
        ),
        Case("dies-running", "dies while the handler runs", dies_running, *BEGUN_GONE),
        Case(
            "restarts-running",
            "dies while the handler runs, starts again",
            restarts_running,
            "once: `failed` (interrupted)",
            FORGOTTEN,
        ),
        Case(
            "restarts-running-retry",
            "dies while the handler runs, starts again; with a retry",
            restarts_running,
            "twice: `failed` (interrupted), then `succeeded`",
            FORGOTTEN,
            job=RETRY,
        ),
        Case(
            "loses-journal",
            "dies while the handler runs, starts again without its journal",
            loses_journal,
            BEGUN_GONE[0],
            kinds=("xwheel",),
        ),
        Case("dies-ended", "dies after the handler ended, before it reports", dies_ended, *BEGUN_GONE),
        Case(
            "restarts-ended",
            "dies after the handler ended, before it reports, starts again",
            restarts_ended,
            ONCE,
            FORGOTTEN,
        ),
        Case(
            "freezes-unread",
            "stands still for 3 min, with the request unread",
            freezes_unread,
            recovered("never", "once, after 95 s", UNSTARTED),
            LATER,
        ),
        Case(
            "freezes-waiting",
            "stands still for 3 min before the handler began",
            freezes_waiting,
            recovered("never", "once, after 2 min", UNSTARTED),
            LATER,
        ),
        Case("freezes-running", "stands still for 3 min while the handler runs", freezes_running, LATE),
        Case(
            "freezes-limit",
            "stands still for 3 min while the handler runs, past its limit of 30 s; with a retry",
            freezes_running,
            ("once: `timed_out` (deadline)", OVERDUE, OVERDUE),
            job=RETRY | {"timeout_s": 30},
        ),
    ],
    "The network between executor and nodes": [
        Case("cut-short", "is cut for 1 min while the handler runs", cut_short, ONCE),
        Case("cut-running", "is cut for 3 min while the handler runs", cut_running, LATE),
        Case("cut-waiting", "is cut for 3 min, and the handler begins later", cut_waiting, LATER),
    ],
    "The outcome": [
        Case("outcome-away", "finds the database away, and is sent again", database_away, ONCE),
        Case(
            "outcome-once",
            "finds the database away, and is sent once",
            database_away_once,
            FORGOTTEN,
            kinds=("foreign",),
        ),
    ],
    "The handler": [
        Case("raises", "raises", raises, "once: `failed`"),
        Case("raises-retry", "raises; with a retry", raises, "twice: `failed`, then `succeeded`", job=RETRY),
    ],
    "A person": [
        Case(
            "killed-planned",
            "kills a run that was not sent; with a retry",
            killed_planned,
            "never: `cancelled` (killed_by_user)",
            job=RETRY,
        ),
        Case(
            "killed-waiting",
            "kills a run before the handler began; with a retry",
            killed_waiting,
            "never: `killed`",
            "never: `killed` (no_report)",
            job=RETRY,
        ),
        Case(
            "killed-running",
            "kills a run while the handler runs; with a retry",
            killed_running,
            "once: `killed`",
            job=RETRY,
        ),
        Case(
            "stopped-planned", "stops the job before the run is sent", stopped_planned, "never: `cancelled` (stopped)"
        ),
        Case(
            "stopped-running",
            "stops the job while the handler runs, which then raises; with a retry",
            stopped_running,
            "once: `failed`",
            job=RETRY,
        ),
    ],
}


def table(kind: str) -> str:
    """Return the table of a kind of executors, as the page has it: for foreign ones only where they differ."""
    lines = [f"| | {' | '.join(POLICIES)} | case |", "|---" * (len(POLICIES) + 2) + "|"]
    for part, cases in CASES.items():
        shown = [case for case in cases if case.shows(kind)]
        if shown:
            lines.append(f"| **{part}**" + " |" * (len(POLICIES) + 2))
        for case in shown:
            stories = case.expected(kind)
            cells = [
                "the same" if index and story == stories[index - 1] else story for index, story in enumerate(stories)
            ]
            lines.append(f"| {case.fault} | {' | '.join(cells)} | `{case.name}` |")
    return "\n".join(lines)
