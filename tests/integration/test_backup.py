"""The page on backups is followed while a node works: docs/howto/backup.md."""

from __future__ import annotations

import os
import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from sqlalchemy import URL, make_url, select

from tests.support.executors import wait_until
from tests.support.listing_site import run_shell
from tests.support.listings import one_listing
from tests.support.rows import job_values
from tests.support.server_homes import postgresql_place
from xwheel.config import build_config
from xwheel.node.node import Node
from xwheel.storage import executors
from xwheel.storage.schema.tables import job

PAGE = "docs/howto/backup.md"
SAVE_AND_RESTORE = {
    "sqlite": ("(umask 077; python3", "mkdir lost"),
    "mysql": ("(umask 077; mariadb-dump", "mariadb --host"),
    "postgresql": ("(umask 077; pg_dump", "createdb"),
}


@contextmanager
def working(url: URL) -> Iterator[Node]:
    text = url.render_as_string(hide_password=False)
    node = Node(
        build_config({"api": {"port": 0, "executor_port": 0}, "database": {"url": text}}), announce=lambda _: None
    )
    node.start()
    try:
        yield node
    finally:
        node.stop()


def names_of(node: Node) -> list[str]:
    with node.scheduler.core.db.read() as conn:
        return list(conn.scalars(select(job.c.name).order_by(job.c.name)))


def save_job(node: Node, group_id: int, name: str) -> None:
    node.scheduler.management.jobs.create(
        {**job_values(group_id=group_id, name=name), "anchor_ms": node.scheduler.core.clock.now_ms()}
    )


def test_u24_what_a_working_node_had_at_the_backup_is_there_after_the_restore(
    new_database: Callable[[], str], tmp_path: Path
) -> None:
    url = make_url(new_database())
    restored = url if url.get_backend_name() == "sqlite" else url.set(database="restored")
    words = {
        "/var/lib/xwheel/xwheel.db": str(url.database),
        "--host=db.example": f"--host={url.host} --port={url.port}",
        "--user=xwheel": f"--user={url.username}",
        "--username=xwheel": f"--username={url.username}",
        " xwheel)": f" {url.database})",
        " xwheel >": f" {url.database} >",
    }
    variables = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{postgresql_place()}:{os.environ['PATH']}",
        "MYSQL_PWD": str(url.password),
        "PGPASSWORD": str(url.password),
    }
    (tmp_path / "xwheel.toml").touch(0o600)
    (tmp_path / "xwheel.toml").write_text(
        f'[database]\nurl = "{restored.render_as_string(hide_password=False)}"\n', "utf-8"
    )

    def follow(beginning: str) -> None:
        text = one_listing(PAGE, beginning).text
        for word, mine in words.items():
            text = text.replace(word, mine)
        run_shell(text, tmp_path, variables)

    save, restore = SAVE_AND_RESTORE[url.get_backend_name()]
    with working(url) as node:
        group_id = node.scheduler.core.db.transaction(
            lambda conn: executors.insert_group(conn, app_name="kept", title="kept", now_ms=1).id
        )
        save_job(node, group_id, "before")
        follow(save)
        save_job(node, group_id, "after")
        assert names_of(node) == ["after", "before"]
    (copy,) = set(tmp_path.iterdir()) - {tmp_path / "xwheel.toml"}
    assert copy.stat().st_mode & 0o077 == 0
    follow(restore)
    with working(restored) as node:
        assert names_of(node) == ["before"]
        save_job(node, group_id, "since")
        assert names_of(node) == ["before", "since"]


def test_u24_a_node_brings_what_was_written_into_its_file_while_it_works_and_at_its_end(tmp_path: Path) -> None:
    file, copy = tmp_path / "xwheel.db", tmp_path / "copy.db"

    def in_the_file() -> list[str]:
        """Return the names of jobs in a copy of the file alone, without the log of writes."""
        copy.write_bytes(file.read_bytes())
        # a loop of the node may write meanwhile
        with suppress(sqlite3.DatabaseError), closing(sqlite3.connect(f"file:{copy}?immutable=1", uri=True)) as conn:
            return [name for (name,) in conn.execute("SELECT name FROM job ORDER BY id")]
        return []

    with working(make_url(f"sqlite:///{file}")) as node:
        group_id = node.scheduler.core.db.transaction(
            lambda conn: executors.insert_group(conn, app_name="kept", title="kept", now_ms=1).id
        )
        save_job(node, group_id, "written")
        (loop,) = (item for item in node.scheduler.management.services if item.name == "checkpoint")
        loop.wake()
        wait_until(lambda: in_the_file() == ["written"])
        save_job(node, group_id, "later")
    assert in_the_file() == ["written", "later"]
