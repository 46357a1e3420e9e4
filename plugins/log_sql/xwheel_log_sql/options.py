"""The plugin's options: ``[plugins.options.log_sql]``."""

from __future__ import annotations

from pathlib import Path
from typing import Final, Self

from pydantic import Field, SecretStr, field_validator, model_validator
from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError
from xwheel.plugin import PluginOptions

PLUGIN: Final = "log_sql"
FORMS: Final = "sqlite:///FILE, mysql+pymysql://USER@HOST/DATABASE or postgresql+psycopg://USER@HOST/DATABASE"
DRIVERS: Final = {"sqlite": "pysqlite", "mysql": "pymysql", "postgresql": "psycopg"}


def parse_url(text: str) -> URL:
    """Return a database's URL, with its driver spelled out.

    Raises:
        ValueError: It is none that this plugin speaks; the message does not repeat it, for it may hold a password.
    """
    try:
        url = make_url(text)
    except (ArgumentError, ValueError):
        raise ValueError(f"must be a URL such as {FORMS}") from None
    backend, _, driver = url.drivername.partition("+")
    backend = "mysql" if backend == "mariadb" else backend
    if backend not in DRIVERS or driver not in ("", DRIVERS[backend]):
        raise ValueError(f"must name a database that xwheel speaks: {FORMS}")
    if url.database in (None, "", ":memory:"):
        raise ValueError(f"must name a {'file' if backend == 'sqlite' else 'database'}: {FORMS}")
    return url.set(drivername=f"{backend}+{DRIVERS[backend]}")


class Options(PluginOptions):
    """Where logs are kept, and how long a call may take."""

    url: SecretStr | None = None
    """SQLAlchemy URL of the database. If not given, the node's own database; next to an SQLite file, a second file."""
    password: SecretStr | None = None
    """Password of the URL's user, where the URL holds none."""
    password_file: Path | None = None
    """A file that holds it."""
    pool_size: int = Field(default=4, ge=1, le=64)
    """Connections that are kept; as many more are opened when all are in use."""
    connect_timeout_s: float = Field(default=3, ge=1, le=60)
    """The longest wait for a connection, a new one or one that others use."""
    timeout_s: float = Field(default=8, ge=1, le=600)
    """The longest time that a call may take, waits for locks and repetitions included; keep it below
    run_logs.call_timeout_s."""

    @field_validator("url")
    @classmethod
    def _check_url(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None:
            parse_url(value.get_secret_value())
        return value

    @model_validator(mode="after")
    def _check_together(self) -> Self:
        if self.password is None:
            return self
        if self.url is None:
            raise ValueError("password belongs to a url: without one the node's own database is used")
        if parse_url(self.url.get_secret_value()).password:
            raise ValueError("give the password in url or in password (or password_file), not in both")
        return self
