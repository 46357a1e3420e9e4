"""What plugin authors import: the hook marker, the contracts, and nothing with I/O."""

from xwheel.errors import AlarmRetryLater, ConfigError, ExecutorError, RouteError, ScheduleError
from xwheel.model import RegisteredExecutor, RunState
from xwheel.model.alarms import AlarmKind
from xwheel.plugin.contracts import (
    Alarm,
    AlarmChannel,
    ChecksSource,
    Command,
    GlueRequest,
    GlueType,
    HandlerLookup,
    RouteContext,
    Router,
    RunChange,
    RunContext,
    RunListener,
    ScheduleSpec,
    ScheduleType,
    TakesOptions,
)
from xwheel.plugin.helpers import (
    ALARM_PLACEHOLDERS,
    AlarmReceipts,
    AlarmTemplate,
    SecretMask,
    alarm_values,
    checked_receivers,
)
from xwheel.plugin.hookspecs import hookimpl
from xwheel.plugin.options import PluginOptions, read_options
from xwheel.wire.http.networks import AddressKind, PlainUrl, refused_kind

__all__ = [
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
]
