"""``docs/reference/plugins.md`` is written from the code: hooks, contracts, options of what we ship.

``python -m tests.test_plugin_reference`` writes it.
"""

from __future__ import annotations

import importlib
import inspect
import re
import sys
import types
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import BaseModel, SecretStr
from pydantic_core import PydanticUndefined
from xwheel_accounts import (
    Identity,
    IdentityProvider,
    KnownAccount,
    SignInStart,
    SignsInByPassword,
    SignsInByRedirect,
    SignsOut,
)
from xwheel_alarms import Alarm, AlarmChannel
from xwheel_run_logs import ChecksSetup, LogChunk, LogEnd, LogKey, LogStore

from tests.support.paths import ROOT
from xwheel.model.deeds import Deed
from xwheel.plugin import RegisteredExecutor, Reporter
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
from xwheel.plugin.hookspecs import HOOKS, Hook, all_hooks
from xwheel.plugin.job_owners import DeclaredView, OwnsJobs
from xwheel.plugin.job_writing import JobWriter
from xwheel.plugin.news import BringsNews, NewsItem
from xwheel.plugin.observers import Changes, Observer, RunEnd, SaysWhatChanged, SeesDispatches
from xwheel.plugin.options import PluginOptions
from xwheel.plugin.pages import Pages
from xwheel.plugin.recorders import Book, NotesRefusals, Recorder, RefusedCall
from xwheel.plugin.resources import Need, Of, OfObject, Operation, ResourceRoute, Resources
from xwheel.plugin.routes import (
    CallBody,
    PluginExecutors,
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
from xwheel.wire.messages import LogData, LogPart, LogReceipt

PAGE = ROOT / "docs" / "reference" / "plugins.md"
SHIPPED = sorted(
    path.parent.name
    for path in ROOT.glob("plugins/*/pyproject.toml")
    if "[project.entry-points.xwheel]" in path.read_text()
)
# contract to what it takes and gives
PARTS: dict[type[Any], list[type[Any]]] = {
    ScheduleType: [ScheduleSpec],
    Router: [TakesOptions, RouteContext, RegisteredExecutor],
    GlueType: [
        ChecksSource,
        ChecksSavedSource,
        SavedSource,
        GlueRequest,
        Command,
        HostedRun,
        KeepsThings,
        HostSetup,
        HandlerLookup,
        RunContext,
    ],
    RunListener: [RunChange],
    Pages: [],
    Tables: [Migration, RowsGoAlong],
    Observer: [Changes, RunEnd, SeesDispatches, SaysWhatChanged],
    Resources: [ResourceRoute, Need, Of, OfObject, Operation, OwnsJobs, DeclaredView],
    Routes: [
        Route,
        RouteScope,
        RouteCall,
        CallBody,
        RouteReply,
        RouteRefusedError,
        PluginSite,
        RecordsDeeds,
        PluginDatabase,
        PluginJobs,
        JobWriter,
        PluginExecutors,
        PluginPartitions,
        WorksAlong,
        WokenUp,
        SaysWhenDue,
        ReportsHealth,
        PartHealth,
        ReadsLogs,
        TakesLogs,
        Reporter,
        LogText,
        LogPart,
        LogReceipt,
        LogQuestions,
        LogAnswer,
        LogData,
        BringsNews,
        NewsItem,
        KeepsMails,
    ],
    GroupCalls: [GroupCall, GroupReply],
    Gate: [IdentifiesCallers, CallHead, NamesCaller, KnowsOwners, TokenOwner, MakesFirst, FirstCredential],
    Recorder: [Book, Deed, NotesRefusals, RefusedCall],
    Commands: [CommandSite, ManagementCalls],
    IdentityProvider: [SignsInByPassword, SignsInByRedirect, SignsOut, KnownAccount, Identity, SignInStart],
    AlarmChannel: [Alarm],
    LogStore: [ChecksSetup, LogKey, LogChunk, LogEnd],
    Hook: [],
}
HEAD = """# Plugins

This page is written from the code: `python -m tests.test_plugin_reference`. To write one, see
[your first plugin](../tutorial/one-file-plugin.md), which is one file, and
[write a plugin in ten minutes](../tutorial/first-plugin.md), which makes packages; `xwheel plugins new KIND NAME`
writes a project.

Everything that a job, a rule or a setting chooses by name comes from a plugin, ours included: an installed
distribution with an entry point in the group `xwheel`, or a [file of a folder](#a-folder-of-files). The entry point's
name is the plugin's name, or the file's without its ending: the settings `plugins.disabled` and `plugins.tolerate`
take it, and its table of options is `[plugins.options.NAME]`.

A process asks each hook once, when it starts: a scheduler all of them, an executor only `xwheel_register_glue_types`.
The start stops with one line that names the plugin, the file and line, and the way out if a plugin

- cannot be imported, or (checked by nodes) needs a distribution that is not installed, or another version of it,
- has an unknown hook, one with other arguments, one that is not marked with `@hookimpl`, or none at all,
- registers an object that lacks an attribute without a default or a method of its contract, or has one of another
  form,
- registers a name that is taken, or one with blanks or more than 64 characters (a schedule type: 32),
- finds an option unknown, missing or mistyped, or reads a table that is not its own.

Such a plugin brings nothing at all. `xwheel plugins` lists all plugins, with what is wrong with each, and exits with 2
if that would stop a start. `plugins.tolerate` names plugins without which a process may start: it then says so in its
log at each start, and a node in `missing_plugins` of its health. None is tolerated unless it is named. A table of
options that belongs to no plugin is a warning.

A plugin that fails later is contained: a router that raises fails that run, a channel that hangs or raises delays no
other channel, a listener that does so delays nothing, a log store that does so lets lines wait with their
executors, and an identity provider that does so lets no one in, while those who are in stay in.

## What plugins may import

`xwheel`, `xwheel.plugin`, the names of `xwheel_alarms` for alarm channels, of `xwheel_run_logs` for log stores and of
`xwheel_accounts` for identity providers, and `xwheel_egress` of the distribution `xwheel-egress` for
[calls to addresses outside](egress.md). Their tests may import `xwheel_devtools.testing` of `xwheel-devtools`, which
has

- a suite for each contract (`check_router` and so on), sample records, and `load_plugin`,
- `WebServer`, a server that answers calls as a test says,
- `ExecutorSite`, an executor that runs a glue type's sources, and `NodeProcess`, a whole scheduler node,
- `NodeSite`, a [node for tests](#a-node-for-tests).

Everything else may change in any release. Objects are called by several threads unless their contract says otherwise,
and do no I/O when they are made.

## A folder of files

The setting `plugins.folder`, or `--plugins-dir DIR` of `xwheel server`, `xwheel executor` and `xwheel plugins`, names a
folder whose files `*.py` are plugins, each by itself; those whose names begin with `_` are left out. They are loaded in
the order of their names, after what is installed, and the log names them. They are never trusted: their routers and
schedule types are called on threads of their own. A glue type that returns a `Command` must be installed, since a
process of its own imports it.

What is in that folder runs in the process. A start refuses a folder or a file that others than its owner can write to,
one that belongs to another user than root or that of the process, a folder below one which all can write to or which
belongs to a third user, links, and files over 1 MiB. What was checked is what runs: each file is opened once, and
compiled files next to it are not read. `xwheel plugins check FILE` tries one file.

## Commands that begin quickly

A distribution can also say where its commands are, in the entry-point group `xwheel.commands`: each name as the hook
registers it, and its module, or `MODULE:app` if the command is all of the module's Typer. Then a command that is typed
loads that module and no plugin; the help of the Typer stands for `help` of the contract. Name what is registered with
any settings, as no hook is asked. Help that lists commands still loads all plugins, and so does a command where
`plugins.disabled` names any plugin, or where two distributions name the same.

```toml
[project.entry-points."xwheel.commands"]
toys = "acme_toys.commands:app"        # xwheel toys ...
"job/paint" = "acme_toys.painting"     # xwheel job paint
```

## Hints for what is not installed

A refusal of a name that no plugin has can say what brings it. The entry-point group `xwheel.hints` of a distribution
names a mapping for that: kind of object to its names, and each to a text, such as `{"router": {"NEARBY": "NEARBY comes
with acme-routers: pip install acme-routers next to each node"}}`. Kinds are `router`, `glue type`, `schedule type`,
`alarm channel` and `log store`. It is read when the first such name is refused. `xwheel-devtools`, which
`xwheel[server]` brings, has the names of our own plugins; without it the refusal lists the known names alone.

## Hooks of a plugin's own

A distribution can bring hooks that other plugins implement, as `xwheel-alarms` does for alarm channels. The
entry-point group `xwheel.hooks` names a mapping of hook to [`Hook`](#hook), which says what is registered by it; that
is checked as for all hooks. `site.registered("xwheel_register_toy_shops")` has what plugins registered, by name.

```toml
[project.entry-points."xwheel.hooks"]
toys = "acme_toys.shops:HOOKS"  # {"xwheel_register_toy_shops": Hook(kind="toy shop", contract=Shop, words="Toys.")}
```

A plugin that implements such a hook depends on the distribution that brings it, and imports the contract from there.
Where that distribution is not installed, the hook is unknown.

## A node for tests

`pytest_plugins = ["xwheel_devtools.testing.fixtures"]` in `conftest.py` brings the fixture `xwheel_node`: a function
that starts a `NodeSite`, a node with an SQLite database and executors in the test's process, which is stopped when the
test ends.

```python
node = xwheel_node("mine.py", options={"mine": {"limit": 5}}, executors=2, handlers=[my_handler])
```

Its arguments are files of plugins, modules or other objects with hooks, and names of installed plugins; of the
installed ones, those that come with xwheel itself are loaded besides. It has

- `run(handler, param, **fields)`, which makes a job with these fields, runs it once, waits for its end and returns the
  run as the management API shows it; the handlers `hello` and `fail` are there; and `log(run_id)`,
- `alarms`, all alarms that were sent, and `wait_for_alarms(count)`; `send_alarms_to(channel)` lets a channel send them,
  too, and `wait_for_attempt(channel)` returns what came of that,
- `call(method, path, body)` for the management API, `addresses` of the executors, `url`, `token`, `executor_url`.

## Options

A plugin describes its table as a subclass of `xwheel.plugin.PluginOptions`, a pydantic model. A hook whose parameter
`options` is annotated with it gets it checked; without that annotation `options` is the table as it stands there.
`read_options(config, NAME, Model)` does the same by name. Texts are not taken for numbers. A field of type
`SecretStr` is never shown; next to `password: SecretStr | None` a field `password_file: Path | None = None` lets
operators name a file that holds it. Other texts are shown to admins alone, and only those of the fields that the
class names in `public`, since a URL may hold a password. From the environment, all tables together are one JSON
document, which then stands in place of those of the file:

```sh
export XWHEEL_PLUGINS__OPTIONS='{"NAME": {"key": 5}}'
```
"""


def plugins_page() -> str:
    """Return the reference of plugins, as it must stand in ``docs/reference/plugins.md``."""
    lines = [HEAD, "## Hooks", ""]
    lines += ["A hook is handed those of its arguments that its parameters name, in any order, or none.", ""]
    for name, hook in all_hooks().items():
        contract = hook.contract.__name__
        lines += [
            f"### `{name}`",
            "",
            f"`{name}(config: Config, options: Options) -> Iterable[{contract}]`",
            "",
            plain(hook.words),
            "",
            f"Contract: [`{contract}`](#{contract.lower()})"
            + ("." if name in HOOKS else f", which plugins import from `{home_of(hook.contract)}`."),
            "",
        ]
    lines += ["## Contracts", ""]
    for contract, parts in PARTS.items():
        for item in (contract, *parts):
            lines += [f"### `{item.__name__}`", "", *prose(item), *fields(item), *members(item)]
    lines += ["## Options of the shipped plugins", ""]
    for name in SHIPPED:
        lines += [f"### `{name}`", ""]
        model = options_of(name)
        if model is None:
            lines += ["It has none.", ""]
            continue
        lines += table(f"plugins.options.{name}", model)
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).rstrip() + "\n"


def home_of(contract: type[Any]) -> str:
    """Return the package of a distribution that brings a contract."""
    return contract.__module__.partition(".")[0]


def prose(item: Any) -> list[str]:
    """Return a docstring as Markdown: sections as lists, one line an entry."""
    made: list[str] = []
    for line in (inspect.getdoc(item) or "").splitlines():
        text = plain(line)
        if re.fullmatch(r"(Attributes|Args|Raises|Returns):", line):
            made += [f"{line}", ""]
        elif re.match(r"    \w+: ", line):
            entry, _, words = text.strip().partition(": ")
            made.append(f"- `{entry}`: {words}")
        elif line.startswith("        ") and made and made[-1].startswith("- "):
            made[-1] += f" {text.strip()}"
        else:
            made.append(text.strip())
    return [*made, ""]


def fields(item: type[Any]) -> list[str]:
    """Return as a list what comments with ``#:`` say of the fields of a record or an enumeration."""
    made: list[str] = []
    above = ""
    for line in inspect.getsource(item).splitlines():
        text, _, words = line.strip().partition("#:")
        above += words if not text else ""
        if (field := re.match(r"    (?:    self\.)?(\w+)(: | = )", line)) and (
            said := (above if words == "" else words).strip()
        ):
            made.append(f"- `{field[1]}`: {plain(said[0].upper() + said[1:])}.")
        above = "" if text else above
    return ["Attributes:", "", *made, ""] if made else []


def plain(text: str) -> str:
    """Return reStructuredText as Markdown."""
    text = re.sub(r":\w+:`~?([^`]+)`", lambda found: f"`{found[1].rpartition('.')[2]}`", text)
    return text.replace("``", "`")


def members(item: type[Any]) -> Iterator[str]:
    """Yield the methods and properties of a contract with their signatures."""
    for name, value in vars(item).items():
        if name.startswith("_") or not (inspect.isfunction(value) or isinstance(value, property)):
            continue
        if isinstance(value, property):
            assert value.fget is not None
            yield f"#### `{name}: {annotation(value.fget)}`"
        else:
            signature = str(inspect.signature(value)).replace("(self, ", "(").replace("'", "")
            yield f"#### `{name}{signature}`"
        yield ""
        yield from prose(value)


def annotation(function: Any) -> str:
    return str(inspect.get_annotations(function)["return"])


def options_of(name: str) -> type[PluginOptions] | None:
    """Return the model of a shipped plugin's options; its package itself, which may need more, is not imported."""
    folder = ROOT / "plugins" / name / f"xwheel_{name}"
    if not (folder / "options.py").exists():
        return None
    package = types.ModuleType(folder.name)
    package.__path__ = [str(folder)]
    before = dict(sys.modules)
    sys.modules[folder.name] = package
    # where the distribution is that some need, which is not installed here
    sys.path.insert(0, str(ROOT / "plugins" / "egress"))
    try:
        found = importlib.import_module(f"{folder.name}.options").Options
    finally:
        del sys.path[0]
        for module in set(sys.modules) - set(before):
            if module.split(".")[0] in {folder.name, "xwheel_egress"}:
                del sys.modules[module]
        if folder.name in before:
            sys.modules[folder.name] = before[folder.name]
    assert issubclass(found, PluginOptions)
    return found


def table(where: str, model: type[BaseModel]) -> list[str]:
    lines = [f"`[{where}]`", "", "| key | holds | default | meaning |", "|---|---|---|---|"]
    inner: list[str] = []
    for key, field in model.model_fields.items():
        default = "needed" if field.is_required() else shown(field.get_default(call_default_factory=True))
        words = (field.description or "").replace("\n", " ").replace("|", r"\|")
        lines.append(f"| `{key}` | {kind_of(field.annotation)} | {default} | {words} |")
        below = model_in(field.annotation)
        if below is not None:
            place = f"{where}.{key}" + (".NAME" if "dict" in str(field.annotation) else "")
            inner += table(place, below)
    return [*lines, "", *inner]


def kind_of(annotation: Any) -> str:
    """Return a type in a word or two."""
    text = str(annotation)
    literal = re.search(r"Literal\[([^\]]*)\]", text)
    if model_in(annotation) is not None:
        return "tables by name" if "dict" in text else "table"
    if "dict" in text:
        return "table"
    if "tuple" in text or "list" in text:
        return "list"
    if literal:
        return literal[1].replace("'", "`")
    for part, word in (
        ("SecretStr", "secret"),
        ("Path", "path"),
        ("bool", "true or false"),
        ("float", "number"),
        ("int", "whole number"),
        ("str", "text"),
    ):
        if part in text:
            return word
    raise TypeError(text)


def shown(value: Any) -> str:
    if value is None or value is PydanticUndefined or isinstance(value, SecretStr | BaseModel):
        return "none"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    text = str(value).replace("\n", r"\n").replace("|", r"\|")
    return f"`{text}`" if text and value not in ((), {}) else "empty"


def model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    args = getattr(annotation, "__args__", ())
    return next((found for part in args if (found := model_in(part)) is not None), None)


def test_the_page_says_what_the_code_says() -> None:
    assert PAGE.read_text(encoding="utf-8") == plugins_page(), "python -m tests.test_plugin_reference"


def test_every_hook_has_a_contract() -> None:
    assert {hook.contract for hook in all_hooks().values()} | {Hook} == set(PARTS)


@pytest.mark.parametrize("name", SHIPPED)
def test_every_option_says_what_it_means(name: str) -> None:
    def check(model: type[BaseModel]) -> None:
        for key, field in model.model_fields.items():
            assert field.description, f"{name}: {model.__name__}.{key}"
            below = model_in(field.annotation)
            if below is not None:
                check(below)

    model = options_of(name)
    if model is not None:
        check(model)


if __name__ == "__main__":
    PAGE.write_text(plugins_page(), encoding="utf-8")
