"""The ``xwheel`` command and what starts processes: ``server`` and ``executor``.

Commands import what they need when they run, so that ``--help`` is quick.
"""

from __future__ import annotations

import gc
import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, NoReturn

import typer

from xwheel import __version__
from xwheel.cli.connection import (
    ConfigOption,
    DatabaseOption,
    PlainJsonOption,
    PluginsDirOption,
    configure,
    given,
    given_reason,
)
from xwheel.cli.lazy import LazyGroup, command_group
from xwheel.cli.log_lines import ShownSecrets, log_from, tell_login, tell_node, tell_start
from xwheel.cli.output import visible
from xwheel.cli.plugin_commands import CommandPlace
from xwheel.cli.printer import Printer
from xwheel.errors import (
    ConfigError,
    DatabaseRefusedError,
    DatabaseUnreachableError,
    FieldError,
    LockError,
    PluginError,
    SchemaError,
    StartEndedError,
    XwheelError,
)

if TYPE_CHECKING:
    from xwheel.runtime.signals import StopSignals

EXIT_FAILED = 1
EXIT_CONFIG = 2
EXIT_LOCKED = 3
EXIT_SCHEMA = 4
# 5 is that of a plugin's commands: "job apply --check" and "sync --check" found a difference
EXIT_REFUSED = 6
EXIT_UNREACHABLE = 7

STATUSES = (
    (ConfigError, EXIT_CONFIG),
    (FieldError, EXIT_CONFIG),
    (PluginError, EXIT_CONFIG),
    (LockError, EXIT_LOCKED),
    (SchemaError, EXIT_SCHEMA),
    (DatabaseRefusedError, EXIT_REFUSED),
    (DatabaseUnreachableError, EXIT_UNREACHABLE),
)

GC_ALLOCATIONS = 50_000
TIDY_S = 60


class RootGroup(LazyGroup):
    """All commands."""

    places: ClassVar = {
        "login": CommandPlace(
            "xwheel.cli.access.login",
            "Let this user's commands talk to a node: by default to that of the settings, with a new token from its "
            "database.",
            is_one=True,
        ),
        "logout": CommandPlace(
            "xwheel.cli.access.login",
            "Forget a login; its token goes on working until 'xwheel token delete' ends it.",
            is_one=True,
        ),
        "cron": CommandPlace("xwheel.cli.cron", "Cron expressions: when they fire, and what they say."),
        "token": CommandPlace(
            "xwheel.cli.access.token",
            "Tokens of programs for the management API, and for the jobs of one executor group.",
        ),
        "secret": CommandPlace(
            "xwheel.cli.access.secret",
            "Secrets of executors: what those of a group show, and are called with.",
        ),
        "group": CommandPlace("xwheel.cli.node.group", "Groups of executors, on a running node."),
        "job": CommandPlace("xwheel.cli.node.job", "Jobs, on a running node."),
        "run": CommandPlace("xwheel.cli.node.run", "Runs of jobs, on a running node."),
        "glue": CommandPlace(
            "xwheel.cli.node.glue", "Versions of the sources of script jobs, on a running node."
        ),
        "calendar": CommandPlace("xwheel.cli.node.calendar", "Calendars, on a running node."),
        "health": CommandPlace(
            "xwheel.cli.node.health", "Say how the node fares; exit with 1 if anything fails.", is_one=True
        ),
        "pause": CommandPlace(
            "xwheel.cli.node.health",
            "Pause all schedules: nothing fires by itself any more, runs by hand do; 'xwheel resume' ends it.",
            is_one=True,
        ),
        "resume": CommandPlace("xwheel.cli.node.health", "Let schedules fire again.", is_one=True),
        "plugins": CommandPlace(
            "xwheel.cli.plugins", "What plugins are installed, and what is wrong with them."
        ),
    }


app = typer.Typer(
    cls=RootGroup,
    help="xwheel: a distributed job scheduler that speaks XXL-JOB's wire protocol.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode=None,  # a help without colours is there in a third of the time
    pretty_exceptions_enable=False,
)
database = command_group("The database's schema.")
app.add_typer(database, name="db")


def _print_version(wanted: bool) -> None:
    if wanted:  # xwheel.__main__ answers it sooner where it stands alone
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version, and nothing else.", is_eager=True, callback=_print_version
        ),
    ] = False,
    reason: Annotated[
        str,
        typer.Option(metavar="TEXT", help="Why, for the audit: of any command that changes something."),
    ] = "",
) -> None:
    """Take what stands before every command."""
    del version
    given_reason.set(reason)


@app.command()
def server(
    config_path: ConfigOption = None,
    url: DatabaseOption = None,
    port: Annotated[int | None, typer.Option(help="Port of the management API.")] = None,
    executor_port: Annotated[int | None, typer.Option(help="Port of the executor API.")] = None,
    plugins_dir: PluginsDirOption = None,
) -> None:
    """Run a scheduler node until SIGTERM, SIGHUP or Ctrl-C, then drain."""
    from xwheel.runtime.signals import StopSignals

    with StopSignals(for_good=True) as signals:
        from xwheel.node.node import Node

        log_from(logging.INFO)
        config = configure(
            config_path,
            url,
            api={"port": port, "executor_port": executor_port},
            plugins={"folder": plugins_dir},
        )
        log_from(logging.INFO, config)
        tell_start("a scheduler node", config_path)
        shown = ShownSecrets()
        node = Node(config, announce=shown.show, pause=signals.heard)
        if shown.count:
            tell_login(config_path)
        tell_node(config, node.scheduler.core.plugins)
        if signals.be_up():
            return
        try:
            node.start()
        except StartEndedError:
            return  # a signal came while it waited for its database
        # what exists now stays; of what comes and goes with fires little has cycles, so searching for them seldom pays
        gc.collect()
        gc.freeze()
        gc.set_threshold(GC_ALLOCATIONS)
        _wait(signals)
        raise typer.Exit(0 if node.stop() else EXIT_FAILED)


def _wait(signals: StopSignals) -> None:
    """Wait for a signal, and give back what is not needed any more now and then.

    Left alone, the interpreter would search for cycles only after half an hour of steady work or more, and among older
    objects only after days.
    """
    from xwheel.runtime.memory import tidy

    while not signals.heard(TIDY_S):
        tidy()


@app.command()
def executor(
    targets: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[TARGET]...",
            help="MODULE, for the @job handlers in it and in what it imports, or MODULE:NAME, for one of its "
            "functions, a list, or an Executor.",
        ),
    ] = None,
    config_path: ConfigOption = None,
    plugins_dir: PluginsDirOption = None,
) -> None:
    """Run an executor with handlers of modules, or glue types alone, until SIGTERM, SIGHUP or Ctrl-C, then drain."""
    from xwheel.config import load_config
    from xwheel.executor import Executor, load_targets

    log_from(logging.INFO)
    sys.path.insert(0, str(Path.cwd()))
    found = load_targets(targets or ())
    runner = next((item for item in found if isinstance(item, Executor)), None)
    if runner is None:
        config = load_config(config_path, {"plugins": given(folder=plugins_dir)})
        log_from(logging.INFO, config)
        tell_start("an executor", config_path)
        if not found and not config.executor.allowed_glue_types:
            raise ConfigError(
                "there is nothing to run: name a module with @job handlers, or allow glue types in "
                "executor.allowed_glue_types"
            )
        runner = Executor(config, handlers=found)
    elif len(found) > 1 or plugins_dir is not None:
        raise ConfigError(
            "an Executor has its own handlers and settings: give MODULE:NAME alone, without --plugins-dir"
        )
    raise typer.Exit(0 if runner.run_forever() else EXIT_FAILED)


@database.command("upgrade")
def database_upgrade(
    config_path: ConfigOption = None, url: DatabaseOption = None, as_json: PlainJsonOption = False
) -> None:
    """Bring the schema to the one this version needs, and the tables of plugins to those that they need."""
    from xwheel.plugin.discovery import survey_plugins
    from xwheel.storage.database import startup
    from xwheel.storage.database.address import with_password

    config = configure(config_path, url)
    survey = survey_plugins(config)
    before, after, applied = startup.upgrade(with_password(config.database), survey.plugins.tables)
    lines = [f"schema: {before or 'empty'} -> {after}"]
    lines += [f"tables of plugin {name}: {', '.join(done)}" for name, done in applied.items()]
    Printer(as_json).print_done({"before": before, "after": after, "plugins": applied}, "\n".join(lines))
    for error in survey.errors:
        typer.echo(f"xwheel: warning: {visible(str(error))}", err=True)


@database.command("check")
def database_check(
    config_path: ConfigOption = None, url: DatabaseOption = None, as_json: PlainJsonOption = False
) -> None:
    """Say whether a node could work with the database; exit with 4 if its schema is not the one this version needs."""
    from xwheel.plugin.discovery import load_plugins
    from xwheel.storage.database.startup import open_database
    from xwheel.storage.schema import migrate

    config = configure(config_path, url)
    tables = load_plugins(config).tables
    open_database(config, create=False, tables=tables).close()
    schema, names = migrate.head_revision(), sorted(tables)
    text = "\n".join(
        [f"schema: {schema}, as needed", *(f"tables of plugin {name}: as needed" for name in names)]
    )
    Printer(as_json).print_done({"schema": schema, "plugins": names, "ok": True}, text)


def main() -> None:
    """Run the command; what xwheel refuses becomes one line and an exit status of its own."""
    try:
        app()
    except XwheelError as error:
        _fail(error)
    except Exception as error:
        explained = _database_error(error)
        if explained is None:
            raise
        _fail(explained)


def _fail(error: XwheelError) -> NoReturn:
    typer.echo(f"xwheel: {visible(str(error))}", err=True)
    raise SystemExit(next((status for kind, status in STATUSES if isinstance(error, kind)), EXIT_FAILED))


def _database_error(error: Exception) -> XwheelError | None:
    """Return what a database's error means that no command foresaw; None for any other."""
    if "sqlalchemy" not in sys.modules:
        return None
    from xwheel.storage.database.errors import explain

    return explain(error)
