"""Write a plugin project from templates of fixed names."""

from __future__ import annotations

import keyword
import re
import string
from dataclasses import asdict, dataclass
from enum import StrEnum
from importlib.resources import files
from pathlib import Path
from typing import Final

from xwheel.errors import FieldError

NAME: Final = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
MAX_NAME: Final = 30
"""A schedule type's name, in capitals, has a column of 32."""


class Kind(StrEnum):
    """What a new plugin shall bring."""

    ALARM = "alarm"
    ROUTER = "router"
    GLUE = "glue"
    SCHEDULE = "schedule"
    LISTENER = "listener"
    LOG = "log"
    IDENTITY = "identity"
    PAGES = "pages"
    TABLES = "tables"
    ROUTES = "routes"
    COMMANDS = "commands"


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """What differs between the kinds' README and metadata.

    Attributes:
        summary: What the plugin does.
        goes_with: Whose environment it is installed in.
        options_example: Lines of its table of options.
        usage: How it is named.
        needs: Distributions of ours that it depends on besides xwheel.
        libraries: What else it depends on.
    """

    summary: str
    goes_with: str
    options_example: str
    usage: str
    needs: tuple[str, ...] = ()
    libraries: tuple[str, ...] = ()


WORDS: Final = {
    Kind.ALARM: Words(
        summary="Posts xwheel's alarms as JSON to an HTTP address",
        goes_with="each scheduler node",
        options_example='url = "https://chat.example.org/hooks/secret"\ntimeout_s = 5',
        usage='Name it in alarm rules: `{{"channel": "{name}"}}`. `xwheel alarm test {name}` sends a test.',
        needs=("xwheel-alarms", "xwheel-egress"),
    ),
    Kind.ROUTER: Words(
        summary="Routes xwheel's runs to executors with preferred addresses",
        goes_with="each scheduler node",
        options_example='prefix = "http://10.1."',
        usage="Name it in jobs: `route_strategy = {registered}`.",
    ),
    Kind.GLUE: Words(
        summary="Jobs of xwheel that write a text into their log",
        goes_with="each scheduler node, and the executors that are to run such jobs",
        options_example="max_characters = 1000",
        usage="Name it in jobs, `glue_type = {registered}`, and let executors run it:\n\n"
        '```toml\n[executor]\nallowed_glue_types = ["{registered}"]\n```',
    ),
    Kind.SCHEDULE: Words(
        summary="Jobs of xwheel that fire every few minutes",
        goes_with="each scheduler node",
        options_example="least_minutes = 5",
        usage="Name it in jobs: `schedule_type = {registered}`, `schedule_conf = 15`.",
    ),
    Kind.LISTENER: Words(
        summary="Writes down how runs of xwheel change their states",
        goes_with="each scheduler node",
        options_example='path = "/var/log/xwheel-changes.jsonl"',
        usage="It is told every change of state that its node writes, at most once each.",
    ),
    Kind.LOG: Words(
        summary="Keeps the logs of xwheel's runs in a file of SQLite",
        goes_with="each scheduler node",
        options_example='path = "/var/lib/xwheel/logs.db"',
        usage='Choose it in the settings: `[run_logs]`, `store = "{name}"`.',
        needs=("xwheel-run-logs",),
    ),
    Kind.IDENTITY: Words(
        summary="Signs people in to xwheel by a file that names them",
        goes_with="each scheduler node",
        options_example='path = "/etc/xwheel/people.json"',
        usage='Name it in the settings: `[accounts]`, `providers = ["local", "{name}"]`.',
        needs=("xwheel-accounts",),
    ),
    Kind.PAGES: Words(
        summary="A page of the xwheel console that shows which executors are there",
        goes_with="each scheduler node",
        options_example="# it has none",
        usage="It stands in the menu of the console.",
    ),
    Kind.TABLES: Words(
        summary="A table of xwheel's database for notes about jobs",
        goes_with="each scheduler node",
        options_example="# it has none",
        usage="`xwheel db upgrade` makes its table, and a node with SQLite does so when it starts.",
        libraries=("sqlalchemy>=2",),
    ),
    Kind.ROUTES: Words(
        summary="A call of xwheel's management API that says which job a group has under a name",
        goes_with="each scheduler node",
        options_example="# it has none",
        usage="`GET /api/v1/{distribution}/groups/1/jobs/nightly` then answers anyone who may read group 1.",
    ),
    Kind.COMMANDS: Words(
        summary="A command of xwheel that lists the jobs of a node by name",
        goes_with="the command line of those who type it",
        options_example="# it has none",
        usage="`xwheel {distribution} names` then asks the node of this user's login.",
        libraries=("typer>=0.15",),
    ),
}


def write_project(kind: Kind, name: str, parent: Path, version: str) -> list[Path]:
    """Write a project into a new folder that is called like the plugin, and return its files.

    Args:
        kind: What it shall bring.
        name: The plugin's name: of its entry point, its table of options and its folder.
        parent: Where the folder is made.
        version: The version of xwheel that it is written for.

    Raises:
        FieldError: The name cannot be used, or there is something of that name already.
    """
    check_name(name)
    home = parent / name
    made = _texts(kind, name, version)
    try:
        home.mkdir()
    except FileExistsError:
        raise FieldError("NAME", f"{home} exists already: choose another name, or another folder") from None
    except OSError as error:
        raise FieldError("--directory", f"cannot make {home}: {error.strerror}") from error
    for path, text in made.items():
        target = home / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
    return [home / path for path in made]


def check_name(name: str) -> None:
    """Refuse a name that cannot be a module, an entry point and a distribution at once.

    Raises:
        FieldError: It says what is allowed.
    """
    if not NAME.fullmatch(name) or len(name) > MAX_NAME or keyword.iskeyword(name):
        raise FieldError(
            "NAME",
            f"has 1 to {MAX_NAME} small letters, digits and single underscores between them, a letter first, and is "
            f"no word of Python, such as my_channel; not {name[:40]!r}",
        )


def _texts(kind: Kind, name: str, version: str) -> dict[str, str]:
    package = f"xwheel_{name}"
    major, minor = version.split(".")[:2]
    values = {
        "name": name,
        "registered": name.upper(),
        "package": package,
        "distribution": package.replace("_", "-"),
        "version": f"{major}.{minor}",
        "next_version": f"{major}.{int(minor) + 1}",
    }
    index = f'\n[project.entry-points."xwheel.commands"]\n{values["distribution"]} = "{package}.commands:app"\n'
    words = WORDS[kind]
    values |= {
        "index": index if kind is Kind.COMMANDS else "",
        **asdict(words),
        "usage": words.usage.format(name=name, registered=name.upper(), distribution=values["distribution"]),
        "dependencies": ", ".join(
            [
                *(f'"{one}>={values["version"]},<{values["next_version"]}"' for one in ("xwheel", *words.needs)),
                *(f'"{one}"' for one in words.libraries),
            ]
        ),
    }
    places = {
        "pyproject.toml": "common/pyproject.toml.txt",
        "README.md": "common/README.md.txt",
        f"{package}/__init__.py": f"{kind}/package.py.txt",
        f"tests/test_{name}.py": f"{kind}/test_package.py.txt",
    }
    if kind is Kind.PAGES:
        places[f"{package}/pages/pages.js"] = "pages/pages.js.txt"
    if kind is Kind.COMMANDS:
        places[f"{package}/commands.py"] = "commands/commands.py.txt"
    templates = files("xwheel_devtools.scaffold") / "files"
    texts = {
        path: string.Template((templates / place).read_text(encoding="utf-8")).substitute(values)
        for path, place in places.items()
    }
    return {**texts, f"{package}/py.typed": ""}
