"""The ``xwheel`` command and what starts processes: ``server`` and ``executor``.

Commands import what they need when they run, so that ``--help`` is quick.
"""

from __future__ import annotations

import gc
import logging
import os
import signal
import sys
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from xwheel import __version__, errors
from xwheel.cli.lazy import LazyCommands, PlainGroup, command_group
from xwheel.cli.log_lines import log_from, tell_login, tell_node, tell_start
from xwheel.cli.options import (
    ConfigOption,
    DatabaseOption,
    PlainJsonOption,
    PluginsDirOption,
    configure,
    given,
    given_reason,
)
from xwheel.cli.output import print_done, visible
from xwheel.cli.plugin_commands import CommandPlace

if TYPE_CHECKING:
    from xwheel.config import Config

EXIT_FAILED = 1
EXIT_CONFIG = 2
EXIT_LOCKED = 3
EXIT_SCHEMA = 4
# 5 is that of a plugin's commands: "job apply --check" and "sync --check" found a difference
EXIT_REFUSED = 6
EXIT_UNREACHABLE = 7

STATUSES = (
    (errors.ConfigError, EXIT_CONFIG),
    (errors.FieldError, EXIT_CONFIG),
    (errors.PluginError, EXIT_CONFIG),
    (errors.LockError, EXIT_LOCKED),
    (errors.SchemaError, EXIT_SCHEMA),
    (errors.DatabaseRefusedError, EXIT_REFUSED),
    (errors.DatabaseUnreachableError, EXIT_UNREACHABLE),
)

PLUGINS = CommandPlace("xwheel.cli.plugins", "What plugins are installed, and what is wrong with them.")
GC_ALLOCATIONS = 50_000


class RootGroup(PlainGroup):
    """All commands: those of this module, ``xwheel plugins``, and those that plugins bring."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = {**self.commands, "plugins": LazyCommands("plugins", PLUGINS)}


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
        typer.Option("--version", help="Print the version, and nothing else.", is_eager=True, callback=_print_version),
    ] = False,
    reason: Annotated[
        str, typer.Option(metavar="TEXT", help="Why, for the audit: of any command that changes something.")
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
    processes: Annotated[
        int, typer.Option(min=1, max=64, help="Nodes in processes of their own, which SIGHUP replaces one by one.")
    ] = 1,
) -> None:
    """Run a scheduler node until SIGTERM, SIGHUP or Ctrl-C, then drain."""
    from xwheel.runtime.signals import StopSignals

    handed = None

    def load() -> Config:
        log_from(logging.INFO, of_many=processes > 1)
        api = {"port": port, "executor_port": executor_port}
        config = configure(config_path, url, api=api, plugins={"folder": plugins_dir})
        log_from(logging.INFO, config, of_many=processes > 1)
        tell_start("a scheduler node" if handed or processes == 1 else f"{processes} scheduler nodes", config_path)
        return config

    if processes > 1:
        from xwheel.node.processes import HANDED, Inherited, supervise

        handed = os.environ.pop(HANDED, None)
        if handed is None:
            status = supervise(processes, sys.orig_argv[1:], load)
            raise typer.Exit(status if status >= 0 else EXIT_FAILED)
    # of what a start makes next to nothing has cycles, and of what comes and goes with fires little: searching for
    # them seldom pays
    gc.set_threshold(GC_ALLOCATIONS)
    with StopSignals(for_good=True) as signals:
        from xwheel.node.node import Node
        from xwheel.runtime.memory import tidy

        config = load()
        inherited = Inherited(handed, config) if handed else None
        shown: list[str] = []

        def show(secret: str) -> None:
            typer.echo(secret)  # at once, since the start may yet fail
            shown.append(secret)

        node = Node(config, show, pause=signals.heard, bound=inherited.listeners if inherited else ())
        if shown:
            tell_login(config_path)
        tell_node(config, node.scheduler.core.plugins)
        if signals.be_up():
            return
        try:
            node.start()
        except errors.StartEndedError:
            return  # a signal came while it waited for its database
        if inherited is not None:
            inherited.say_up()
        # what exists now stays
        gc.collect()
        gc.freeze()
        signals.wait(tidy)
        is_replaced = inherited is not None and signals.number == signal.SIGHUP
        raise typer.Exit(0 if node.stop(is_replaced=is_replaced) else EXIT_FAILED)


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
            raise errors.ConfigError(
                "there is nothing to run: name a module with @job handlers, or allow glue types in "
                "executor.allowed_glue_types"
            )
        runner = Executor(config, handlers=found)
    elif len(found) > 1 or plugins_dir is not None:
        raise errors.ConfigError(
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
    print_done(as_json, {"before": before, "after": after, "plugins": applied}, "\n".join(lines))
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
    text = "\n".join([f"schema: {schema}, as needed", *(f"tables of plugin {name}: as needed" for name in names)])
    print_done(as_json, {"schema": schema, "plugins": names, "ok": True}, text)


def main() -> None:
    """Run the command; what xwheel refuses becomes one line and an exit status of its own."""
    _print_what_can_be()
    try:
        app()
    except errors.XwheelError as error:
        _fail(error)
    except Exception as error:
        explained = _database_error(error)
        if explained is None:
            raise
        _fail(explained)


def _print_what_can_be() -> None:
    """Let letters that a terminal's encoding lacks become question marks, where they would end the command."""
    if isinstance(sys.stdout, TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="replace")


def _fail(error: errors.XwheelError) -> NoReturn:
    typer.echo(f"xwheel: {visible(str(error))}", err=True)
    raise SystemExit(next((status for kind, status in STATUSES if isinstance(error, kind)), EXIT_FAILED))


def _database_error(error: Exception) -> errors.XwheelError | None:
    """Return what a database's error means that no command foresaw; None for any other."""
    if "sqlalchemy" not in sys.modules:
        return None
    from xwheel.storage.database.errors import explain

    return explain(error)
