"""``xwheel plugins check`` and ``xwheel plugins new``: a check of one file, and a project for a new plugin."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from xwheel.cli.lazy import command_group
from xwheel.cli.options import ConfigOption, JsonOption
from xwheel.cli.output import print_json, visible

from xwheel_devtools.scaffold.project import Kind

app = command_group()


@app.command()
def check(
    path: Annotated[Path, typer.Argument(metavar="FILE", help="The plugin, such as plugins/nearby.py.")],
    config_path: ConfigOption = None,
    send: Annotated[
        bool,
        typer.Option(
            "--send",
            help="Really send sample alarms through its alarm channels, and write sample logs into its stores.",
        ),
    ] = False,
    confs: Annotated[
        list[str] | None, typer.Option("--conf", help="What its schedule type must understand; may be repeated.")
    ] = None,
    source: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A source that its glue type must be able to use.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Load a plugin of one file and try what it registers as xwheel would; say what is wrong."""
    from xwheel.config import load_config
    from xwheel.errors import FieldError

    from xwheel_devtools.testing.one_file import Trials, check_file

    try:
        text = source.read_text(encoding="utf-8") if source else ""
    except (OSError, UnicodeDecodeError) as error:
        raise FieldError("--source", f"cannot read {source}: {error}") from error
    trials = Trials(send=send, confs=confs or (), source=text)
    found = check_file(path, load_config(config_path), trials)
    if as_json:
        fields = ("kind", "name", "problem", "note")
        print_json({"items": [{name: getattr(item, name) for name in fields} for item in found]})
    for item in found if not as_json else ():
        said = f"wrong: {item.problem}" if item.problem else "ok"
        if item.note:
            said = f"its form is ok; {item.note}"
        typer.echo(f"{item.kind} {visible(item.name)}: {visible(said)}")
    raise typer.Exit(1 if any(item.problem for item in found) else 0)


@app.command()
def new(
    kind: Annotated[Kind, typer.Argument(help="What it shall bring.")],
    name: Annotated[str, typer.Argument(metavar="NAME", help="Its name, such as my_channel.")],
    directory: Annotated[
        Path, typer.Option("--directory", "-d", help="Where its folder is made; default: here.")
    ] = Path(),
    as_json: JsonOption = False,
) -> None:
    """Write a complete, tested plugin project into a new folder."""
    from xwheel import __version__

    from xwheel_devtools.scaffold.project import write_project

    paths = [str(path) for path in write_project(kind, name, directory, __version__)]
    if as_json:
        print_json({"files": paths})
        return
    for path in paths:
        typer.echo(path)
