"""The ``xwheel`` command and what starts processes: ``server``, ``executor``, ``quickstart``, ``verify``.

Commands import what they need when they run, so that ``--help`` is quick.
"""

from __future__ import annotations

import gc
import logging
import sys
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from xwheel.cli import alarm, cron, group, job, plugins, secret, token
from xwheel.cli import run as cli_run
from xwheel.cli.connection import (
    ConfigOption,
    DatabaseOption,
    PlainJsonOption,
    PluginsDirOption,
    TokenOption,
    configure,
    given,
    node_client,
    warn_of_password,
)
from xwheel.cli.output import plain, visible
from xwheel.errors import (
    ConfigError,
    DatabaseRefusedError,
    DatabaseUnreachableError,
    FieldError,
    LockError,
    PluginError,
    SchemaError,
    XwheelError,
)
from xwheel.runtime.memory import tidy
from xwheel.runtime.signals import StopSignals

EXIT_FAILED = 1
EXIT_CONFIG = 2
EXIT_LOCKED = 3
EXIT_SCHEMA = 4
# 5 is that of "job apply --check"
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

LOG_FORMAT = "%(asctime)s %(levelname)s %(threadName)s %(name)s: %(message)s"

app = typer.Typer(
    help="xwheel: a distributed job scheduler that speaks XXL-JOB's wire protocol.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
database = typer.Typer(help="The database's schema.", no_args_is_help=True)
app.add_typer(database, name="db")
app.add_typer(cron.app, name="cron")
app.add_typer(token.app, name="token")
app.add_typer(secret.app, name="secret")
app.add_typer(group.app, name="group")
app.add_typer(job.app, name="job")
app.add_typer(cli_run.app, name="run")
app.add_typer(alarm.app, name="alarm")
app.add_typer(plugins.app, name="plugins")


@app.command()
def quickstart(
    seconds: Annotated[
        int | None, typer.Option(min=5, max=86_400, help="End by itself after so many seconds of fires.")
    ] = None,
    as_json: PlainJsonOption = False,
    rate: Annotated[int, typer.Option(min=0, max=500, help="Further fires a second.")] = 0,
    data_dir: Annotated[
        Path | None, typer.Option(help="Keep everything here; default: a temporary folder.")
    ] = None,
    url: DatabaseOption = None,
) -> None:
    """Run one node and one executor with demonstration jobs, and count honestly what ran."""
    from xwheel.cli.quickstart.run import Options
    from xwheel.cli.quickstart.run import quickstart as run

    _log_from(logging.WARNING)
    warn_of_password(url)
    options = Options(seconds=seconds, as_json=as_json, rate=rate, data_dir=data_dir, database=url)
    raise typer.Exit(run(options))


@app.command()
def verify(
    urls: Annotated[
        list[str] | None,
        typer.Option(
            "--url",
            metavar="URL",
            help="Management API of a node; again for each further one; default: $XWHEEL_URL.",
        ),
    ] = None,
    token_file: TokenOption = None,
    seconds: Annotated[int, typer.Option(min=5, max=86_400, help="How long jobs fire.")] = 60,
    rate: Annotated[
        int, typer.Option(min=20, max=500, help="Fires a second of jobs that nobody changes.")
    ] = 40,
    seed: Annotated[
        int | None, typer.Option(min=0, help="What is done to the others; default: at random.")
    ] = None,
    folder: Annotated[
        Path | None, typer.Option(help="Executors' logs and what they execute; default: a temporary folder.")
    ] = None,
    url: Annotated[
        str | None, typer.Option("--database", help="The cluster's database, to watch its tables meanwhile.")
    ] = None,
    settle: Annotated[int, typer.Option(min=1, max=86_400, help="Seconds to wait for the last runs.")] = 180,
    keep: Annotated[bool, typer.Option("--keep", help="Leave the jobs in the cluster.")] = False,
    as_json: PlainJsonOption = False,
) -> None:
    """Let jobs fire on a test cluster while you break it, and say what was lost, ran twice, came late or is stuck.

    Starts three executors here, with the settings that 'xwheel executor' would have, makes jobs in two groups of their
    own, and changes, stops, kills and runs some of them meanwhile; it also pauses all schedules for a second now and
    then. The exit status is 0 only if nothing was found.
    """
    from xwheel.cli.verify.run import VerifyOptions
    from xwheel.cli.verify.run import verify as run
    from xwheel.cli.verify.site import Site

    _log_from(logging.WARNING)
    warn_of_password(url)
    site = (
        Site(lambda: [node_client(item, token_file) for item in urls])
        if urls
        else Site(lambda: [node_client(None, token_file)])
    )
    options = VerifyOptions(
        seconds=seconds,
        rate=rate,
        seed=seed,
        folder=folder,
        database=url,
        settle_s=settle,
        as_json=as_json,
        keep=keep,
    )
    raise typer.Exit(run(site, options))


@app.command()
def server(
    config_path: ConfigOption = None,
    url: DatabaseOption = None,
    port: Annotated[int | None, typer.Option(help="Port of the management API.")] = None,
    executor_port: Annotated[int | None, typer.Option(help="Port of the executor API.")] = None,
    plugins_dir: PluginsDirOption = None,
) -> None:
    """Run a scheduler node until SIGTERM, SIGHUP or Ctrl-C, then drain."""
    with StopSignals(for_good=True) as signals:
        from xwheel.node.node import Node

        _log_from(logging.INFO)
        config = configure(
            config_path,
            url,
            api={"port": port, "executor_port": executor_port},
            plugins={"folder": plugins_dir},
        )
        node = Node(config, announce=typer.echo)
        if signals.be_up():
            return
        node.start()
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

    _log_from(logging.INFO)
    sys.path.insert(0, str(Path.cwd()))
    found = load_targets(targets or ())
    runner = next((item for item in found if isinstance(item, Executor)), None)
    if runner is None:
        config = load_config(config_path, {"plugins": given(folder=plugins_dir)})
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


class PlainFormatter(logging.Formatter):
    """Writes log lines in which no text of others can move the terminal or look like a line of its own."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 -- the library's name
        """Return the line, without a traceback."""
        return plain(super().formatMessage(record)).replace("\n", "\\n")

    def formatException(self, ei: Any) -> str:  # noqa: N802 -- the library's name
        """Return a traceback."""
        return plain(super().formatException(ei))


def _log_from(level: int) -> None:
    """Write log lines from a level on to standard error."""
    handler = logging.StreamHandler()
    handler.setFormatter(PlainFormatter(LOG_FORMAT))
    logging.basicConfig(level=level, handlers=[handler])


@database.command("upgrade")
def database_upgrade(config_path: ConfigOption = None, url: DatabaseOption = None) -> None:
    """Bring the schema to the one this version needs."""
    from xwheel.storage.database import startup
    from xwheel.storage.database.address import with_password

    before, after = startup.upgrade(with_password(configure(config_path, url).database))
    typer.echo(f"schema: {before or 'empty'} -> {after}")


@database.command("check")
def database_check(config_path: ConfigOption = None, url: DatabaseOption = None) -> None:
    """Say whether a node could work with the database; exit with 4 if its schema is not the one this version needs."""
    from xwheel.node.node import open_database
    from xwheel.storage.schema import migrate

    open_database(configure(config_path, url), create=False).close()
    typer.echo(f"schema: {migrate.head_revision()}, as needed")


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
