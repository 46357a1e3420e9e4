"""What plugin authors import: the hook marker, the contracts, and nothing with I/O."""

from xwheel.errors import (
    AuthError,
    ConfigError,
    ConflictError,
    ExecutorError,
    FieldError,
    ForbiddenError,
    LogStoreError,
    NameTakenError,
    NoExecutorYetError,
    NotFoundError,
    NotYetError,
    RevisionError,
    RouteError,
    ScheduleError,
    StorageError,
    XwheelError,
)
from xwheel.model import RegisteredExecutor, Reporter, RunState
from xwheel.model.access import Actor, ActorKind, Grant, Grants, Permission, Role
from xwheel.model.deeds import AuditOutcome, Deed
from xwheel.plugin.contracts import (
    ChecksSavedSource,
    ChecksSource,
    Command,
    Commands,
    CommandSite,
    GlueRequest,
    GlueType,
    HandlerLookup,
    HostedRun,
    HostSetup,
    KeepsMails,
    KeepsThings,
    ManagementCalls,
    PartHealth,
    PluginDatabase,
    ReportsHealth,
    RouteContext,
    Router,
    RunChange,
    RunContext,
    RunListener,
    SavedSource,
    ScheduleSpec,
    ScheduleType,
    TakesOptions,
)
from xwheel.plugin.gates import (
    CallHead,
    FirstCredential,
    Gate,
    IdentifiesCallers,
    KnowsOwners,
    MakesFirst,
    NamesCaller,
    TokenOwner,
)
from xwheel.plugin.group_calls import GroupCall, GroupCalls, GroupReply
from xwheel.plugin.helpers import SecretMask, has_node_libraries
from xwheel.plugin.hookspecs import Hook, hookimpl
from xwheel.plugin.job_owners import DeclaredView, OwnsJobs
from xwheel.plugin.job_writing import JobWriter
from xwheel.plugin.news import BringsNews, NewsItem
from xwheel.plugin.observers import Changes, Observer, Rows, RunEnd, SaysWhatChanged, SeesDispatches
from xwheel.plugin.options import PluginOptions, read_options
from xwheel.plugin.pages import Pages
from xwheel.plugin.recorders import Book, NotesRefusals, Recorder, RefusedCall
from xwheel.plugin.resources import CALLER, PUBLIC, Need, Of, OfObject, Operation, ResourceRoute, Resources
from xwheel.plugin.routes import (
    CallBody,
    PluginExecutors,
    PluginGroup,
    PluginJobs,
    PluginPartitions,
    PluginSite,
    RecordsDeeds,
    Route,
    RouteCall,
    RouteRefusedError,
    RouteReply,
    Routes,
    RouteScope,
    SaysWhenDue,
    WokenUp,
    WorksAlong,
)
from xwheel.plugin.run_logs import LogAnswer, LogQuestions, LogText, ReadsLogs, TakesLogs
from xwheel.plugin.tables import Migration, RowsGoAlong, Tables
from xwheel.wire.http.networks import AddressKind, PlainUrl, refused_kind
from xwheel.wire.messages import LogData, LogPart, LogReceipt

# errors
__all__ = ["ConfigError", "FieldError", "StorageError", "XwheelError"]
__all__ += ["AuthError", "ConflictError", "ForbiddenError", "NotFoundError", "RevisionError"]
# hooks and options
__all__ += ["Hook", "PluginOptions", "SecretMask", "has_node_libraries", "hookimpl", "read_options"]
# addresses that may be called
__all__ += ["AddressKind", "PlainUrl", "refused_kind"]
# schedule types and routers
__all__ += ["NoExecutorYetError", "RouteError", "ScheduleError", "ScheduleSpec", "ScheduleType"]
__all__ += ["RegisteredExecutor", "RouteContext", "Router", "TakesOptions"]
# glue types
__all__ += ["GlueRequest", "GlueType", "HandlerLookup", "HostSetup", "KeepsThings"]
__all__ += ["ChecksSavedSource", "ChecksSource", "SavedSource"]
__all__ += ["Command", "ExecutorError", "HostedRun", "NotYetError", "RunContext"]
# run listeners, observers and tables
__all__ += ["RunChange", "RunListener", "RunState"]
__all__ += ["Changes", "Observer", "Rows", "RunEnd", "SaysWhatChanged", "SeesDispatches"]
__all__ += ["Migration", "PluginDatabase", "RowsGoAlong", "Tables"]
# logs of runs
__all__ += ["LogAnswer", "LogData", "LogPart", "LogQuestions", "LogReceipt", "LogText", "Reporter"]
__all__ += ["LogStoreError", "ReadsLogs", "TakesLogs"]
# who calls and what they may do
__all__ += ["Actor", "ActorKind", "Grant", "Grants", "Permission", "Role"]
__all__ += ["CallHead", "Gate", "IdentifiesCallers", "KnowsOwners", "NamesCaller", "TokenOwner"]
__all__ += ["FirstCredential", "MakesFirst"]
# the record of what they do
__all__ += ["AuditOutcome", "Book", "Deed", "NotesRefusals", "Recorder", "RecordsDeeds", "RefusedCall"]
# calls that plugins answer
__all__ += ["CALLER", "PUBLIC", "Need", "Of", "OfObject", "Operation", "ResourceRoute", "Resources"]
__all__ += ["CallBody", "Route", "RouteCall", "RouteRefusedError", "RouteReply", "RouteScope", "Routes"]
__all__ += ["GroupCall", "GroupCalls", "GroupReply"]
# what these work with
__all__ += ["PluginExecutors", "PluginGroup", "PluginJobs", "PluginPartitions", "PluginSite"]
__all__ += ["JobWriter", "NameTakenError", "SaysWhenDue", "WokenUp", "WorksAlong"]
# what plugins tell others, and pages
__all__ += ["BringsNews", "NewsItem", "Pages"]
__all__ += ["DeclaredView", "KeepsMails", "OwnsJobs", "PartHealth", "ReportsHealth"]
# commands
__all__ += ["CommandSite", "Commands", "ManagementCalls"]
