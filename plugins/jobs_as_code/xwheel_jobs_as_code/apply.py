"""``xwheel job apply`` and ``xwheel job export``: jobs as files."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from xwheel.cli.lazy import command_group
from xwheel.cli.options import TokenOption
from xwheel.cli.output import print_json, visible
from xwheel.errors import ConfigError, ConflictError, FieldError, XwheelError
from xwheel_commands.arguments import UrlOption
from xwheel_commands.connection import NodeApi, connected

if TYPE_CHECKING:
    from xwheel_jobs_as_code.diff import Step
    from xwheel_jobs_as_code.state import State
    from xwheel_jobs_as_code.writing import TextSink

app = command_group()

EXIT_DRIFT: Final = 5
MAX_SHOWN: Final = 200
STDIN: Final = "-"
SIGNS: Final = {"create": "+", "create-group": "+", "delete": "-"}


@app.command()
@connected
def apply(
    node: NodeApi,
    files: Annotated[
        list[str],
        typer.Option("--file", "-f", metavar="FILE", help="YAML file, or - for standard input; may be repeated."),
    ],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would change, and change nothing.")] = False,
    check: Annotated[
        bool, typer.Option("--check", help=f"As --dry-run, and exit with {EXIT_DRIFT} if anything differs.")
    ] = False,
    prune: Annotated[bool, typer.Option("--prune", help="Delete jobs of the files' groups that no file has.")] = False,
) -> None:
    """Make the jobs of a node what files say; what a file leaves out gets its default."""
    desired = _read(files)
    steps, actual = _plan(node, desired, prune)
    if not dry_run and not check:
        steps = _apply(node, desired, actual, steps, prune)
    _report(steps, applied=not dry_run and not check, as_json=node.as_json)
    if check and steps:
        raise typer.Exit(EXIT_DRIFT)


@app.command()
def export(
    group: Annotated[
        str | None, typer.Option(metavar="GROUP", help="App name or id of one group; default: everything.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Default: standard output.")
    ] = None,
    url: UrlOption = None,
    token_file: TokenOption = None,
) -> None:
    """Write groups, jobs and calendars as YAML that apply reads back to the same."""
    node = NodeApi(url, token_file)
    app_name = None if group is None else node.group(group)["app_name"]
    if output is None:
        _export(node, app_name, sys.stdout)
        return
    with _replacing(output) as stream:
        _export(node, app_name, stream)


def _read(files: Sequence[str]) -> State:
    from xwheel_commands.yaml_files import read_documents

    from xwheel_jobs_as_code.checking import build_state

    documents = []
    for name in files:
        try:
            if name == STDIN:
                found = read_documents("stdin", sys.stdin.buffer)
            else:
                with Path(name).open("rb") as stream:
                    found = read_documents(name, stream)
        except OSError as error:
            raise ConfigError(f"--file: cannot read {name}: {error.strerror}") from error
        documents += [(name, document) for document in found]
    return build_state(documents)


def _plan(node: NodeApi, desired: State, prune: bool) -> tuple[list[Step], State]:
    from xwheel_jobs_as_code.diff import make_plan
    from xwheel_jobs_as_code.remote import RemoteJobs, check_schedules

    actual = RemoteJobs(node).state_for(desired)
    steps = make_plan(desired, actual, prune=prune)
    check_schedules(node, steps)
    return steps, actual


def _apply(node: NodeApi, desired: State, actual: State, steps: list[Step], prune: bool) -> list[Step]:
    """Carry a plan out; if the same jobs are changed meanwhile, make one new plan.

    Returns:
        What was done.
    """
    from xwheel_jobs_as_code.remote import Applier

    done: list[Step] = []
    for is_last in (False, True):
        applier = Applier(node, actual)
        try:
            applier.apply(steps)
        except XwheelError as error:
            done += steps[: applier.done]
            typer.echo(f"xwheel: {len(done)} changes are done; the same command goes on from there", err=True)
            if is_last or not isinstance(error, ConflictError):
                raise
            typer.echo(f"xwheel: changed by somebody else, so it is compared again: {visible(str(error))}", err=True)
            steps, actual = _plan(node, desired, prune)
        else:
            return done + steps
    return done


def _report(steps: Sequence[Step], *, applied: bool, as_json: bool) -> None:
    if as_json:
        changes = [
            {"action": step.action.value, "name": step.name, "fields": [change._asdict() for change in step.changes]}
            for step in steps
        ]
        print_json({"applied": applied, "changes": changes})
        return
    for step in steps:
        typer.echo(f"{SIGNS.get(step.action.value, '~')} {step.action.value} {visible(step.name)}")
        for change in step.changes:
            old = "" if step.have is None and change.old is None else f"{shown_value(change.old)} -> "
            typer.echo(f"    {change.field}: {old}{shown_value(change.new)}")
    if not steps:
        typer.echo("nothing differs")
    else:
        typer.echo(f"{len(steps)} {'changes are made' if applied else 'differences'}")


def shown_value(value: Any) -> str:
    """Return a field's value for people, cut where it is long."""
    text = json.dumps(value, ensure_ascii=False)
    text = text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}… ({len(text)} characters)"
    return visible(text)


def _export(node: NodeApi, app_name: str | None, sink: TextSink) -> None:
    from xwheel_jobs_as_code import writing
    from xwheel_jobs_as_code.remote import RemoteJobs

    remote = RemoteJobs(node)
    groups = [group for group in remote.groups().values() if app_name in (None, group.app_name)]
    used: set[str] = set()
    writing.begin_groups(sink, is_empty=not groups)
    for group in groups:
        seen: dict[str, int] = {}
        for job in remote.jobs(group):
            if job.ref.name in seen:
                raise FieldError(
                    "name", f"jobs {seen[job.ref.name]} and {job.id} are both called {job.ref}: rename one"
                )
            if not seen:
                writing.write_group(sink, group, has_jobs=True)
            seen[job.ref.name] = job.id
            used.update(job.values["calendar_exclude"], job.values["calendar_require"])
            writing.write_job(sink, job)
        if not seen:
            writing.write_group(sink, group, has_jobs=False)
    names = remote.calendar_names() if app_name is None else sorted(used)
    writing.write_calendars(sink, remote.calendars(names))


@contextmanager
def _replacing(path: Path) -> Iterator[TextSink]:
    """Write next to a file and put it in place at the end, so that a failure leaves what was there."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with beside.open("w", encoding="utf-8", newline="\n") as stream:
            yield stream
        beside.replace(path)
    except OSError as error:
        raise ConfigError(f"--output: cannot write {path}: {error.strerror}") from error
    finally:
        beside.unlink(missing_ok=True)
