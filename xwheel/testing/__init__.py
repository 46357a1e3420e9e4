"""What tests of xwheel and of its plugins need: a clock, sample records, and a suite for each contract.

A plugin's test calls the suite of its kind with an object that it registers; a suite raises ``AssertionError`` and
says which line of the contract does not hold.
"""

from xwheel.testing.manual_clock import ManualClock
from xwheel.testing.samples import (
    load_plugin,
    sample_alarm,
    sample_executors,
    sample_group,
    sample_job,
    sample_route_context,
    sample_run,
)
from xwheel.testing.suites import (
    check_alarm_channel,
    check_glue_type,
    check_router,
    check_run_listener,
    check_schedule_type,
)

__all__ = [
    "ManualClock",
    "check_alarm_channel",
    "check_glue_type",
    "check_router",
    "check_run_listener",
    "check_schedule_type",
    "load_plugin",
    "sample_alarm",
    "sample_executors",
    "sample_group",
    "sample_job",
    "sample_route_context",
    "sample_run",
]
