"""What tests share whose executor does not take a run at once."""

from __future__ import annotations

from typing import Any

from tests.support.node import HandNode
from xwheel.model import Job, Run

HOME = "http://127.0.0.1:9001"
"""The one executor of the node."""
AWAY = "http://127.0.0.1:9002"


def send(node: HandNode, **job: Any) -> tuple[Job, Run]:
    """Return a job that waits for executors and its run, which is sent and has no answer."""
    made = node.job(**{"enabled": False, "wait_for_executor_s": 60, **job})
    asked = node.scheduler.management.run_now.run(made.id)
    node.run_for(300)
    return made, asked


def ends(node: HandNode, job: Job) -> list[tuple[str, str]]:
    """Return state and reason of each run of a job."""
    return [(str(run.state), run.reason) for run in node.runs(job.id)]
