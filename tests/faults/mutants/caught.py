"""What must reveal each mutant."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Catch:
    """How a mutant shows itself.

    Attributes:
        faults: What has to happen; any of them may do.
        load: Which jobs it takes.
        findings: What the verdict calls it, the likeliest first.
        invariants: Which of the design's ten broke.
    """

    faults: tuple[str, ...]
    load: str
    findings: tuple[str, ...]
    invariants: tuple[int, ...]


CAUGHT_BY: Final[Mapping[str, Catch]] = {
    "no_fence": Catch(
        faults=("join, leave or rolling restart", "node stopped past its lease, then continued"),
        load="jobs that fire each second, routed to several executors in turn; jobs whose schedule is edited",
        findings=("double", "planned twice", "epoch", "transition", "executed anyway"),
        invariants=(1, 2, 3, 5),
    ),
    "epoch_unchecked": Catch(
        faults=("join, leave or rolling restart", "node stopped past its lease, then continued"),
        load="so many fires that some are due between a hand-over and their adoption by the taker",
        findings=("epoch",),
        invariants=(5,),
    ),
    "revision_unchecked": Catch(
        faults=("none",),
        load="edited jobs, some of which fire more seldom than fires are planned ahead: the next claim of the others "
        "reads them again",
        findings=("old edition",),
        invariants=(1,),
    ),
    "plan_outside_transaction": Catch(
        faults=(
            "kill -9 of a node",
            "database killed, stopped or read-only",
            "proxy between node and database that cuts or resets",
        ),
        load="so many jobs that claims follow one another closely",
        findings=("missing", "still open"),
        invariants=(1, 4, 8),
    ),
    "no_journal": Catch(
        faults=("kill -9 of an executor, which starts again with its journal",),
        load="handlers that last long enough to be killed at work, and retries",
        findings=("lost", "double", "still open"),
        invariants=(2, 9),
    ),
    "reroute_unknown": Catch(
        faults=(
            "proxy between node and executor that is silent, or cuts after the request was delivered",
            "executor stopped longer than the time limit of a send, then continued",
        ),
        load="jobs that fire each second, on two executors at least",
        findings=("double", "transition"),
        invariants=(2, 3),
    ),
    "no_adopt": Catch(
        faults=("none",),
        load="retries, children, runs by hand; with kill -9 or a restart of a node all others too",
        findings=("still open", "overdue"),
        invariants=(4,),
    ),
    "forgetful_handover": Catch(
        faults=("kill -9 of a node", "join, leave or rolling restart"),
        load="jobs that fire each second",
        findings=("still open", "overdue"),
        invariants=(4,),
    ),
    "no_check": Catch(
        faults=("none",), load="a run that would never end, and is killed", findings=("still open",), invariants=(4,)
    ),
    "outcome_before_commit": Catch(
        faults=("database killed, stopped or read-only", "kill -9 of a node"),
        load="many outcomes",
        findings=("unwritten", "still open"),
        invariants=(9,),
    ),
}
