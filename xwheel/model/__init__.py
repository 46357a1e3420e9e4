"""The records of the domain: jobs, runs, executors and their groups."""

from __future__ import annotations

from xwheel.model.executors import NO_SECRET, SHARED_SECRET, EnteredAddress, ExecutorGroup, RegisteredExecutor, Reporter
from xwheel.model.jobs import (
    MAX_ID,
    PARTITIONS,
    BlockScope,
    BlockStrategy,
    ChildLink,
    DeliveryPolicy,
    GlueVersion,
    Job,
    JoinMode,
    MisfirePolicy,
    NewSource,
    RetryBackoff,
)
from xwheel.model.reasons import RunReason
from xwheel.model.runs import FINAL_STATES, OPEN_STATES, OUTCOME_STATES, TRANSITIONS, Origin, Run, RunState

__all__ = ["PARTITIONS", "ChildLink", "GlueVersion", "Job", "NewSource"]
__all__ += ["BlockScope", "BlockStrategy", "DeliveryPolicy", "JoinMode", "MisfirePolicy", "RetryBackoff"]
__all__ += ["MAX_ID", "Origin", "Run", "RunReason", "RunState"]
__all__ += ["FINAL_STATES", "OPEN_STATES", "OUTCOME_STATES", "TRANSITIONS"]
__all__ += ["NO_SECRET", "SHARED_SECRET", "EnteredAddress", "ExecutorGroup", "RegisteredExecutor", "Reporter"]
