"""What others may rely on; a change here is a change for them."""

from __future__ import annotations

import xwheel
import xwheel.embedded
import xwheel.executor
import xwheel.plugin
import xwheel.testing

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
    xwheel.embedded: {"EmbeddedScheduler", "JobContext", "current_job"},
    xwheel.executor: {"Executor", "JobContext", "current_job", "job", "load_handlers", "load_targets"},
    xwheel.plugin: {
        "ALARM_PLACEHOLDERS",
        "AddressKind",
        "Alarm",
        "AlarmChannel",
        "AlarmKind",
        "AlarmReceipts",
        "AlarmRetryLater",
        "AlarmTemplate",
        "ChecksSource",
        "Command",
        "ConfigError",
        "ExecutorError",
        "GlueRequest",
        "GlueType",
        "HandlerLookup",
        "PlainUrl",
        "PluginOptions",
        "RegisteredExecutor",
        "RouteContext",
        "RouteError",
        "Router",
        "RunChange",
        "RunContext",
        "RunListener",
        "RunState",
        "ScheduleError",
        "ScheduleSpec",
        "ScheduleType",
        "SecretMask",
        "TakesOptions",
        "alarm_values",
        "checked_receivers",
        "hookimpl",
        "read_options",
        "refused_kind",
    },
    xwheel.testing: {
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
        "wait_until",
        "web_reply",
        "written",
    },
}


def test_the_public_names_are_these_and_no_others() -> None:
    for module, names in PUBLIC.items():
        assert set(module.__all__) == names
        for name in names:
            assert getattr(module, name) is not None
