"""What tests of xwheel and of its plugins need: a clock, sample records, a suite for each contract, real servers.

A plugin's test calls the suite of its kind with an object that it registers; a suite raises ``AssertionError`` and
says which line of the contract does not hold. :class:`WebServer` is what a plugin calls, :class:`ExecutorSite` runs
a glue type's sources, :class:`NodeSite` is a node with executors, plugins and captured alarms, and :class:`NodeProcess`
a node in a process of its own. ``xwheel_devtools.testing.fixtures`` has them as fixtures of pytest.
"""

from typing import TYPE_CHECKING, Any

from xwheel.clock import ManualClock

from xwheel_devtools.testing.executor_site import ExecutorSite, written
from xwheel_devtools.testing.log_suite import (
    check_log_store,
    check_logs_outlast,
    sample_log_chunk,
    sample_log_key,
    stored_lines,
)
from xwheel_devtools.testing.node_site import NodeSite
from xwheel_devtools.testing.page_suite import check_pages
from xwheel_devtools.testing.processes import NodeProcess, XwheelProcess, wait_until
from xwheel_devtools.testing.samples import (
    SAMPLE_MS,
    load_plugin,
    sample_alarm,
    sample_executors,
    sample_group,
    sample_job,
    sample_route_context,
    sample_run,
)
from xwheel_devtools.testing.subsystem_suite import check_commands, check_group_calls, check_routes, check_tables
from xwheel_devtools.testing.suites import (
    check_alarm_channel,
    check_glue_type,
    check_router,
    check_run_listener,
    check_schedule_type,
)
from xwheel_devtools.testing.web import WebReply, WebRequest, WebServer, web_reply

if TYPE_CHECKING:
    from xwheel_devtools.testing.identity_suite import check_identity_provider

__all__ = [
    "SAMPLE_MS",
    "ExecutorSite",
    "ManualClock",
    "NodeProcess",
    "NodeSite",
    "WebReply",
    "WebRequest",
    "WebServer",
    "XwheelProcess",
    "check_alarm_channel",
    "check_commands",
    "check_glue_type",
    "check_group_calls",
    "check_identity_provider",
    "check_log_store",
    "check_logs_outlast",
    "check_pages",
    "check_router",
    "check_routes",
    "check_run_listener",
    "check_schedule_type",
    "check_tables",
    "load_plugin",
    "sample_alarm",
    "sample_executors",
    "sample_group",
    "sample_job",
    "sample_log_chunk",
    "sample_log_key",
    "sample_route_context",
    "sample_run",
    "stored_lines",
    "wait_until",
    "web_reply",
    "written",
]

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        # its contract is one of xwheel-accounts, which not every plugin's tests have
        if name == "check_identity_provider":
            from xwheel_devtools.testing.identity_suite import check_identity_provider

            return check_identity_provider
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
