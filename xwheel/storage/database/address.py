"""The database's URL: what it may hold, and how it is shown without its password."""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from xwheel.config.sections import DatabaseSection
from xwheel.errors import ConfigError
from xwheel.private_files import read_first_line

FORMS: Final = (
    "sqlite:///FILE, mysql+pymysql://USER:PASSWORD@HOST/DATABASE or postgresql+psycopg://USER:PASSWORD@HOST/DATABASE"
)
# the driver that each kind of database is tested with, and its module
DRIVERS: Final = {"sqlite": "pysqlite", "mysql": "pymysql", "postgresql": "psycopg"}
MODULES: Final = {"sqlite": "sqlite3", "mysql": "pymysql", "postgresql": "psycopg"}
PORTS: Final = {"mysql": 3306, "postgresql": 5432}
OF_SQLITE: Final = {
    *("uri", "mode", "cache", "psow", "nolock", "immutable", "vfs"),  # SQLite's own, of a file: URI
    *("timeout", "isolation_level", "detect_types", "check_same_thread", "cached_statements"),  # of sqlite3.connect()
}
MAX_PORT: Final = 65_535
NO_PORT: Final = "database.url: the port must be a number from 1 to 65535"
# what comes before an @ is the user's, whatever it holds
LISTED: Final = re.compile(
    r"(\w+(?:\+\w+)?://(?>(?:[^:/@]*(?::[^@]*)?@)?))([^@/?,]*(?:,[^@/?,]*)+)((?:[/?].*)?)", re.DOTALL
)
SERVER: Final = re.compile(r"([\w.-]+)(?::(\d+))?")
CONNECT_TIMEOUT_S: Final = 10
LEAST_HIDDEN: Final = 4  # shorter secrets would be found in every word
LINE: Final = 400
# MariaDB's own names would be NO_AUTO_CREATE_USER too, which MySQL 8 does not know any more
MUST_WRITE: Final = "must_write"  # an option of ours: a server that is read-only is none of those that are listed
SQL_MODE: Final = "STRICT_TRANS_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION"


def parse(text: str) -> URL:
    """Return the URL, with its driver spelled out, and several servers as ``host=NAME:PORT`` for each in its query.

    Raises ConfigError: it is malformed, names a database or driver that xwheel does not speak, or no database. The
    message holds nothing of it that could be a password.
    """
    listed = LISTED.fullmatch(text)
    try:
        url = make_url(f"{listed[1]}{listed[3]}" if listed else text)
    except ArgumentError:
        raise ConfigError(f"database.url: is no URL; known are {FORMS}") from None
    except ValueError:
        raise ConfigError(NO_PORT) from None
    url = _with_driver(url)
    if url.get_backend_name() == "sqlite":
        if url.database in (None, "", ":memory:"):
            raise ConfigError("database.url: SQLite needs a file, since several threads share it")
        _check_file(text)
        return url
    servers = listed[2].split(",") if listed else _listed_in_query(url)
    if servers:
        url = _with_servers(url, servers)
    _check_parts(url)
    return url


def _check_file(text: str) -> None:
    """Refuse the name of a SQLite file that would be cut at a ``?``."""
    _, mark, query = text.partition("?")
    settings = parse_qsl(query, keep_blank_values=True) or [(query, "")]
    odd = [name for name, _ in settings if name not in OF_SQLITE]
    if mark and odd:
        raise ConfigError(f"database.url: SQLite has no setting {odd[0][:60]!r}: the name of its file may hold no ?")


def servers_of(url: URL) -> Sequence[tuple[str, int]]:
    """Return name and port of each server that a parsed URL lists, in its order; none if it names only one."""
    found = [SERVER.fullmatch(one) for one in _listed_in_query(url)]
    return [(one[1], int(one[2])) for one in found if one]


def _listed_in_query(url: URL) -> Sequence[str]:
    """Return several servers of the query; sockets, and lists in the driver's own form, are left to the driver."""
    given = url.query.get("host", "")
    servers = given.split(",") if isinstance(given, str) else given
    is_ours = len(servers) > 1 and not url.host and not {"port", "hostaddr"} & url.query.keys()
    return servers if is_ours and all(map(SERVER.fullmatch, servers)) else ()


def _with_servers(url: URL, servers: Sequence[str]) -> URL:
    found = [SERVER.fullmatch(one) for one in servers]
    if not all(found):
        raise ConfigError(
            "database.url: several servers are HOST:PORT,HOST:PORT, with names or IPv4 addresses, before the name of "
            "the database; @ and / of a password are %40 and %2F"
        )
    pairs = [(parts[1], int(parts[2] or PORTS[url.get_backend_name()])) for parts in found if parts]
    if not all(1 <= port <= MAX_PORT for _, port in pairs):
        raise ConfigError(NO_PORT)
    for name, _ in pairs:
        _check_name(name)
    return url.update_query_dict({"host": [f"{name}:{port}" for name, port in pairs]})


def with_password(section: DatabaseSection) -> str:
    """Return the URL of the settings, with the password that they hold apart from it.

    Raises ConfigError: the URL or the file cannot be used.
    """
    if section.password is None and section.password_file is None:
        return section.url
    url = parse(section.url)
    if url.get_backend_name() == "sqlite" or url.password:
        return section.url
    if section.password is not None:
        password = section.password.get_secret_value()
    else:
        assert section.password_file is not None  # noqa: S101 -- asked above
        password = read_first_line(section.password_file, "database.password_file", "the database's password")
    return url.set(password=password).render_as_string(hide_password=False)


def _with_driver(url: URL) -> URL:
    """Return the URL with the driver spelled out; MariaDB and MySQL are one dialect of the driver's."""
    backend, _, driver = url.drivername.partition("+")
    backend = "mysql" if backend == "mariadb" else backend
    if backend not in DRIVERS or driver not in ("", DRIVERS[backend]):
        raise ConfigError(f"database.url: xwheel does not speak {url.drivername[:64]!r}; known are {FORMS}")
    try:
        import_module(MODULES[backend])
    except ImportError as error:
        hint = "" if backend == "sqlite" else f": pip install 'xwheel[{backend}]'"
        raise ConfigError(f"database.url: the driver {MODULES[backend]} cannot be loaded ({error}){hint}") from None
    return url.set(drivername=f"{backend}+{DRIVERS[backend]}")


def _check_parts(url: URL) -> None:
    # what stands behind an unescaped @ of a password would be shown as the host or the database
    if "@" in (url.database or "") or any(mark in (url.host or "") for mark in "@,"):
        raise ConfigError("database.url: write %40 for each @ in the user or the password, and %2F for /")
    if url.port is not None and not 1 <= url.port <= MAX_PORT:
        raise ConfigError(NO_PORT)
    if not (url.host or "").startswith("/"):  # the folder of a socket
        _check_name(url.host or "")
    if not url.database:
        raise ConfigError("database.url: names no database: add /DATABASE behind the host")
    charset = url.query.get("charset", "utf8mb4")
    if url.get_backend_name() == "mysql" and charset != "utf8mb4":
        raise ConfigError(f"database.url: charset must be utf8mb4, not {str(charset)[:32]!r}: leave it out")


def _check_name(name: str) -> None:
    try:
        name.encode("idna")
    except UnicodeError:
        raise ConfigError("database.url: what stands for the host can be no name") from None


def driver_options(url: URL) -> dict[str, Any]:
    """Return the driver's options beyond the URL, so that a server's settings do not decide how it reads us."""
    match url.get_backend_name():
        case "sqlite":
            return {"check_same_thread": False}
        case "postgresql":
            given: dict[str, Any] = {"client_encoding": "utf8", "connect_timeout": CONNECT_TIMEOUT_S}
            if servers_of(url):
                given["target_session_attrs"] = "read-write"
            return {name: value for name, value in given.items() if name not in url.query}
        case _:
            # one strictness whatever the server's is: a value that does not fit must fail, not be cut
            # the time limit is for the greeting only, which the driver would wait for without end
            given = {"sql_mode": SQL_MODE, "read_timeout": CONNECT_TIMEOUT_S}
            return given | ({MUST_WRITE: True} if servers_of(url) else {})


def place_of(url: URL) -> str:
    """Return where the database is, without user and password."""
    if url.get_backend_name() == "sqlite":
        return str(Path(url.database or "").absolute())
    if servers := servers_of(url):
        return ", ".join(f"{name}:{port}" for name, port in servers)
    if not url.host:
        named = url.query.get("host", "/")
        return "the local server" if named[0].startswith("/") else str(named)
    return f"{url.host}:{url.port or PORTS[url.get_backend_name()]}"


def hide(url: URL, text: str) -> str:
    """Return a text as one line of at most 400 characters without the URL's password."""
    secret = url.password
    if secret and len(str(secret)) >= LEAST_HIDDEN:
        text = text.replace(str(secret), "***")
    line = " ".join(text.split())
    return line if len(line) <= LINE else f"{line[: LINE - 3]}..."
