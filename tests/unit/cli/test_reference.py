"""``docs/reference/cli.md`` says what the commands say; ``python -m tests.unit.cli.test_reference`` writes it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.support.commands import every_command
from tests.support.paths import DOCS

PAGE = DOCS / "reference" / "cli.md"
HEAD = """# Commands

This page is written from the commands themselves: `python -m tests.unit.cli.test_reference`.

`group`, `job`, `run`, `why`, `glue`, `calendar`, `alarm`, `overview`, `report`, `health`, `pause` and `resume` talk to
a running node over its management API. `xwheel login` settles which, and keeps a token for it. In its place, the node
is `--url` or `XWHEEL_URL`, and the token is in the file `--token-file`, in `XWHEEL_TOKEN`, or in the file
`XWHEEL_TOKEN_FILE`; it is no option of its own, since other users of a machine can see those.

`account`, `token` and `secret` talk to the same node. They can also work on the database of a node, whether it runs or
not: on the one that `--database` or the settings of `--config` name. Without these options they do so if the
environment names settings and no node, or if neither the environment nor a login names a node. On a terminal each
command says on standard error which node or which database it means.

On a terminal, lists are tables that fit it: long texts are cut and the least important columns left out, ids never;
`--wide` shows all. States have a word, a sign and a colour; `NO_COLOR` takes the colours away. Elsewhere lists are
aligned columns with two blanks between, whole and without colours. Times are those of the machine's zone, ISO 8601
with the offset. `--json` prints one document with the API's fields and times in epoch milliseconds. A `JOB` is an id,
`APP/NAME`, or a name that only one job has; a `GROUP` is an app name or an id. Lists follow the pages of the API by
themselves, up to `--limit`. Errors are one line on standard error. `-h` is `--help`, and `xwheel
--install-completion` teaches the shell (bash, zsh, fish, PowerShell) to complete commands, options and states.

`job run --wait` and `run rerun --wait` follow all that comes of a run: its retries, its shards, the run that replaces
a lost one, and the jobs that run after it. Each end is told with its reason and what comes next. The exit status is 0
if in the end everything succeeded, a retry too, and 1 if not. With `--json`, the document is the run, with
`succeeded` and all `runs`. `run log` exits with 1 and says why if there is no log; with `--follow` it waits for a run
that has not begun, and goes on to its end.

| exit status | meaning |
|---|---|
| 0 | done; with `--wait`, all that came of the run succeeded in the end |
| 1 | failed or refused: no answer, or a no; what `--wait` followed did not succeed; no log; `health` found a fault |
| 2 | the command, a setting, a field or a file cannot be used |
| 3 | somebody else holds the database's lock |
| 4 | the database's schema is not this version's |
| 5 | `job apply --check` found a difference |
| 6 | the database does not let us work: login, rights, settings, a full disk; a person must act |
| 7 | the database takes no connection now |
| 130 | interrupted |
"""


def leaves(command: Any, path: str) -> Iterator[tuple[str, Any]]:
    command = getattr(command, "loaded", command)
    children = getattr(command, "commands", None)
    if children is None:
        yield path, command
        return
    if command.invoke_without_command:
        yield path, command
    for name, child in children.items():
        yield from leaves(child, f"{path} {name}")


def page() -> str:
    lines = [HEAD]
    for path, command in leaves(every_command(), "xwheel"):
        arguments = [item for item in command.params if item.param_type_name == "argument"]
        options = [item for item in command.params if item.param_type_name == "option" and item.name != "help"]
        words = [path, *(str(item.metavar or (item.name or "").upper()) for item in arguments)]
        lines += [f"## `{' '.join(words)}`", "", str(command.help).split("\n\n")[0].replace("\n", " "), ""]
        if not options:
            continue
        lines += ["| option | meaning |", "|---|---|"]
        for option in options:
            names = ", ".join(f"`{name}`" for name in (*option.opts, *option.secondary_opts))
            needed = " (required)" if option.required else ""
            lines.append(f"| {names} | {(option.help or '').replace('|', '&#124;')}{needed} |")
        lines.append("")
    return "\n".join(lines).rstrip("\n") + "\n"


def test_the_reference_says_what_the_commands_say() -> None:
    assert PAGE.read_text(encoding="utf-8") == page()


def test_every_option_is_explained() -> None:
    for path, command in leaves(every_command(), "xwheel"):
        assert command.help, path
        for item in command.params:
            assert item.name == "help" or getattr(item, "help", ""), f"{path}: {item.name}"


def test_u6_every_command_prints_json_but_processes_and_files() -> None:
    without = {
        path
        for path, command in leaves(every_command(), "xwheel")
        if not any("--json" in item.opts for item in command.params)
    }
    assert without == {"xwheel server", "xwheel executor", "xwheel job export"}


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
