"""``xwheel alarm``: rules, what became of alarms, and a test."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer
from xwheel.cli.lazy import command_group
from xwheel.cli.options import given
from xwheel.cli.output import print_json
from xwheel.errors import FieldError
from xwheel_commands.arguments import LimitOption, SetOption
from xwheel_commands.connection import NodeApi, connected, set_values
from xwheel_commands.table import ALWAYS, Column, moment, print_table

app = command_group()

rule_app = command_group("Rules for alarms, on a running node.")

JobOption = Annotated[str | None, typer.Option("--job", help="Id, APP/NAME, or a name that one job has.")]
GroupOption = Annotated[str | None, typer.Option("--group", help="App name or id of a group.")]
RuleArgument = Annotated[int, typer.Argument(metavar="RULE", min=1, help="Id of a rule.")]
RevisionOption = Annotated[int | None, typer.Option(min=1, help="Only if the rule is at this revision.")]
ToOption = Annotated[
    list[str] | None,
    typer.Option(
        "--to",
        metavar="CHANNEL[=RECEIVER,...]",
        help="Where to send; may be repeated. Without receivers the channel's own.",
    ),
]
TAKEN = {"job_id": "--job", "group_id": "--group", "targets": "--to"}

app.add_typer(rule_app, name="rule")

SENT = "sent"


@app.command("list")
@connected
def list_alarms(
    node: NodeApi,
    job: JobOption = None,
    group: GroupOption = None,
    run: Annotated[int | None, typer.Option("--run", min=1, help="Id of a run.")] = None,
    notice: Annotated[
        int | None, typer.Option("--notice", metavar="ALARM", min=1, help="Those that this alarm counts.")
    ] = None,
    limit: LimitOption = 50,
) -> None:
    """List alarms, newest first."""
    params = _owner(node, job, group) | given(run_id=run, notice_id=notice)
    node.print_list(
        node.pages("/alarms", params, limit=limit),
        (
            Column("ID", ALWAYS),
            Column("AT", 6),
            Column("KIND", 8),
            Column("STATE", ALWAYS, is_state=True),
            Column("JOB", 8, least=12),
            Column("RUN", 4),
            Column("COUNT", 2),
            Column("SAID", 5, least=12),
        ),
        lambda item: (
            item["id"],
            moment(item["at_ms"]),
            item["kind"],
            item["state"],
            node.job_name(item["job_id"]),
            item["run_id"],
            item["count"],
            item["note"] or item["reason"] or item["message"][:60],
        ),
    )


@app.command("show")
@connected
def show_alarm(
    node: NodeApi, alarm: Annotated[int, typer.Argument(metavar="ALARM", min=1, help="Id of an alarm.")]
) -> None:
    """Show an alarm."""
    node.print_item(node.call("GET", f"/alarms/{alarm}"))


@app.command()
@connected
def attempts(
    node: NodeApi,
    alarm: Annotated[int | None, typer.Option("--alarm", min=1, help="Id of an alarm.")] = None,
    job: JobOption = None,
    group: GroupOption = None,
    limit: LimitOption = 50,
) -> None:
    """List attempts to tell alarms with what was answered, newest first."""
    params = _owner(node, job, group) | given(alarm_id=alarm)
    node.print_list(
        node.pages("/alarms/attempts", params, limit=limit),
        (
            Column("ALARM", ALWAYS),
            Column("CHANNEL", 8),
            Column("RECEIVERS", 4, least=10),
            Column("TRY", 3),
            Column("STATE", ALWAYS, is_state=True),
            Column("STARTED", 5),
            Column("TOOK MS", 2),
            Column("ANSWER", 6, least=12),
        ),
        lambda item: (
            item["alarm_id"],
            item["channel"],
            item["receivers"],
            item["number"],
            item["state"],
            moment(item["started_ms"]),
            item["took_ms"],
            item["answer"][:80],
        ),
    )


@app.command("test")
@connected
def send_test(
    node: NodeApi,
    channel: Annotated[str, typer.Argument(metavar="CHANNEL", help="Name of an alarm channel.")],
    receivers: Annotated[
        list[str] | None, typer.Argument(metavar="RECEIVER...", help="Where to send; default: the channel's own.")
    ] = None,
) -> None:
    """Send a test through a channel now; exit with 1 if it was not taken."""
    body = {"channel": channel, "receivers": receivers or []}
    made = node.call("POST", "/alarms/test", body)
    if node.as_json:
        print_json(made)
    else:
        print_table(("STATE", "TOOK MS", "ANSWER"), [(made["state"], made["took_ms"], made["answer"])])
    if made["state"] != SENT:
        raise typer.Exit(1)


def _scope(node: NodeApi, rule: dict[str, Any]) -> str:
    if rule["job_id"] is not None:
        return f"job {node.job_name(rule['job_id'])}"
    group_id = rule["group_id"]
    return "all jobs" if group_id is None else f"group {node.group_names.get(group_id, group_id)}"


def _target(target: dict[str, Any]) -> str:
    return ": ".join([target["channel"], *([" ".join(target["receivers"])] if target["receivers"] else [])])


@rule_app.command("list")
@connected
def list_rules(node: NodeApi, job: JobOption = None, group: GroupOption = None, limit: LimitOption = 1000) -> None:
    """List rules by id."""
    node.print_list(
        node.pages("/alarms/rules", _owner(node, job, group), limit=limit),
        (
            Column("ID", ALWAYS),
            Column("NAME", ALWAYS, least=12),
            Column("FOR", 6, least=10),
            Column("KINDS", 5, least=8),
            Column("WHEN", 2),
            Column("TELLS", 4, least=10),
            Column("ENABLED", 3),
        ),
        lambda rule: (
            rule["id"],
            rule["name"],
            _scope(node, rule),
            rule["kinds"],
            rule["when"],
            [_target(target) for target in rule["targets"]],
            rule["enabled"],
        ),
    )


@rule_app.command()
@connected
def show(node: NodeApi, rule: RuleArgument) -> None:
    """Show a rule."""
    node.print_item(node.call("GET", f"/alarms/rules/{rule}"))


@rule_app.command()
@connected
def create(
    node: NodeApi,
    name: Annotated[str, typer.Argument(metavar="NAME", help="What people call it.")],
    kinds: Annotated[str, typer.Option(help="What is told, between commas, such as failed,lost,refused.")],
    to: ToOption = None,
    job: JobOption = None,
    group: GroupOption = None,
    fields: SetOption = None,
) -> None:
    """Create a rule for a job, for a group, or without either for all jobs; without --to it keeps them silent."""
    from xwheel_alarms.messages import AlarmRuleCreate

    taken = {**TAKEN, "name": "NAME", "kinds": "--kinds"}
    values = set_values(AlarmRuleCreate, fields or [], taken, required={"kinds": kinds})
    body = {
        **values,
        **_owner(node, job, group),
        "name": name,
        "kinds": kinds.split(","),
        "targets": _targets(to or []),
    }
    node.print_saved("created", node.call("POST", "/alarms/rules", body))


@rule_app.command()
@connected
def edit(
    node: NodeApi,
    rule: RuleArgument,
    to: ToOption = None,
    silent: Annotated[bool, typer.Option("--silent", help="Send nothing any more.")] = False,
    job: JobOption = None,
    group: GroupOption = None,
    fields: SetOption = None,
    revision: RevisionOption = None,
) -> None:
    """Change fields of a rule, if no one else changes it meanwhile; --to gives all receivers again."""
    from xwheel_alarms.messages import AlarmRuleChange

    values = set_values(AlarmRuleChange, fields or [], {**TAKEN, "revision": "--revision"})
    if to and silent:
        raise FieldError("--silent", "give --to or --silent, not both")
    if to or silent:
        values["targets"] = _targets(to or [])
    if owner := _owner(node, job, group):
        values |= {"job_id": None, "group_id": None, **owner}
    if not values:
        raise FieldError("--set", "must change at least one field")
    path = f"/alarms/rules/{rule}"
    values["revision"] = revision or node.call("GET", path)["revision"]
    node.print_saved("changed", node.call("PATCH", path, values))


@rule_app.command()
@connected
def delete(node: NodeApi, rule: RuleArgument, revision: RevisionOption = None) -> None:
    """Delete a rule; what it told stays readable."""
    headers = {} if revision is None else {"If-Match": f'"{revision}"'}
    node.call("DELETE", f"/alarms/rules/{rule}", headers=headers)
    node.print_done({"deleted": rule}, f"rule {rule} is deleted")


def _owner(node: NodeApi, job: str | None, group: str | None) -> dict[str, Any]:
    """Return which job or group is meant, as the API has it; nothing if neither is.

    Raises:
        FieldError: Both are given.
        NotFoundError: There is none of that name.
    """
    if job is not None and group is not None:
        raise FieldError("--group", "give --job or --group, not both")
    return node.job_and_group(job, group)


def _targets(texts: Sequence[str]) -> list[dict[str, Any]]:
    """Return what ``--to`` says; the node knows which channels there are."""
    targets = []
    for text in texts:
        channel, sign, receivers = text.partition("=")
        targets.append({"channel": channel, "receivers": receivers.split(",") if sign else []})
    return targets
