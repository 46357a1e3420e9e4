"""``xwheel alarm``: rules, what became of alarms, and a test."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from xwheel import cli_rule
from xwheel.cli_connection import (
    PREFIX,
    JsonOption,
    LimitOption,
    NodeOption,
    TokenOption,
    connect,
    pages,
)
from xwheel.cli_output import local_time, print_json, print_table
from xwheel.cli_rule import GroupOption, JobOption, owner_of

app = typer.Typer(help="Alarms, on a running node.", no_args_is_help=True)

app.add_typer(cli_rule.app, name="rule")

SENT = "sent"


@app.command()
def rules(
    job: JobOption = None,
    group: GroupOption = None,
    limit: LimitOption = 1000,
    url: NodeOption = None,
    token_file: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """List rules by id."""
    client = connect(url, token_file)
    found = list(pages(client, "/alarms/rules", owner_of(client, job, group), limit=limit))
    if as_json:
        print_json(found)
        return
    print_table(
        ("ID", "NAME", "FOR", "KINDS", "WHEN", "TELLS", "ENABLED"),
        (
            (
                rule["id"],
                rule["name"],
                _whose(rule),
                rule["kinds"],
                rule["when"],
                [_target(target) for target in rule["targets"]],
                rule["enabled"],
            )
            for rule in found
        ),
    )


@app.command("list")
def list_alarms(
    job: JobOption = None,
    group: GroupOption = None,
    run: Annotated[int | None, typer.Option("--run", min=1, help="Id of a run.")] = None,
    limit: LimitOption = 50,
    url: NodeOption = None,
    token_file: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """List alarms, newest first."""
    client = connect(url, token_file)
    params = owner_of(client, job, group)
    if run is not None:
        params["run_id"] = run
    found = list(pages(client, "/alarms", params, limit=limit))
    if as_json:
        print_json(found)
        return
    print_table(
        ("ID", "AT", "KIND", "STATE", "JOB", "RUN", "COUNT", "SAID"),
        (
            (
                item["id"],
                local_time(item["at_ms"]),
                item["kind"],
                item["state"],
                item["job_id"],
                item["run_id"],
                item["count"],
                item["note"] or item["reason"] or item["message"][:60],
            )
            for item in found
        ),
    )


@app.command()
def attempts(
    alarm: Annotated[int | None, typer.Option("--alarm", min=1, help="Id of an alarm.")] = None,
    job: JobOption = None,
    group: GroupOption = None,
    limit: LimitOption = 50,
    url: NodeOption = None,
    token_file: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """List attempts to tell alarms with what was answered, newest first."""
    client = connect(url, token_file)
    params = owner_of(client, job, group)
    if alarm is not None:
        params["alarm_id"] = alarm
    found = list(pages(client, "/alarms/attempts", params, limit=limit))
    if as_json:
        print_json(found)
        return
    print_table(
        ("ALARM", "CHANNEL", "RECEIVERS", "TRY", "STATE", "STARTED", "TOOK MS", "ANSWER"),
        (
            (
                item["alarm_id"],
                item["channel"],
                item["receivers"],
                item["number"],
                item["state"],
                local_time(item["started_ms"]),
                item["took_ms"],
                item["answer"][:80],
            )
            for item in found
        ),
    )


@app.command("test")
def send_test(
    channel: Annotated[str, typer.Argument(metavar="CHANNEL", help="Name of an alarm channel.")],
    receivers: Annotated[
        list[str] | None,
        typer.Argument(metavar="RECEIVER...", help="Whom to tell; default: the channel's own."),
    ] = None,
    url: NodeOption = None,
    token_file: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Send a test through a channel now; exit with 1 if it was not taken."""
    body = {"channel": channel, "receivers": receivers or []}
    made = connect(url, token_file).call("POST", f"{PREFIX}/alarms/test", body)
    if as_json:
        print_json(made)
    else:
        print_table(("STATE", "TOOK MS", "ANSWER"), [(made["state"], made["took_ms"], made["answer"])])
    if made["state"] != SENT:
        raise typer.Exit(1)


def _whose(rule: dict[str, Any]) -> str:
    if rule["job_id"] is not None:
        return f"job {rule['job_id']}"
    return "all jobs" if rule["group_id"] is None else f"group {rule['group_id']}"


def _target(target: dict[str, Any]) -> str:
    return ": ".join([target["channel"], *([" ".join(target["receivers"])] if target["receivers"] else [])])
