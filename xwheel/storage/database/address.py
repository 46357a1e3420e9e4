"""The database's URL: what it may hold, and how it is shown without its password."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any, Final

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from xwheel.config.sections import DatabaseSection
from xwheel.errors import ConfigError
from xwheel.private_files import read_first_line

FORMS: Final = (
    "sqlite:///FILE, mysql+pymysql://USER:PASSWORD@HOST/DATABASE or "
    "postgresql+psycopg://USER:PASSWORD@HOST/DATABASE"
)
# the driver that each kind of database is tested with, and its module
DRIVERS: Final = {"sqlite": "pysqlite", "mysql": "pymysql", "postgresql": "psycopg"}
MODULES: Final = {"sqlite": "sqlite3", "mysql": "pymysql", "postgresql": "psycopg"}
PORTS: Final = {"mysql": 3306, "postgresql": 5432}
MAX_PORT: Final = 65_535
CONNECT_TIMEOUT_S: Final = 10
# shorter secrets would be found in every word
LEAST_HIDDEN: Final = 4
LINE: Final = 400
# MariaDB's own names would be NO_AUTO_CREATE_USER too, which MySQL 8 does not know any more
SQL_MODE: Final = "STRICT_TRANS_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION"


def parse(text: str) -> URL:
    """Return the URL, with its driver spelled out.

    Raises ConfigError: it is malformed, names a database or driver that xwheel does not speak, or no database. The
    message holds nothing of it that could be a password.
    """
    try:
        url = make_url(text)
    except ArgumentError:
        raise ConfigError(f"database.url: is no URL; known are {FORMS}") from None
    except ValueError:
        raise ConfigError("database.url: the port must be a number from 1 to 65535") from None
    url = _with_driver(url)
    if url.get_backend_name() == "sqlite":
        if url.database in (None, "", ":memory:"):
            raise ConfigError("database.url: SQLite needs a file, since several threads share it")
        return url
    _check_parts(url)
    return url


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


def missing_file(text: str) -> Path | None:
    """Return the file of an SQLite database that is not there; None for any other database."""
    url = parse(text)
    if url.get_backend_name() != "sqlite" or (url.database or "").startswith("file:"):
        return None
    path = Path(url.database or "").absolute()
    return None if path.exists() else path


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
        raise ConfigError(
            f"database.url: the driver {MODULES[backend]} cannot be loaded ({error}){hint}"
        ) from None
    return url.set(drivername=f"{backend}+{DRIVERS[backend]}")


def _check_parts(url: URL) -> None:
    # what stands behind an unescaped @ of a password would be shown as the host or the database
    if "@" in (url.host or "") or "@" in (url.database or ""):
        raise ConfigError("database.url: write %40 for each @ in the user or the password, and %2F for /")
    if url.port is not None and not 1 <= url.port <= MAX_PORT:
        raise ConfigError("database.url: the port must be a number from 1 to 65535")
    if not _may_be_host(url.host or ""):
        raise ConfigError("database.url: what stands for the host can be no name")
    if not url.database:
        raise ConfigError("database.url: names no database: add /DATABASE behind the host")
    charset = url.query.get("charset", "utf8mb4")
    if url.get_backend_name() == "mysql" and charset != "utf8mb4":
        raise ConfigError(f"database.url: charset must be utf8mb4, not {str(charset)[:32]!r}: leave it out")


def _may_be_host(host: str) -> bool:
    try:
        host.encode("idna")
    except UnicodeError:
        return host.startswith("/")  # the folder of a socket
    return True


def driver_options(url: URL) -> dict[str, Any]:
    """Return the driver's options beyond the URL, so that a server's settings do not decide how it reads us."""
    match url.get_backend_name():
        case "sqlite":
            return {"check_same_thread": False}
        case "postgresql":
            given = {"client_encoding": "utf8"}
            return given if "connect_timeout" in url.query else given | {"connect_timeout": CONNECT_TIMEOUT_S}
        case _:
            # one strictness whatever the server's is: a value that does not fit must fail, not be cut
            # the time limit is for the greeting only, which the driver would wait for without end
            return {"sql_mode": SQL_MODE, "read_timeout": CONNECT_TIMEOUT_S}


def place_of(url: URL) -> str:
    """Return where the database is, without user and password."""
    if url.get_backend_name() == "sqlite":
        return str(Path(url.database or "").absolute())
    if not url.host:
        return "the local server"
    return f"{url.host}:{url.port or PORTS[url.get_backend_name()]}"


def hide(url: URL, text: str) -> str:
    """Return a text as one line of at most 400 characters without the URL's password."""
    secret = url.password
    if secret and len(str(secret)) >= LEAST_HIDDEN:
        text = text.replace(str(secret), "***")
    line = " ".join(text.split())
    return line if len(line) <= LINE else f"{line[: LINE - 3]}..."
