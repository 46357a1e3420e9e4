"""A server that a test changes as it likes: its superuser's statements, and URLs for its users."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Iterator
from typing import Any

import psycopg
import pymysql
from sqlalchemy import make_url

PASSWORD = secrets.token_hex(12)
"""That of all users that tests make."""


class OddServer:
    """The server at a URL without a database; ``admin`` is the database where its superuser logs in."""

    def __init__(self, base: str, admin: str) -> None:
        self.url = make_url(base)
        self._admin = admin

    def do(self, *statements: str, database: str = "") -> None:
        """Run statements as the superuser, each committed by itself."""
        url, name = self.url, database or self._admin
        if url.get_backend_name() == "mysql":
            conn: Any = pymysql.connect(
                host=url.host,
                port=url.port or 0,
                user=url.username,
                password=str(url.password),
                database=name,
                autocommit=True,
            )
        else:
            conn = psycopg.connect(
                host=url.host,
                port=url.port,
                user=url.username,
                password=str(url.password),
                dbname=name,
                autocommit=True,
            )
        with conn, conn.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)

    def at(self, database: str, *, user: str = "", password: str = "") -> str:
        """Return the URL of a database, as the superuser or as another user with :data:`PASSWORD`."""
        url = self.url.set(database=database)
        if user:
            url = url.set(username=user, password=PASSWORD)
        if password:
            url = url.set(password=password)
        return url.render_as_string(hide_password=False)

    @contextlib.contextmanager
    def changed(self, change: str, back: str) -> Iterator[None]:
        """Change something of the server until the block ends."""
        self.do(*change.split("; "))
        try:
            yield
        finally:
            self.do(*back.split("; "))
