"""``xwheel alarm``: rules, what became of alarms, and a test."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from xwheel.cli.connection import (
    PREFIX,
    JsonOption,
    LimitOption,
    NodeOption,
    TokenOption,
    connect,
    find_group,
    find_job,
    pages,
)
from xwheel.cli.fields import SetOption, set_values
from xwheel.cli.output import local_time, print_fields, print_json, print_table, shown
from xwheel.errors import FieldError
from xwheel.wire.http.rest import RestClient

app = typer.Typer(help="Alarms, on a running node.", no_args_is_help=True)

rule_app = typer.Typer(help="Rules for alarms, on a running node.", no_args_is_help=True)

JobOption = Annotated[str | None, typer.Option("--job", help="Id, APP/NAME, or a name that one job has.")]
GroupOption = Annotated[str | None, typer.Option("--group", help="App name or id of a group.")]
RuleArgument = Annotated[int, typer.Argument(metavar="RULE", min=1, help="Id of a rule.")]
RevisionOption = Annotated[int | None, typer.Option(min=1, help="Only if the rule is at this revision.")]
ToOption = Annotated[
    list[str] | None,
    typer.Option(
        "--to",
        metavar="CHANNEL[=RECEIVER,...]",
        help="Whom to tell; may be repeated. Without receivers the channel's own.",
    ),
]
TAKEN = {"job_id": "--job", "group_id": "--group", "targets": "--to"}

app.add_typer(rule_app, name="rule")

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


@rule_app.command()
def show(
    rule: RuleArgument, url: NodeOption = None, token_file: TokenOption = None, as_json: JsonOption = False
) -> None:
    """Show a rule."""
    found = connect(url, token_file).call("GET", f"{PREFIX}/alarms/rules/{rule}")
    print_json(found) if as_json else print_fields(shown(found))


@rule_app.command()
def create(
    name: Annotated[str, typer.Argument(metavar="NAME", help="What people call it.")],
    kinds: Annotated[str, typer.Option(help="What is told, between commas, such as failed,lost,refused.")],
    to: ToOption = None,
    job: JobOption = None,
    group: GroupOption = None,
    fields: SetOption = None,
    url: NodeOption = None,
    token_file: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Create a rule for a job, for a group, or without either for all jobs; without --to it keeps them silent."""
    from xwheel.api.schema.alarms import AlarmRuleCreate

    given = {**TAKEN, "name": "NAME", "kinds": "--kinds"}
    values = set_values(AlarmRuleCreate, fields or [], given, required={"kinds": kinds})
    client = connect(url, token_file)
    body = {
        **values,
        **owner_of(client, job, group),
        "name": name,
        "kinds": kinds.split(","),
        "targets": _targets(to or []),
    }
    _report(client.call("POST", f"{PREFIX}/alarms/rules", body), "created", as_json)


@rule_app.command()
def edit(
    rule: RuleArgument,
    to: ToOption = None,
    silent: Annotated[bool, typer.Option("--silent", help="Tell nobody any more.")] = False,
    job: JobOption = None,
    group: GroupOption = None,
    fields: SetOption = None,
    revision: RevisionOption = None,
    url: NodeOption = None,
    token_file: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Change fields of a rule, if nobody else changes it meanwhile; --to gives all receivers anew."""
    from xwheel.api.schema.alarms import AlarmRuleChange

    values = set_values(AlarmRuleChange, fields or [], {**TAKEN, "revision": "--revision"})
    if to and silent:
        raise FieldError("--silent", "give --to or --silent, not both")
    if to or silent:
        values["targets"] = _targets(to or [])
    client = connect(url, token_file)
    if owner := owner_of(client, job, group):
        values |= {"job_id": None, "group_id": None, **owner}
    if not values:
        raise FieldError("--set", "must change at least one field")
    path = f"{PREFIX}/alarms/rules/{rule}"
    values["revision"] = revision or client.call("GET", path)["revision"]
    _report(client.call("PATCH", path, values), "changed", as_json)


@rule_app.command()
def delete(
    rule: RuleArgument,
    revision: RevisionOption = None,
    url: NodeOption = None,
    token_file: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Delete a rule; what it told stays readable."""
    headers = {} if revision is None else {"If-Match": f'"{revision}"'}
    connect(url, token_file).call("DELETE", f"{PREFIX}/alarms/rules/{rule}", headers=headers)
    if as_json:
        print_json({"deleted": rule})
        return
    typer.echo(f"rule {rule} is deleted")


def owner_of(client: RestClient, job: str | None, group: str | None) -> dict[str, Any]:
    """Return which job or group is meant, as the API has it; nothing if neither is.

    Raises:
        FieldError: Both are given.
        NotFoundError: There is none of that name.
    """
    if job is not None and group is not None:
        raise FieldError("--group", "give --job or --group, not both")
    if job is not None:
        return {"job_id": find_job(client, job)["id"]}
    return {} if group is None else {"group_id": find_group(client, group)["id"]}


def _targets(texts: Sequence[str]) -> list[dict[str, Any]]:
    """Return what ``--to`` says; the node knows which channels there are."""
    targets = []
    for text in texts:
        channel, sign, receivers = text.partition("=")
        targets.append({"channel": channel, "receivers": receivers.split(",") if sign else []})
    return targets


def _report(rule: dict[str, Any], done: str, as_json: bool) -> None:
    if as_json:
        print_json(rule)
        return
    print_fields([(done, f"{rule['name']} ({rule['id']}), revision {rule['revision']}")])
