"""Follow a run to the end of all that comes of it: retries, recovery runs, shards and children."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from xwheel.cli.output import NOTHING, visible
from xwheel.model import FINAL_STATES, RunState
from xwheel.model.reasons import WAITS

from xwheel_commands.connection import NodeApi
from xwheel_commands.output import local_clock

POLL_S: Final = 0.5
FINAL: Final = frozenset(state.value for state in FINAL_STATES)
SUCCEEDED: Final = RunState.SUCCEEDED.value
WHY: Final = {
    "no_executor": "no executor of the group is live: 'xwheel group show {app_name}' lists them, "
    "'xwheel executor MODULE' starts one",
    "unreachable": "its executor takes no connection: is it still running, and is its address reached from the node?",
    "failed_over": "its executor takes no connection, or no run yet: it goes on with the next one, or waits",
    "no_route": "the job's router chose no executor",
    "over_limit": "it has more shards than the group's max_running",
    "no_source": "the script has no source yet: 'xwheel glue save' stores one",
    "no_glue_type": "the job's glue type is not installed on the node",
    "executor_refused": "the executor did not take it",
    "deadline": "no one said in time how it ended",
    "instance_gone": "its executor was restarted and does not know it any more",
    "killed_by_user": "somebody ended it",
    "late_outcome": "the run before it ended well after all",
    "clock": "the clock was ahead when it was planned, and was set back: it will come at its time",
    "paused": "all schedules are paused",
    "stopped": "its job was stopped",
    "deleted": "its job was deleted",
    "misfire": "it was too late, and the job's misfire policy skips what is late",
}

Run = dict[str, Any]


def may_have_log(run: Run) -> bool:
    """Return whether an executor took a run; its word of the end may be written a moment before that it did."""
    took = run["accepted_ms"] is not None or run["result_code"] is not None
    return took and run["address"] is not None


def note_of(run: Run) -> str:
    """Return what a list says of a run: the word of its reason, or of what its last check found, else its message."""
    return str(run["reason"].partition(":")[0] or run["message"][:60])


def why(run: Run) -> str:
    """Return in words why a run ended as it did; empty if that is plain."""
    known = WHY.get(run["reason"]) or ("" if run["reason"] == run["state"] else str(run["reason"]))
    said = "" if run["state"] == SUCCEEDED or run["reason"] == "no_executor" else run["message"].strip()
    return ": ".join(visible(part) for part in (known.replace("{app_name}", run["app_name"] or "GROUP"), said) if part)


def last_attempts(runs: Iterable[Run]) -> list[Run]:
    """Return for each job and shard of each fire the run that decides: one that succeeded, else the last attempt."""
    found: dict[tuple[int, int, int], Run] = {}
    for run in sorted(runs, key=lambda run: (run["state"] == SUCCEEDED, run["attempt"], run["id"])):
        found[run["root_id"], run["job_id"], run["shard_index"]] = run
    return sorted(found.values(), key=lambda run: int(run["id"]))


class Follower:
    """Follows the chain of a run, and says what happens in it.

    Args:
        node: Where it runs.
        say: Prints a line; None for silence.
        pause: Waits this many seconds before the node is asked again.
    """

    def __init__(self, node: NodeApi, say: Callable[[str], object] | None, pause: Callable[[float], object]) -> None:
        self._node = node
        self._say = say or (lambda _: None)
        self._pause = pause
        self._told: dict[int, str] = {}

    def follow(self, first: Run) -> list[Run]:
        """Return all runs of the chain, once each has ended and nothing more follows."""
        ended: set[int] | None = None
        while True:
            runs = sorted(self._node.pages("/runs", {"chain_id": first["chain_id"]}), key=lambda run: int(run["id"]))
            for run in runs:
                self._tell(run, runs)
            ids = {run["id"] for run in runs} if all(run["state"] in FINAL for run in runs) else None
            # what follows an end is written with it, but a list is read in pieces: what two of them say is so
            if ids and ids == ended:
                return runs
            ended = ids
            self._pause(POLL_S if ids is None else POLL_S / 5)

    def _tell(self, run: Run, runs: list[Run]) -> None:
        """Say what is new about a run."""
        state, waits = run["state"], run["reason"].startswith(WAITS)
        stage = "waiting" if waits else state
        if self._told.get(run["id"]) == stage or state == "dispatching":
            return
        is_new = run["id"] not in self._told
        self._told[run["id"]] = stage
        name = f"run {run['id']}{self._place(run)}"
        if state == "planned":
            self._say(f"{name}: {self._planned(run)}")
        elif state not in FINAL:
            self._say(f"{name}: {stage} on {visible(run['address'] or NOTHING)}")
        else:
            begun = f" ({self._planned(run)})" if is_new and run["origin"] in {"child", "retry", "recovery"} else ""
            self._say(f"{name}{begun}: {state}{_took(run)}{_said(run)}")
            if state != SUCCEEDED and not any(other["origin_key"] == run["id"] for other in runs if _is_next(other)):
                self._say(f"  no further attempt{_left(run)}")

    def _place(self, run: Run) -> str:
        shard = f", shard {run['shard_index']} of {run['shard_total']}" if run["shard_total"] > 1 else ""
        return f" of {visible(run['app_name'])}/{visible(run['job_name'])}, attempt {run['attempt']}{shard}"

    def _planned(self, run: Run) -> str:
        at = local_clock(run["due_ms"])
        match run["origin"]:
            case "retry":
                left = run["retries_left"]
                further = f"{left or 'no'} further {'retry' if left == 1 else 'retries'} left"
                return f"tries run {run['origin_key']} again at {at}, {further}"
            case "recovery":
                return f"in place of run {run['origin_key']}, which is lost, at {at}"
            case "child":
                return f"follows fire {run['origin_key']} at {at}"
        return f"planned for {at}"


def _is_next(run: Run) -> bool:
    return run["origin"] in {"retry", "recovery"}


def _took(run: Run) -> str:
    began_ms = run.get("began_ms", run["accepted_ms"])  # older nodes do not say when it began
    if began_ms is None or run["finished_ms"] is None:
        return ""
    return f" after {max(0, run['finished_ms'] - began_ms) / 1000:.3g} s"


def _said(run: Run) -> str:
    if run["state"] == SUCCEEDED:
        return f", result {visible(run['message'])}" if run["message"].strip() else ""
    return f": {said}" if (said := why(run)) else ""


def _left(run: Run) -> str:
    if run["kill_requested"]:
        return ": a run that was to be killed is never tried again"
    if run["retries_left"]:
        return ""
    return ": no retries left" if run["attempt"] > 1 else ": its job has no retries (max_retries)"
