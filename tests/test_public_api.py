"""What others may rely on; a change here is a change for them."""

from __future__ import annotations

import xwheel
import xwheel.egress
import xwheel.executor
import xwheel.plugin

PUBLIC = {
    xwheel: {
        "Alarm",
        "Config",
        "ExecutorGroup",
        "Job",
        "RouteContext",
        "Run",
        "XwheelError",
        "__version__",
        "hookimpl",
    },
    xwheel.egress: {
        "Answer",
        "EgressCall",
        "EgressClient",
        "EgressError",
        "EgressPolicy",
        "EgressRefusedError",
        "Target",
    },
    xwheel.executor: {"Executor", "JobContext", "current_job", "job", "load_handlers"},
    xwheel.plugin: {
        "ALARM_PLACEHOLDERS",
        "Alarm",
        "AlarmChannel",
        "AlarmKind",
        "AlarmReceipts",
        "AlarmRetryLater",
        "AlarmTemplate",
        "Command",
        "ConfigError",
        "ExecutorError",
        "GlueRequest",
        "GlueType",
        "HandlerLookup",
        "PluginOptions",
        "RouteContext",
        "Router",
        "RunChange",
        "RunContext",
        "RunListener",
        "RunState",
        "ScheduleSpec",
        "ScheduleType",
        "alarm_values",
        "hookimpl",
        "read_options",
    },
}


def test_the_public_names_are_these_and_no_others() -> None:
    for module, names in PUBLIC.items():
        assert set(module.__all__) == names
        for name in names:
            assert getattr(module, name) is not None
