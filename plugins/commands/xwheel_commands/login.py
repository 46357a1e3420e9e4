"""``xwheel login`` and ``logout``: which nodes this user's commands talk to, and with which tokens."""

from __future__ import annotations

import getpass
import os
import re
import secrets
import socket
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final
from urllib.parse import urlsplit

import typer
from xwheel.cli.connection import (
    BEFORE_LOGINS,
    Login,
    Logins,
    checked_token,
    client_of,
    logins_file,
    plain_url,
    read_logins,
    token_in,
)
from xwheel.cli.lazy import command_group
from xwheel.cli.options import ConfigOption, DatabaseOption, JsonOption
from xwheel.cli.output import print_done
from xwheel.errors import AuthError, ConfigError, FieldError, WireError

from xwheel_commands.connection import ConfiguredDatabase
from xwheel_commands.files import url_of
from xwheel_commands.printer import Printer
from xwheel_commands.table import ALWAYS, Column

if TYPE_CHECKING:
    from xwheel.scheduler.audit_trail import AuditTrail
    from xwheel.storage.database.engine import Connection

app = command_group()

SOON_S: Final = 3.0
"""How long a node may take to know a new token; it reads them every second."""
POLL_S: Final = 0.3
MAX_NAME: Final = 64
QUESTION: Final = "/api/v1/schedule/pause"
FACT: Final = "paused_since_ms"


@app.command()
def login(
    folder: Annotated[
        Path | None,
        typer.Argument(metavar="[FOLDER]", help="Folder of an embedded scheduler, which has URL and token."),
    ] = None,
    url: Annotated[
        str | None,
        typer.Option(
            "--url",
            metavar="URL",
            help="Management API of a node elsewhere; its token is asked for, or read from standard input.",
        ),
    ] = None,
    token_file: Annotated[
        Path | None,
        typer.Option("--token-file", metavar="FILE", help="File that has the token, and goes on having it."),
    ] = None,
    config_path: ConfigOption = None,
    database: DatabaseOption = None,
    show: Annotated[bool, typer.Option("--list", help="List the logins, and change nothing.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Let this user's commands talk to a node: by default to that of the settings, with a new token from its database.

    The login is kept in a file of this user alone. The latest one counts where neither --url nor XWHEEL_URL names a
    node, and 'xwheel logout' forgets it.
    """
    if show:
        _print_logins(read_logins(), as_json)
        return
    if sum(item is not None for item in (folder, url, config_path or database)) > 1:
        raise FieldError("FOLDER", "give a folder, --url, or settings of a node on this machine: one of them")
    if url is not None:
        node, made = plain_url(url), _asked(token_file)
    elif token_file is not None:
        raise FieldError("--token-file", "needs --url: the node whose token it has")
    elif folder is not None:
        node, made = _embedded(folder)
    else:
        node, made = _from_database(ConfiguredDatabase(config_path, database))
    before = read_logins()
    answers = _check(node, made)
    _write(Logins(latest=node, nodes={**before.nodes, node: made}))
    note = "" if answers else "; no node answers there yet"
    named = f" with the token {made.name}" if made.name else ""
    print_done(
        as_json,
        {"url": node, "name": made.name, "answers": answers},
        f"commands talk to {node}{named} from now on{note}",
    )
    for name in BEFORE_LOGINS:
        if os.environ.get(name):
            typer.echo(f"xwheel: warning: {name} is set and counts before the login: unset {name}", err=True)


@app.command()
def logout(
    url: Annotated[
        str | None, typer.Option("--url", metavar="URL", help="Which node; default: the latest login's.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Forget a login; its token goes on working until 'xwheel token delete' ends it."""
    logins = read_logins()
    node = plain_url(url) if url is not None else logins.latest
    if node not in logins.nodes:
        known = ", ".join(logins.nodes) or "none"
        raise FieldError("--url", f"there is no login for {node or 'any node'}; known: {known}")
    forgotten, rest = logins.nodes[node], {url: login for url, login in logins.nodes.items() if url != node}
    latest = logins.latest if logins.latest in rest else next(reversed(rest), "")
    _write(Logins(latest=latest, nodes=rest))
    end = f"; 'xwheel token delete {forgotten.name}' ends its token" if forgotten.name else ""
    print_done(
        as_json, {"url": node, "name": forgotten.name, "latest": latest}, f"the login for {node} is forgotten{end}"
    )


def _write(logins: Logins) -> None:
    """Keep the logins, all at once: a reader sees those or the ones before.

    Raises:
        ConfigError: They cannot be written.
    """
    import msgspec
    from xwheel.private_files import make_folder_above, replace_text

    path = logins_file()
    try:
        make_folder_above(path)
        replace_text(path, msgspec.json.encode(logins).decode())
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror}; --token-file works without it") from None


def _print_logins(logins: Logins, as_json: bool) -> None:
    rows = [
        {"url": url, "latest": url == logins.latest, "name": login.name, "token_file": login.token_file}
        for url, login in logins.nodes.items()
    ]
    Printer(as_json).print_list(
        rows,
        (Column("NODE", ALWAYS), Column("LATEST", 6), Column("TOKEN", 5), Column("TOKEN FILE", 4, least=16)),
        lambda item: tuple(item.values()),
    )


def _asked(token_file: Path | None) -> Login:
    """Return a login with a token that the user has."""
    if token_file is not None:
        token_in(token_file, "--token-file")
        return Login(token_file=str(token_file.absolute()))
    said = getpass.getpass("management token: ") if sys.stdin.isatty() else sys.stdin.readline()
    return Login(token=checked_token(said.strip(), "the token"))


def _embedded(folder: Path) -> tuple[str, Login]:
    """Return where the embedded scheduler of a folder listens, and its token.

    Raises:
        ConfigError: There is none.
    """
    from xwheel.embedded.folder import HOST, Folder

    found = Folder(folder)
    port = found.read_state().api_port
    if not port:
        raise ConfigError(
            f"FOLDER: no embedded scheduler has started in {folder} yet; without a folder, xwheel login takes the node "
            "of the settings"
        )
    token_in(found.token_file, "FOLDER")
    return f"http://{HOST}:{port}", Login(token_file=str(found.token_file))


def _from_database(place: ConfiguredDatabase) -> tuple[str, Login]:
    """Make a token in the database of a node, in place of the one that an earlier login of this user made there."""
    from xwheel.clock import wall_ms
    from xwheel.storage.access import tokens
    from xwheel.storage.database.address import with_password

    node = url_of(place.config)
    if (missing := _missing_file(with_password(place.config.database))) is not None:
        raise ConfigError(
            f"there is no {missing}: log in where a node has started, in its folder or with its settings (--config), "
            "or elsewhere with 'xwheel login --url URL'"
        )
    name, token = _token_name(node), secrets.token_urlsafe(32)

    def work(conn: Connection, audit: AuditTrail) -> None:
        tokens.replace_token(conn, name, token, wall_ms())
        audit.record(conn, "token.create", "token", name, after={"name": name, "by": "login"})

    place.change(work)
    return node, Login(token=token, name=name)


def _missing_file(text: str) -> Path | None:
    """Return the file of an SQLite database that is not there; None for any other database."""
    from xwheel.storage.database.address import parse

    url = parse(text)
    if url.get_backend_name() != "sqlite" or (url.database or "").startswith("file:"):
        return None
    path = Path(url.database or "").absolute()
    return None if path.exists() else path


def _token_name(node: str) -> str:
    """Return what the token of this user's logins to a node on this machine is called."""
    port = str(urlsplit(node).port)
    words = re.sub(r"[^A-Za-z0-9._-]", "_", f"login-{getpass.getuser()}-{socket.gethostname()}")
    return f"{words[: MAX_NAME - 1 - len(port)]}-{port}"


def _check(node: str, made: Login) -> bool:
    """Return whether the node answers; one that was just made may be unknown for a moment.

    Raises:
        ConfigError: It answers, and does not know the token.
    """
    client = client_of(node, made)
    until = time.monotonic() + (SOON_S if made.name else 0)
    while True:
        try:
            answer = client.call("GET", QUESTION)
        except AuthError:
            if time.monotonic() < until:
                time.sleep(POLL_S)
                continue
            if made.name:
                raise ConfigError(
                    f"the node at {node} does not know a token that was just made in the database of the settings: it "
                    "uses another one; name its settings with --config or its database with --database"
                ) from None
            raise
        except WireError:
            if made.name:
                return False
            raise
        if not isinstance(answer, dict) or FACT not in answer:
            raise ConfigError(f"{node} has no management API: is it the port for executors?")
        return True
