"""Plays the scenario with one peer and notes what was seen."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Final

from tests.interop.cluster import PERIOD_S
from tests.interop.stage import Stage
from tests.interop.steps import ONE_BY_ONE, SIDE_BY_SIDE, Step

FAILED_CALL_S: Final = 2.0
"""After this long a callback that finds no node has been tried."""


def play(stage: Stage) -> dict[str, str]:
    """Play all steps; what a step could not find out is noted too and ends none of the others."""
    seen = _side_by_side(stage, SIDE_BY_SIDE)
    for name, step in ONE_BY_ONE.items():
        seen |= _side_by_side(stage, {name: step})
    return seen | _restart(stage)


def _side_by_side(stage: Stage, steps: Mapping[str, Step]) -> dict[str, str]:
    under_way = {name: step(stage) for name, step in steps.items()}
    seen: dict[str, str] = {}
    for _ in range(2):
        for name, step in under_way.items():
            if name in seen:
                continue
            try:
                next(step)
            except StopIteration as end:
                seen[name] = str(end.value)
            except Exception as error:
                seen[name] = f"{type(error).__name__}: {error}"
    return seen


def _restart(stage: Stage) -> dict[str, str]:
    """Stop the node under a run, let the run end, start the node; see who comes back with what."""
    cluster, worker = stage.cluster, stage.worker
    run_id = stage.hold(stage.job("hold"), "meanwhile")
    cluster.accepted(run_id)
    cluster.stop_node()
    worker.release("meanwhile")
    cluster.wait(lambda: "meanwhile" in worker.executed("end"), "end of the handler")
    time.sleep(FAILED_CALL_S)
    back_ms = time.time() * 1000
    cluster.start_node()
    seen: dict[str, str] = {}
    try:
        run = cluster.ended(run_id, PERIOD_S)
        seen["callback_while_down"] = " ".join([run["state"], run["reason"]]).strip()
        cluster.wait(
            lambda: cluster.executors(stage.group_id).get(worker.address, {}).get("seen_ms", 0) > back_ms,
            "a beat after the restart",
            PERIOD_S,
        )
        run = stage.ended(stage.run(stage.job("echo"), "after all"))
        seen["registration_after_restart"] = f"comes by itself, the next run {run['state']}"
    except AssertionError as error:
        seen.setdefault("callback_while_down", str(error))
        seen.setdefault("registration_after_restart", str(error))
    return seen
