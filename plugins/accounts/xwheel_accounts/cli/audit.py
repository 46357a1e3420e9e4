"""``xwheel audit``: who did what, and whether what the database says of it is what was written."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer
from xwheel.cli.lazy import command_group
from xwheel.cli.options import given
from xwheel.cli.output import print_json, visible
from xwheel.errors import ConfigError, FieldError
from xwheel_commands.arguments import WideOption
from xwheel_commands.connection import ConfiguredDatabase, NodeApi, connected
from xwheel_commands.output import instant_ms, local_time
from xwheel_commands.table import ALWAYS, Column, moment

from xwheel_accounts.settings import AuditSection

if TYPE_CHECKING:
    from xwheel_accounts.audit.verify import Retention, VerifyReport

app = command_group()

EXIT_FOUND: Final = 1
"""Something is wrong; 2 and more mean that nothing could be verified."""


@app.command("list")
@connected
def list_them(
    node: NodeApi,
    actor: Annotated[str | None, typer.Option(metavar="NAME", help="Of this account or token.")] = None,
    action: Annotated[str | None, typer.Option(metavar="ACTION", help="Such as job.edit.")] = None,
    about: Annotated[
        str | None, typer.Option(metavar="KIND[/ID]", help="What it was done to, such as job/12 or calendar.")
    ] = None,
    group: Annotated[str | None, typer.Option(metavar="GROUP", help="App name or id of a group.")] = None,
    outcome: Annotated[str | None, typer.Option(metavar="done|refused|failed", help="What came of it.")] = None,
    since: Annotated[
        str | None, typer.Option(help="From then on: a span such as 12h or 7d, ISO 8601, or epoch ms.")
    ] = None,
    until: Annotated[str | None, typer.Option(help="Before then; spelled alike.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="How many rows at most.")] = 50,
    wide: WideOption = False,
) -> None:
    """List what was done, newest first; needs the role admin, in one group at least."""
    kind, slash, object_id = (about or "").partition("/")
    if slash and not (kind and object_id):
        raise FieldError("--about", "must be a kind, or a kind and an id or name, such as job/12")
    params = given(
        actor=actor,
        action=action,
        object_kind=kind or None,
        object_id=object_id or None,
        group_id=None if group is None else node.group(group)["id"],
        outcome=outcome,
        from_ms=None if since is None else instant_ms(since, "--since"),
        to_ms=None if until is None else instant_ms(until, "--until"),
    )
    node.print_list(
        node.pages("/audit", params, limit=limit),
        (
            Column("AT", ALWAYS),
            Column("WHO", 8, least=10),
            Column("FROM", 3),
            Column("WITH", 0, least=10, is_wide=True),
            Column("ACTION", ALWAYS),
            Column("OBJECT", ALWAYS, least=12),
            Column("OUTCOME", 7),
            Column("REASON", 5, least=12),
            Column("SEALED", 0, is_wide=True),
        ),
        lambda item: (
            moment(item["at_ms"]),
            item["actor"] or item["actor_kind"],
            item["address"],
            item["credential"],
            item["action"],
            f"{item['object_kind']}/{item['object_id']}",
            item["outcome"],
            item["reason"],
            item["position"],
        ),
        is_wide=wide,
    )


@app.command()
@connected
def verify(
    database: ConfiguredDatabase,
    anchor: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="Heads that were written out, such as audit.anchor_file; repeatable."),
    ] = None,
) -> None:
    """Say which rows of the audit were changed, removed or inserted, and whether its end was cut off.

    Exits with 0 if all is as it was written, with 1 if not, and with 2 if settings, keys or anchors cannot be read.
    """
    from xwheel_accounts.audit.anchors import read_anchors
    from xwheel_accounts.audit.reading import verify_audit
    from xwheel_accounts.audit.trail import signing_keys

    anchors = [head for path in anchor or () for head in read_anchors(path)]
    keys = database.keys()
    with database.open() as db:
        report = verify_audit(db, signing_keys(db, keys, make=False), anchors, _retention(database))
    if database.as_json:
        import msgspec

        print_json({"is_sound": report.is_sound, **msgspec.to_builtins(report)})
    else:
        _print_report(report, has_anchors=bool(anchors))
    if not report.is_sound:
        raise typer.Exit(EXIT_FOUND)


def _retention(database: ConfiguredDatabase) -> Retention:
    """Return how long rows of the audit are kept by these settings, as of now."""
    from xwheel.clock import SystemClock

    from xwheel_accounts.audit.verify import Retention

    return Retention(days=database.config.section("audit", AuditSection).retention_days, now_ms=SystemClock().now_ms())


def _print_report(report: VerifyReport, *, has_anchors: bool) -> None:
    for finding in report.findings:
        place = "" if finding.position is None else f", position {finding.position}"
        row = "" if finding.row_id is None else f"row {finding.row_id}"
        typer.echo(f"{finding.kind}: {visible(finding.what)}" + (f" ({row}{place})" if row else ""))
    if report.total > len(report.findings):
        typer.echo(f"and {report.total - len(report.findings)} more")
    after = f" after position {report.base_position}" if report.base_position else ""
    typer.echo(f"{report.sealed} sealed rows{after}, up to position {report.position}")
    if report.unsealed and report.oldest_unsealed_ms is not None:
        typer.echo(
            f"{report.unsealed} rows are not sealed yet, the oldest of {local_time(report.oldest_unsealed_ms)}: that "
            "none of these was removed cannot be proven"
        )
    if report.kept_beside:
        typer.echo(
            f"warning: {report.kept_beside} rows are signed with the key in the database, which proves little: set "
            "security.key_file on all nodes",
            err=True,
        )
    if report.anchors_below:
        typer.echo(
            f"{report.anchors_below} anchors are of rows that were deleted as old, and are compared with nothing",
            err=True,
        )
    if not has_anchors:
        typer.echo("no anchor was given: rows cut off together with the head would not be seen", err=True)
    typer.echo("sound" if report.is_sound else f"NOT SOUND: {report.total} findings")


@app.command()
@connected
def export(
    database: ConfiguredDatabase,
    file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A new file of this user alone; default: standard output.")
    ] = None,
) -> None:
    """Write all rows as lines of JSON in the order of the chain, those not sealed yet, and at last the head."""
    from xwheel_accounts.audit.reading import export_audit

    with database.open() as db:
        lines = export_audit(db)
        if file is None:
            for line in lines:
                sys.stdout.buffer.write(line + b"\n")
            sys.stdout.buffer.flush()
            return
        count = _write(file, lines)
    database.print_done({"file": str(file), "lines": count}, f"{file} has {count} lines")


def _write(path: Path, lines: Iterator[bytes]) -> int:
    """Write lines into a new file; return how many.

    Raises:
        ConfigError: The file is there already, or cannot be made.
    """
    try:
        number = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise ConfigError(f"cannot make {path}: {error.strerror}") from None
    count = 0
    with os.fdopen(number, "wb") as target:
        for line in lines:
            target.write(line + b"\n")
            count += 1
    return count
