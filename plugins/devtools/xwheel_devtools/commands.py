"""``xwheel new``, ``xwheel quickstart`` and ``xwheel verify``.

What a command needs is imported when it runs, so that its help is quick.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Annotated

import typer
from xwheel.cli.connection import node_client
from xwheel.cli.lazy import command_group
from xwheel.cli.log_lines import log_from
from xwheel.cli.options import DatabaseOption, PlainJsonOption, TokenOption, warn_of_password
from xwheel.cli.output import print_done

app = command_group()


@app.command()
def new(
    path: Annotated[Path, typer.Argument(metavar="PATH", help="The folder: new, or empty.")],
    as_json: PlainJsonOption = False,
) -> None:
    """Write a project to start from: jobs, settings, one command that runs it, and a test on a running node."""
    from xwheel_devtools.scaffold.application import next_steps, write_application

    files, steps = [str(made) for made in write_application(path)], next_steps(path)
    text = "\n".join([*files, "next:", *(f"  {step}" for step in steps)])
    print_done(as_json, {"files": files, "next": list(steps)}, text)


@app.command()
def quickstart(
    seconds: Annotated[
        int | None, typer.Option(min=5, max=86_400, help="End by itself after this many seconds of fires.")
    ] = None,
    as_json: PlainJsonOption = False,
    rate: Annotated[int, typer.Option(min=0, max=500, help="Further fires a second.")] = 0,
    data_dir: Annotated[Path | None, typer.Option(help="Keep everything here; default: a temporary folder.")] = None,
    url: DatabaseOption = None,
) -> None:
    """Run one node and one executor with demonstration jobs, and count honestly what ran."""
    from xwheel_devtools.quickstart.run import Options
    from xwheel_devtools.quickstart.run import quickstart as run

    log_from(logging.WARNING)
    warn_of_password(url)
    options = Options(seconds=seconds, as_json=as_json, rate=rate, data_dir=data_dir, database=url)
    raise typer.Exit(run(options))


@app.command()
def verify(
    urls: Annotated[
        list[str] | None,
        typer.Option(
            "--url", metavar="URL", help="Management API of a node; again for each further one; default: $XWHEEL_URL."
        ),
    ] = None,
    token_file: TokenOption = None,
    seconds: Annotated[int, typer.Option(min=5, max=86_400, help="How long jobs fire.")] = 60,
    rate: Annotated[int, typer.Option(min=20, max=500, help="Fires a second of jobs that are left alone.")] = 40,
    seed: Annotated[int | None, typer.Option(min=0, help="What is done to the others; default: at random.")] = None,
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
    from xwheel_devtools.verify.run import VerifyOptions
    from xwheel_devtools.verify.run import verify as run
    from xwheel_devtools.verify.site import Site

    log_from(logging.WARNING)
    warn_of_password(url)
    site = (
        Site(lambda: [node_client(item, token_file) for item in urls])
        if urls
        else Site(lambda: [node_client(None, token_file)])
    )
    options = VerifyOptions(
        seconds=seconds, rate=rate, seed=seed, folder=folder, database=url, settle_s=settle, as_json=as_json, keep=keep
    )
    raise typer.Exit(run(site, options))
