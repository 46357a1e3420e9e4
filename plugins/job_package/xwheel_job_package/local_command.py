"""``xwheel local``: fire the jobs of packages that can be imported, in this process."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import Annotated

import typer

from xwheel_job_package.local import LocalNode, find_jobs

app = typer.Typer(add_completion=False)


@app.command("local")
def local(
    names: Annotated[list[str], typer.Argument(metavar="MODULE...", help="Packages and modules with jobs.")],
    once: Annotated[
        str | None, typer.Option("--once", metavar="JOB", help="Run this job, and end with its status.")
    ] = None,
    drain_s: Annotated[
        float, typer.Option("--drain", min=0, max=86_400, help="Seconds that runs get at the end.")
    ] = 10,
    is_list: Annotated[bool, typer.Option("--list", help="Say which jobs there are, and end.")] = False,
) -> None:
    """Fire the marked functions of packages by their crons until Ctrl-C; no database, network or console."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    sys.path.insert(0, str(Path.cwd()))
    if is_list:
        for job in find_jobs(names):
            typer.echo(f"{job.name}  {job.cron or 'by hand'}")
        return
    node = LocalNode(*names, drain_s=drain_s)
    raise typer.Exit(node.run() if once is None else node.run_once(once))
